"""How far a text keeps to a grammar, character by character, and what would be admitted where it leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from antiphon.tokens import ByteTokenizer, Control

from .compiler import CompiledGrammar, Vocabulary
from .following import Matcher

END = Control("<|end|>")
STEP = 256
"""Bytes that are followed between two looks at the clock."""
MOST_FORCED = 48
"""Bytes that are written of what must follow a character."""
RUN = 4
"""So many characters one after another are a range."""
_ASCII = range(0x20, 0x7F)


def byte_vocabulary() -> Vocabulary:
    """A vocabulary in which each byte is a token, so that a text is followed character by character."""
    return Vocabulary(ByteTokenizer([END]), {256})


class Admitted(msgspec.Struct, frozen=True):
    """``text`` may come, of which all behind the first character must; or, with ``to``, any character of a range."""

    text: str
    to: str | None = None


class Followed(msgspec.Struct, frozen=True):
    """The first ``fits`` characters of a text are admitted; ``complete``: the reply may end behind them.

    ``admitted`` is what may come there, of which ``more`` were left out; ``others``: characters beyond ASCII too.
    ``gave_up``: the grammar came to a limit, or the time was up.
    """

    fits: int
    complete: bool
    admitted: tuple[Admitted, ...]
    more: int
    others: bool
    gave_up: bool


def follow(grammar: CompiledGrammar, text: str, *, most: int, is_late: Callable[[], bool]) -> Followed:
    """Follows ``text`` by a grammar over a `byte_vocabulary`; gives up when ``is_late``."""
    matcher, data = grammar.alone(), text.encode("utf-8", "replace")
    for start in range(0, len(data), STEP):
        if matcher.consume(list(data[start : start + STEP])) or is_late():
            break
    fits = len(data[: matcher.position].decode("utf-8", "ignore"))
    here = _at(grammar, text[:fits])
    if here is None or matcher.failed or is_late():
        return Followed(fits, complete=False, admitted=(), more=0, others=False, gave_up=True)
    found: list[Admitted] = []
    for first, last in _runs([id for id in _next(here) if id in _ASCII]):
        if last - first + 1 >= RUN:
            found.append(Admitted(chr(first), chr(last)))
        else:
            found += [Admitted(_forced(here, id)) for id in range(first, last + 1)]
    return Followed(
        fits,
        complete=here.accepting,
        admitted=tuple(found[:most]),
        more=max(0, len(found) - most),
        others=any(id >= 0xC2 for id in _next(here)),
        gave_up=False,
    )


def _at(grammar: CompiledGrammar, text: str) -> Matcher | None:
    """A matcher behind the text; None where it comes to a limit."""
    matcher = grammar.alone()
    matcher.consume(list(text.encode("utf-8", "replace")))
    matcher.mask()
    return None if matcher.failed else matcher


def _next(matcher: Matcher) -> list[int]:
    mask = matcher.mask()
    return [id for id in range(256) if mask and mask[id // 8] >> id % 8 & 1]


def _runs(ids: list[int]) -> Iterator[tuple[int, int]]:
    """Ids that follow one another, from the first to the last."""
    first = last = None
    for id in ids:
        if last is not None and id == last + 1:
            last = id
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = id
    if first is not None and last is not None:
        yield first, last


def _forced(matcher: Matcher, id: int) -> str:
    """The character, and all that must follow it."""
    data, ahead = bytearray([id]), matcher.copy()
    ahead.consume([id])
    while len(data) < MOST_FORCED and not ahead.accepting and len(following := _next(ahead)) == 1:
        data += bytes(following)
        ahead.consume(following)
    return data.decode("utf-8", "ignore")
