"""``antiphon formats``: what a conversation can be written as."""

from __future__ import annotations

from antiphon.catalog.known_formats import known_formats

from .options import JsonOption, print_json
from .terminal import tell


def command(json: JsonOption = False) -> None:
    """List the formats and chat templates by name, for --format."""
    names = known_formats().names
    if json:
        print_json({"formats": names})
    else:
        tell("\n".join(names))
