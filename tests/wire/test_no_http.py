"""What a wire knows is JSON: no status, no header and no server of HTTP is named in its room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import antiphon.wire

ROOM = Path(antiphon.wire.__file__).parent
PACKAGES = {"http", "starlette", "uvicorn", "aiohttp", "httptools", "urllib"}
WORDS = {"headers", "accept", "status_code", "statuses", "http_status", "scope"}
OF_ANOTHER_SERVER = {"responses/mcp_tools.py"}
"""Where a field of a request has the headers of a server that the client names."""
STATUSES = {*range(400, 452), *range(500, 512)}


def named(node: ast.AST) -> Iterator[str]:
    """What of HTTP a node of the source names."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name.partition(".")[0] in PACKAGES)
        case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in PACKAGES:
            yield module
        case ast.Constant(value=int(number)) if number in STATUSES:
            yield str(number)
        case ast.arg(arg=name) | ast.Name(id=name) | ast.keyword(arg=str(name)) if name in WORDS:
            yield name


def http_in(source: str) -> list[str]:
    return [f"{getattr(node, 'lineno', 0)}: {name}" for node in ast.walk(ast.parse(source)) for name in named(node)]


def test_no_wire_names_what_is_of_http() -> None:
    found = {path.relative_to(ROOM).as_posix(): http_in(path.read_text("utf-8")) for path in ROOM.rglob("*.py")}
    assert found
    assert {name for name, places in found.items() if places} == OF_ANOTHER_SERVER
    (named_there,) = OF_ANOTHER_SERVER
    assert {place.partition(": ")[2] for place in found[named_there]} == {"headers"}


def test_each_way_to_name_it_is_found() -> None:
    assert http_in("from starlette.responses import Response") == ["1: starlette.responses"]
    assert http_in("import http.client") == ["1: http.client"]
    assert http_in("CODES = {404: 'x'}") == ["1: 404"]
    assert http_in("def f(accept): ...\nf(headers=1)") == ["1: accept", "2: headers"]
    assert http_in("status = 'completed'\nmost = 512") == []
