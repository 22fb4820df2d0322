"""The pages of reference leave no route out, and what they show is Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from starlette.routing import BaseRoute, Route, WebSocketRoute

from antiphon.api.dialects import configured_dialects
from antiphon.playground.site import PLAYGROUND, site_wire
from docs.blocks import blocks
from docs.reference import PAGES
from docs.reference_routes import routes_page
from kit.api import app


@pytest.mark.parametrize("name", ["reference-python.md", "reference-packages.md"])
def test_the_signatures_of_a_page_are_python(name: str, tmp_path: Path) -> None:
    """Nothing is the print of an object, or a text without its quotes."""
    (tmp_path / name).write_text(PAGES[name](), "utf-8")
    for block in blocks(tmp_path / name, "py"):
        ast.parse(statement(block.code), f"{name}:{block.line}")


def statement(declared: str) -> str:
    """A declaration as a statement: a class with its arguments as a function, an enum as its members."""
    text = declared.rstrip().replace("…", "...")
    text = re.sub(r"^class \w+: (?=\w)", "", text)
    text = re.sub(r"^(?:class|def|async def) [\w.]+(?=\()", "def name", text)
    return f"{text}: ..." if re.match(r"def |class \w+$", text) else text


def test_every_route_of_the_server_stands_in_the_page_of_routes() -> None:
    page = routes_page()
    listed = set(re.findall(r"`(/[^`]*)`", page))
    routes = app([], wires=[PLAYGROUND, site_wire()]).routes
    assert sorted({path for route in routes for path in [plain(route, page)] if path not in listed}) == []


def plain(route: BaseRoute, page: str) -> str:
    """The path of a route, where the page has it: below ``/v1``, or at the top."""
    assert isinstance(route, Route | WebSocketRoute)
    path = re.sub(r":\w+}", "}", route.path)
    places = [place for dialect in configured_dialects().values() for place in dialect.places]
    for place in (*places, "/anthropic", "/v1/v1", "/v1"):
        if path.startswith(f"{place}/"):
            path = path.removeprefix(place)
    path = path.rstrip("/") or "/"
    path = path.removesuffix("/{name}") if path.startswith(("/playground", "/docs")) else path
    return path if f"`{path}`" in page else f"/v1{path}"
