"""Replies that lost some of their controls: whatever is left, the answer is seen and reasoning is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from antiphon.conversation import Incident, MessageEnded, ParserEvent, visible_to_user
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CALL, CHANNEL, CONTROLS, END, MESSAGE, RETURN, START
from antiphon.formats.openchatml import openchatml
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
    """Unless its channel is one that there is not, as ``responsefinal``."""
    tried = hidden = 0
    for pieces in mutate(REPLIES[name]):
        events = read(pieces)
        text = seen(events)
        nowhere = any(isinstance(event, Incident) and event.code == "channel-hidden" for event in events)
        assert "SECRET" not in text, pieces
        assert ANSWER in text or nowhere, pieces
        tried, hidden = tried + 1, hidden + nowhere
    assert tried > 5
    assert hidden <= tried / 8


def test_what_was_inferred_is_reported() -> None:
    def inferred(*pieces: Piece) -> list[str]:
        events = read(pieces)
        found = [event for event in events if isinstance(event, Incident) and event.code.startswith("channel-")]
        assert [event.code for event in found][::2] == ["channel-undecided"] * (len(found) // 2)
        return [event.text for event in found if event.code == "channel-inferred"]

    assert inferred(*REPLIES["thought"]) == []
    assert inferred(MESSAGE, ANSWER, RETURN) == ["final"]
    assert inferred(MESSAGE, THOUGHT, END, START, "assistant", *REPLIES["answer"]) == ["analysis"]


NO_CHANNELS = [
    *(
        "thinking",
        "thought",
        "reasoning",
        "internal",
        "reflection",
        "scratchpad",
        "notes",
        "reply",
        "x",
        "1",
        "思考",
        "мысли",
    ),
    *("analysys", "analisis-2", "comentary", "fnal", "RESPONSE", "answers", "analysisfinal"),
]
OPENCHATML = openchatml(CONTROLS)


@pytest.mark.spec("HAR-15", "HAR-67", "OCM-144")
@pytest.mark.parametrize("format", [HARMONY, OPENCHATML], ids=["harmony", "openchatml"])
@pytest.mark.parametrize("channel", NO_CHANNELS)
def test_text_on_a_channel_that_there_is_not_is_reasoning_however_the_reply_ends(channel: str, format: Format) -> None:
    head: list[Piece] = [CHANNEL, channel, MESSAGE, THOUGHT]
    for end in ([RETURN], [END], [CALL], [], [END, START, "assistant", *head, RETURN]):
        parser = format.parser()
        events = with_channels([*parser.feed([*head, *end]), *parser.close()], format)
        messages = [event.message for event in events if isinstance(event, MessageEnded)]
        assert {message.channel for message in messages} == {"analysis"}
        assert {message.text for message in messages} == {THOUGHT}
        hidden = [event for event in events if isinstance(event, Incident) and event.code == "channel-hidden"]
        assert len(hidden) == len(messages)


@pytest.mark.parametrize("format", [HARMONY, OPENCHATML], ids=["harmony", "openchatml"])
@pytest.mark.parametrize("channel", ["response", "answer", "output", "??", "-", ""])
def test_a_word_for_the_answer_in_place_of_a_channel_is_the_answer_where_there_is_no_other(
    channel: str, format: Format
) -> None:
    named: list[Piece] = [CHANNEL, *([channel] if channel else []), MESSAGE, ANSWER]
    other: list[Piece] = [END, START, "assistant", CHANNEL, "final", MESSAGE, PREAMBLE, RETURN]
    for more, shown in (([RETURN], ANSWER), ([END], ANSWER), ([], ANSWER), (other, PREAMBLE)):
        parser = format.parser()
        text = seen(with_channels([*parser.feed([*named, *more]), *parser.close()], format))
        missing_is_final = format is OPENCHATML and not channel
        assert text == (f"{ANSWER}\n\n{PREAMBLE}" if missing_is_final and more is other else shown)
