"""The documentation as a wire: pages, no API, so /openapi.json has none of it."""

from __future__ import annotations

from importlib.resources.abc import Traversable

from antiphon.api.wires import Wire

from .site_files import PACKED, Site
from .site_routes import site_routes


def site_wire(packed: Traversable = PACKED) -> Wire:
    """The site of that archive under ``/docs``; by default the one that `make docs` put into the package."""
    site = Site(packed)
    return Wire(name="docs", routes=lambda context: site_routes(site))
