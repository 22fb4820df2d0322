"""Texts that come as documents: files of text, documents with titles, results of searches."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence

from antiphon.conversation import TextPart

from .errors import unreadable

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
"""Characters that no text has and nearly every other file."""


def document(heads: Sequence[str | None], text: str) -> TextPart:
    """The text behind its title and what else is said of it, a line each; a blank line ends it."""
    lines = [head for head in heads if head]
    return TextPart("\n".join([*lines, *([""] if lines else []), text.strip("\n"), "", ""]))


def text_file(data: object, name: object, path: str, kind: str) -> TextPart:
    """A file as a document under its name; the rest is that of `file_text`."""
    return document([name if isinstance(name, str) else None], file_text(data, path, kind))


def file_text(data: object, path: str, kind: str) -> str:
    """The text of a file. ``data``: base64, or a data URL of it; ``kind`` is the part's type.

    Raises `RequestError` (``unsupported_content``) for a file that is no text in UTF-8, and where there is none.
    """
    if not isinstance(data, str):
        raise unreadable(path, kind)
    head, comma, encoded = data.partition(",")
    try:
        text = b64decode(encoded if comma and head[:5].lower() == "data:" else data, validate=True).decode("utf-8-sig")
    except (Base64Error, ValueError):
        raise unreadable(path, kind) from None
    if _CONTROLS.search(text):
        raise unreadable(path, kind)
    return text
