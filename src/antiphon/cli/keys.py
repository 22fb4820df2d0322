"""``antiphon keys``: who may use the server."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.errors import ConfigError
from antiphon.http.gate.keys import Key, KeyFile, Scope, new_key

from .options import ConfigOption, JsonOption, configure, print_json, print_table


class KeyAction(StrEnum):
    ADD = "add"
    LIST = "list"
    RM = "rm"


def command(
    action: Annotated[KeyAction, typer.Argument(help="What to do.")],
    name: Annotated[str | None, typer.Argument(help="The key's name; it owns its holder's records.")] = None,
    scope: Annotated[list[Scope] | None, typer.Option(help="What the key may do; inference by default.")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=0, help="0: no limit.")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=0, help="0: no limit.")] = None,
    concurrent: Annotated[int | None, typer.Option(min=0, help="Requests at once; 0: no limit.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Add, list and remove API keys. The file holds hashes alone: a new key is shown once."""
    file = KeyFile(Path(configure(config).config.server.keys))
    match action:
        case KeyAction.LIST:
            show(file.read() or [], json=json)
        case KeyAction.ADD:
            secret, key = new_key(
                named(name), scope or [Scope.INFERENCE],
                requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute, concurrent=concurrent,
            )  # fmt: skip
            file.add(key)
            print_json({"name": key.name, "key": secret, "scopes": key.scopes}) if json else print(secret)
        case KeyAction.RM:
            file.remove(named(name))
            print_json({"removed": name}) if json else print(f"removed {name}")


def named(name: str | None) -> str:
    if name is None:
        raise ConfigError("which key?", code="name_missing", hint="antiphon keys list shows them.")
    return name


def show(keys: list[Key], *, json: bool) -> None:
    if json:
        print_json([{"name": key.name, "scopes": key.scopes} for key in keys])
        return
    print_table(("name", "scopes"), [(key.name, ", ".join(key.scopes)) for key in keys])
