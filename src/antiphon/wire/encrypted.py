"""Encrypted reasoning and summaries: a client stores them and sends them again, and cannot read them."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from antiphon.conversation import Message
from antiphon.errors import FormatError, Position, RequestError
from antiphon.store import pack, unpack

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12
_SIGNED = b"antiphon signature 1"
"""Signatures have a key of their own, derived from that of the server."""
Purpose = Literal["reasoning", "compaction"]
"""Purposes of an encrypted message; it is decrypted for no other."""
SEPARATOR = "."
"""Between a call that ran here and its answer, each encrypted."""


class ReasoningCipher:
    """AES-256-GCM under ``key`` (32 bytes), bound to its owner: reasoning of another API key is not decrypted.

    Servers that share the key read each other's; with a new key, what was encrypted before is refused.
    """

    def __init__(self, key: bytes) -> None:
        """Raises ValueError for a key that is not of 16, 24 or 32 bytes."""
        if len(key) not in (16, 24, 32):
            raise ValueError(f"a key of AES has 16, 24 or 32 bytes, and this one {len(key)}")
        self._key = key

    def encrypt(self, message: Message, owner: str, purpose: Purpose = "reasoning") -> str:
        """``encrypted_content`` for an item."""
        nonce = os.urandom(_NONCE)
        encrypted = self._cipher.encrypt(nonce, pack(message), _bound_to(owner, purpose))
        return base64.urlsafe_b64encode(nonce + encrypted).decode()

    def decrypt(self, encrypted: str, owner: str, path: str, purpose: Purpose = "reasoning") -> Message:
        """The message again. Raises `RequestError` at ``path`` for what this server did not encrypt for this owner."""
        from cryptography.exceptions import InvalidTag

        try:
            raw = base64.b64decode(encrypted, altchars=b"-_", validate=True)
            return unpack(self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], _bound_to(owner, purpose)))
        except (InvalidTag, FormatError, binascii.Error, ValueError):
            raise RequestError(
                f"{path}: this was not encrypted by this server for this key, or it was changed.",
                code="invalid_encrypted_content",
                position=Position(path=path),
                hint="Leave the item out, or send its content.",
            ) from None

    def signature(self, data: bytes, owner: str) -> bytes:
        """The signature of bytes that a client holds and sends again: 32 bytes, the same for this key and owner."""
        return hmac.digest(hmac.digest(self._key, _SIGNED, "sha256"), owner.encode() + b"\n" + data, "sha256")

    @cached_property
    def _cipher(self) -> AESGCM:
        # Here and not above: the library is slow to import, and most servers encrypt nothing.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)


def _bound_to(owner: str, purpose: Purpose) -> bytes:
    """Returns the associated data, which must be the same again for a message to be decrypted."""
    return f"antiphon {purpose} 1 {owner}".encode()
