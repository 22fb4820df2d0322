"""A format of an installed package renders and parses. Run by `test_plugins`, where that is installed."""

from __future__ import annotations

import pytest

from antiphon.catalog import open_catalog
from antiphon.config import Config, ModelEntry
from antiphon.conversation import Conversation, Message, MessageEnded, ParserEvent, Role
from antiphon.engines import Scripted
from antiphon.formats import Format
from antiphon.tokens import Control, Piece, spell

REPLY: list[Piece] = ["Bonjour, mon ami.", Control("<|im_end|>")]
ASK = Conversation((Message(role=Role.USER, text="Hi!"),))


@pytest.fixture
async def format() -> Format:
    config = Config(model="actor", models={"actor": ModelEntry(engine=Scripted(), format="screenplay")})
    return (await open_catalog(config).get("actor")).format


async def test_a_conversation_is_written_in_it(format: Format) -> None:
    assert spell(list(format.render(ASK))) == "USER: Hi!<|im_end|>\nASSISTANT: "


def messages(events: list[ParserEvent]) -> list[Message]:
    return [event.message for event in events if isinstance(event, MessageEnded)]


@pytest.mark.parametrize("cut", range(len("Bonjour, mon ami.") + 1))
async def test_cutting_the_reply_anywhere_gives_the_same_message(format: Format, cut: int) -> None:
    text = str(REPLY[0])
    parser = format.parser()
    events = [*parser.feed([text[:cut]]), *parser.feed([text[cut:], REPLY[1]]), *parser.close()]
    whole = format.parser()
    assert messages(events) == messages([*whole.feed(REPLY), *whole.close()])
    assert [message.text for message in messages(events)] == ["Bonjour, mon ami."]
