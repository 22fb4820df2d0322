"""Tokens of MCP servers, in files that only the user of this machine may read."""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from antiphon.errors import ConfigError
from antiphon.structs import ready

LARGEST = 1 << 20
"""Bytes of an entry; more is none of ours."""


class TokenEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers of one authorization server, as they came (RFC 6749 §5.1, RFC 7591 §3.2.1, RFC 8414, RFC 9728).

    ``expires_at``: seconds since 1970; None where nothing was said. The metadata says where tokens are refreshed.
    """

    server: str
    token: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None
    authorization_server: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"TokenEntry(server={self.server!r})"


@dataclass(frozen=True, slots=True)
class TokenStore:
    """One file a server in ``folder``, named by the digest of its address, so that a token goes to no other."""

    folder: Path

    def entry(self, url: str) -> TokenEntry:
        """Reads a server's entry; an empty one where nothing is stored. Raises `ConfigError` for a broken file."""
        try:
            with self._file(url).open("rb") as file:
                entry = msgspec.json.decode(file.read(LARGEST), type=ready(TokenEntry))
        except FileNotFoundError:
            return TokenEntry(server=url)
        except (OSError, msgspec.DecodeError) as error:
            raise _unusable(self._file(url), type(error).__name__) from None  # its text may quote the file
        return entry if entry.server == url else TokenEntry(server=url)

    def put(self, entry: TokenEntry) -> None:
        """Stores an entry at once, or as it was before. Raises `ConfigError`."""
        file = self._file(entry.server)
        partial = file.with_suffix(f".{secrets.token_hex(4)}.part")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(msgspec.json.encode(entry))
            partial.replace(file)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise _unusable(file, error.strerror or type(error).__name__) from None

    def remove(self, url: str) -> bool:
        """Forgets a server; whether there was anything to forget."""
        try:
            self._file(url).unlink()
        except FileNotFoundError:
            return False
        return True

    def _file(self, url: str) -> Path:
        return self.folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def _unusable(file: Path, why: str) -> ConfigError:
    return ConfigError(f"the tokens in {file} cannot be used: {why}", code="mcp_tokens", hint="Remove the file.")
