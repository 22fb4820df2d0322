"""What a wire knows is JSON: HTTP is named in those files of an API alone that are called so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import antiphon

SOURCE = Path(antiphon.__file__).parent
WITH_HTTP = frozenset(
    "routes archive stored_routes conversation_routes socket_routes batch_routes endpoint_routes invocation_routes"
    " encode_routes schema_routes template_routes parse_socket derender render"
    " call offline queue queued record run service upload endpoints batch_service make request recovery run_head"
    " following compact client_mcp memory embed generate models pull route described".split()
)
"""Names of files of an API that answer requests or store answers; any other reads and writes JSON alone."""
OPENAPI = "openapi"
"""No API: the document of all."""
PACKAGES = {"http", "starlette", "uvicorn", "aiohttp", "httptools", "urllib", "antiphon.http"}
WORDS = {"headers", "accept", "status_code", "statuses", "http_status", "scope"}
OF_ANOTHER_SERVER = {"api/responses/mcp_tools.py"}
"""Where a field of a request has the headers of a server that the client names."""
STATUSES = {*range(400, 452), *range(500, 512)}


def named(node: ast.AST) -> Iterator[str]:
    """What of HTTP a node of the source names."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name.partition(".")[0] in PACKAGES)
        case ast.ImportFrom(module=str(module)) if {
            module.partition(".")[0],
            ".".join(module.split(".")[:2]),
        } & PACKAGES:
            yield module
        case ast.Constant(value=int(number)) if number in STATUSES:
            yield str(number)
        case ast.arg(arg=name) | ast.Name(id=name) | ast.keyword(arg=str(name)) if name in WORDS:
            yield name


def http_in(source: str) -> list[str]:
    return [f"{getattr(node, 'lineno', 0)}: {name}" for node in ast.walk(ast.parse(source)) for name in named(node)]


def wires() -> Iterator[Path]:
    """The files that may name nothing of HTTP."""
    yield from (SOURCE / "wire").rglob("*.py")
    for path in (SOURCE / "api").glob("*/*.py"):
        if path.stem not in WITH_HTTP and path.parent.name != OPENAPI:
            yield path


def test_no_wire_names_what_is_of_http() -> None:
    found = {path.relative_to(SOURCE).as_posix(): http_in(path.read_text("utf-8")) for path in wires()}
    assert found
    assert {name for name, places in found.items() if places} == OF_ANOTHER_SERVER
    (named_there,) = OF_ANOTHER_SERVER
    assert {place.partition(": ")[2] for place in found[named_there]} == {"headers"}


def test_each_way_to_name_it_is_found() -> None:
    assert http_in("from starlette.responses import Response") == ["1: starlette.responses"]
    assert http_in("import http.client") == ["1: http.client"]
    assert http_in("from antiphon.http.post import Post") == ["1: antiphon.http.post"]
    assert http_in("from antiphon.http.post import Post") == ["1: antiphon.http.post"]
    assert http_in("CODES = {404: 'x'}") == ["1: 404"]
    assert http_in("def f(accept): ...\nf(headers=1)") == ["1: accept", "2: headers"]
    assert http_in("status = 'completed'\nmost = 512") == []
