"""``antiphon keys``: who may use the server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from antiphon.errors import ConfigError
from antiphon.http.gate.keys import LAST_REMOVED, Key, KeyFile, Scope, new_key

from .completions import key_names
from .options import ConfigOption, JsonOption, actions, configure, print_json, print_table
from .terminal import tell

command = actions()

LIMITS = {"requests_per_minute": "requests/min", "tokens_per_minute": "tokens/min", "concurrent": "at once"}
"""The fields of a key's limits, and how a table names them."""
NewName = Annotated[str, typer.Argument(metavar="NAME", help="The key's name: letters, digits and . _ @ -")]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The key's name; `antiphon keys list` shows them.", autocompletion=key_names),
]
Scopes = Annotated[list[Scope] | None, typer.Option("--scope", help="What the key may do; may be repeated.")]
Requests = Annotated[int | None, typer.Option(min=0, help="Requests per minute; 0: no limit.")]
Tokens = Annotated[int | None, typer.Option(min=0, help="Tokens per minute; 0: no limit.")]
Concurrent = Annotated[int | None, typer.Option(min=0, help="Requests at the same time; 0: no limit.")]


@command.command("add")
def add(
    name: NewName,
    scope: Scopes = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    concurrent: Concurrent = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Add a key (scope `inference` by default) and print its secret, which is shown once: the file has a hash."""
    secret, key = new_key(
        name, scope or [Scope.INFERENCE],
        requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute, concurrent=concurrent,
    )  # fmt: skip
    key_file(config).add(key)
    print_json({"name": key.name, "key": secret, "scopes": key.scopes}) if json else tell(secret)


@command.command("list")
def list_keys(config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the keys with their scopes and limits. An empty limit is the server's own."""
    file = key_file(config)
    found = file.read()
    keys = found or []
    if json:
        print_json([as_object(key) for key in keys])
        return
    rows = [(key.name, ", ".join(key.scopes), *(shown(getattr(key, field)) for field in LIMITS)) for key in keys]
    none = "There is no key; `antiphon keys add NAME` makes one."
    if found is not None:
        none = f"There is {LAST_REMOVED.format(file.path)}"
    print_table(("name", "scopes", *LIMITS.values()), rows, empty=none)


@command.command("set")
def set_limits(
    name: Name,
    scope: Scopes = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    concurrent: Concurrent = None,
    server_limits: Annotated[
        bool,
        typer.Option("--server-limits", help="Drop the key's own limits; the server's apply, and those given here."),
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Change a key's scopes and limits. Its secret and what it owns stay; what is not named stays as it is.

    A running server reads its keys again at SIGHUP.
    """
    limits = {
        "requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute, "concurrent": concurrent,
    }  # fmt: skip
    changes: dict[str, object] = {
        field: limit for field, limit in limits.items() if limit is not None or server_limits
    } | ({"scopes": tuple(dict.fromkeys(scope))} if scope else {})
    if not changes:
        raise ConfigError("nothing is to be changed", hint="antiphon keys set --help lists what can be.")
    key = key_file(config).change(name, **changes)
    print_json(as_object(key)) if json else tell(summary(key))


@command.command("rm")
def remove(name: Name, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Remove a key. What it owns stays stored, for a key that is added under the same name."""
    file = key_file(config)
    file.remove(name)
    print_json({"removed": name}) if json else tell(f"removed {name}")
    if not file.read():
        tell(LAST_REMOVED.format(file.path), file=sys.stderr)


def key_file(config: Path | None) -> KeyFile:
    return KeyFile(Path(configure(config).config.server.keys))


def as_object(key: Key) -> dict[str, object]:
    """A key for programs, without its digest; null is a limit of the server's own."""
    return {"name": key.name, "scopes": key.scopes} | {field: getattr(key, field) for field in LIMITS}


def summary(key: Key) -> str:
    limits = [
        f"{title} {shown(value)}" for field, title in LIMITS.items() if (value := getattr(key, field)) is not None
    ]
    return f"{key.name}: {', '.join(key.scopes)}; {', '.join(limits) or 'the limits of the server'}"


def shown(limit: int | None) -> str:
    return "" if limit is None else "none" if limit == 0 else str(limit)
