"""The files that a command is given: by name, or all those of a form in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from antiphon.errors import ConfigError

SUFFIXES = {"openchatml": (".ocm", ".openchatml"), "harmony": (".harmony",)}
"""The names of files of a form, in folders; a file that is named itself may have any name."""


def files_of(paths: Iterable[Path], form: str = "openchatml") -> list[Path]:
    """Each file once, those of folders in the order of their names; ``-`` is standard input.

    Raises `ConfigError` for a folder that has none.
    """
    return list(dict.fromkeys(file for path in paths for file in _files(path, SUFFIXES.get(form, (f".{form}",)))))


def _files(path: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(file for file in path.rglob("*") if file.suffix in suffixes and file.is_file())
    found = [file for file in found if not _is_hidden(file.relative_to(path))]
    if not found:
        raise ConfigError(f"no {' or '.join(f'*{suffix}' for suffix in suffixes)} is in {path}")
    yield from found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
