"""API keys: who holds them, what they may do, and the file that has only their hashes."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec

from antiphon.errors import ConfigError, NotFoundError, near, words_of
from antiphon.structs import ready

PREFIX = "ak-"
LAST_REMOVED = "no key any more, so nobody may ask: `antiphon keys add NAME` makes one; without {} all may who reach it"
"""The state after the last key was removed, which does not open a server."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Scope(StrEnum):
    """A right of a key: use models; see the model's reasoning; read metrics; fetch models and delete them."""

    INFERENCE = "inference"
    DEBUG = "debug"
    ADMIN = "admin"
    MODELS = "models"


class Principal(msgspec.Struct, frozen=True):
    """The sender of a request. ``name`` owns what is stored between requests; empty where the server has no keys."""

    name: str = ""
    scopes: frozenset[Scope] = frozenset()


ANYBODY = Principal(scopes=frozenset({Scope.INFERENCE, Scope.ADMIN, Scope.MODELS}))
"""The user of a server that has no keys. Reasoning stays hidden: showing it to all is a setting of its own."""
NOBODY = Principal()


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One key. ``digest`` is the SHA-256 of its secret, in hex.

    A secret is 256 random bits, so there is nothing to guess that a slow hash would protect, and a slow hash would let
    anybody burn our time with wrong keys. None as a limit: the server's own counts; 0: none.
    """

    name: str
    digest: str
    scopes: tuple[Scope, ...] = (Scope.INFERENCE,)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None


def new_key(name: str, scopes: Iterable[Scope] = (Scope.INFERENCE,), **limits: int | None) -> tuple[str, Key]:
    """A new secret, which is shown once and stored nowhere, and its key. Raises `ConfigError` for an odd name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be a key's name", hint="Letters, digits and . _ @ -, at most 64.")
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Key(name=name, digest=digest(secret.encode()), scopes=tuple(dict.fromkeys(scopes)), **limits)


def digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


class Keyring:
    """The keys of a server; `replace` changes them for all requests to come, and closes an open server.

    None: the server has no keys, and anybody may come in. An empty ring lets nobody in.
    """

    def __init__(self, keys: Iterable[Key] | None = None) -> None:
        self.open: bool = keys is None
        self._hold(keys or ())

    def replace(self, keys: Iterable[Key]) -> None:
        self.open = False
        self._hold(keys)

    def _hold(self, keys: Iterable[Key]) -> None:
        self._keys = tuple(keys)
        self._principals = {key.digest: Principal(key.name, frozenset(key.scopes)) for key in self._keys}

    def named(self, name: str) -> Key | None:
        return next((key for key in self._keys if key.name == name), None)

    def principal(self, secret: bytes) -> Principal | None:
        """The principal of a secret. Every digest is compared whole: the time does not tell how much of it is right."""
        sent, found = digest(secret), None
        for known, principal in self._principals.items():
            if hmac.compare_digest(known, sent):
                found = principal
        return found


class KeyFile:
    """Keys as JSON, readable by their owner alone. A change is a new file in the old one's place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Key] | None:
        """Every key; None when there is no file. Raises `ConfigError` for one that cannot be read as keys."""
        try:
            keys = msgspec.json.decode(self.path.read_bytes(), type=ready(list[Key]))
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"cannot read the keys in {self.path}: {words_of(error)}", code="key_file") from None
        if len({key.name for key in keys}) < len(keys):
            raise ConfigError(f"two keys in {self.path} have one name", code="key_file")
        return keys

    def add(self, key: Key) -> None:
        keys = self.read() or []
        if any(known.name == key.name for known in keys):
            raise ConfigError(
                f"there is a key {key.name!r} already",
                code="key_exists",
                hint=f"antiphon keys set {key.name} changes it; antiphon keys rm {key.name} removes it.",
            )
        self._write([*keys, key])

    def change(self, name: str, **changes: object) -> Key:
        """The key with other scopes or limits, and the secret that it had. Raises `NotFoundError` as `remove` does."""
        keys, at = self._find(name)
        keys[at] = msgspec.structs.replace(keys[at], **changes)
        self._write(keys)
        return keys[at]

    def remove(self, name: str) -> None:
        """Raises `NotFoundError` with the names that are near."""
        keys, at = self._find(name)
        del keys[at]
        self._write(keys)

    def _find(self, name: str) -> tuple[list[Key], int]:
        """Every key, and the place of one."""
        keys = self.read() or []
        for at, key in enumerate(keys):
            if key.name == name:
                return keys, at
        hint = near(name, [key.name for key in keys])
        raise NotFoundError(f"there is no key {name!r}", code="key_not_found", hint=hint)

    def _write(self, keys: list[Key]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(keys)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except FileExistsError:  # not ours, and not to be removed
            raise
        except OSError as error:
            new.unlink(missing_ok=True)
            raise ConfigError(f"cannot write {self.path}: {error.strerror}", code="unwritable_output") from None
