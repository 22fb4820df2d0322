"""The documentation as a site: it builds, its links lead somewhere, and a server has it at /docs.

Its page of parameters says what the code does: what an engine cannot do is refused by its name, and what is taken is
described. The requests of which the page is printed are sent once for all of these tests.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema_rs
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from antiphon.api import Limits
from antiphon.api.builtin import BUILT_IN
from antiphon.api.openapi.document import document
from antiphon.engines import EngineInfo
from antiphon.http.gate.keys import new_key
from antiphon.playground.site import POLICY, site_wire
from antiphon.wire.names.table import KNOWN
from docs.build_site import BLURB, DOCS, Document, blurb, built, faults, leads, named, pack, sections, tabs, unlisted
from docs.declared import kinds
from docs.parameters import READING, ROUTES, SERVERS, answered, other_names
from docs.printed import completed
from kit.api import Got, app, request, running

LARGEST = 1_900_000
"""Of the archive, which a wheel has."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site") / "work")


@pytest.fixture(scope="module")
def packed(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = tmp_path_factory.mktemp("packed") / "pages.zip"
    pack(site, archive)
    return archive


@pytest.fixture(scope="module")
def base(packed: Path) -> Iterator[str]:
    _, key = new_key("alice")
    with running(app([], keys=[key], wires=[site_wire(packed)])) as url:
        yield url


def get(base: str, path: str, **headers: str) -> Got:
    return request(base, "GET", path, None, **headers)


def test_no_built_page_has_a_dead_link_or_fetches_from_elsewhere(site: Path) -> None:
    assert list(faults(site)) == []


def test_every_page_is_in_the_navigation_once() -> None:
    assert unlisted() == []


def test_a_dead_link_an_address_elsewhere_and_an_inline_style_are_found(tmp_path: Path) -> None:
    page = '<a href="python.html#nowhere">x</a><script src="https://cdn.example/x.js"></script><b style="top: 0">y</b>'
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "python.html").write_text('<h2 id="somewhere">x</h2>')
    (tmp_path / "style.css").write_text("@font-face { src: url(https://fonts.example/x.woff) }")
    assert list(faults(tmp_path)) == [
        "index.html: fetches https://cdn.example/x.js",
        "index.html: inline b style",
        "index.html: python.html#nowhere leads nowhere",
        "style.css: fetches https://fonts.example/x.woff",
    ]
    documents = {"python.html": Document('<h2 id="somewhere">x</h2>')}
    assert leads("python.html#somewhere", "index.html", documents, tmp_path)


def test_blocks_by_client_are_tabs() -> None:
    assert tabs("**curl**\n\n```sh\ncurl x\n```\n\n**Node**\n\n```js\n\nx\n```\n") == (
        '=== "curl"\n\n    ```sh\n    curl x\n    ```\n\n=== "Node"\n\n    ```js\n\n    x\n    ```\n'
    )


def test_the_marks_of_tabs_are_in_pairs_and_have_only_blocks_between_them() -> None:
    for page in DOCS.rglob("*.md"):
        text = page.read_text("utf-8")
        groups = re.findall(r"<!-- tabs -->\n(.*?)<!-- end of tabs -->\n", text, re.DOTALL)
        assert text.count("<!-- tabs -->") == text.count("<!-- end of tabs -->") == len(groups), page
        between = [re.sub(r"\*\*\w+\*\*\n\n```\w+\n.*?^```$", "", group, flags=re.S | re.M) for group in groups]
        assert "".join(between).strip() == "", page


def test_each_page_has_its_markdown_beside_it_and_a_list_names_all(site: Path) -> None:
    names = [name for _, names in sections() for name in names]
    assert {name for name in names if not (site / name).is_file()} == set()
    whole = {page: completed(page.read_text("utf-8")) for page in DOCS.rglob("*.md")}
    assert [page for page, text in whole.items() if (site / named(page, DOCS)).read_text("utf-8") != text] == []
    assert re.findall(r"^- \[.+?\]\(([\w./-]+)\): .", (site / "llms.txt").read_text("utf-8"), re.MULTILINE) == names


def test_what_the_list_says_of_a_page_is_a_sentence(site: Path) -> None:
    """Not code, nor a table, and not more than a line or two."""
    said = {name: blurb(site / name) for _, names in sections() for name in names}
    code = re.compile(r"^(import|with|from|def|curl|antiphon) |\|")
    assert [name for name, text in said.items() if code.match(text) or not 25 < len(text) < 2 * BLURB] == []


def test_the_archive_is_small_and_the_same_each_time(site: Path, packed: Path, tmp_path: Path) -> None:
    pack(site, tmp_path / "again.zip")
    assert packed.read_bytes() == (tmp_path / "again.zip").read_bytes()
    assert packed.stat().st_size < LARGEST


def test_a_server_has_the_site_for_everybody_under_its_policy(base: str) -> None:
    begun = get(base, "/docs")
    assert (begun.status, begun.headers["location"]) == (307, "docs/")
    page = get(base, "/docs/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (page.headers["content-security-policy"], page.headers["x-content-type-options"]) == (POLICY, "nosniff")
    markdown = get(base, "/docs/python.md")
    assert (markdown.body, markdown.headers["content-type"]) == (
        (DOCS / "python.md").read_bytes(), "text/markdown; charset=utf-8",
    )  # fmt: skip
    assert get(base, "/docs/python.html", if_none_match=get(base, "/docs/python.html").headers["etag"]).status == 304
    assert get(base, "/v1/models").status == 401


def test_every_file_of_the_archive_is_served(base: str, packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        names = [name for name in archive.namelist() if not name.endswith("LICENSE")]
    assert [name for name in names if get(base, f"/docs/{name}").status != 200] == []


@pytest.mark.parametrize(
    "path", ["/docs/nothing.html", "/docs/../pyproject.toml", "/docs/%2e%2e/x", "/docs//etc/passwd"]
)
def test_what_is_no_page_is_not_there(base: str, path: str) -> None:
    assert get(base, path).status in (401, 404)


def test_a_server_whose_site_was_not_built_says_what_to_do(tmp_path: Path) -> None:
    with running(app([], wires=[site_wire(tmp_path / "pages.zip")])) as url:
        got = get(url, "/docs/")
    assert (got.status, got.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert b"make docs" in got.body


def test_the_site_works_where_the_server_is_mounted(packed: Path) -> None:
    inner = app([], wires=[site_wire(packed)])
    with TestClient(Starlette(routes=[Mount("/llm", inner)]), base_url="http://127.0.0.1") as client:
        assert client.get("/llm/docs", headers={"accept": "text/html"}).url.path == "/llm/docs/"


FIELD = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)


@pytest.fixture(scope="module")
def parameters(site: Path) -> str:
    """The page of parameters, which says what the code does."""
    return (site / "parameters.md").read_text("utf-8")


def test_the_page_of_parameters_has_each_field_of_each_route_and_each_other_name_once(parameters: str) -> None:
    sections = dict(re.findall(r"^## (.+)\n\n((?:\|.+\n?)+)", parameters, re.MULTILINE))
    assert {title: FIELD.findall(rows) for title, rows in sections.items()} == {
        title: list(samples) for title, _, _, samples, _ in ROUTES
    }
    assert FIELD.findall(other_names()) == sorted(KNOWN)


ROWS = """
| field | openai | databricks | mindie | lmdeploy | llama.cpp | llama.cpp server | vLLM | SGLang | gRPC |
| `n` | yes | (0, 2^31 - 1] | yes; strict 422 | yes | slots | slots | yes | yes | yes |
| `max_tokens` | yes | (0, 2^63 - 1] | (0, 2^63 - 1]; strict (0, 512] | yes | yes | yes | yes | yes | yes |
| `seed` | yes | yes; strict 400 | [0, 2^64 - 1]; strict (0, 2^64 - 1] | yes | yes | yes | yes | seeds | seeds |
| `tool_choice` | yes | yes | yes; strict 422 | yes | yes | grammar | grammar | grammar | grammar |
| `server_tools` | yes | yes; strict 400 | yes; strict 422 | yes | tools | tools | tools | tools | tools |
"""
"""What changes one of these changes what servers take, and is in the changelog. `make surface` shows the others."""


def test_the_page_says_what_a_server_of_each_kind_does(parameters: str) -> None:
    table = parameters.partition("## Chat completions\n")[2].partition("\n\n## ")[0]
    assert set(ROWS.splitlines()) <= {"", *table.splitlines()}


@cache
def components() -> object:
    return json.loads(document(Limits(), [wire.described for wire in BUILT_IN]))["components"]


@cache
def described_as(kind: str) -> jsonschema_rs.Validator:
    """The request as /openapi.json has it."""
    return jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{kind}", "components": components()})


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(info, id=f"{kind.name} at its {extreme}")
        for kind in kinds()
        for extreme, info in {"best": kind.best, "least": kind.least}.items()
    ],
)
async def test_what_an_engine_cannot_honour_is_refused_by_its_name(info: EngineInfo) -> None:
    refused = set()
    for _, path, kind, samples, least in ROUTES:
        if path in READING:
            continue
        described = described_as(kind.__name__)
        for name, sample in samples.items():
            got = await answered(SERVERS.of(info), path, {**least, **sample})
            if got.status == 200:
                described.validate({**least, **sample})
                continue
            refused.add(name)
            assert got.status == 400, got.body
            error = got.json["error"]
            if path.startswith("/api/"):
                assert name.partition(",")[0] in error
                continue
            assert error["type"] == "invalid_request_error"
            assert error.get("param", error["message"]).startswith(name.partition(",")[0]), (name, got.body)
    assert ("n" in refused) is (info.slots < 2)
    assert ("tool_choice" in refused) is (not info.grammar)
    assert ("tools, strict" in refused) is (not info.grammar)
