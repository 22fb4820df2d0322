"""``antiphon formats``: what a conversation can be written as."""

from __future__ import annotations

from antiphon.catalog.format_choice import builtin_formats

from .options import JsonOption, print_json


def command(json: JsonOption = False) -> None:
    """List the formats and chat templates by name, for --format."""
    names = builtin_formats().names
    if json:
        print_json({"formats": names})
    else:
        print("\n".join(names))
