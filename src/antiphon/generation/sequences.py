"""Prompts and their replies, remembered with their ids: a prompt that goes on with one keeps its ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

import msgspec

from antiphon.conversation import Message
from antiphon.tokens import Control, Piece, PieceDecoder, Tokenizer, utf8

from .request import TurnRequest


class Remembered(msgspec.Struct, frozen=True, eq=False):
    """One choice of a turn: the ids of its prompt and those sampled; ``heads`` are its beginnings, as digests."""

    request: TurnRequest
    reply: tuple[Message, ...]
    ids: tuple[int, ...]
    heads: tuple[tuple[str, bytes], ...]


class RememberedPrompt(msgspec.Struct, frozen=True):
    """A prompt as it was planned."""

    request: TurnRequest
    pieces: Sequence[Piece]
    ids: tuple[int, ...]
    tokenizer: Tokenizer


class Sequences:
    """What one model was sent and said, for requests that want ids; the oldest is forgotten first.

    Bounded by the number of ids. Each domain finds its own only. Several threads may share it.
    """

    def __init__(self, capacity: int = 1_000_000) -> None:
        self._capacity = capacity
        self._size = 0
        self._all: list[Remembered] = []
        self._heads: dict[tuple[str, bytes], tuple[Remembered, int]] = {}
        self._lock = Lock()

    def add(self, prompt: RememberedPrompt, reply: Sequence[Message], sampled: Sequence[int]) -> None:
        """Remember a choice that is over."""
        request, ids = prompt.request, (*prompt.ids, *sampled)
        decoder = PieceDecoder(prompt.tokenizer)
        pieces = [*prompt.pieces, *decoder.feed(sampled), *decoder.close()]
        heads: dict[tuple[str, bytes], int] = {}
        if request.raw is None:  # a raw prompt has its caller's ids, controls among them that are no pieces
            domain, lengths = request.tenant.domain(), _lengths(ids, prompt.tokenizer)
            heads = {(domain, head.digest): length for head, length in zip(_heads(pieces), lengths, strict=True)}
        made = Remembered(request, tuple(reply), ids, tuple(heads))
        with self._lock:
            self._all.append(made)
            self._size += len(ids)
            self._heads |= {head: (made, length) for head, length in heads.items()}
            while self._size > self._capacity:
                self._forget(self._all.pop(0))

    def kept(self, domain: str, prompt: Sequence[Piece]) -> tuple[tuple[int, ...], Sequence[Piece]]:
        """The ids of the longest beginning of the prompt that is remembered, and the pieces after it."""
        found: tuple[tuple[int, ...], Sequence[Piece]] = (), prompt
        with self._lock:
            for head in _heads(prompt):
                known = self._heads.get((domain, head.digest))
                if known is not None:
                    one, length = known
                    found = one.ids[:length], prompt[head.pieces :]
        return found

    def nearest(self, request: TurnRequest, ids: Sequence[int]) -> Remembered | None:
        """The last of the request's session, else the one that has most of the beginning of ``ids``; None: nothing."""
        domain, affinity = request.tenant.domain(), request.tenant.affinity
        with self._lock:
            own = [one for one in self._all if one.request.tenant.domain() == domain]
        session = [one for one in own if affinity and one.request.tenant.affinity == affinity]
        return max(session[-1:] or reversed(own), key=lambda one: common(one.ids, ids), default=None)

    def _forget(self, one: Remembered) -> None:
        self._size -= len(one.ids)
        for head in one.heads:
            if self._heads.get(head, (None, 0))[0] is one:
                del self._heads[head]


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids of both are the same from the beginning on: by halves, for slices compare at memory's speed."""
    one, other = tuple(first), tuple(second)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


class _Head(msgspec.Struct, frozen=True):
    """A beginning of a prompt that ends before or after a control, or with the prompt: ``pieces`` of it."""

    digest: bytes
    pieces: int


def _heads(pieces: Sequence[Piece]) -> Iterator[_Head]:
    """The beginnings, from the shortest on. Texts beside each other are one, however a format cut them."""
    so_far = hashlib.sha256()
    text: list[bytes] = []
    for i, piece in enumerate(pieces):
        if isinstance(piece, str):
            text.append(utf8(piece))
            continue
        _add(so_far, b"t", text)
        yield _Head(so_far.digest(), i)
        _add(so_far, b"c", [utf8(piece.spelling)])
        yield _Head(so_far.digest(), i + 1)
        text = []
    _add(so_far, b"t", text)
    yield _Head(so_far.digest(), len(pieces))


def _add(digest: hashlib._Hash, kind: bytes, parts: Iterable[bytes]) -> None:
    """What is added has its length before it: no text can be taken for a control."""
    data = b"".join(parts)
    digest.update(kind + len(data).to_bytes(8, "big") + data)


def _lengths(ids: Sequence[int], tokenizer: Tokenizer) -> Iterator[int]:
    """How many ids each of the beginnings has: a text never becomes a control's id, so controls tell them apart."""
    for i, id in enumerate(ids):
        if isinstance(tokenizer.piece(id), Control):
            yield i
            yield i + 1
    yield len(ids)
