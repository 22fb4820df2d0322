"""What the servers' protocols have in common: a service is named, and its messages become these values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import msgspec

from antiphon.engines.engine import Sampling

Pair = tuple[int, float]
"""An id and its log probability."""


class Part(msgspec.Struct, frozen=True):
    """What one message of a stream says: the ``ids`` that are new, or, with a ``finish``, all or the last of them.

    ``logprobs`` are of ``ids``, each with its alternatives. ``matched`` is the stop id that ended the reply.
    """

    ids: Sequence[int]
    logprobs: Sequence[tuple[Pair, Sequence[Pair]]] = ()
    cached: int | None = None
    finish: str | None = None
    matched: int | None = None


class Served(msgspec.Struct, frozen=True):
    """The model: its context in tokens, 0 where the server does not know, and its ends."""

    context: int
    end_ids: frozenset[int] = frozenset()
    generates: bool = True


class GenerateInputs(msgspec.Struct, frozen=True):
    """A request for one choice. ``limit``: how many ids it may have at most."""

    request_id: str
    prompt: Sequence[int]
    sampling: Sampling
    limit: int
    grammar: str | None = None


class Service(ABC):
    """A protocol. ``path`` is the service's full name; what `request` and others give are serialized messages.

    ``logprobs``: alternatives that it reports at most. Its servers keep prompts for other requests, and have no way to
    keep those of different owners apart.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    logprobs: ClassVar[int] = 20
    honours: ClassVar[frozenset[str]]

    @abstractmethod
    def request(self, inputs: GenerateInputs) -> bytes:
        """The message that asks for a streamed reply; all its sampling is named."""

    @abstractmethod
    def part(self, data: bytes) -> Part: ...

    @abstractmethod
    def abort(self, request_id: str) -> bytes: ...

    @abstractmethod
    def served(self, data: bytes) -> Served:
        """From what `GetModelInfo` answers."""

    @abstractmethod
    def healthy(self, data: bytes) -> bool:
        """From what `HealthCheck` answers."""


class Alternatives(Protocol):
    @property
    def token_ids(self) -> Sequence[int]: ...
    @property
    def values(self) -> Sequence[float]: ...


class Columns(Protocol):
    """The message that both protocols have for log probabilities."""

    @property
    def token_ids(self) -> Sequence[int]: ...
    @property
    def token_logprobs(self) -> Sequence[float]: ...
    @property
    def top_logprobs(self) -> Sequence[Alternatives]: ...


def entries(columns: Columns) -> list[tuple[Pair, Sequence[Pair]]]:
    """Of each id: itself and its alternatives, where there are any."""
    own = zip(columns.token_ids, columns.token_logprobs, strict=True)
    tops = [list(zip(top.token_ids, top.values, strict=True)) for top in columns.top_logprobs]
    return [(pair, tops[i] if i < len(tops) else ()) for i, pair in enumerate(own)]
