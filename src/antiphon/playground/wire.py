"""The playground as a wire: a page, no API, so /openapi.json has none of it."""

from __future__ import annotations

from antiphon.api.wires import Wire

from .routes import playground_routes

PLAYGROUND = Wire(name="playground", routes=lambda context: playground_routes())
