"""The page about running a server names every key of a server, with the default that the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from antiphon.catalog.config import Config

TABLES = ("server", "limits", "log", "traces", "engine")
PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text("utf-8")


def documented(table: str) -> dict[str, str]:
    """Key → default, as the page's table tells them."""
    _, _, rest = PAGE.partition(f"| `[{table}]` |")
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \|", rest.partition("\n\n")[0], re.MULTILINE)
    return {key.strip("`"): default for keys, default in rows for key in keys.split(", ")}


@pytest.mark.parametrize("table", TABLES)
def test_every_key_stands_in_the_page_with_its_default(table: str) -> None:
    defaults = msgspec.to_builtins(getattr(Config(), table))
    told = documented(table)
    assert list(told) == list(defaults)
    for key, default in defaults.items():
        if default or not isinstance(default, str):  # An empty default is a place, which the page tells in words.
            assert told[key] == f"`{default if isinstance(default, str) else json.dumps(default)}`", key
