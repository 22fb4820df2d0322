"""Proves a description: what the template writes for a message is read back as that message, however it is cut."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from antiphon.conversation import Channel, Incident, Message, MessageEnded, ToolSpec
from antiphon.formats.template.user_text import ControlSpellings, MarkedText
from antiphon.tokens import Control, Piece

from .atoms import Atoms
from .compiled import CompiledDescription
from .description import NO_HABITS, Habits, Region, ReplyDescription
from .probe import IDS, NAMES, Call, Json, Probe, Reply, tool
from .reader import DescriptionParser

# The shapes of replies by which a description is proven.

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
_BACKSLASHES = {"zqka": "C:\\new 't' \\d", "zqkb": "zq\\n"}


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
    form = description.calls[0]
    closing = (form.close or (form.section.close if form.section is not None else "")).strip()
    if closing and form.pairs is None:  # in JSON a string may hold it: its strings end at their quotes
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
        "backslashes": _BACKSLASHES,
        "null": {"zqka": None, "zqkb": "zqvb"},
        "nested_null": {"zqka": {"zqin": None, "zqleaf": [None, 1]}, "zqkb": "zqvb"},
    }
    for name, arguments in samples.items():
        yield Shape(name, Reply(calls=_calls(arguments)), (NAMES[0], *arguments))


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


Cuts = Literal["sampled", "many", "every"]
_SAMPLES = 3
MOST_READ = {"many": 4_000, "every": 4_000_000}
"""Characters that one shape's reply is read for in all its cuts: a reply of 2,000 has them all, or one of 60 has."""


class Part(msgspec.Struct, frozen=True):
    """A part of a reply: ``text`` of reasoning or of an answer, or a call with its arguments as JSON."""

    kind: Literal["reasoning", "answer", "call"]
    text: str = ""
    name: str = ""
    call_id: str | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A shape that was read otherwise than it was written; ``reply`` is what the template wrote."""

    shape: str
    reply: str
    expected: tuple[Part, ...]
    read: tuple[Part, ...]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Shapes by name: read back, read otherwise, and those that the template does not write.

    ``habits``: those of what was read back.
    """

    habits: Habits = NO_HABITS
    proven: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    unwritten: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return bool(self.proven) and not self.failed

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(failure.shape for failure in self.failed)


def prove(
    description: ReplyDescription, probe: Probe, controls: Collection[Control], *, cuts: Cuts = "sampled"
) -> Proof:
    """Writes every shape with the template and reads it with the description, whole and in pieces."""
    return _Prover(description, probe, controls, cuts).proof()


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """A template's text for a shape: the prompt, and the reply behind it."""

    prompt: tuple[Piece, ...]
    reply: tuple[Piece, ...]
    expected: tuple[Part, ...]
    unclosed: bool
    """A thought that the template opens, and does not close, is before a reply without one."""


class _Prover:
    def __init__(self, description: ReplyDescription, probe: Probe, controls: Collection[Control], cuts: Cuts) -> None:
        self._description = description
        self._probe = probe
        self._spellings = ControlSpellings(controls)
        self._atoms = Atoms([control.spelling for control in controls])
        self._compiled = CompiledDescription(description, controls, ())
        self._cuts = cuts

    def proof(self) -> Proof:
        proven: list[str] = []
        unwritten: list[str] = []
        failed: list[Failure] = []
        habits = NO_HABITS
        for shape in shapes_of(self._description):
            written = self._written_for(shape)
            if written is None:
                unwritten.append(shape.name)
            elif failure := self._failure(shape, written):
                failed.append(failure)
            else:
                proven.append(shape.name)
                habits = self._habits(habits, shape, written)
        return Proof(habits=habits, proven=tuple(proven), failed=tuple(failed), unwritten=tuple(unwritten))

    def _habits(self, habits: Habits, shape: Shape, written: _Written) -> Habits:
        """The habits with what a shape shows of them."""
        close = (self._description.reasoning or Region()).close.strip()
        match shape.name:
            case "text_call":
                return replace(habits, text_beside="before" if written.expected[0].kind == "answer" else "behind")
            case "answer" if close and "".join(map(str, written.reply)).lstrip().startswith(close):
                return replace(habits, unopened=True)
            case "answer" if written.unclosed:
                return replace(habits, unclosed=True)
            case _:
                return habits

    def _written_for(self, shape: Shape) -> _Written | None:
        """Writes a shape with the template; None where it writes nothing of the shape."""
        marked = MarkedText(self._spellings, list(_texts(shape.reply)))
        calls = tuple(replace(each, arguments=_protected_value(each.arguments, marked)) for each in shape.reply.calls)
        reasoning, answer = marked.protect(shape.reply.reasoning), marked.protect(shape.reply.text)
        reply = Reply(reasoning=reasoning, text=answer, calls=self._with_ids(calls))
        tools = schema_tools(shape.reply.calls)
        for thinking in (None, True) if shape.reply.reasoning and self._probe.switches else (None,):
            for write in (self._probe.reply, self._probe.before_result):
                text = write(reply, thinking=thinking, tools=tools)
                own = bool(reply.calls) or self._description.anchor in text  # else it is no reply to a prompt
                if own and all(word in marked.plain(text) for word in shape.needed):
                    prompt = self._probe.prompt(thinking=thinking)
                    return self._split(marked, text, prompt, shape)
                if not reply.calls:
                    break
        return None

    def _with_ids(self, calls: Sequence[Call]) -> tuple[Call, ...]:
        """The calls with ids of the form that this model has, where it has one."""
        slots = self._description.calls[0].head if self._description.calls else ()
        pattern = next((slot.pattern for slot in slots if slot.pattern), "")
        if not pattern:
            return tuple(calls)
        return tuple(replace(call, call_id=pattern.format(name=call.name, index=i)) for i, call in enumerate(calls))

    def _split(self, marked: MarkedText, text: str, prompt: str, shape: Shape) -> _Written | None:
        begun, at, unclosed = self._divided(marked, text, prompt, shape)
        reply = self._of_one_message(text[at:])
        calls = self._with_ids(shape.reply.calls)
        expected = _expected(replace(shape.reply, calls=calls), marked.plain(reply))
        if not expected:
            return None
        pieces = tuple(marked.pieces(reply))
        return _Written(prompt=tuple(marked.pieces(begun)), reply=pieces, expected=expected, unclosed=unclosed)

    def _divided(self, marked: MarkedText, text: str, prompt: str, shape: Shape) -> tuple[str, int, bool]:
        """The prompt, where the reply to it begins in what the template wrote, and whether a thought is open there.

        Where the prompt opens reasoning, the history may leave that opening out; and a prompt that opens it is none for
        a reply that the template writes without any.
        """
        anchor = self._description.anchor
        anchored = text.find(anchor) + len(anchor) if anchor in text else 0
        reasoning = self._description.reasoning or Region()
        opened = bool(reasoning.open.strip()) and prompt.rstrip().endswith(reasoning.open.strip())
        if opened and marked.plain(text[anchored:]).lstrip().startswith(shape.reply.reasoning[:8] or "\0"):
            return prompt, anchored, False
        if not prompt or not text.startswith(prompt):
            return text[:anchored], anchored, False
        unclosed = opened and not shape.reply.reasoning and reasoning.close.strip() not in text
        return text[: anchored if unclosed else len(prompt)], len(prompt), unclosed

    def _of_one_message(self, text: str) -> str:
        """The reply without messages behind it: a template may write one as two, or add a prompt unbidden."""
        description = self._description
        anchor = description.anchor.strip()
        header = next(iter(self._atoms.tags(anchor)), anchor)
        if not header or not anchor.startswith(header) or any(header in literal for literal in description.literals):
            return text
        return text.partition(header)[0] if header not in description.ends else text

    def _failure(self, shape: Shape, written: _Written) -> Failure | None:
        tools = [
            ToolSpec(t["function"]["name"], "", t["function"]["parameters"]) for t in schema_tools(shape.reply.calls)
        ]
        expected = _compared(written.expected, written.expected)
        for pieces in pieces_of(written.reply, self._cuts):
            read = _read(DescriptionParser(self._compiled, prompt=written.prompt, tools=tools), pieces)
            if _compared(read, written.expected) != expected:
                reply = "".join(map(str, written.reply))
                return Failure(shape=shape.name, reply=reply, expected=written.expected, read=tuple(read))
        return None


def _texts(reply: Reply) -> Iterator[str]:
    yield reply.reasoning
    yield reply.text
    for call in reply.calls:
        yield json.dumps(dict(call.arguments), ensure_ascii=False)


def _protected_value(value: Any, marked: MarkedText) -> Any:
    if isinstance(value, str):
        return marked.protect(value)
    if isinstance(value, Mapping):
        return {key: _protected_value(inner, marked) for key, inner in value.items()}
    return [_protected_value(inner, marked) for inner in value] if isinstance(value, list) else value


def _expected(reply: Reply, text: str) -> tuple[Part, ...]:
    """The parts of the message that the template wrote, in its order."""
    found: list[tuple[int, Part]] = []
    for kind, written in (("reasoning", reply.reasoning), ("answer", reply.text)):
        first = written.strip().split("\n")[0]
        if first and first in text:
            found.append((text.find(first), Part("reasoning" if kind == "reasoning" else "answer", written)))
    at = 0
    for call in reply.calls:
        at = max(text.find(call.name, at), 0)
        if call.name in text:
            call_id = call.call_id if call.call_id in text else None
            arguments = json.dumps(dict(call.arguments), sort_keys=True, ensure_ascii=False)
            found.append((at, Part("call", arguments, call.name, call_id)))
            at += len(call.name)
    return tuple(part for _, part in sorted(found, key=lambda each: each[0]))


def pieces_of(reply: Sequence[Piece], cuts: Cuts) -> Iterator[list[Sequence[Piece]]]:
    """The reply whole, by the character, and in two parts."""
    yield [reply]
    if cuts != "sampled":
        yield [[atom] for piece in reply for atom in ([piece] if isinstance(piece, Control) else piece)]
    size = sum(1 if isinstance(piece, Control) else len(piece) for piece in reply)
    step = max(1, size // _SAMPLES if cuts == "sampled" else -(-(size**2) // MOST_READ[cuts]))
    for at in range(step if cuts == "sampled" else 1, size, step):
        yield list(_halves(reply, at))


def _halves(reply: Sequence[Piece], at: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
    """The reply before and behind its first ``at`` characters and controls."""
    for number, piece in enumerate(reply):
        size = 1 if isinstance(piece, Control) else len(piece)
        if at < size and isinstance(piece, str):
            return [*reply[:number], piece[:at]], [piece[at:], *reply[number + 1 :]]
        if at <= size:
            return reply[: number + 1], reply[number + 1 :]
        at -= size
    return reply, ()


def _read(reader: DescriptionParser, pieces: Sequence[Sequence[Piece]]) -> list[Part]:
    events = []
    for batch in pieces:
        events += reader.feed(batch)
        if reader.ended is not None:
            break
    events += reader.close()
    parts: list[Part] = []
    for event in events:
        match event:
            case MessageEnded(message):
                parts.append(_part(message))
            case Incident("malformed_call", _, text):
                parts.append(Part("answer", text))  # What a template writes is no text to be set aside.
    return parts


def _part(message: Message) -> Part:
    if not message.recipient:
        return Part("reasoning" if message.channel == Channel.ANALYSIS else "answer", message.text)
    try:
        text = json.dumps(json.loads(message.text), sort_keys=True, ensure_ascii=False)
    except ValueError:
        text = message.text
    return Part("call", text, message.recipient.removeprefix("functions."), message.call_id)


def _compared(parts: Sequence[Part], expected: Sequence[Part]) -> list[Part]:
    """Parts without what does not count: blanks round texts, empty texts, ids that the template did not write."""
    found = [replace(part, text=part.text.strip()) for part in parts]
    found = [part for part in found if part.text or part.kind == "call"]
    if any(part.kind == "call" and part.call_id for part in expected):
        return found
    return [replace(part, call_id=None) for part in found]
