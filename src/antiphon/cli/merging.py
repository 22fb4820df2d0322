"""Settings files of other programs: read with comments and order, merged into, and written back at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import tomlkit
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from tomlkit.exceptions import TOMLKitError

from antiphon.errors import ConfigError
from antiphon.writing import write

from .clients import Form, present


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
    except (OSError, ValueError, TypeError, TOMLKitError, YAMLError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"{path} cannot be read as {form.upper()}, and stays as it is: {reason}",
            code="client_settings",
            hint="Without --write, the command prints what to put there by hand.",
        ) from None
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
