"""The models that the package knows by name, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from .model_table import entry_of
from .models import Entries


@cache
def shipped_tables() -> Mapping[str, Mapping[str, Any]]:
    """The tables of ``shipped.toml``, by name."""
    return tomllib.loads(files("antiphon.config").joinpath("shipped.toml").read_text("utf-8"))


@cache
def shipped_entries() -> Entries:
    """The models that ship with the package."""
    return {name: entry_of(name, table) for name, table in shipped_tables().items()}
