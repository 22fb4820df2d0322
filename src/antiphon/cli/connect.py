"""``antiphon connect``: the configuration with which a client uses Antiphon."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from antiphon.config import Config, find_entry
from antiphon.errors import ConfigError, NotFoundError, near

from .clients import CLIENTS, ClientSettings, Endpoint, check_variable, local_url, root_of
from .completions import client_names
from .files import difference
from .merging import WRITE, merge
from .options import ConfigOption, JsonOption, configure, print_json, print_table
from .terminal import tell


def command(
    client: Annotated[
        str | None,
        typer.Argument(
            metavar="[CLIENT]", help="The client; without one, all are listed.", autocompletion=client_names
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="The server; by default where `serve` listens.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model; by default the configured one.")
    ] = None,
    key_variable: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the API key.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens of the model's context, for clients that want to know.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Put it into the client's file; all else there stays, and a copy of it.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Print the configuration with which a client uses a server, or put it into the client's file.

    No key is ever printed or written, only the name of the variable that holds it.
    """
    if client is None:
        if json:
            print_json([{"name": name, "title": client.title} for name, client in CLIENTS.items()])
        else:
            print_table(("client", "what it is"), [(name, client.title) for name, client in CLIENTS.items()])
        return
    if client not in CLIENTS:
        raise NotFoundError(f"no client is called {client!r}", code="not_found", hint=near(client, CLIENTS))
    endpoint = endpoint_of(configure(config).config, url, model, key_variable, context)
    connection = Connection(client, CLIENTS[client].settings(endpoint))
    if write:
        connection.write(json=json)
    elif json:
        print_json(connection.as_object())
    else:
        connection.show()


def endpoint_of(
    settings: Config, url: str | None, model: str | None, key_variable: str | None, context: int | None
) -> Endpoint:
    """The server that options name, or the configured one. Raises `RequestError` for what no client could use."""
    check_variable(key_variable)
    name, entry = find_entry(settings.model, settings.entries)
    known = url is None and model is None
    context = context or (entry.context if known else None)
    return Endpoint(root_of(url or local_url(settings)), model or name, key_variable, context)


@dataclass(frozen=True, slots=True)
class Connection:
    """A client by its name, and its settings."""

    client: str
    settings: ClientSettings

    def as_object(self) -> dict[str, Any]:
        file = self.settings.file
        content = {"file": str(file.path.absolute()), "form": file.form, "content": file.whole} if file else {}
        return {"client": self.client, "environment": dict(self.settings.environment), **content}

    def show(self) -> None:
        """Prints settings to stdout, so that a shell or a file can take them, and notes to stderr."""
        file = self.settings.file
        if file is not None:
            tell(f"{file.path}:", file=sys.stderr)
            tell(WRITE[file.form](file.whole), end="", flush=True)
            print_notes([*exports(self.settings), *self.notes()])
        else:
            tell("\n".join(exports(self.settings)), flush=True)
            print_notes(self.notes())

    def write(self, *, json: bool) -> None:
        """Shows what changes in the client's file, and writes it. Raises `ConfigError` where it has none."""
        file = self.settings.file
        if file is None:
            hint = f"antiphon connect {self.client} prints the variables of the environment that it reads."
            raise ConfigError(f"{self.client} has no settings file to write", code="client_settings", hint=hint)
        merged = merge(file.path, file.form, file.content, file.whole)
        change = difference(file.path, (merged.before or "").encode(), merged.after.encode()).decode()
        if not json:
            tell(change, end="", flush=True)
        backup = merged.write() if merged.is_changed else None
        if json:
            report = {"changed": merged.is_changed, "backup": str(backup) if backup else None, "difference": change}
            print_json({**self.as_object(), **report})
            return
        saved = f"wrote {file.path}" + (f"; as it was: {backup}" if backup else "")
        tell(saved if merged.is_changed else f"{file.path} has it already", file=sys.stderr)
        print_notes([*exports(self.settings), *self.notes()])

    def notes(self) -> Iterator[str]:
        yield from self.settings.notes
        if self.settings.run:
            yield f"Then: {self.settings.run}"


def print_notes(notes: Iterable[str]) -> None:
    tell("".join(f"{note}\n" for note in notes), end="", file=sys.stderr)


def exports(settings: ClientSettings) -> list[str]:
    """Lines for a shell. A reference to a variable stays one."""
    quoted = {
        name: f'"{value}"' if re.fullmatch(r"\$\{\w+\}", value) else shlex.quote(value)
        for name, value in settings.environment.items()
    }
    return [f"export {name}={value}" for name, value in quoted.items()]
