"""Replies that lost some of their controls: whatever is left, the answer is seen and reasoning is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from antiphon.conversation import Incident, MessageEnded, ParserEvent, visible_to_user
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CHANNEL, END, MESSAGE, RETURN, START
from antiphon.generation.reader import with_channels
from antiphon.tokens import Control, Piece
from kit.missing_channels import ANSWER, PREAMBLE, THOUGHT

HARMONY = Harmony()
ANALYSIS: tuple[Piece, ...] = (CHANNEL, "analysis", MESSAGE, THOUGHT, END, START, "assistant")
REPLIES: dict[str, tuple[Piece, ...]] = {
    "answer": (CHANNEL, "final", MESSAGE, ANSWER, RETURN),
    "thought": (*ANALYSIS, CHANNEL, "final", MESSAGE, ANSWER, RETURN),
    "announced": (
        *(*ANALYSIS, CHANNEL, "commentary", MESSAGE, PREAMBLE, END, START, "assistant"),
        *(CHANNEL, "final", MESSAGE, ANSWER, RETURN),
    ),
}
TEXTS = {ANSWER, THOUGHT, PREAMBLE}
ODD: list[Piece] = [
    *(" 364 ", "\n", "??", "response", "assistant", "to=assistant", "commentary?", "analysis", "final"),
    *(CHANNEL, MESSAGE, START, END, Control("<|constrain|>")),
]
"""What models write where it does not belong."""


def read(pieces: Sequence[Piece]) -> list[ParserEvent]:
    parser = HARMONY.parser(tools=["functions.weather"], calls=["functions.weather"])
    return with_channels([*parser.feed(pieces), *parser.close()], HARMONY)


def seen(events: Sequence[ParserEvent]) -> str:
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    return "\n\n".join(message.text for message in messages if visible_to_user(message))


def without_some(reply: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The reply without one or two of the pieces of its structure."""
    structure = [i for i, piece in enumerate(reply) if piece not in TEXTS]
    for count in (1, 2):
        for lost in combinations(structure, count):
            yield [piece for i, piece in enumerate(reply) if i not in lost]


def with_more(reply: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The reply with an odd piece in its structure, beside another or in its place."""
    for i, piece in enumerate(reply):
        for odd in ODD:
            renamed = piece in ("analysis", "final", "commentary") and odd in ("analysis", "final", "commentary?")
            if piece not in TEXTS and not renamed:
                yield [*reply[:i], odd, *reply[i + 1 :]]
            if not (renamed or reply[i - 1] == MESSAGE) or isinstance(odd, Control):
                yield [*reply[:i], odd, *reply[i:]]


@pytest.mark.spec("HAR-15", "HAR-67")
@pytest.mark.parametrize("mutate", [without_some, with_more])
@pytest.mark.parametrize("name", REPLIES)
def test_whatever_is_lost_or_odd_the_answer_is_seen_and_reasoning_is_not(name: str, mutate: type) -> None:
    tried = 0
    for pieces in mutate(REPLIES[name]):
        text = seen(read(pieces))
        assert "SECRET" not in text, pieces
        assert ANSWER in text, pieces
        tried += 1
    assert tried > 5


def test_what_was_inferred_is_reported() -> None:
    def inferred(*pieces: Piece) -> list[str]:
        events = read(pieces)
        found = [event for event in events if isinstance(event, Incident) and event.code.startswith("channel-")]
        assert [event.code for event in found][::2] == ["channel-undecided"] * (len(found) // 2)
        return [event.text for event in found if event.code == "channel-inferred"]

    assert inferred(*REPLIES["thought"]) == []
    assert inferred(MESSAGE, ANSWER, RETURN) == ["final"]
    assert inferred(MESSAGE, THOUGHT, END, START, "assistant", *REPLIES["answer"]) == ["analysis"]
