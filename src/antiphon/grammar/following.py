"""Checks sampled ids against a grammar, one reply at a time, and finds how a reply may end."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import msgspec
from llguidance import LLMatcher


class Violation(msgspec.Struct, frozen=True):
    """The id at ``position`` of the reply is not one that the grammar allows there (or the matcher failed there)."""

    position: int
    id: int
    reason: str


class Matcher:
    """Follows one reply: as a shadow beside an engine that masks by itself, or as the mask of one that does not.

    Once an id was refused the matcher stays where it was; what came before remains true.
    """

    def __init__(self, start: LLMatcher) -> None:
        self._matcher = start
        self._violation: Violation | None = None
        self.position: int = 0

    def consume(self, ids: Sequence[int]) -> Violation | None:
        """Takes the ids in order; the first that the grammar does not allow, now or in an earlier call."""
        if self._violation is None and ids:
            # One id at a time is how they stream, and then the other call costs nearly twice as much.
            one = len(ids) == 1
            taken = self._matcher.consume_token(ids[0]) if one else self._matcher.try_consume_tokens(list(ids))
            self.position += taken
            if taken < len(ids):
                reason = self._matcher.get_error().split("\n")[0] or "the grammar does not allow it here"
                self._violation = Violation(self.position, ids[taken], reason)
        return self._violation

    def copy(self) -> Matcher:
        """Another matcher at the same place."""
        other = Matcher(self._matcher.deep_copy())
        other._violation, other.position = self._violation, self.position
        return other

    @property
    def accepting(self) -> bool:
        """Whether the reply may end here."""
        return self._violation is None and self._matcher.is_accepting()

    @property
    def stopped(self) -> bool:
        """Whether nothing more may come."""
        return self._matcher.is_stopped()

    @property
    def failed(self) -> bool:
        """Whether the matcher itself gave up, at one of its limits."""
        return self._violation is None and self._matcher.is_error()

    @property
    def stuck(self) -> bool:
        """Whether the reply may neither end here nor go on."""
        if self.accepting:
            return False
        allowed = any(self.mask())
        return self._matcher.is_error() or not allowed

    def mask(self) -> bytes:
        """The ids allowed next, a bit each, lowest bit first; bits from the vocabulary's size on mean nothing.

        All zero when the reply is over or was refused.
        """
        if self._violation is not None or self._matcher.is_stopped():
            return bytes(0)
        return self._matcher.compute_bitmask()


# The shortest way from where a reply stands to its end, as far as a bounded search finds it.
#
# A reply is closed by few tokens: its ends, quotes and brackets. Where none of them may come, the grammar leaves
# little choice (a name, a word), or any token will do. So few tokens are tried at each place, several ways beside each
# other.

WAYS = 2
"""How many ways are followed beside each other."""
FIRST_WAYS = 4
"""How many at first, where a reply may have to leave a thought, or choose between a call and an answer."""
FIRST = 64
"""So many tokens of an ending are at first."""
TRIED = 3
"""How many tokens are tried at each place of a way."""
FEW = 64
"""So many allowed tokens are all looked at; of more, those that close something."""
LONGEST = 512
"""Tokens of an ending that is looked for: some hundredths of a second for a hundred of them."""
_BRACKETS = re.compile(rb"[}\]]+\n?")
_QUOTES = re.compile(rb"[\"'][}\]]*\n?")
_MARKS = (b"</", b"<", b"[", b"\n")
_VALUES = (b",", b":", b"0", b"1", b"null", b"true", b"[]", b"{}", b'""', b'"', b"(", b"[", b"{", b"-")
_LETTERS = (b"aaaa", b"aa", b"a", b"A", b"x")
_BITS = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
_SOME = re.compile(rb"[^\0]")


class ClosingTokens:
    """The tokens of a vocabulary by which replies are closed. Made once a vocabulary.

    ``texts`` are the bytes of each id; of the ids in ``controls`` none is text, and those in ``ends`` end a reply.
    """

    def __init__(self, texts: Sequence[bytes], controls: Collection[int], ends: Collection[int]) -> None:
        self._texts = texts
        self._ends = tuple(sorted(ends))
        self._controls = tuple(sorted({*controls} - {*ends}))
        apart = {*controls, *ends}
        places = {text: id for id, text in reversed([*enumerate(texts)]) if id not in apart}
        self._brackets, self._quotes = (
            sorted(
                (id for text, id in places.items() if kind.fullmatch(text)),
                key=lambda id: (texts[id][:1] == b"'", -len(texts[id])),
            )
            for kind in (_BRACKETS, _QUOTES)
        )
        self._marks, self._values, self._letters = (
            [places[text] for text in texts_of if text in places] for texts_of in (_MARKS, _VALUES, _LETTERS)
        )
        self._text = [places[sign] for sign in (b"q", b"Z") if sign in places]

    def ending(self, matcher: Matcher, most: int) -> tuple[int, ...] | None:
        """The ids of an ending of at most ``most``; None where the search finds none. The matcher stays where it is."""
        if matcher.accepting:
            return ()
        ways: list[tuple[tuple[int, ...], Matcher]] = [((), matcher)]
        for step in range(min(most, LONGEST)):
            longer = list(self._longer(ways))
            done = next((ids for ids, after in longer if after.accepting), None)
            if done is not None or not longer:
                return done
            ways = longer[: FIRST_WAYS if step < FIRST else WAYS]
        return None

    def _longer(self, ways: Sequence[tuple[tuple[int, ...], Matcher]]) -> Iterator[tuple[tuple[int, ...], Matcher]]:
        """The ways by one token more: first the best of each, then the second."""
        tried = [self._tried(matcher.mask()) for _, matcher in ways]
        for place in range(TRIED):
            for (ids, matcher), candidates in zip(ways, tried, strict=True):
                if place < len(candidates):
                    after = matcher.copy()
                    if after.consume([candidates[place]]) is None:
                        yield (*ids, candidates[place]), after

    def _tried(self, mask: bytes) -> list[int]:
        """The allowed tokens that are likeliest to lead to an end, the best first."""

        def allowed(ids: Sequence[int], most: int = TRIED) -> list[int]:
            return [id for id, _ in zip((id for id in ids if mask[id // 8] >> id % 8 & 1), range(most), strict=False)]

        if not mask:
            return []
        ends = allowed(self._ends, 1)
        if self._text and allowed(self._text) == self._text:  # one alone may begin a name
            if closers := [*ends, *allowed(self._controls, 2)]:
                return closers  # What would close a string closes nothing here.
            return [*allowed(self._quotes, 2), *allowed(self._marks, 1), *allowed(self._letters, 1)][:TRIED]
        if int.from_bytes(mask).bit_count() <= FEW:
            few = (found.start() * 8 + bit for found in _SOME.finditer(mask) for bit in _BITS[found[0][0]])
            return self._different(sorted(few, key=self._rank))
        likely = (self._controls, self._brackets, self._values, self._quotes, self._marks)
        ways = (ends, *(allowed(kind, 1) for kind in likely))
        return [*dict.fromkeys(id for way in ways for id in way)][:TRIED] or self._any(mask)

    def _different(self, ids: Sequence[int]) -> list[int]:
        """The first of them, without those that only begin another: they would be the same way in more steps."""
        chosen: list[int] = []
        for id in ids:
            text = self._texts[id] if id < len(self._texts) else b""
            if not any(self._texts[other].startswith(text) for other in chosen if other < len(self._texts)):
                chosen.append(id)
            if len(chosen) == TRIED:
                break
        return chosen

    def _rank(self, id: int) -> tuple[int, int]:
        """Sorts ends first, then closings, then long spellings, then openings, and blanks last."""
        if id in self._ends or id >= len(self._texts):
            return -100, 0
        text = self._texts[id]
        if text.isspace():
            return 100 - len(text), 0
        opened, closed = (sum(map(text.count, signs)) for signs in ((b"{", b"["), (b"}", b"]")))
        signed = 3 * text.count(b"-")
        place = self._values.index(id) if id in self._values else len(self._values)
        return 10 * opened - 5 * closed + signed - len(text), place

    def _any(self, mask: bytes) -> list[int]:
        found = (match.start() * 8 + bit for match in _SOME.finditer(mask) for bit in _BITS[match[0][0]])
        return [id for id, _ in zip(found, range(TRIED), strict=False)]
