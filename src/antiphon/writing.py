"""Files that are written: the new content all at once or not at all, and never in the place of what is no file."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from antiphon.errors import ConfigError

_DESCRIPTOR = re.compile(r"/dev/(?:fd/(?P<number>\d+)|(?P<name>stdin|stdout|stderr))|/proc/self/fd/(?P<own>\d+)")
_NAMES = {"stdin": 0, "stdout": 1, "stderr": 2}
_MOST_LINKS = 40
_MOST_NAME = 180
"""Characters that a new file beside another has of its name: file systems take 255 bytes."""
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_NO_TERMINAL: int = getattr(os, "O_NOCTTY", 0)


@contextlib.contextmanager
def written(path: Path, *, replace: bool = True, mode: int | None = None) -> Iterator[BinaryIO]:
    """A sink for the whole content of ``path``. Raises `ConfigError` (``unwritable_output``) where that cannot be.

    A file gets its new content when all of it is written, and keeps what it had where that fails, on a full disk for
    example; who owns it and who may do what with it stay as they were, and ``mode`` is for a new one (else the umask
    decides). Of a link it is the file that it leads to. A device, a FIFO or a descriptor of this process
    (``/dev/stdout``) is written into and never replaced. Not ``replace``: a file that is there is an error.
    """
    try:
        with _sink(path, replace, mode) as sink:
            yield sink
    except FileExistsError as error:
        if replace:
            raise _unwritable(path, error) from None
        raise ConfigError(f"{path} is there already", code="unwritable_output", hint="--force replaces it.") from None
    except OSError as error:
        raise _unwritable(path, error) from None


def write(path: Path, content: bytes, *, replace: bool = True, mode: int | None = None) -> None:
    """`written` with content that is there as a whole."""
    with written(path, replace=replace, mode=mode) as sink:
        sink.write(content)


def check_writable(path: Path, *, replace: bool) -> None:
    """Raises the `ConfigError` of `written` for a file that is there and must stay, before there is any content."""
    if not replace and path.is_file() and not isinstance(_destination(path), int):
        raise ConfigError(f"{path} is there already", code="unwritable_output", hint="--force replaces it.")


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"cannot write {path}: {error.strerror or error}", code="unwritable_output")


@contextlib.contextmanager
def _sink(path: Path, replace: bool, mode: int | None) -> Iterator[BinaryIO]:
    to = _destination(path)
    if isinstance(to, int):
        with os.fdopen(os.dup(to), "wb") as sink:
            yield sink
        return
    there = _status(to)
    if there is not None and not stat.S_ISREG(there.st_mode):
        with os.fdopen(os.open(to, os.O_WRONLY | _NO_TERMINAL), "wb") as sink:  # of a folder and a socket the error
            yield sink
        return
    if there is not None:
        _check_replaceable(to, replace)
    with _beside(to, there, replace, mode) as sink:
        yield sink


def _destination(path: Path) -> Path | int:
    """Follows links to a path that is none, or to a descriptor of this process. Raises OSError for a circle."""
    at = os.path.abspath(path)
    if "\0" in at:
        raise OSError(errno.EINVAL, "no name has a NUL")
    for _ in range(_MOST_LINKS):
        if own := _DESCRIPTOR.fullmatch(at):
            return _NAMES[own["name"]] if own["name"] else int(own["number"] or own["own"])
        if not os.path.islink(at):
            return Path(at)
        at = os.path.abspath(os.path.join(os.path.dirname(at), os.readlink(at)))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _check_replaceable(path: Path, replace: bool) -> None:
    if not replace:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):  # a rename would not ask
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def _beside(path: Path, there: os.stat_result | None, replace: bool, mode: int | None) -> Iterator[BinaryIO]:
    """A new file in the same folder, which becomes ``path``; nothing is left of it where it does not."""
    partial = path.with_name(f".{path.name[:_MOST_NAME]}.{secrets.token_hex(4)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    try:
        with os.fdopen(os.open(partial, flags, 0o666 if mode is None else mode), "wb") as sink:
            if there is not None:
                _keep(partial, sink.fileno(), there)
            yield sink
        _put(partial, path, replace=replace or there is not None)
    finally:
        partial.unlink(missing_ok=True)


def _keep(partial: Path, descriptor: int, there: os.stat_result) -> None:
    """The owner, as far as this user may give files away, and the rights of what was there."""
    if hasattr(os, "fchown"):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, there.st_uid, there.st_gid)
    os.chmod(partial, stat.S_IMODE(there.st_mode))


def _put(partial: Path, path: Path, *, replace: bool) -> None:
    if replace:
        partial.replace(path)
        return
    try:
        os.link(partial, path)  # unlike a rename it fails where something came meanwhile
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        partial.rename(path)
