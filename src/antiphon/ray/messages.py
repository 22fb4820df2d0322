"""Messages between the tier in front and an engine's replica: msgpack, read as strictly as it is written."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from antiphon.engines import Sampling, Step
from antiphon.errors import AntiphonError
from antiphon.errors.fault import Fault
from antiphon.tenancy import NOBODY, Tenant

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
    """The ids that `Engine.tokenize` gives."""

    ids: list[int] | None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of some hundredths of a second, and why there are no more, where that is an error."""

    steps: tuple[Step, ...] = ()
    failure: Fault | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Another answer of a replica: a value, or an error."""

    value: msgspec.Raw = msgspec.Raw(b"\xc0")  # nil
    failure: Fault | None = None


async def answered(work: Awaitable[object]) -> bytes:
    """The result of ``work``, or the error that it raises, as a message."""
    try:
        return encode(Answer(value=msgspec.Raw(encode(await work))))
    except AntiphonError as error:
        return encode(Answer(failure=Fault.of(error)))


def answer_of(message: bytes, type: type[T]) -> T:
    """The value in an `Answer`. Raises its error."""
    answer = decode(message, Answer)
    if answer.failure is not None:
        raise answer.failure.error()
    return decode(answer.value, type)


def encode(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def decode(message: bytes | msgspec.Raw, type: type[T]) -> T:
    return msgspec.msgpack.decode(message, type=type)
