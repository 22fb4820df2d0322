"""Whatever a model writes of its family's marks: read without a fault, alike at every cut, and nothing of it lost."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import Incident, Message, MessageEnded, ParserEvent
from antiphon.errors import ParseError
from antiphon.formats.offered_calls import is_object
from antiphon.formats.replies import DescriptionParser
from antiphon.tokens import Control, ControlScanner, Piece
from kit.reply_fragments import ANCHOR, DESCRIPTIONS, TOOL, compiled, controls, replies, tags
from kit.reply_writer import Markup
from kit.reply_writer import reply as written

WORD = re.compile(r"word\d{3}")


@pytest.mark.parametrize("name", DESCRIPTIONS)
@settings(max_examples=6)
@given(data=st.data())
def test_a_reply_is_read_alike_at_every_cut_and_nothing_is_lost(name: str, data: st.DataObject) -> None:
    owned = data.draw(st.sampled_from([0, 2 ** len(tags(name)) - 1]) | st.integers(0, 2 ** len(tags(name)) - 1))
    reply = data.draw(replies(name, owned))
    prompt = [ANCHOR, *reply[: data.draw(st.sampled_from([0, 0, 0, 1]))]]
    whole, ended = read(name, owned, prompt, reply)
    assert messages(whole), "no message"
    lost = words("".join(map(str, reply))) - words(shown(whole))
    assert not lost, (lost, whole)
    for cut in (by_character(reply), halved(reply, data.draw(st.integers(1, 40)))):
        other, other_ended = read(name, owned, prompt, cut)
        assert messages(other) == messages(whole)
        assert other_ended == ended
        assert words(shown(other)) == words(shown(whole))
    try:
        read(name, owned, prompt, reply, strict=True)
    except ParseError:
        pass
    else:
        assert not any(isinstance(event, Incident) for event in whole)


CALLING = {name: description.calls[0] for name, description in DESCRIPTIONS.items() if description.calls}
QUOTING = {name: form.pairs.quote or '"' for name, form in CALLING.items() if form.pairs is not None}

CLOSED = {
    name: form.pairs.values[0].after for name, form in CALLING.items() if form.pairs and form.pairs.values[0].after
}


def spread(size: int) -> range:
    """Where a text of so many characters is cut: some twenty places."""
    return range(1, size, max(1, size // 20))


@pytest.mark.parametrize(("name", "quote"), [*dict.fromkeys(CALLING, "").items(), *QUOTING.items()])
def test_a_call_that_breaks_off_anywhere_is_read_alike_in_one_piece_and_by_character(name: str, quote: str) -> None:
    """``quote``: of the key too, which some models do and their templates do not."""
    text = spelled(written(DESCRIPTIONS[name], calls=[("f", {"a": "word000", "b": 1}), ("f", {})]))
    text = text.replace("a:", f"{quote}a{quote}:")
    for end in spread(len(text)):
        whole, ended = read(name, 0, [ANCHOR], [text[:end]])
        other, other_ended = read(name, 0, [ANCHOR], list(text[:end]))
        assert (messages(other), other_ended) == (messages(whole), ended), text[:end]


@pytest.mark.parametrize("name", CALLING)
@pytest.mark.parametrize("owned", [False, True])
def test_the_arguments_of_a_call_that_a_limit_cut_are_a_beginning_of_all_of_them(name: str, owned: bool) -> None:
    arguments = {"a": "x 'y' é\n", "b": -417, "c": {"a": 'q "r', "z": [1.5e3, True, {}]}, "d": None, "e": ["u v", "w"]}
    own = 2 ** len(tags(name)) - 1 if owned else 0
    scanner = ControlScanner(controls(name, own))
    text = spelled(written(DESCRIPTIONS[name], calls=[("f", arguments)]))
    reply = by_character([*scanner.feed(text), *scanner.close()])
    whole = call_of(name, own, reply)
    assert is_object(whole)
    for end in spread(len(reply)):
        begun = call_of(name, own, reply[:end])
        assert whole.startswith(begun), reply[:end][-20:]


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("name", CLOSED)
def test_a_limit_behind_a_calls_close_leaves_it_whole_where_that_of_its_last_argument_lacks(
    name: str, owned: bool
) -> None:
    own = 2 ** len(tags(name)) - 1 if owned else 0
    text = spelled(written(DESCRIPTIONS[name], calls=[("f", {"a": "one"})]))
    scanner = ControlScanner(controls(name, own))
    reply = by_character([*scanner.feed(text.replace(f"one{CLOSED[name]}", "one")), *scanner.close()])
    assert json.loads(call_of(name, own, reply)) == {"a": "one"}


def call_of(name: str, owned: int, reply: Sequence[Piece]) -> str:
    """The arguments of the one call of a reply that a limit cut; empty before it begins."""
    reader = DescriptionParser(compiled(name, owned), prompt=[ANCHOR], tools=[TOOL])
    events = [*reader.feed(reply), *reader.cut()]
    return "".join(message.text for message in messages(events) if message.is_call)


@pytest.mark.parametrize("text", ["word ", "é", '"', "\\", "'", "<", "\n", ", ", "{"])
@pytest.mark.parametrize("name", ["hermes", "xml-parameter", "gemma4", "pythonic", "invoke, nested", "typed", "solar"])
def test_twice_the_reply_takes_twice_the_steps(name: str, text: str) -> None:
    opened = begun_call(name)
    steps = [counted(name, [opened, *text * size]) for size in (400, 800)]
    assert steps[1] < 2.2 * steps[0]


def begun_call(name: str) -> str:
    """A reply up to the middle of a call's first argument."""
    calls = [("f", {"a": "word000"})]
    text = spelled(written(DESCRIPTIONS[name], calls=calls))
    return text[: text.index("word000")]


def spelled(parts: Sequence[str | Markup]) -> str:
    return "".join(part.text if isinstance(part, Markup) else part for part in parts)


def counted(name: str, reply: Sequence[Piece]) -> int:
    """How many functions are called to read a reply."""
    steps = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        read(name, 0, [ANCHOR], reply)
    finally:
        sys.setprofile(before)
    return steps


def read(
    name: str, owned: int, prompt: Sequence[Piece], reply: Sequence[Piece], *, strict: bool = False
) -> tuple[list[ParserEvent], str | None]:
    reader = DescriptionParser(compiled(name, owned), prompt=prompt, tools=[TOOL], strict=strict)
    events = [event for piece in reply for event in reader.feed([piece])]
    return [*events, *reader.close()], reader.ended


def messages(events: Sequence[ParserEvent]) -> list[Message]:
    return [event.message for event in events if isinstance(event, MessageEnded)]


def shown(events: Sequence[ParserEvent]) -> str:
    """All that is said of a reply, in messages and in incidents."""
    parts = [f"{message.recipient} {message.call_id} {message.text}" for message in messages(events)]
    return "\n".join((*parts, "".join(event.text for event in events if isinstance(event, Incident))))


def words(text: str) -> set[str]:
    return set(WORD.findall(text))


def by_character(reply: Sequence[Piece]) -> list[Piece]:
    return [part for piece in reply for part in ([piece] if isinstance(piece, Control) else piece)]


def halved(reply: Sequence[Piece], at: int) -> list[Piece]:
    """Each text in two, behind so many of its characters, counted round its end."""
    parts: list[Piece] = []
    for piece in reply:
        if isinstance(piece, Control):
            parts.append(piece)
        else:
            place = at % len(piece)
            parts += [part for part in (piece[:place], piece[place:]) if part]
    return parts


@pytest.mark.parametrize("value", ['3c:<|"|>a:3', 'x"y"x', '3 "3', '"c" 3"', "7'a'7"])
@pytest.mark.parametrize("owned", [False, True])
def test_a_value_that_does_not_begin_with_a_quote_is_no_string_wherever_it_is_cut(value: str, owned: bool) -> None:
    marks = [Control(tag) if owned else tag for tag in ("<|tool_call>", '<|"|>', "<channel|>")]
    head, tail = [marks[0], "call:f{a:", marks[1], "w", marks[1]], ["\n", marks[2]]
    own = 2 ** len(tags("table: Gemma 4")) - 1 if owned else 0
    whole = messages(read("table: Gemma 4", own, [ANCHOR], [*head, f",b:{value}", *tail])[0])
    for at in range(len(value) + 4):
        text = f",b:{value}"
        for cut in ([text[:at], text[at:]], [*text[:at], text[at:]], [text[:at], *text[at:]]):
            pieces = [*head, *filter(None, cut), *tail]
            assert messages(read("table: Gemma 4", own, [ANCHOR], pieces)[0]) == whole
