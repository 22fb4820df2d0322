"""A ``[models.NAME]`` table: its two spellings, its keys, and the entry that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.engines import EngineKinds, EngineSettings, engine_kind
from antiphon.engines.registry import NO_KINDS, built_in_kinds
from antiphon.errors import ConfigError, Position, near

from .keys import KeyPath, Origin, dotted, flatten, known_keys, nest, nowhere, typed
from .models import ModelEntry

KEY = "engine"
DEFAULT = "llama_cpp"
"""The kind of an engine table that names none."""

FLAT = frozenset("threads reply delay url served_name key_variable key_file grammar".split())
"""Settings of engines that may be given beside ``engine = "KIND"``, as all were before ``engine`` was a table."""

Table = Mapping[str, Any]


def nested(table: Table) -> dict[str, Any]:
    """The table with its engine's settings in a table of their own, in whichever spelling it is written."""
    engine = table.get(KEY)
    if isinstance(engine, Mapping):
        return dict(table)
    settings = {name: value for name, value in table.items() if name in FLAT}
    rest = {name: value for name, value in table.items() if name not in FLAT and name != KEY}
    if engine is not None:
        settings = {"kind": engine, **settings}
    return {**rest, KEY: settings} if settings else rest


def merged(base: Table, over: Table) -> dict[str, Any]:
    """``base`` with what ``over`` says; settings of another kind of engine take the place of those there.

    So does a chat template that of a format, and a format that of a chat template: a model speaks one.
    """
    for key, other in (("format", "chat_template"), ("chat_template", "format")):
        if over.get(key) is not None:
            base = {name: value for name, value in base.items() if name != other}
    kind = over.get(KEY, {}).get("kind")
    if kind is not None and kind != base.get(KEY, {}).get("kind", DEFAULT):
        base = {name: value for name, value in base.items() if name != KEY}
    return nest({**flatten(base), **flatten(over)}.items())


def settings_of(name: str, table: Table, kinds: EngineKinds = NO_KINDS) -> type[EngineSettings]:
    """The settings class of the table's kind of engine. Raises `ConfigError` that names the model."""
    where = dotted(("models", name, KEY, "kind"))
    kind = table.get(KEY, {}).get("kind", DEFAULT)
    if not isinstance(kind, str):
        raise ConfigError(f"{where}: Expected `str`, got `{type(kind).__name__}`", position=Position(path=where))
    try:
        return engine_kind(kind, kinds)
    except ConfigError as error:
        raise ConfigError(
            f"{where}: {error.message}", code=error.code, hint=error.hint, position=Position(path=where)
        ) from error


def check_keys(name: str, table: Table, settings: type[EngineSettings], file: str) -> None:
    """`ConfigError` with near names for a key that neither a model's table nor its engine's has."""
    known = known_keys(ModelEntry)
    for key in flatten(table):
        if key[0] == KEY:
            _check_setting(name, key[1], settings, file)
        elif key not in known:
            path = dotted(("models", name, *key))
            flat = [field.name for field in msgspec.structs.fields(settings) if field.name in FLAT]
            hint = near(dotted(key), [*(dotted(one) for one in known), *flat])
            if key[0] in FLAT:
                hint = f"It is a setting of the engine: write it into [models.{name}.engine]."
            raise ConfigError(
                f"unknown key {path!r} in {file}", code="unknown_key", hint=hint, position=Position(path=path)
            )


def entry_of(name: str, table: Table, kinds: EngineKinds = NO_KINDS, *, origin: Origin = nowhere) -> ModelEntry:
    """The entry that a table in its nested spelling makes. Errors name the key, and its ``origin``."""
    above: KeyPath = ("models", name)
    settings = settings_of(name, table, kinds)
    engine = {setting: value for setting, value in table.get(KEY, {}).items() if setting != "kind"}
    rest = {key: value for key, value in table.items() if key != KEY}
    entry = typed(rest, ModelEntry, above, origin=origin)
    return msgspec.structs.replace(entry, engine=typed(engine, settings, (*above, KEY), origin=origin))


def changed_entry(
    name: str, entry: ModelEntry, over: Table, *, kinds: EngineKinds = NO_KINDS, where: str
) -> ModelEntry:
    """The entry with the keys of another table, in either spelling. ``where`` says for errors whose keys they are."""
    changes = nested(over)
    table = merged(msgspec.to_builtins(entry), changes)
    check_keys(name, changes, settings_of(name, table, kinds), where)
    given = {dotted(key) for key in flatten(changes)}
    return msgspec.structs.replace(
        entry_of(name, table, kinds), from_catalogue=frozenset(key for key in entry.from_catalogue if key not in given)
    )


def _names(settings: type[EngineSettings]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(settings)]


def _check_setting(name: str, setting: str, settings: type[EngineSettings], file: str) -> None:
    known = _names(settings)
    if setting in ("kind", *known):
        return
    kind = settings.__struct_config__.tag
    path = dotted(("models", name, KEY, setting))
    owners = [one for one in built_in_kinds() if setting in _names(engine_kind(one))]
    if owners:
        *others, last = owners
        names = f"engines {', '.join(others)} and {last}" if others else f"engine {last}"
        hint = f"{setting} is for the {names}."
    else:
        hint = near(setting, ["kind", *known])
    raise ConfigError(
        f"unknown key {path!r} in {file}: the engine {kind} has no such setting",
        code="unknown_key",
        hint=hint,
        position=Position(path=path),
    )
