"""The playground's files and routes; what the page does is tried in a browser (``make test-browser``)."""

from __future__ import annotations

import gzip
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import antiphon
from antiphon.http.gate.keys import new_key
from antiphon.playground.routes import POLICY, static_file, static_names
from antiphon.playground.site import PLAYGROUND
from kit.api import END, THINK, UNTHINK, Got, app, ids, request, running

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
REPLY = ids(THINK, "hidden thought", UNTHINK, "ok", END)
CONFIG = """
model = "demo"
embedding_model = ""
[sessions]
store = "memory"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "Paris."
[server]
keys = "keys.json"
"""
FIRST_LOAD = 150_000
JS = Path(__file__).parents[2] / "js" / "playground"
BROWSER_TESTS = Path(__file__).parents[1] / "browser"


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(app(REPLY, wires=[PLAYGROUND], expose_reasoning=True)) as url:
        yield url


def get(base: str, path: str, **headers: str) -> Got:
    return request(base, "GET", path, None, **headers)


@pytest.mark.parametrize("path", ["/", "/playground"])
def test_a_browser_gets_the_page_under_the_policy(base: str, path: str) -> None:
    got = get(base, path, accept=BROWSER)
    assert (got.status, got.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert got.headers["content-security-policy"] == POLICY
    assert got.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("accept", ["", "*/*", "application/json"])
def test_other_clients_find_at_the_root_what_they_know(base: str, accept: str) -> None:
    assert get(base, "/", accept=accept).body == b"Ollama is running"


def test_the_head_of_the_root_is_not_the_page_s(base: str) -> None:
    got = request(base, "HEAD", "/", accept=BROWSER)
    assert (got.status, "content-security-policy" in got.headers) == (200, False)


def test_every_file_is_sent_with_the_policy_and_once(base: str) -> None:
    for name in static_names():
        if name == "index.html":
            continue
        got = get(base, f"/playground/{name}", accept_encoding="gzip")
        assert (got.status, got.headers["content-security-policy"]) == (200, POLICY), name
        found = static_file(name)
        assert found is not None
        assert gzip.decompress(got.body) == found.plain
        again = get(base, f"/playground/{name}", if_none_match=got.headers["etag"])
        assert (again.status, again.body) == (304, b""), name
        assert get(base, f"/playground/{name}").body == found.plain


@pytest.mark.parametrize("name", ["nothing.js", "../files.py", "%2e%2e/files.py", "app", "index.html", "app/main.js/"])
def test_there_is_no_other_file(base: str, name: str) -> None:
    got = get(base, f"/playground/{name}")
    assert (got.status, got.error["code"]) == (404, "unknown_url")


def test_with_a_slash_too_it_is_found(base: str) -> None:
    got = get(base, "/playground/")
    assert (got.status, got.headers["location"]) == (307, "../playground")


def test_the_page_needs_no_key_and_what_it_asks_does() -> None:
    with running(app(REPLY, wires=[PLAYGROUND], keys=[new_key("alice")[1]])) as base:
        assert get(base, "/", accept=BROWSER).status == 200
        assert get(base, "/playground/app/main.js").status == 200
        assert get(base, "/v1/models").error["code"] == "invalid_api_key"


def test_it_can_be_left_out() -> None:
    with running(app(REPLY)) as base:
        assert get(base, "/playground").error["code"] == "unknown_url"
        assert get(base, "/", accept=BROWSER).body == b"Ollama is running"


@pytest.mark.parametrize("served", [True, False])
def test_the_configuration_decides(served: bool, tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(CONFIG + ("" if served else "playground = false"))
    with TestClient(antiphon.open_app(file)) as client:
        assert (client.get("/playground").status_code == 200) == served
        outer = TestClient(Starlette(routes=[Mount("/llm", app=client.app)]))
        assert (outer.get("/llm/playground/app/main.js").status_code == 200) == served


@pytest.mark.parametrize("headers", [{}, {"x_antiphon_reasoning": "hidden"}])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_client_may_decline_reasoning_that_it_may_see(base: str, path: str, headers: dict[str, str]) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}]} if "chat" in path else {"input": "Hi"})
    got = request(base, "POST", path, body.encode(), content_type="application/json", **headers)
    assert (b"hidden thought" in got.body) == (not headers)


def test_the_first_load_is_small() -> None:
    first = _loaded_with("index.html")
    files = [file for name in first if (file := static_file(name)) is not None]
    assert sum(len(file.compressed) for file in files) <= FIRST_LOAD
    rest = {name for name in static_names() if not name.endswith(".txt")} - first
    later = {"app/highlighting_worker.js", "vendor/highlight.js", "vendor/temml.js"}
    later |= {f"app/{name}.js" for name in ("convert_view", "prompt_rows", "read_back", "stored_view", "template_view")}
    assert rest == later, "loaded when they are needed"


def _loaded_with(name: str) -> set[str]:
    """The files that a page or a module names, and those that they name."""
    found, todo = set[str](), [name]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        text = _text(name)
        if name.endswith(".html"):
            todo += [one.removeprefix("playground/") for one in re.findall(r'(?:src|href)="([^"]+)"', text)]
        else:
            named = re.findall(r'from ?"(\.[^"]+)"', text) if name.endswith(".js") else []
            todo += [posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in named]
    return found


def test_nothing_names_another_origin_and_nothing_is_inline() -> None:
    page = static_file("index.html")
    assert page is not None
    text = page.plain.decode()
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*\ssrc=)|//", text)
    own = [name for name in static_names() if name.startswith("app/")]
    imports = [found for name in own for found in re.findall(r'from "([^"]+)"', _text(name))]
    assert imports
    assert all(found.startswith(("./", "../vendor/")) for found in imports)


def test_every_word_is_there_in_three_languages_and_is_used() -> None:
    spelled = ("app/strings.js", "app/bench_words.js")
    words = re.findall(r"^  (\w+): (\[.*\]),$", "".join(map(_text, spelled)), re.MULTILINE)
    code = "".join(_text(name) for name in static_names() if name.startswith("app/") and name not in spelled)
    assert len(words) > 50
    for word, texts in words:
        assert len(json.loads(texts)) == 3, word
        assert re.search(rf"\b{word}\b", code) or re.search(rf"\b{word.partition('_')[0]}_\$", code), word


def test_the_libraries_are_those_of_the_lock_with_their_licences() -> None:
    locked = json.loads((JS / "package-lock.json").read_text("utf-8"))["packages"]
    licences = [_text(file) for file in static_names() if file.endswith(".LICENSE.txt")]
    for name, version in locked[""]["dependencies"].items():
        assert locked[f"node_modules/{name}"]["version"] == version
        assert locked[f"node_modules/{name}"]["integrity"]
        assert any(licence.startswith(f"{name} {version}\n") for licence in licences), name
    tests = json.loads((BROWSER_TESTS / "package-lock.json").read_text("utf-8"))["packages"]
    assert all(one.get("integrity") for path, one in tests.items() if path)


def _text(name: str) -> str:
    file = static_file(name)
    assert file is not None, name
    return file.plain.decode()
