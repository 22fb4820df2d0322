"""The error that a wire raises at a field, and how it tells errors: OpenAI's body, or a shape of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiError:
    """The one error from which every shape is written (resolution X-20)."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None

    @property
    def placed(self) -> str:
        """The message with the field at fault, for bodies that have no place of their own for it."""
        return f"{self.param}: {self.message}" if self.param and self.param not in self.message else self.message


def openai_error(error: ApiError) -> object:
    return ErrorBody(ErrorDetail(message=error.message, type=error.type, param=error.param, code=error.code))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorShape:
    """``body`` makes what is sent as JSON, ``event`` the last event of a stream that broke (None: the body too).

    ``statuses``: where an error has another status than OpenAI's.
    """

    body: Callable[[ApiError], object] = openai_error
    event: Callable[[ApiError], object] | None = None
    statuses: Mapping[int, int] = field(default_factory=dict)


OPENAI_ERRORS = ErrorShape()
