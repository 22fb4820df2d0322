"""The vectors of the reference, and how each row is rendered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from antiphon.conversation import Role
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import Harmony, read_conversation
from antiphon.tokens import Piece
from conftest import corpus_file

Row = dict[str, Any]
DIALECTS = {"a": "", "b": "_oss"}


def rows(name: str) -> Iterator[Row]:
    """The rows of one file of the corpora. Skips the test when the file is not here."""
    with corpus_file(f"harmony/{name}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def render(harmony: Harmony, row: Row) -> Iterator[Piece]:
    """What a row asks for."""
    conversation = read_conversation(row["conversation"])
    options = row["options"]
    history = HistoryPolicy.REFERENCE if options.get("auto_drop_analysis") else HistoryPolicy.KEEP_ALL
    match row["op"]:
        case "render_conversation_for_completion":
            return harmony.render(conversation, reply_as=Role(options["next_turn_role"]), history=history)
        case "render_conversation":
            return harmony.render(conversation, reply_as=None, history=history)
        case "render_conversation_for_training":
            return harmony.render_for_training(conversation, history=history)
        case other:
            raise AssertionError(f"unknown op {other}")
