"""Dictionaries and lists of a caller as the JSON that a wire reads, with errors at the argument's own place."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from antiphon.errors import Position, RequestError
from antiphon.wire.json import decode, encode_given

Read = TypeVar("Read", bound=msgspec.Struct)


def read_json(value: object, kind: type[Read], path: str) -> Read:
    """The value, a dictionary, as a wire has it. Raises `RequestError` at the field below ``path``."""
    try:
        read, _ = decode(encode_given(value, path), kind)
    except RequestError as error:
        raise below(error, path) from None
    return read


def below(error: RequestError, path: str) -> RequestError:
    """The error about a field of a value that stands at ``path``."""
    inner = error.position.path if error.position and error.position.path else ""
    if inner.startswith(path):
        return error
    place = f"{path}.{inner}" if inner else path
    message = error.message.removeprefix(f"{inner}: ") if inner else error.message
    return RequestError(f"{place}: {message}", code=error.code, position=Position(path=place), hint=error.hint)
