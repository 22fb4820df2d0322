"""``antiphon config``: every setting, its value, and where that came from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from antiphon.api.models.wire import facts_under
from antiphon.catalog import open_catalog
from antiphon.config import (
    KEYS,
    Config,
    KeyPath,
    LoadedConfig,
    find_entry,
    flatten,
    known_keys,
    public,
    shipped_entries,
)
from antiphon.errors import ConfigError, near
from antiphon.generation import Capabilities, ModelFacts, Setting, Source
from antiphon.library.app import dialects_of

from .options import (
    ConfigOption,
    FormatOption,
    JsonOption,
    ModelOption,
    TemplateOption,
    configure,
    print_json,
    print_table,
)
from .terminal import tell

# Why a setting has its value: who says so, and whom that overrode.

FORMAT_KEYS = ("format", "chat_template")
NAMES = {**{key: name for name, key in KEYS.items()}, **{name: name for name in KEYS}}
"""Settings of models, by what `config --explain` may call them."""


class Opinion(msgspec.Struct, frozen=True):
    """A value, and who says so."""

    value: object
    origin: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a key, and the values that it overrode, the strongest first."""

    key: str
    value: object
    origin: str
    overrode: tuple[Opinion, ...] = ()

    @classmethod
    def of(cls, key: str, opinions: list[Opinion]) -> Explanation:
        first, *others = opinions
        return cls(key=key, value=first.value, origin=first.origin, overrode=tuple(others))


def explained(loaded: LoadedConfig, key: str) -> Explanation:
    """Why ``key`` has its value: a key of the configuration, or a setting of a model.

    ``temperature`` is that of the default model, ``models.NAME.sampling.temperature`` (or ``models.NAME.temperature``)
    of another. Raises `ConfigError` for a key that nobody knows, and what describing the model raises.
    """
    model, setting = model_setting(loaded.config, key)
    if setting == "format":
        facts = asyncio.run(described(loaded.config, model))
        spoken = Opinion(facts.format, facts.format_origin)
        return Explanation.of(key, [spoken, *other_formats(loaded, model, facts)])
    if setting in KEYS:
        facts = asyncio.run(described(loaded.config, model))
        return of_setting(loaded, model, key, setting, facts)
    path = tuple(key.split("."))
    if path not in known_keys(Config) and path not in loaded.given:
        known = [".".join(one) for one in known_keys(Config)]
        raise ConfigError(f"unknown key {key!r}", code="unknown_key", hint=near(key, [*known, *NAMES]))
    return Explanation.of(key, list(of_key(loaded, path)))


def model_setting(config: Config, key: str) -> tuple[str, str]:
    """The model that the key is about, and the setting; "" for a key that is about no model's setting."""
    named = [name for name in config.entries if key.startswith(f"models.{name}.")]
    name = max(named, key=len, default=config.model)  # a name may have dots
    setting = key.removeprefix(f"models.{name}.")
    return name, "format" if setting in FORMAT_KEYS else NAMES.get(setting, "")


async def described(config: Config, name: str) -> ModelFacts:
    """Describes the model, as the server's own dialect speaks to it; its engine is not opened."""
    own, _ = find_entry(name, config.entries)
    async with aclosing(open_catalog(config)) as catalog:
        facts = await catalog.describe(own)
    assert facts is not None, "a catalog of a configuration can describe its models"
    return facts_under(facts, dialects_of(config.dialect)[config.dialect.name])


def of_setting(loaded: LoadedConfig, model: str, key: str, name: str, facts: ModelFacts) -> Explanation:
    """A setting of a model that was described. A context that its file bounds is the model's own."""
    found = {setting.name: setting for setting in facts.settings}.get(name)
    opinions = [] if found is None else [found, *found.overrode]
    chain = [Opinion(one.value, origin_of(loaded, model, one)) for one in opinions]
    if name == "context" and facts.context is not None and (found is None or found.value > facts.context):
        why = "model: what it was trained on" if facts.context == facts.trained_context else "default"
        chain.insert(0, Opinion(facts.context, why))
    return Explanation.of(key, chain or [Opinion(None, "the model's server")])


def origin_of(loaded: LoadedConfig, model: str, setting: Setting) -> str:
    """Names the source of a setting; of the configuration also the file, variable or flag."""
    if setting.source is not Source.CONFIGURATION:
        return setting.origin
    own, _ = find_entry(model, loaded.config.entries)
    of_model: KeyPath = ("models", own, *KEYS[setting.name].split(".")) if setting.name in KEYS else ()
    paths = {f"models.{own}": of_model, "engine.context": ("engine", "context")}
    path = paths.get(setting.place, ())
    return f"{setting.origin} ({loaded.given[path].origin})" if path in loaded.given else setting.origin


def other_formats(loaded: LoadedConfig, model: str, facts: ModelFacts) -> Iterator[Opinion]:
    """The formats and templates that somebody names for the model, and that do not count."""
    own, _ = find_entry(model, loaded.config.entries)
    default, _ = find_entry(loaded.config.model, loaded.config.entries)
    paths = [*([()] if own == default else []), ("models", own)]
    named = [one for path in paths for key in FORMAT_KEYS for one in of_key(loaded, (*path, key))]
    shipped = shipped_entries().get(own)
    catalogue = [Opinion(shipped.format, f"catalogue: {own}")] if shipped else []
    for one in (*named, *catalogue):
        if one.value and one.origin != facts.format_origin and str(one.value) not in facts.format_origin:
            yield one


def of_key(loaded: LoadedConfig, path: KeyPath) -> Iterator[Opinion]:
    """Yields each source's value for a key of the configuration, the strongest first, and its default."""
    for layer in reversed(loaded.layers):
        if path in layer:
            yield Opinion(public(path, layer[path].value), layer[path].origin)
    if path in known_keys(Config):
        yield Opinion(flatten(msgspec.to_builtins(Config())).get(path), "default")


# What a model can do here, read from its files: for commands that open no engine.


def capabilities_of(config: Config, name: str) -> Capabilities:
    """Returns the capabilities of a model whose files are here. Raises what describing it raises.

    The format that the configuration's top names is the default model's alone.
    """
    alone = config if name == config.model else replace(config, model=name, format=None, chat_template=None)
    return asyncio.run(described(alone, name)).capabilities


def command(
    explain: Annotated[
        str | None,
        typer.Option(help="Why this setting has its value: a key, or temperature, context, max_tokens … of a model."),
    ] = None,
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    context: Annotated[int | None, typer.Option(help="As serve has it.")] = None,
    dialect: Annotated[str | None, typer.Option(help="As serve has it.")] = None,
    strict_seed: Annotated[bool | None, typer.Option("--strict-seed", help="As serve has it.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show the configuration: defaults, then the file, then the environment (ANTIPHON_…), then flags.

    With --explain, why one setting has its value, and what that overrode.
    """
    loaded = configure(
        config,
        model=model, format=format, chat_template=chat_template, engine__context=context,
        dialect__name=dialect, dialect__strict=strict_seed,
    )  # fmt: skip
    if explain is not None:
        show_explanation(loaded, explain, json=json)
    elif json:
        rows = [{"key": key, "value": value, "origin": origin} for key, value, origin in loaded.rows()]
        print_json({"file": str(loaded.file), "settings": rows})
    else:
        print_table(("key", "value", "from"), [(key, shown(value), origin) for key, value, origin in loaded.rows()])
        if not loaded.file.is_file():
            tell(f"(no configuration file; {loaded.file} would be read)")


def show_explanation(loaded: LoadedConfig, key: str, *, json: bool) -> None:
    """Prints a key's value, and the values that it overrode."""
    found = explained(loaded, key)
    if json:
        print_json(found)
        return
    tell(f"{found.key} = {shown(found.value)}  ({found.origin})")
    for opinion in found.overrode:
        tell(f"  not {shown(opinion.value) or 'empty'}  ({opinion.origin})")


def shown(value: object) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
