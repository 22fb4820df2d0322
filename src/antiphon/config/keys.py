"""Keys of the configuration, as paths of tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from antiphon.errors import ConfigError, Position

KeyPath = tuple[str, ...]
"""``("server", "port")``. People read it with dots."""


def dotted(key: KeyPath) -> str:
    return ".".join(key)


NO_KEYS = frozenset({"models", "from_catalogue"})
"""Fields of tables that are no keys: free names, and what is known of a table's own keys."""


@cache
def known_keys(struct: type[msgspec.Struct]) -> tuple[KeyPath, ...]:
    """Every key of a table, in the order of its class; the free names of ``models`` have none."""
    keys: list[KeyPath] = []
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            keys += [(field.name, *inner) for inner in known_keys(field.type)]
        elif field.name not in NO_KEYS:
            keys.append((field.name,))
    return tuple(keys)


def flatten(table: Mapping[str, Any], above: KeyPath = ()) -> dict[KeyPath, Any]:
    """Nested tables as one: ``{"server": {"port": 1}}`` is ``{("server", "port"): 1}``."""
    flat: dict[KeyPath, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, (*above, name))
        else:
            flat[(*above, name)] = value
    return flat


def nest(flat: Iterable[tuple[KeyPath, Any]]) -> dict[str, Any]:
    """The tables again that `flatten` was given."""
    tree: dict[str, Any] = {}
    for key, value in flat:
        table = tree
        for name in key[:-1]:
            table = table.setdefault(name, {})
        table[key[-1]] = value
    return tree


Origin = Callable[[str], str]
"""From a dotted key to where its value was given, for people; "" where nobody gave it."""

T = TypeVar("T")


def nowhere(key: str) -> str:
    return ""


def typed(table: Mapping[str, Any], type: type[T], above: KeyPath = (), *, origin: Origin = nowhere) -> T:
    """The typed table. Text is read as the key's type, because an environment has nothing but text.

    Raises `ConfigError` at the key, which ``above`` leads to, with the value's origin.
    """
    try:
        return msgspec.convert(table, type, strict=False)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        path = f"{dotted(above)}{where.rstrip('`')}".removeprefix(".")
        value: Any = table
        for name in re.findall(r"[^.\[\]]+", where.rstrip("`")):
            value = value.get(name) if isinstance(value, Mapping) else None
        given = f", got {value!r}" if isinstance(value, str | int | float) and "got" not in message else ""
        source = origin(path)
        raise ConfigError(
            f"{path or 'configuration'}: {message}{given}" + (f" ({source})" if source else ""),
            position=Position(path=path) if path else None,
        ) from None
