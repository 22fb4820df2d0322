"""Encrypted reasoning: a client stores it and sends it again, and cannot read it."""

from __future__ import annotations

import base64
import binascii
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.conversation import Message
from antiphon.errors import FormatError, Position, RequestError
from antiphon.store import pack, unpack

_NONCE = 12
_MARK = b"antiphon reasoning 1 "


class ReasoningCipher:
    """AES-256-GCM under ``key`` (32 bytes), bound to its owner: reasoning of another API key is not decrypted.

    Servers that share the key read each other's; with a new key, what was encrypted before is refused.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def encrypt(self, message: Message, owner: str) -> str:
        """``encrypted_content`` for a reasoning item."""
        nonce = os.urandom(_NONCE)
        encrypted = self._cipher.encrypt(nonce, pack(message), _MARK + owner.encode())
        return base64.urlsafe_b64encode(nonce + encrypted).decode()

    def decrypt(self, encrypted: str, owner: str, path: str) -> Message:
        """The message again. Raises `RequestError` at ``path`` for what this server did not encrypt for this owner."""
        try:
            raw = base64.b64decode(encrypted, altchars=b"-_", validate=True)
            return unpack(self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], _MARK + owner.encode()))
        except (InvalidTag, FormatError, binascii.Error, ValueError):
            raise RequestError(
                f"{path}: this was not encrypted by this server for this key, or it was changed.",
                code="invalid_encrypted_content",
                position=Position(path=path),
                hint="Leave the item out, or send its content.",
            ) from None
