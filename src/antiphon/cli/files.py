"""The files that a command is given: by name, or all those of a form in a folder."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from antiphon.errors import ConfigError

from .streams import chunks

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


def content_of(file: Path) -> bytes:
    """All of a file, or of standard input. Raises `ConfigError` when it cannot be read."""
    return b"".join(chunks(file))


def rewrite(file: Path, content: bytes) -> None:
    """Gives a file another content, at once and with the rights that it had; a link stays one. Raises `ConfigError`."""
    target = file.resolve()
    partial = target.with_name(f".{target.name}.part")
    try:
        partial.write_bytes(content)
        shutil.copymode(target, partial)
        partial.replace(target)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}", code="unwritable_output") from None
    finally:
        partial.unlink(missing_ok=True)


def difference(file: Path, before: bytes, after: bytes) -> bytes:
    """The change of a file as a unified diff, which `patch` takes."""
    old, new = (_lines(text.decode("utf-8", "surrogateescape")) for text in (before, after))
    lines = difflib.unified_diff(old, new, f"{file}", f"{file}")
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(ended).encode("utf-8", "surrogateescape")


def _lines(text: str) -> list[str]:
    """Lines that only a line feed ends, as `patch` has them."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
