"""The golden files of the reference's own tests."""

from __future__ import annotations

import pytest

from antiphon.conversation import Role
from antiphon.formats.harmony import Dialect, Harmony, HarmonyParser
from antiphon.formats.harmony.controls import END, START
from antiphon.tokens import Tokenizer, encode_pieces
from kit.harmony_corpora import DIALECTS, ended, events, read_strictly, render, repeated, role_of, rows

UNENDED = {"test_tool_response_parsing.txt"}
"""Goldens whose last message lacks its end; they are read as such, too."""


@pytest.mark.corpus
@pytest.mark.spec("HAR-21", "HAR-57", "HAR-58", "HAR-69", "HAR-102", "HAR-105")
def test_the_goldens_of_the_reference_hold(o200k: Tokenizer) -> None:
    for row in rows("goldens/goldens"):
        match row["op"]:
            case "parse_messages_from_completion_tokens" | "stream":
                assert read_strictly(row, o200k, "a") == row["messages"], row["file"]
                parsed = events(HarmonyParser(None if row["op"] == "stream" else role_of(row)), row["tokens"], o200k)
                assert [m.text for m in ended(parsed)][-1] == row["messages"][-1]["content"], row["file"]
            case _:
                ids = encode_pieces(render(Harmony(), row), o200k)
                whole = [*row["tokens"], o200k.controls[END]] if row["file"] in UNENDED else row["tokens"]
                assert ids == whole, row["file"]
                if row["file"] in UNENDED:
                    (message,) = ended(events(HarmonyParser(None), row["tokens"], o200k))
                    assert (message.role, message.name) == (Role.TOOL, "browser.search")


@pytest.mark.corpus
@pytest.mark.spec("HAR-25", "HAR-90")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_goldens_that_are_read_are_written_as_they_were(dialect: Dialect, o200k: Tokenizer) -> None:
    harmony, start = Harmony(dialect=dialect), o200k.controls[START]
    for row in rows("goldens/goldens"):
        reply, open_reply = row["op"].startswith(("parse", "stream")), row["op"].endswith("for_completion")
        opening = [start, *o200k.encode("assistant")]
        whole = [*opening, *row["tokens"]] if reply else row["tokens"]
        read = events(HarmonyParser(None), whole[: -len(opening)] if open_reply else whole, o200k)
        assert repeated(harmony, ended(read), o200k) + (opening if open_reply else []) == whole, row["file"]
