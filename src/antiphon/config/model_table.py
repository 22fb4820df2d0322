"""A ``[models.NAME]`` table: its two spellings, its keys, and the entry that it makes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

from antiphon.engines import EngineKinds, EngineSettings, engine_kind
from antiphon.engines.registry import NO_KINDS, built_in_kinds
from antiphon.errors import ConfigError, Position, near

from .keys import KeyPath, Origin, dotted, flatten, known_keys, nest, nowhere, typed
from .models import Entries, ModelEntry

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
            elif len(key) > 1 and key[:1] not in {one[:1] for one in known}:
                hint = f'Quote a name that has a dot: [models."{name}.{key[0]}"].'
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


# The models that the package knows by name, as data.

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


# Tables of models that are named by an alias, and the aliases that a model keeps.

Tables = Mapping[str, Mapping[str, Any]]

OWN = frozenset({"source", "tokenizer"})
"""A table with one of these keys, or a kind of engine, is a model of its own, whatever else has its name."""


def own_names(tables: Tables) -> dict[str, dict[str, Any]]:
    """The tables by the models that they change: one that is named by an alias of a shipped model is that model's.

    Raises `ConfigError` for a key that two tables of one model have.
    """
    named: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        engine = table.get(KEY)
        is_own = not OWN.isdisjoint(table) or (isinstance(engine, Mapping) and "kind" in engine)
        own = name if is_own else shipped_name(name)
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
    found = {name: dict(table) for name, table in tables.items()}
    for name in found.keys() & shipped_tables().keys():
        own, shipped = _aliases(tables[name]), shipped_tables()[name]["aliases"]
        more = (alias for alias in shipped if alias not in own and taken.get(alias, name) == name)
        found[name]["aliases"] = [*own, *more]
    return found


def _aliases(table: Mapping[str, Any]) -> list[str]:
    """Returns the aliases of the table; what is no list of names is reported by the entry that it makes."""
    aliases = table.get("aliases")
    return [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list | tuple) else []


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
