"""Whether all that a template writes is admitted by the grammar of its replies.

    .venv/bin/python -m bridge.held [--only WORD] [--draws N] [--templates FOLDER]

A template writes replies of every kind as history (thoughts, texts, one call or two, with arguments that are nested,
odd, empty or in other scripts); the grammar behind the same prompt must take each of them up to its end.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    Message,
    MessageEnded,
    Role,
    Settings,
    ToolChoice,
    ToolSpec,
)
from antiphon.errors import AntiphonError, UnsupportedError
from antiphon.formats.replies.atoms import Atoms
from antiphon.formats.replies.description import Region
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.formats.template.in_harmony import writes_harmony
from antiphon.grammar import ReplyShape
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import Control, ControlScanner, Piece, spell
from bridge.templates import Source, jinja, names, source


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
        tuple((tool.name, _value(chance, tool.parameters or {})) for tool in chance.choices(TOOLS, k=count)),
    )


def _value(chance: random.Random, schema: Mapping[str, Any]) -> Any:
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


class Held:
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
            whole = self._rendered([user, *said.messages(self._pattern)], kwargs, opens_reply=False)
            prompt = self._rendered([user], kwargs, opens_reply=True)
            if whole is None or prompt is None:
                break
            reply, exact = self._divided(prompt, whole, said)
            closed = bool(region.close.strip()) and spell(prompt).rstrip().endswith(region.close.strip())
            reply = self._of_one_message(reply)
            if all(word in spell(list(reply)) for word in said.words) and not (closed and said.thought):
                found.append((not exact, len(found), Written(tuple(prompt), reply)))
        return min(found)[2] if found else None

    def _rendered(
        self, messages: Sequence[Message], kwargs: Mapping[str, Any], *, opens_reply: bool
    ) -> list[Piece] | None:
        settings = Settings(current_date=SETTINGS.current_date, template_kwargs=dict(kwargs))
        tools = TOOLS if self.source.description.calls else ()
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
        closing = [] if spell(rest).lstrip().startswith(region.close.strip()) else list(self._pieces(region.close))
        return (*closing, *rest), False

    def _pieces(self, text: str) -> Iterator[Piece]:
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
        return tuple(self._pieces(text.partition(header)[0]))

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


def shapes_for(said: Said, held: Held) -> Iterator[tuple[str, ReplyShape]]:
    """The shapes that a reply fits."""
    tools = TOOLS if held.source.description.calls else ()
    yield "auto", ReplyShape(tools=tools)
    if said.calls and not (said.text and held.source.format.habits.text_beside != "before"):
        yield "required", ReplyShape(tools=tools, tool_choice=ToolChoice("required"))
    if not said.calls:
        yield "none", ReplyShape(tools=tools, tool_choice=ToolChoice("none"))
    if said.thought and held.source.description.reasoning is not None:
        yield "reasoning required", ReplyShape(tools=tools, reasoning="required")
    if not said.thought:
        yield "reasoning off", ReplyShape(tools=tools, reasoning="off")


@dataclass
class Row:
    """What a grammar did with the replies of one template."""

    name: str
    admitted: int = 0
    unwritten: int = 0
    unclear: int = 0
    faults: list[tuple[str, str, str]] = field(default_factory=list)


def row_of(found: Source, draws: int, seed: int = 0) -> Row:
    """The row of so many replies of each kind."""
    row, held, chance = Row(found.name), Held(found), random.Random(f"{seed} {found.name}")
    for kind in KINDS:
        if "thought" in kind and found.description.reasoning is None:
            continue
        if "call" in kind and not found.description.calls:
            continue
        for _ in range(draws):
            said = drawn(chance, kind)
            written = held.written(said)
            if written is None:
                row.unwritten += 1
                continue
            for name, shape in shapes_for(said, held):
                fault = held.fault(shape, said, written)
                if fault is None:
                    row.admitted += 1
                elif not held.reads(said, written):
                    row.unclear += 1
                else:
                    row.faults.append((kind, name, fault))
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--draws", type=int, default=3)
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
        if not isinstance(found.format, ReplyFormat) or writes_harmony(getattr(found.format, "source", "")):
            continue
        row = row_of(found, args.draws, args.seed)
        total += Counter(
            admitted=row.admitted, unwritten=row.unwritten, unclear=row.unclear, faults=len(row.faults), templates=1
        )
        total["whole"] += not row.faults
        total["calling"] += bool(found.description.calls)
        counts = (
            f"admitted {row.admitted:4}  not {len(row.faults):4}  unwritten {row.unwritten:3}  unclear {row.unclear}"
        )
        print(f"{name:52} {counts}", flush=True)
        if row.faults:
            print("    ", dict(Counter(f"{k}/{s}" for k, s, _ in row.faults)))
        for kind, shape, what in row.faults[: args.show]:
            print(f"    {kind} / {shape}: {what[:700]}")
    print(dict(total))
    sys.exit(bool(total["faults"]))


if __name__ == "__main__":
    main()
