"""Replies as they come apart: a family's marks, halves of them, JSON, words, whole calls with parts left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import count

from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.conversation import ToolSpec
from antiphon.formats.replies import CompiledDescription, Pairs, ReplyDescription
from antiphon.formats.replies.describe import completed, family_named
from antiphon.tokens import Control, ControlScanner, Piece
from kit.reply_families import FAMILIES
from kit.reply_writer import Markup, reply

ANCHOR = "A:"
END = "<END>"
TOOL = ToolSpec(
    "f",
    parameters={
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"type": "object", "properties": {"a": {"type": "string"}}},
            "d": {"type": ["string", "null"]},
            "e": {"type": "array", "items": {"type": "string"}},
        },
    },
)
WORD = "%"
"""Stands in a fragment for a word that no other fragment has."""
_TAG = re.compile(r"<[^<>{}\s]+>|\[/?[A-Z_]+\]|\]<\]\w+\[>\[")
_JSON = (
    *('{"name": "f", "arguments": {"a": "%"}}', '{"a": "%"}', '{"name": "f", ', '"name": "f"', '"arguments": '),
    *('"id": "%"', '"%"', "{'a': '%', 'b': [1, None]}", "f(a='%')", "a=", "```json", "```", "null", "True", "</"),
    *"\"{}[],:=()'\\\n fab%3é<>\ud800\u2028",
)


def _rows() -> dict[str, ReplyDescription]:
    rows = json.loads(files("antiphon.formats.replies").joinpath("families.json").read_text("utf-8"))
    names = [row["name"] for row in rows]
    return {f"table: {name}": completed(ReplyDescription(), family_named(name)) for name in names}


DESCRIPTIONS: Mapping[str, ReplyDescription] = {
    name: replace(description, anchor=ANCHOR, ends=(*description.ends, END))
    for name, description in {**_rows(), **{name: family.description for name, family in FAMILIES.items()}}.items()
}


@cache
def tags(name: str) -> tuple[str, ...]:
    """What may be single tokens of a vocabulary for this family."""
    return tuple(sorted({tag for text in DESCRIPTIONS[name].literals for tag in _TAG.findall(text)}))


@cache
def compiled(name: str, owned: int) -> CompiledDescription:
    """``owned``: which of the family's tags are controls, a bit for each; the end is one."""
    return CompiledDescription(DESCRIPTIONS[name], controls(name, owned), ())


def controls(name: str, owned: int) -> list[Control]:
    return [Control(END), *(Control(tag) for i, tag in enumerate(tags(name)) if owned >> i & 1)]


def replies(name: str, owned: int) -> st.SearchStrategy[list[Piece]]:
    """Replies of up to 16 fragments; what spells a control is that, or now and then text."""
    fragment = st.one_of(st.sampled_from(_fragments(name)), st.sampled_from(_JSON))
    broken = st.tuples(st.just(tuple(_written(DESCRIPTIONS[name]))), st.integers(0, 8), st.integers(0, 12)).map(
        lambda cut: "".join((*cut[0][: cut[1]], *cut[0][cut[1] + 1 : cut[1] + cut[2]]))
    )
    texts = st.lists(st.one_of(fragment, fragment, broken), max_size=16)
    return st.tuples(texts, st.integers(0, 2**16 - 1)).map(lambda drawn: _pieces(drawn[0], drawn[1], name, owned))


def _pieces(texts: Sequence[str], as_text: int, name: str, owned: int) -> list[Piece]:
    """Pieces, texts joined; each fourth fragment or so, by two bits of ``as_text``, has no controls."""
    numbers = count()
    pieces: list[Piece] = []
    for i, text in enumerate(texts):
        named = re.sub(WORD, lambda _: f"word{next(numbers):03}", text)
        scanner = ControlScanner([] if as_text >> i % 8 * 2 & 3 == 3 else controls(name, owned))
        for piece in (*scanner.feed(named), *scanner.close()):
            if pieces and not isinstance(piece, Control) and not isinstance(pieces[-1], Control):
                pieces[-1] = pieces[-1] + piece
            elif piece:
                pieces.append(piece)
    return pieces


@cache
def _fragments(name: str) -> tuple[str, ...]:
    """The description's literals, whole and in halves, its pairs, and whole calls of every form."""
    literals = sorted(DESCRIPTIONS[name].literals | {END, ANCHOR})
    halves = [half for text in literals for half in (text.strip(), text[: len(text) // 2], text[len(text) // 2 :])]
    forms = DESCRIPTIONS[name].calls
    calls = ["".join(_written(replace(DESCRIPTIONS[name], calls=(form,)))) for form in forms]
    pairs = [text for form in forms if form.pairs is not None for text in _pairs(form.pairs)]
    return tuple(filter(None, (*literals, *halves, *tags(name), *calls, *pairs)))


def _pairs(pairs: Pairs) -> Iterator[str]:
    """Members with values of their type and of another, closed and not."""
    written = [("a", WORD), ("b", "3"), ("c", '{"a": "%"}'), ("c", _member(pairs, "a", WORD)), ("z", "%\n")]
    for value in pairs.values:
        for key, text in written:
            yield _member(pairs, key, text)
            yield f"{pairs.key}{key}{value.before}{pairs.quote}{text}"


def _member(pairs: Pairs, key: str, text: str) -> str:
    value = pairs.values[0]
    return f"{pairs.key}{key}{value.before}{text}{value.after.replace('{key}', key)}"


def _written(description: ReplyDescription) -> Iterator[str]:
    """A reply with reasoning, an answer and two calls, in parts."""
    arguments = {"a": WORD, "b": 3, "c": {"a": WORD}, "d": None, "e": [WORD, WORD]}
    calls = [("f", arguments), ("f", {})] if description.calls else []
    content = None if calls and description.calls[0].bare else WORD
    for part in reply(description, reasoning=WORD, content=content, calls=calls):
        yield part.text if isinstance(part, Markup) else part
