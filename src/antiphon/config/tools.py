"""The table ``[tools]``: tools that run here."""

from __future__ import annotations

import msgspec


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that run here: ``names`` (browser, python, Python files) are separated by commas; ``mcp`` is a file.

    ``offer``: models get them in every request, requested or not. ``pages``: a folder for the browser instead of our
    own pages; ``web``: the web instead, searched at the SearxNG address ``search``. ``packages``: what code may import.
    """

    names: str = ""
    mcp: str = ""
    offer: bool = False
    pages: str = ""
    web: bool = False
    search: str = ""
    packages: str = ""
