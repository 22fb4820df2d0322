"""A secret key of the server in a file of its own, which outlives the process."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from antiphon.errors import ConfigError

KEY_BYTES = 32


def stored_key(path: Path) -> bytes:
    """The key in a file that only its owner may read; made when it is not there. Raises `ConfigError`."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the server's key {path} cannot be kept: {error.strerror}", code="encryption_key") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path} must hold {KEY_BYTES} bytes, and holds {len(key)}", code="encryption_key")
    return key


def _make(path: Path) -> None:
    """Makes the file, which has the whole key as soon as it is there; one of several processes at once does."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
