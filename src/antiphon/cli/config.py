"""``antiphon config``: every setting, its value, and where that came from."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.config import LoadedConfig

from .explain import explained
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
    else:
        show(loaded, json=json)


def show(loaded: LoadedConfig, *, json: bool) -> None:
    """Every key, its value and its origin."""
    if json:
        rows = [{"key": key, "value": value, "origin": origin} for key, value, origin in loaded.rows()]
        print_json({"file": str(loaded.file), "settings": rows})
        return
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
