"""What was read before is read by a look-up: it changes no event, and the tables of it have a bound."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from antiphon.conversation import ParserEvent, TextDelta
from antiphon.formats.replies import DescriptionParser
from antiphon.formats.replies.compiled import CompiledDescription
from antiphon.formats.replies.source import PlainTexts
from antiphon.tokens import Control, Piece, SampledText
from kit.reply_fragments import ANCHOR, DESCRIPTIONS, TOOL, controls
from kit.reply_writer import Markup
from kit.reply_writer import reply as written

TEXT = 'Is 3 < 4?\n\n  "Yes", he said: {café} [\\n] </p>\t' + "\N{GRINNING FACE}\ud83d, it is. "


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_table_that_other_replies_have_filled_changes_no_event(name: str) -> None:
    used = fresh(name)
    for seed in range(4):
        reply = some_reply(name, random.Random(seed))
        assert events(used, reply) == events(fresh(name), reply)


def test_a_table_has_so_many_short_pieces_at_most() -> None:
    table = PlainTexts({"<"}.intersection)
    for n in range(20_000):
        assert table[f"{n}"] == TextDelta(f"{n}")
        assert table["word" * 100 + f"{n}"] is not None
        assert table[f"<{n}"] is None
        assert len(table) <= 8192
    assert max(map(len, table)) <= 16


def test_a_table_has_the_text_alone() -> None:
    table = PlainTexts({"<"}.intersection)
    table[SampledText("word", (7,), "v")]
    (piece, delta), *_ = table.items()
    assert type(piece) is str
    assert delta is not None
    assert type(delta.text) is str


def fresh(name: str) -> CompiledDescription:
    """Which no reply was read by."""
    return CompiledDescription(DESCRIPTIONS[name], controls(name, 0), ())


def events(description: CompiledDescription, reply: Sequence[Piece]) -> list[list[ParserEvent]]:
    reader = DescriptionParser(description, prompt=[ANCHOR], tools=[TOOL])
    return [*(reader.feed([piece]) for piece in reply), reader.close()]


def some_reply(name: str, chance: random.Random) -> list[Piece]:
    """Words, a call with them and words, cut somehow, so that pieces recur in other places."""
    calls = [("f", {"a": TEXT.replace("\ud83d", "")})] if DESCRIPTIONS[name].calls else []
    parts = written(DESCRIPTIONS[name], content=TEXT, calls=calls)
    text = "".join(part.text if isinstance(part, Markup) else part for part in parts) + TEXT
    pieces: list[Piece] = []
    while text:
        size = chance.choice((1, 1, 2, 3, 5))
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, Control("<unknown>"), *pieces[-9:]]
