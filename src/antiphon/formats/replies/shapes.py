"""The shapes of replies by which a description is proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .description import ReplyDescription
from .probe import IDS, NAMES, Call, Json, Reply, tool

_REASON = "zqreason first.\n\nIt is 3 < 5 & so on."
_TEXT = "zqanswer **then** `x`.\n\n- one\n- two"
_PLAIN = {"zqka": "zqva b", "zqkb": "zqvb"}
_NESTED: Json = {
    "zqka": {"zqin": ["zqva", 1, 2.5, True, {"zqdeep": "x"}], "zqother": {"zqleaf": "y"}},
    "zqkb": [1, 2, 3],
    "zqkc": [{"zqin": "a"}, {"zqin": "b"}],
}
_KINDS: Json = {"zqka": "zqva", "zqkb": 417, "zqkc": 2.5, "zqkd": True, "zqke": False, "zqkf": "zqvf"}
_NUMBERS = {"zqka": "02134", "zqkb": "true", "zqkc": "null", "zqkd": "3.0", "zqke": "[1]"}
_EMPTY: Json = {"zqka": "", "zqkb": {}, "zqkc": []}
_CODE = {"zqka": "def f(x):\n    return {'a': \"b\"}\n", "zqkb": "if a < b && c > d:\n\tpass"}
_EDGES = {"zqka": "  zqva  ", "zqkb": "\nzqvb\n"}
_UNICODE = {"zqka": "Zürich 東京 🙂 é", "zqkb": "\u2028zq"}


class Shape(msgspec.Struct, frozen=True):
    """``needed``: words that the template must write, or it cannot say the shape."""

    name: str
    reply: Reply
    needed: tuple[str, ...]


def shapes_of(description: ReplyDescription) -> Iterator[Shape]:
    """Every shape that counts for a model with these replies."""
    yield Shape("answer", Reply(text=_TEXT), ("zqanswer",))
    yield Shape("reasoning_answer", Reply(reasoning=_REASON, text=_TEXT), ("zqreason", "zqanswer"))
    if not description.calls:
        yield Shape("call", Reply(calls=_calls(_PLAIN)), (NAMES[0], "zqva"))
        return
    yield from _call_shapes()
    yield from _argument_shapes()
    if closing := _closing(description):
        spelled = {"zqka": f"zqva {closing} and on", "zqkb": closing}
        yield Shape("spelled_close", Reply(calls=_calls(spelled)), (NAMES[0], "zqva"))


def _call_shapes() -> Iterator[Shape]:
    two = _calls(_PLAIN, {"zqka": "zqvc"})
    yield Shape("call", Reply(calls=_calls(_PLAIN)), (NAMES[0], "zqva"))
    yield Shape("one_argument", Reply(calls=_calls({"zqka": "zqva b"})), (NAMES[0], "zqva"))
    yield Shape("text_call", Reply(text=_TEXT, calls=_calls(_PLAIN)), ("zqanswer", NAMES[0], "zqva"))
    yield Shape("two_calls", Reply(calls=two), (*NAMES[:2], "zqva", "zqvc"))
    yield Shape("reasoning_call", Reply(reasoning=_REASON, calls=_calls(_PLAIN)), ("zqreason", NAMES[0], "zqva"))
    yield Shape("reasoning_two_calls", Reply(reasoning=_REASON, calls=two), ("zqreason", *NAMES[:2], "zqvc"))
    yield Shape("no_arguments", Reply(calls=_calls({})), (NAMES[0],))


def _argument_shapes() -> Iterator[Shape]:
    samples = {
        "kinds": _KINDS,
        "nested": _NESTED,
        "empty": _EMPTY,
        "number_like": _NUMBERS,
        "code": _CODE,
        "edge_blanks": _EDGES,
        "unicode": _UNICODE,
        "null": {"zqka": None, "zqkb": "zqvb"},
        "nested_null": {"zqka": {"zqin": None, "zqleaf": [None, 1]}, "zqkb": "zqvb"},
    }
    for name, arguments in samples.items():
        yield Shape(name, Reply(calls=_calls(arguments)), (NAMES[0], *arguments))


def _closing(description: ReplyDescription) -> str:
    """What closes a call, where a string may have it: in JSON, whose strings end at their quotes."""
    form = description.calls[0]
    if form.pairs is not None:
        return ""
    section = form.section.close if form.section is not None else ""
    return (form.close or section).strip()


def _calls(*arguments: Mapping[str, Any]) -> tuple[Call, ...]:
    return tuple(Call(NAMES[i], each, IDS[i]) for i, each in enumerate(arguments))


def schema_tools(calls: Sequence[Call]) -> tuple[Json, ...]:
    """The functions that are called, with the types of their arguments."""
    merged: dict[str, Json] = {name: {} for name in NAMES}
    for call in calls:
        merged[call.name] |= {key: _schema(value) for key, value in call.arguments.items()}
    return tuple(tool(name, properties) for name, properties in merged.items())


def _schema(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {"type": "object", "properties": {key: _schema(inner) for key, inner in value.items()}}
    if isinstance(value, list):
        kinds = {str(_schema(inner)) for inner in value}
        return {"type": "array", **({"items": _schema(value[0])} if len(kinds) == 1 else {})}
    if value is None:
        return {"type": ["string", "null"]}
    kinds_of = {str: "string", bool: "boolean", int: "integer", float: "number"}
    return {"type": kinds_of[type(value)]}
