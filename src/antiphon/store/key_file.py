"""A secret key of the server in a file of its own, which outlives the process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from antiphon.errors import ConfigError

KEY_BYTES = 32


def stored_key(path: Path) -> bytes:
    """The key in a file that only its owner may read; made when it is not there. Raises `ConfigError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the server's key {path} cannot be kept: {error.strerror}", code="encryption_key") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path} must hold {KEY_BYTES} bytes, and holds {len(key)}", code="encryption_key")
    return key
