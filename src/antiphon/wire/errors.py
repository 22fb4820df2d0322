"""The error that a wire raises at a field, and OpenAI's JSON of an error."""

from __future__ import annotations

import msgspec

from antiphon.errors import Position, RequestError


class ErrorDetail(msgspec.Struct, frozen=True):
    """``code`` is for programs; ``param`` is the JSON path of the field at fault, where one is."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


def refused(path: str, message: str, *, code: str = "invalid_value", hint: str | None = None) -> RequestError:
    """A `RequestError` at ``path``, the JSON path of a field; the message begins with it."""
    return RequestError(f"{path}: {message}", code=code, position=Position(path=path), hint=hint)


UNREADABLE = "unsupported_content"
"""The code of a part that is no text. Where a model was chosen, the answer's hint names it."""


READS_TEXT = "The models here read text."


def unreadable(path: str, kind: str) -> RequestError:
    """The error of a part of that type (``image_url``, ``input_audio`` …) at ``path``."""
    return refused(path, f"parts of type {kind[:64]!r} cannot be read.", code=UNREADABLE, hint=READS_TEXT)
