"""Tells who wrote each id of a conversation: the template, a person, a tool, or the model that samples it.

A reply begins where a prompt for it ends, and goes on to the stop that ended it. So what the prompt opens (an
assistant's header, a ``<think>``) is not sampled, and the stop is, unless the template writes another end. Texts are
cut at both places and encoded by themselves, as they were when the model wrote.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile
from typing import TYPE_CHECKING

from antiphon.conversation import Conversation, Role, TextPart
from antiphon.conversation.calls import make_answer
from antiphon.errors import AntiphonError
from antiphon.formats import Format, HistoryPolicy
from antiphon.tokens import (
    Control,
    Piece,
    SampledText,
    Tokenizer,
    Words,
    decode,
    encode_pieces,
    utf8,
)

from .page import Page
from .passages import QUESTION, Change, Owner, Part, Passage, Writing
from .sequences import common

if TYPE_CHECKING:
    from .prefix import Cause


@dataclass(frozen=True, slots=True)
class Written:
    """The ids of a conversation, and what the template changed of it.

    ``passages`` follow each other without a gap; their ``start`` and ``end`` count ids. ``pieces``: what was encoded.
    """

    ids: array[int]
    passages: tuple[Passage, ...]
    changes: tuple[Change, ...]
    pieces: Sequence[Piece] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """The first ``count`` ids of a conversation, with which the next prompt begins.

    ``cause`` says why it goes on otherwise (None: all are kept), ``other`` is the id that it has there, if any.
    """

    count: int
    cause: Cause | None = None
    other: int | None = None


class Tracer:
    """Tells of a format's conversations who wrote each id. Several threads may share it."""

    def __init__(self, format: Format, tokenizer: Tokenizer, *, history: HistoryPolicy = HistoryPolicy.GUIDE) -> None:
        self.tokenizer = tokenizer
        self._writing = Writing(format, tokenizer.strips, history)
        self._words = Words(tokenizer)
        self._controls: dict[Control, array[int]] = {}

    def trace(self, conversation: Conversation) -> Written:
        """The ids of the whole conversation as a model is trained on it, and who wrote each.

        The last turn keeps its reasoning; of earlier ones the format drops what it drops of a history. Raises
        `RenderError` where the format cannot write the conversation, `TokenError` for a vocabulary without its
        controls.
        """
        page = Page(self._writing, conversation)
        passages = page.passages()
        ids, counts, ends = array("i"), [0] * len(passages), [one.end for one in passages]
        at = place = 0
        before: Piece | None = None
        for piece in _cut(page.pieces, passages):
            encoded = self._encoded(piece, before)
            behind = at + (1 if isinstance(piece, Control) else len(piece))
            shared = 0
            while ends[place] < behind:
                share = self._begun(encoded, str(piece), ends[place] - at)
                counts[place] += share - shared
                shared, place = share, place + 1
            counts[place] += len(encoded) - shared
            place += ends[place] == behind
            ids.extend(encoded)
            at, before = behind, piece
        counted = zip(passages, counts, accumulate(counts), strict=True)
        found = tuple(Passage(end - count, end, *one[2:]) for one, count, end in counted if count)
        return Written(ids, found, tuple(page.changes), page.pieces)

    def kept(self, conversation: Conversation, written: Written) -> Kept | None:
        """Says how much of the conversation, as it was ``written``, the next prompt begins with.

        The next prompt has the results of the calls that the conversation ends with, else a question behind the answer,
        else only opens the reply. None: the format cannot write it.
        """
        writing = self._writing
        try:
            prompt = writing.format.render(_next(conversation), reply_as=Role.ASSISTANT, history=writing.history)
            ids = encode_pieces(prompt, self.tokenizer)
        except AntiphonError:
            return None
        count = common(written.ids, ids)
        if count == len(written.ids):
            return Kept(count)
        return Kept(count, self._cause(written, ids, count), ids[count] if count < len(ids) else None)

    def _cause(self, written: Written, ids: Sequence[int], count: int) -> Cause:
        """Why the next prompt, which has these ids, keeps no more than ``count``."""
        lost, found = self._text(written.ids[count:]), self._text(ids[count:])
        if lost and lost == found:
            return "tokens"
        behind = (one.part for one in written.passages if one.end > count and one.owner is not Owner.TEMPLATE)
        part = next((part for part in behind if part is not Part.MARKUP), Part.NONE)
        return "end" if part is Part.END else "reasoning" if part is Part.REASONING else "rewritten"

    def _text(self, ids: Sequence[int]) -> str:
        """The text of the ids before the first control."""
        piece = self.tokenizer.piece
        return decode(self.tokenizer, [*takewhile(lambda id: not isinstance(piece(id), Control), ids)])

    def _encoded(self, piece: Piece, before: Piece | None) -> array[int]:
        if not isinstance(piece, Control | SampledText):
            return self._words.encode(piece, before)
        ids = self._controls.get(piece) if isinstance(piece, Control) else None
        if ids is None:
            ids = array("i", encode_pieces((piece,), self.tokenizer))
            if isinstance(piece, Control):
                self._controls[piece] = ids
        return ids

    def _begun(self, ids: Sequence[int], text: str, size: int) -> int:
        """How many of the text's ids begin in its first ``size`` characters: counted from the nearer end."""
        begun, rest = utf8(text[:size]), utf8(text[size:])
        read, count = bytearray(), 0
        if len(begun) <= len(rest):
            while len(read) < len(begun) and count < len(ids):
                read += self._bytes(ids[count])
                count += 1
            if read.startswith(begun):
                return count
        else:
            while len(read) < len(rest) and count < len(ids):
                count += 1
                read[:0] = self._bytes(ids[-count])
            if read.endswith(rest):
                return len(ids) - count + (len(read) > len(rest))
        # The vocabulary writes a blank before a text, or normalises it.
        *starts, whole = accumulate(map(len, map(self._bytes, ids)), initial=0)
        length, place = max(len(begun) + len(rest), 1), len(begun)
        return bisect_left(starts, place + whole - length if 0 < whole - length <= 3 else place * whole // length)

    def _bytes(self, id: int) -> bytes:
        return self.tokenizer.piece(id)  # type: ignore[return-value]  # no text has a control's id


def _cut(pieces: Sequence[Piece], passages: Sequence[Passage]) -> Iterator[Piece]:
    """The pieces, texts cut where a reply begins or ends."""
    edges = iter([after.start for one, after in pairwise(passages) if one.sampled != after.sampled])
    at, edge = 0, next(edges, -1)
    for piece in pieces:
        if isinstance(piece, Control):
            at += 1
            if edge == at:
                edge = next(edges, -1)
            yield piece
            continue
        start, behind = at, at + len(piece)
        while at < edge <= behind:
            yield piece[at - start : edge - start]
            at, edge = edge, next(edges, -1)
        if at < behind:
            yield piece if at == start else piece[at - start :]
        at = behind


def _next(conversation: Conversation) -> Conversation:
    """The conversation with what the next prompt has besides."""
    messages = conversation.messages
    calls = [*takewhile(lambda message: message.is_call, reversed(messages))]
    more = [make_answer(str(call.recipient), call.call_id, [TextPart("?")]) for call in reversed(calls)]
    if not more and messages and messages[-1].role is Role.ASSISTANT:
        more = [QUESTION]
    return replace(conversation, messages=(*messages, *more))
