"""The playground as a wire: a page, and what it requests of its own."""

from __future__ import annotations

from antiphon.api.wires import Wire

from .routes import playground_routes

PLAYGROUND = Wire(name="playground", routes=playground_routes, described="antiphon.playground.described:DESCRIBED")
