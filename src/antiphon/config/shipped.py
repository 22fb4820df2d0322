"""The models that the package knows by name, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

from .keys import dotted, flatten
from .model_table import entry_of
from .models import Entries, ModelEntry

NOTHING: Mapping[str, Any] = MappingProxyType({})
FILLED = ("format", "replies", "context", "default_output_tokens", "max_output_tokens", "thinking_budget")


def with_catalogue(entry: ModelEntry, name: str) -> ModelEntry:
    """The entry of a file that is that of the shipped model ``name``: what it leaves open is the catalogue's."""
    shipped = shipped_entries()[name]
    speaks = bool(entry.format or entry.chat_template)
    filled = {
        key: getattr(shipped, key) for key in FILLED if getattr(entry, key) is None and not (key == "format" and speaks)
    }
    sampling = {
        key: getattr(shipped.sampling, key)
        for key in shipped.sampling.__struct_fields__
        if getattr(entry.sampling, key) is None
    }
    return msgspec.structs.replace(
        entry,
        **filled,
        sampling=msgspec.structs.replace(entry.sampling, **sampling),
        from_catalogue=entry.from_catalogue | filled.keys() | {f"sampling.{key}" for key in sampling},
    )


@cache
def shipped_tables() -> Mapping[str, Mapping[str, Any]]:
    """The tables of ``shipped.toml``, by name."""
    return tomllib.loads(files("antiphon.config").joinpath("shipped.toml").read_text("utf-8"))


@cache
def shipped_entries() -> Entries:
    """The models that ship with the package."""
    return {
        name: entry_of(name, {**table, "from_catalogue": catalogue_keys(name)})
        for name, table in shipped_tables().items()
    }


def catalogue_keys(name: str, over: Mapping[str, Any] = NOTHING) -> list[str]:
    """The dotted keys of the model that ships under a name, but for those that the table ``over`` it has."""
    return [dotted(key) for key in flatten(shipped_tables().get(name, {})) if key not in flatten(over)]
