"""Strategies of replies: whole messages, calls and thoughts, and marks where none belongs."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import strategies as st

from antiphon.tokens import Piece
from kit import api, responses
from kit.api import CALL, THINK, UNCALL, UNTHINK
from kit.responses import CHANNEL, END, MESSAGE, RETURN, START, harmony_ids

Parts = st.SearchStrategy[tuple[Piece, ...]]
TEXTS = st.text(alphabet=st.sampled_from('ab \n{}"é漢🜂<|>/'), min_size=1, max_size=12)
ARGUMENTS = st.dictionaries(st.sampled_from("xyz"), TEXTS, max_size=2).map(
    lambda given: json.dumps(given, separators=(",", ":"), ensure_ascii=False)
)
CUTS = st.tuples(st.integers(1, 7), st.integers(1, 7))
STOPS = st.one_of(st.none(), st.lists(st.text(alphabet="ab é", min_size=1, max_size=3), max_size=3))
LOOKING: Parts = ARGUMENTS.map(lambda arguments: api.call("look", arguments))
MARKS: Parts = st.sampled_from([(THINK,), (UNTHINK,), (CALL,), (UNCALL,), (CALL, "{"), ("<tool_call>",)])


def calls_of(name: str, argument: str) -> Parts:
    return TEXTS.map(lambda text: api.call(name, json.dumps({argument: text})))


def chatml(*calls: Parts, most: int = 5) -> st.SearchStrategy[list[int]]:
    """The ids of a reply in ChatML of texts, thoughts and ``calls``."""
    parts = st.one_of(TEXTS.map(lambda text: (text,)), TEXTS.map(lambda text: (THINK, text, UNTHINK)), *calls)
    return _joined(parts, most, lambda *pieces: api.ids(*pieces, api.END))


def harmony(*calls: Parts) -> st.SearchStrategy[list[int]]:
    """The ids of a reply in Harmony of messages, ``calls`` and single controls."""
    parts: Parts = st.one_of(
        TEXTS.map(lambda text: (CHANNEL, "analysis", MESSAGE, text, END, START, "assistant")),
        TEXTS.map(lambda text: (CHANNEL, "commentary", MESSAGE, text, END, START, "assistant")),
        TEXTS.map(lambda text: (CHANNEL, "final", MESSAGE, text, RETURN)),
        *calls,
        st.sampled_from([(START,), (CHANNEL,), (MESSAGE,), (END,), (responses.CALL,), ("assistant",)]),
    )
    return _joined(parts, 5, harmony_ids)


def _joined(parts: Parts, most: int, ids: Callable[..., list[int]]) -> st.SearchStrategy[list[int]]:
    return st.lists(parts, max_size=most).map(lambda several: ids(*(piece for part in several for piece in part)))
