"""Tables of models that are named by an alias, and the aliases that a model keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from antiphon.errors import ConfigError, Position

from .keys import dotted, flatten
from .model_table import KEY
from .models import ModelEntry
from .shipped import shipped_tables

Tables = Mapping[str, Mapping[str, Any]]

OWN = frozenset({"source", "tokenizer"})
"""A table with one of these keys, or a kind of engine, is a model of its own, whatever else has its name."""


def own_names(tables: Tables) -> dict[str, dict[str, Any]]:
    """The tables by the models that they change: one that is named by an alias of a shipped model is that model's.

    Raises `ConfigError` for a key that two tables of one model have.
    """
    named: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        own = name if _is_own(table) else shipped_name(name)
        if twice := flatten(named.get(own, {})).keys() & flatten(table).keys():
            path = dotted(("models", name, *min(twice)))
            raise ConfigError(f"{path}: [models.{own}] has it too, and is the same model", position=Position(path=path))
        named[own] = {**named.get(own, {}), **table}
    return named


def shipped_name(name: str) -> str:
    """The shipped model that has the alias ``name``; else ``name`` itself."""
    tables = shipped_tables()
    return next((own for own, table in tables.items() if name not in tables and name in table["aliases"]), name)


def with_shipped_aliases(tables: Tables) -> dict[str, dict[str, Any]]:
    """The tables whose aliases are added to those of the shipped model, but for what another table has."""
    given = {alias: name for name, table in tables.items() for alias in _aliases(table)}
    taken = {**given, **{name: name for name in tables}}
    return {
        name: {**table, "aliases": [*_aliases(table), *_more(name, table, taken)]}
        if name in shipped_tables()
        else dict(table)
        for name, table in tables.items()
    }


def _more(name: str, table: Mapping[str, Any], taken: Mapping[str, str]) -> list[str]:
    shipped = shipped_tables()[name]["aliases"]
    return [alias for alias in shipped if alias not in _aliases(table) and taken.get(alias, name) == name]


def _aliases(table: Mapping[str, Any]) -> list[str]:
    """Those that the table gives; what is no list of names is reported by the entry that it makes."""
    aliases = table.get("aliases")
    return [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list | tuple) else []


def _is_own(table: Mapping[str, Any]) -> bool:
    engine = table.get(KEY)
    return not OWN.isdisjoint(table) or (isinstance(engine, Mapping) and "kind" in engine)


def alias_fault(entries: Mapping[str, ModelEntry], others: Iterable[str]) -> tuple[str, str] | None:
    """(model, why one of its aliases cannot be found by it); None where each names one model alone.

    ``others`` are names of models that have no entry here.
    """
    owners: dict[str, str] = {name: name for name in (*entries, *others)}
    for name, entry in entries.items():
        for alias in entry.aliases:
            if (owner := owners.setdefault(alias, name)) != name:
                return name, f"{alias!r} is {owner}, another model"
    return None
