"""``antiphon connect``: the configuration with which a client uses Antiphon."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import tomlkit
import typer
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from tomlkit.exceptions import TOMLKitError

from antiphon.config import Config, find_entry
from antiphon.errors import ConfigError, NotFoundError, near, words_of
from antiphon.writing import write

from .clients import CLIENTS, ClientSettings, Endpoint, Form, check_variable, local_url, present, root_of
from .completions import client_names
from .files import difference
from .options import ConfigOption, JsonOption, configure, print_json, print_table
from .terminal import tell

# Settings files of other programs: read with comments and order, merged into, and written back at once.


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises `ValueError` for a key that is there twice: one of them would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _yaml() -> YAML:
    yaml = YAML()  # the round trip: comments, quotes and order stay
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def write_yaml(value: Any) -> str:
    target = StringIO()
    _yaml().dump(value, target)
    return target.getvalue()


READ: Mapping[Form, Callable[[str], Any]] = {
    Form.JSON: lambda text: json.loads(text, object_pairs_hook=_once),
    Form.TOML: tomlkit.parse,
    Form.YAML: lambda text: _yaml().load(text),
}
WRITE: Mapping[Form, Callable[[Any], str]] = {
    Form.JSON: lambda value: json.dumps(value, indent=2, ensure_ascii=False) + "\n",
    Form.TOML: tomlkit.dumps,
    Form.YAML: write_yaml,
}


@dataclass(frozen=True, slots=True)
class Merge:
    """A file before and after. ``before`` None: it is not there yet."""

    path: Path
    before: str | None
    after: str

    @property
    def is_changed(self) -> bool:
        return self.before != self.after

    def write(self) -> Path | None:
        """Writes the file, new ones for their owner alone; where its former content is now, None if there was none.

        Raises `ConfigError` when it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            backup = None if self.before is None else _backup(self.path, self.before)
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror}", code="unwritable_output") from None
        write(self.path, self.after.encode(), mode=0o600)
        return backup


def merge(path: Path, form: Form, content: Any, whole: Any) -> Merge:
    """Merges ``content`` into a file, without its fields that are None: all else stays, in its order.

    A file that is not there, or empty, becomes ``whole``.
    Raises `ConfigError`, code ``client_settings``, for a file that cannot be parsed, or has another shape.
    """
    try:
        before = path.read_text("utf-8") if path.exists() else None
        if not (before and before.strip()):
            return Merge(path, before, WRITE[form](whole))
        settings = READ[form](before)
        changed = _put(settings, content)
    except (OSError, ValueError, TypeError, RecursionError, TOMLKitError, YAMLError) as error:
        reason = words_of(error).partition("\n")[0]
        what = f"{path} cannot be read as {form.upper()}, and stays as it is: {reason}"
        hint = "Without --write, the command prints what to put there by hand."
        raise ConfigError(what, code="client_settings", hint=hint) from None
    return Merge(path, before, WRITE[form](settings) if changed else before)


def _put(into: Any, content: Any) -> bool:
    """Puts ``content`` into a mapping or a list; whether that changed it. Raises `TypeError` for other shapes."""
    if isinstance(into, MutableMapping) and isinstance(content, Mapping):
        changes = [_put_key(into, key, value) for key, value in content.items()]
        return any(changes)
    if isinstance(into, MutableSequence) and isinstance(content, list):
        changes = [_put_item(into, item) for item in content]
        return any(changes)
    raise TypeError(f"{type(content).__name__} was expected where it has {type(into).__name__}")


def _put_key(into: MutableMapping[str, Any], key: str, value: Any) -> bool:
    if value is None:
        return into.pop(key, None) is not None
    if key in into and _is_container(into[key]) and _is_container(value):
        return _put(into[key], value)
    if key in into and into[key] == value:
        return False
    into[key] = present(value)
    return True


def _put_item(into: MutableSequence[Any], item: Any) -> bool:
    """An item that is a mapping is known by its first field, and takes the place of the one that has the same."""
    for at, known in enumerate(into):
        if known == present(item):
            return False
        if isinstance(item, Mapping) and isinstance(known, MutableMapping):
            first = next(iter(item))
            if known.get(first) == item[first]:
                return _put(into[at], item)
    into.append(present(item))
    return True


def _is_container(value: Any) -> bool:
    return isinstance(value, (Mapping, MutableSequence))


def _backup(path: Path, content: str) -> Path:
    """Another file with the former content, for its owner alone; none that is there is written over."""
    for number in count(1):
        backup = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        try:
            backup.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            continue
        write(backup, content.encode())
        return backup
    raise AssertionError("numbers end")


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
