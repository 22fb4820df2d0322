"""Whether all that a template writes is admitted by the grammar of its replies, and what the grammar admits is right.

    .venv/bin/python -m bridge.grammars [--only WORD] [--draws N] [--templates FOLDER]

A template writes replies of every kind as history (thoughts, texts, one call or two, with arguments that are nested,
odd, empty or in other scripts); the grammar behind the same prompt must take each of them up to its end. And replies by
chance, token by token as the mask allows, must come to an end and be read as what was asked for.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    Message,
    MessageEnded,
    ResponseFormat,
    Role,
    Settings,
    ToolChoice,
    ToolSpec,
)
from antiphon.errors import AntiphonError, UnsupportedError
from antiphon.formats.replies.atoms import Atoms
from antiphon.formats.replies.description import NO_HABITS, Region
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.formats.template.in_harmony import writes_harmony
from antiphon.grammar import ReplyShape
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, spell
from bridge.templates import Source, jinja, names, source
from kit.masks import allowed


def _closed(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": [*required], "additionalProperties": False}


_WEATHER = _closed({"city": {"type": "string"}, "unit": {"enum": ["c", "°F"]}, "days": {"type": "integer"}}, "city")
_FILTERS = _closed({"by": {"type": "string"}, "year": {"type": ["integer", "null"]}}, "by")
_SEARCH = _closed(
    {
        "query": {"type": "string"},
        "filters": _FILTERS,
        "tags": {"type": "array", "items": {"type": "string"}},
        "limit": {"type": "number"},
        "exact": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
    },
    "query",
)
TOOLS = (
    ToolSpec("weather", "Tells it", _WEATHER),
    ToolSpec("search", "Finds it", _SEARCH),
    ToolSpec("now", "The time"),
)
TEXTS = (
    "Bern", "Zürich 東京 🙂", "", "  edges  ", 'a "b" \\ c', "def f():\n\treturn {'a': 1}\n", "<b> & 'c'", "12", "true",
    "del \x7f", '{"k": [1]}', "null", "a/b", "it's", "x: y, z",
)  # fmt: skip
SAID, THOUGHT = "Wordsaid, **it** is `so`.\n\n- one\n- 2 < 3", "Wordthought first.\n\nIt is 3 < 5 & so on."
KINDS = ("text", "call", "text call", "calls", "thought text", "thought call", "thought text call", "text calls")
SETTINGS = Settings(current_date=date(2026, 11, 21))
SWITCHES = ("enable_thinking", "thinking")
USER = "Zquser?"


@dataclass(frozen=True)
class Said:
    """A reply that a template is to write: thought and text may be empty."""

    thought: str = ""
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def words(self) -> list[str]:
        """Words that the template must write, or it has no way to say the reply."""
        words = [text.partition(" ")[0].strip(",") for text in (self.thought, self.text) if text]
        return [*words, *(name for name, _ in self.calls)]

    def messages(self, id_pattern: str) -> Iterator[Message]:
        if self.thought:
            yield Message(role=Role.ASSISTANT, text=self.thought, channel=Channel.ANALYSIS)
        if self.text:
            yield Message(role=Role.ASSISTANT, text=self.text, channel=Channel.FINAL)
        for index, (name, arguments) in enumerate(self.calls):
            yield Message(
                role=Role.ASSISTANT, text=json.dumps(arguments, ensure_ascii=False), end=End.CALL, content_type="json",
                recipient=f"functions.{name}", channel=Channel.COMMENTARY,
                call_id=id_pattern.format(name=name, index=index) if id_pattern else f"abcdefgh{index}",
            )  # fmt: skip


def drawn(chance: random.Random, kind: str) -> Said:
    """A reply of the kind, with arguments by chance in the order of the schema."""
    count = 2 if "calls" in kind else int("call" in kind)
    return Said(
        THOUGHT if "thought" in kind else "",
        SAID if "text" in kind else "",
        tuple(
            (tool.name, _value(chance, {} if tool.parameters is None else tool.parameters))
            for tool in chance.choices(TOOLS, k=count)
        ),
    )


def _value(chance: random.Random, schema: Any) -> Any:
    if "enum" in schema:
        return chance.choice(schema["enum"])
    given = schema.get("type", "object")
    match given if isinstance(given, str) else chance.choice(given):
        case "object":
            named = schema.get("properties", {}).items()
            kept = [one for one in named if one[0] in schema["required"] or chance.random() < 0.5]
            return {name: _value(chance, inner) for name, inner in kept}
        case "array":
            return [_value(chance, schema["items"]) for _ in range(chance.randrange(3))]
        case "integer":
            return chance.choice([0, -3, 417, 2**40])
        case "number":
            return chance.choice([0, 2.5, -1, 1e-7, 1e22])
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            return chance.choice(TEXTS)


@dataclass(frozen=True)
class Written:
    """The pieces of a prompt, and of the reply behind it with what a history has there."""

    prompt: tuple[Piece, ...]
    reply: tuple[Piece, ...]


class TemplateGrammars:
    """The grammars of one source."""

    def __init__(self, found: Source) -> None:
        self.source = found
        self.vocabulary = Vocabulary(found.tokenizer, found.end_ids)
        self._compiled: dict[Any, CompiledGrammar] = {}
        slots = [slot for form in found.description.calls[:1] for slot in form.head]
        self._pattern = next((slot.pattern for slot in slots if slot.pattern), "")

    def written(self, said: Said) -> Written | None:
        """The template's text of a reply, behind a prompt that it goes on from; None where it cannot say it."""
        user, found = Message(role=Role.USER, text=USER), list[tuple[bool, int, Written]]()
        known = getattr(self.source.format, "variables", ())
        region = self.source.description.reasoning or Region()
        for thinking in (None, True, False):
            kwargs = {} if thinking is None else {name: thinking for name in SWITCHES if name in known}
            if thinking is not None and not kwargs:
                break
            whole = self.rendered([user, *said.messages(self._pattern)], kwargs, opens_reply=False)
            prompt = self.rendered([user], kwargs, opens_reply=True)
            if whole is None or prompt is None:
                break
            reply, exact = self._divided(prompt, whole, said)
            closed = bool(region.close.strip()) and spell(prompt).rstrip().endswith(region.close.strip())
            reply = self._of_one_message(reply)
            if all(word in spell(list(reply)) for word in said.words) and not (closed and said.thought):
                found.append((not exact, len(found), Written(tuple(prompt), reply)))
        return min(found)[2] if found else None

    def rendered(
        self,
        messages: Sequence[Message],
        kwargs: Mapping[str, Any],
        *,
        opens_reply: bool,
        tools: tuple[ToolSpec, ...] = TOOLS,
    ) -> list[Piece] | None:
        """The template's text, character by character; None where it refuses."""
        settings = Settings(current_date=SETTINGS.current_date, template_kwargs=dict(kwargs))
        tools = tools if self.source.description.calls else ()
        conversation = Conversation(tuple(messages), tools=tools, settings=settings)
        try:
            pieces = self.source.format.render(conversation, reply_as=Role.ASSISTANT if opens_reply else None)
            return [atom for piece in pieces for atom in ([piece] if isinstance(piece, Control) else str(piece))]
        except AntiphonError:
            return None

    def _divided(self, prompt: list[Piece], whole: list[Piece], said: Said) -> tuple[tuple[Piece, ...], bool]:
        """The reply, and whether the history has the prompt before it.

        It may not: it leaves out the thought's opening, or a thought that the prompt has opened.
        """
        region = self.source.description.reasoning or Region()
        if whole[: len(prompt)] == prompt:
            return tuple(whole[len(prompt) :]), True
        anchored = self._anchored(whole)
        opened = bool(region.open.strip()) and spell(prompt).rstrip().endswith(region.open.strip())
        if not opened or said.thought:
            return tuple(whole[anchored:]), False
        rest = whole[anchored:]
        closing = [] if spell(rest).lstrip().startswith(region.close.strip()) else list(self.pieces(region.close))
        return (*closing, *rest), False

    def pieces(self, text: str) -> Iterator[Piece]:
        scanner = ControlScanner([*self.source.tokenizer.controls])
        for piece in (*scanner.feed(text), *scanner.close()):
            yield from [piece] if isinstance(piece, Control) else str(piece)

    def _of_one_message(self, reply: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """The reply without messages behind it: a template may write one as two, or add a prompt unbidden."""
        description = self.source.description
        anchor, text = description.anchor.strip(), spell(list(reply))
        header = next(iter(Atoms([str(control) for control in self.source.tokenizer.controls]).tags(anchor)), anchor)
        if not header or not anchor.startswith(header) or any(header in one for one in description.literals):
            return reply
        if header in description.ends or header not in text:
            return reply
        return tuple(self.pieces(text.partition(header)[0]))

    def _anchored(self, whole: list[Piece]) -> int:
        """Where the reply begins in a history: behind the anchor that follows the user's text."""
        spelled, places = "", [0]
        for piece in whole:
            spelled += str(piece)
            places.append(len(spelled))
        anchor = self.source.description.anchor
        behind = spelled.find(USER) + len(USER)
        at = spelled.find(anchor, behind) + len(anchor) if anchor else behind
        return next((i for i, place in enumerate(places) if place >= at), len(whole))

    def compiled(self, shape: ReplyShape, prompt: Sequence[Piece]) -> CompiledGrammar:
        key = repr((shape, spell(list(prompt[-40:]))))
        if key not in self._compiled:
            grammar = self.source.format.grammar(shape, prompt=list(prompt))
            self._compiled[key] = compile_grammar(grammar, self.vocabulary)
        return self._compiled[key]

    def ids(self, pieces: Sequence[Piece]) -> list[int]:
        return [
            id
            for piece in pieces
            for id in ([self.source.tokenizer.controls[piece]] if isinstance(piece, Control) else str(piece).encode())
        ]

    def reads(self, said: Said, written: Written) -> bool:
        """Whether the reply is read as what was to be written: else it is the template that is not clear."""
        tools = TOOLS if self.source.description.calls else ()
        reader = self.source.format.parser(prompt=list(written.prompt), tools=tools)
        messages = [
            e.message for e in (*reader.feed(list(written.reply)), *reader.close()) if isinstance(e, MessageEnded)
        ]
        calls = [(str(one.recipient).removeprefix("functions."), one.text) for one in messages if one.is_call]
        others = [one for one in messages if not one.is_call and one.text.strip()]
        texts = [(one.channel == Channel.ANALYSIS, one.text.strip()) for one in others]
        same = len(calls) == len(said.calls) and all(
            name == wanted and json.loads(text) == arguments
            for (name, text), (wanted, arguments) in zip(calls, said.calls, strict=True)
        )
        return same and sorted(texts) == [one for one in ((False, said.text), (True, said.thought)) if one[1]]

    def fault(self, shape: ReplyShape, said: Said, written: Written) -> str | None:
        """What of the reply the grammar does not take; None where it takes all of it."""
        try:
            matcher = self.compiled(shape, written.prompt).matcher()
        except UnsupportedError as error:
            return f"refused: {error}"
        ids = self.ids(written.reply)
        for at, id in enumerate(ids):
            if matcher.accepting and not any(word in _text(ids[at:], self.source) for word in said.words):
                return None
            if matcher.consume([id]) is not None:
                return f"{_text(ids[:at], self.source)!r} <<HERE>> {_text(ids[at:], self.source)!r}"
        ended = matcher.accepting or any(matcher.copy().consume([end]) is None for end in self.source.end_ids)
        return None if ended else f"{_text(ids, self.source)!r} has not ended"


def _text(ids: Sequence[int], found: Source) -> str:
    pieces = [found.tokenizer.piece(id) for id in ids]
    return b"".join(p.spelling.encode() if isinstance(p, Control) else p for p in pieces).decode("utf-8", "replace")


def shapes_for(said: Said, grammars: TemplateGrammars) -> Iterator[tuple[str, ReplyShape]]:
    """The shapes that a reply fits."""
    tools = TOOLS if grammars.source.description.calls else ()
    yield "auto", ReplyShape(tools=tools)
    if said.calls and not (said.text and getattr(grammars.source.format, "habits", NO_HABITS).text_beside != "before"):
        yield "required", ReplyShape(tools=tools, tool_choice=ToolChoice("required"))
    if not said.calls:
        yield "none", ReplyShape(tools=tools, tool_choice=ToolChoice("none"))
    if said.thought and grammars.source.description.reasoning is not None:
        yield "reasoning required", ReplyShape(tools=tools, reasoning="required")
    if not said.thought:
        yield "reasoning off", ReplyShape(tools=tools, reasoning="off")


PERSON = _closed({"age": {"type": "integer", "minimum": 0, "maximum": 130}, "old": {"type": "boolean"}}, "age", "old")
_BY_CHANCE = _closed({"city": {"type": "string", "maxLength": 6}, "unit": {"enum": ["c", "°F"]}}, "city")
_CHANCE_TOOLS = (ToolSpec("weather", parameters=_BY_CHANCE), ToolSpec("search", parameters=_FILTERS), ToolSpec("now"))
WALKS = {
    "auto": ReplyShape(tools=_CHANCE_TOOLS),
    "required": ReplyShape(tools=_CHANCE_TOOLS, tool_choice=ToolChoice("required")),
    "named": ReplyShape(tools=_CHANCE_TOOLS, tool_choice=ToolChoice("required", ("search",)), parallel=False),
    "none": ReplyShape(tools=_CHANCE_TOOLS, tool_choice=ToolChoice("none")),
    "format": ReplyShape(response_format=ResponseFormat("json_schema", schema=PERSON, strict=True)),
    "off": ReplyShape(tools=_CHANCE_TOOLS, reasoning="off"),
    "off, required": ReplyShape(tools=_CHANCE_TOOLS, reasoning="off", tool_choice=ToolChoice("required")),
}
LONGEST = 900
"""Ids of a walk: one that has not come to its end by then is not counted."""


def walked(grammars: TemplateGrammars, shape: ReplyShape, prompt: Sequence[Piece], chance: random.Random) -> str | None:
    """The fault of a reply by chance; None for a right one, and empty for one without an end."""
    grammar = grammars.compiled(shape, prompt)
    matcher, ids, found = grammar.matcher(), list[int](), grammars.source
    marks = [grammars.ids(list(grammars.pieces(text))) for text in sorted(found.description.literals)]
    marks += [list(word.encode()) for word in ('"', "'", "}", "]", ")", "<", "\n", '", "')]
    while not matcher.stopped and not (matcher.accepting and chance.random() < 0.5):
        if len(ids) > LONGEST:
            return ""
        word = chance.choice(marks)
        if chance.random() < (0.95 if len(ids) > 200 else 0.5) and matcher.copy().consume(word) is None:
            matcher.consume(word)
            ids += word
            continue
        # What Python alone takes for blanks is nobody's thought.
        left = [id for id in allowed(matcher.mask(), found.tokenizer.size) if id not in range(0x1C, 0x20)]
        if not left:
            return f"stuck behind {_text(ids, found)!r}"
        ids.append(chance.choice(left))
        matcher.consume(ids[-1:])
    fault = misread(grammars, shape, prompt, ids)
    return fault and f"{fault}: {_text(ids, found)!r}"


def misread(grammars: TemplateGrammars, shape: ReplyShape, prompt: Sequence[Piece], ids: Sequence[int]) -> str | None:
    """Whether what the grammar admitted is read as what was asked for; None where it is."""
    grammar = grammars.compiled(shape, prompt)
    reader = grammars.source.format.parser(
        prompt=list(prompt), tools=shape.tools, response_format=shape.response_format
    )
    events = [*reader.feed(list(PieceDecoder(grammars.source.tokenizer).feed(ids))), *reader.close()]
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    calls = [message for message in messages if message.is_call]
    offered = {tool.recipient: tool for tool in shape.callable}
    if any(str(call.recipient) not in offered for call in calls) or len(calls) > len(shape.ids):
        return "calls what it may not"
    if shape.must_call and not calls:
        return "calls nothing"
    for call in calls:
        path = shape.arguments(offered[str(call.recipient)]).path
        if fault := grammar.schemas[path].fault(call.text):
            return f"arguments: {fault}"
    if shape.reasoning == "off" and any(one.channel == Channel.ANALYSIS and one.text.strip() for one in messages):
        return "thinks"
    if shape.response_format.kind == "json_schema":
        answers = [one for one in messages if not one.is_call and one.channel == Channel.FINAL]
        schema = grammar.schemas["response_format.json_schema.schema"]
        if len(answers) != 1 or schema.fault(answers[0].text):
            return "no value of the schema"
    return None


def walks_of(
    grammars: TemplateGrammars, count: int, chance: random.Random
) -> tuple[Counter[str], list[tuple[str, str, str]]]:
    """How so many walks in each shape ended, and the faults."""
    ends, faults = Counter[str](), list[tuple[str, str, str]]()
    for name, shape in WALKS.items():
        if shape.must_call and not grammars.source.description.calls:
            continue
        tools = shape.tools if grammars.source.description.calls else ()
        prompt = grammars.rendered([Message(role=Role.USER, text=USER)], {}, opens_reply=True, tools=tools)
        if prompt is None:
            continue
        for _ in range(count):
            try:
                fault = walked(grammars, replace(shape, tools=tools), prompt, chance)
            except UnsupportedError as error:
                ends[f"refused: {error.message}"] += 1
                break
            ends["no end" if fault == "" else "wrong" if fault else "right"] += 1
            faults += [("walk", name, fault)] if fault else []
    return ends, faults


@dataclass
class Row:
    """What a grammar did with the replies of one template."""

    name: str
    admitted: int = 0
    unwritten: int = 0
    unclear: int = 0
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    walks: Counter[str] = field(default_factory=Counter)


def has_grammar_of_its_own(found: Source) -> bool:
    """Whether replies have the form of the template: not that of Harmony or OpenChatML."""
    return isinstance(found.format, ReplyFormat) and not writes_harmony(getattr(found.format, "source", ""))


UNTOLD = {"own: an object within an object, its arguments as text"}
"""Templates that write arguments as the text of a string, which no grammar of ours can hold to a schema."""


def row_of(found: Source, draws: int, walks: int = 0, seed: int = 0) -> Row:
    """The row of so many replies of each kind, and of walks in each shape."""
    row, grammars, chance = Row(found.name), TemplateGrammars(found), random.Random(f"{seed} {found.name}")
    for kind in KINDS:
        if "thought" in kind and found.description.reasoning is None:
            continue
        if "call" in kind and not found.description.calls:
            continue
        for _ in range(draws):
            said = drawn(chance, kind)
            written = grammars.written(said)
            if written is None:
                row.unwritten += 1
                continue
            for name, shape in shapes_for(said, grammars):
                fault = grammars.fault(shape, said, written)
                if fault is None:
                    row.admitted += 1
                elif not grammars.reads(said, written):
                    row.unclear += 1
                else:
                    row.faults.append((kind, name, fault))
    row.walks, faults = walks_of(grammars, walks, chance)
    row.faults += faults
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--walks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--templates", type=Path)
    parser.add_argument("--show", type=int, default=2)
    args = parser.parse_args()
    known = sorted(path.name for path in args.templates.glob("*.jinja")) if args.templates else names()
    total: Counter[str] = Counter()
    for name in known:
        if args.only not in name:
            continue
        found = jinja(name, (args.templates / name).read_text("utf-8")) if args.templates else source(name)
        if not has_grammar_of_its_own(found) or name in UNTOLD:
            continue
        row = row_of(found, args.draws, args.walks, args.seed)
        total += Counter(
            admitted=row.admitted, unwritten=row.unwritten, unclear=row.unclear, faults=len(row.faults), templates=1
        )
        total += Counter({f"walks {end}": count for end, count in row.walks.items()})
        total["whole"] += not row.faults
        total["calling"] += bool(found.description.calls)
        counts = f"admitted {row.admitted:4}  unwritten {row.unwritten:3}  unclear {row.unclear:3}"
        print(f"{name:52} {counts}  faults {len(row.faults):3}  walks {dict(row.walks)}", flush=True)
        if row.faults:
            print("    ", dict(Counter(f"{k}/{s}" for k, s, _ in row.faults)))
        for kind, shape, what in row.faults[: args.show]:
            print(f"    {kind} / {shape}: {what[:700]}")
    print(dict(total))
    sys.exit(bool(total["faults"]))


if __name__ == "__main__":
    main()
