"""A call of what may not be called is text, marks and all, in every family and at every cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from antiphon.conversation import Incident, Message, MessageEnded, ParserEvent
from antiphon.formats.replies import DescriptionParser
from antiphon.tokens import Control, ControlScanner, Piece
from kit.reply_fragments import ANCHOR, DESCRIPTIONS, END, TOOL, compiled, controls, tags
from kit.reply_writer import Markup
from kit.reply_writer import reply as written

CALLING = [name for name, description in DESCRIPTIONS.items() if description.calls]


def reply(name: str, *calls: str, owned: int) -> list[Piece]:
    arguments = {"a": "word000", "b": 3}
    parts = written(DESCRIPTIONS[name], calls=[(called, arguments) for called in calls])
    text = "".join(part.text if isinstance(part, Markup) else part for part in parts)
    scanner = ControlScanner(controls(name, owned))
    return [*scanner.feed(text), *scanner.close()]


def read(
    name: str, pieces: Sequence[Piece], calls: Collection[str] | None, *, owned: int, cut: bool = False
) -> list[ParserEvent]:
    parser = DescriptionParser(compiled(name, owned), prompt=[ANCHOR], tools=[TOOL], calls=calls)
    parts = [part for piece in pieces for part in ([piece] if isinstance(piece, Control) or not cut else piece)]
    return [*(event for part in parts for event in parser.feed([part])), *parser.close()]


def messages(events: Sequence[ParserEvent]) -> list[Message]:
    return [event.message for event in events if isinstance(event, MessageEnded)]


def solid(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("own", [False, True], ids=["spelled", "controls"])
@pytest.mark.parametrize("name", CALLING)
def test_a_call_where_none_may_be_is_the_text_that_it_was(name: str, own: bool) -> None:
    owned = 2 ** len(tags(name)) - 1 if own else 0
    pieces = reply(name, "f", owned=owned)
    events = read(name, pieces, (), owned=owned)
    assert not any(message.is_call for message in messages(events))
    assert "call_not_allowed" in [event.code for event in events if isinstance(event, Incident)]
    whole = solid("".join(str(piece) for piece in pieces)).removesuffix(END)
    ends = [solid(end) for end in DESCRIPTIONS[name].ends]
    said = solid("".join(message.text for message in messages(events)))
    assert said in {whole, *(whole.removesuffix(end) for end in ends)}
    assert messages(read(name, pieces, (), owned=owned, cut=True)) == messages(events)


@pytest.mark.parametrize("name", [name for name in CALLING if not DESCRIPTIONS[name].calls[0].bare])
def test_of_two_calls_the_one_that_is_allowed_is_a_call_and_the_other_is_text(name: str) -> None:
    for order in (("f", "zzz"), ("zzz", "f")):
        pieces = reply(name, *order, owned=0)
        said = messages(read(name, pieces, {"functions.f"}, owned=0))
        assert [message.recipient for message in said if message.is_call] in ([], ["functions.f"])
        text = "".join(message.text for message in said if not message.is_call)
        assert "zzz" in text
        assert messages(read(name, pieces, {"functions.f"}, owned=0, cut=True)) == said
        if order[0] == "f":
            assert any(message.is_call for message in said)


@pytest.mark.parametrize("called", ["", "7up", "a b", "é", "n" * 129], ids=lambda called: called[:3])
@pytest.mark.parametrize("name", CALLING)
def test_a_call_of_a_name_that_no_tool_can_have_is_text(name: str, called: str) -> None:
    said = messages(read(name, reply(name, called, owned=0), None, owned=0))
    assert called in "".join(message.text for message in said)
    assert not any(message.is_call for message in said)
