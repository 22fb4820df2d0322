"""What the tier in front and an engine's replica say to each other: msgpack, read as strictly as it is written."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from antiphon.engines import Sampling, Step
from antiphon.errors import (
    AntiphonError,
    ConfigError,
    ContextError,
    EngineError,
    EngineLostError,
    ModelError,
    NotFoundError,
    OverloadedError,
    Position,
    RequestError,
    UnsupportedError,
)
from antiphon.tenancy import NOBODY, Tenant

ERRORS: dict[str, type[AntiphonError]] = {
    error.__name__: error
    for error in (
        EngineLostError, EngineError, ContextError, UnsupportedError, NotFoundError, RequestError, ModelError,
        ConfigError,
    )
}  # fmt: skip
"""What an engine may raise, the particular before the general; `OverloadedError` has a field of its own."""

T = TypeVar("T")


class GenerateCall(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Engine.generate` beside the prompt."""

    sampling: Sampling
    n: int = 1
    grammar: str | None = None
    tenant: Tenant = NOBODY


class ScoreCall(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Engine.score`."""

    prompt: list[int]
    alternatives: int = 0
    tenant: Tenant = NOBODY


class EmbedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Engine.embed`."""

    inputs: list[list[int]]
    tenant: Tenant = NOBODY


class RankCall(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Ranker.rank`."""

    query: str
    documents: list[str]
    tenant: Tenant = NOBODY


class Tokens(msgspec.Struct, frozen=True):
    """What `Engine.tokenize` gives."""

    ids: list[int] | None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error of ours on its way: Ray would wrap it, and give it to the client as its own."""

    error: str
    message: str
    code: str
    path: str | None = None
    hint: str | None = None
    retry_after: float | None = None
    tokens: int | None = None
    limit: int | None = None

    @classmethod
    def of(cls, error: AntiphonError) -> Failure:
        known = next((name for name, kind in ERRORS.items() if isinstance(error, kind)), "EngineError")
        return cls(
            error=known,
            message=error.message,
            code=error.code,
            path=error.position.path if error.position else None,
            hint=error.hint,
            retry_after=error.retry_after if isinstance(error, OverloadedError) else None,
            tokens=error.tokens if isinstance(error, ContextError) else None,
            limit=error.limit if isinstance(error, ContextError) else None,
        )

    def raised(self) -> AntiphonError:
        """The error again."""
        if self.retry_after is not None:
            return OverloadedError(self.message, retry_after=self.retry_after, code=self.code, hint=self.hint)
        position = Position(path=self.path) if self.path is not None else None
        error = ERRORS.get(self.error, EngineError)(self.message, code=self.code, position=position, hint=self.hint)
        if isinstance(error, ContextError):
            error.tokens, error.limit = self.tokens, self.limit
        return error


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of some hundredths of a second, and why there are no more, where that is an error."""

    steps: tuple[Step, ...] = ()
    failure: Failure | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What else a replica answers: a value, or an error."""

    value: msgspec.Raw = msgspec.Raw(b"\xc0")  # nil
    failure: Failure | None = None


async def answered(work: Awaitable[object]) -> bytes:
    """What ``work`` gives, or the error that it raises, as a message."""
    try:
        return encode(Answer(value=msgspec.Raw(encode(await work))))
    except AntiphonError as error:
        return encode(Answer(failure=Failure.of(error)))


def answer_of(message: bytes, type: type[T]) -> T:
    """The value in an `Answer`. Raises its error."""
    answer = decode(message, Answer)
    if answer.failure is not None:
        raise answer.failure.raised()
    return decode(answer.value, type)


def encode(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def decode(message: bytes | msgspec.Raw, type: type[T]) -> T:
    return msgspec.msgpack.decode(message, type=type)
