"""How vocabularies spell bytes: byte-level ones each byte as a printable character, SentencePiece blanks as “▁”."""

from __future__ import annotations

import re


def _letters() -> dict[int, str]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


LETTER_OF_BYTE = _letters()
BYTE_OF_LETTER = {letter: byte for byte, letter in LETTER_OF_BYTE.items()}


def bytes_of_letters(letters: str) -> bytes:
    """The bytes that a byte-level token stands for; a character outside the alphabet stands for itself."""
    try:
        return bytes(map(BYTE_OF_LETTER.__getitem__, letters))
    except KeyError:
        return b"".join(bytes([BYTE_OF_LETTER[c]]) if c in BYTE_OF_LETTER else c.encode() for c in letters)


def sentencepiece_bytes(token: str) -> bytes:
    """The bytes of a SentencePiece token."""
    return byte_token(token) or token.replace("▁", " ").encode()


_BYTE = re.compile("<0x([0-9A-F]{2})>")


def byte_token(token: str) -> bytes | None:
    """The byte that a token such as ``<0x0A>`` stands for."""
    found = _BYTE.fullmatch(token)
    return bytes.fromhex(found[1]) if found else None


_ESCAPED = re.compile(rb"\\\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_NAMED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


def escaped_bytes(token: str) -> bytes:
    """The bytes of a token that is spelled with backslashes, as RWKV's are."""
    return _ESCAPED.sub(
        lambda found: bytes.fromhex(found[1].decode()) if found[1] else _NAMED.get(found[2], found[2]), token.encode()
    )
