"""A conversation whose model says calls in spellings of its own, and whose client sends back what it got."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from msgspec.structs import replace as replace_fields

from antiphon.conversation import Channel, Conversation, Event, Message, Role, Settings, ToolSpec
from antiphon.engines import ScriptedEngine
from antiphon.errors import AntiphonError
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml.openchatml import OpenChatML
from antiphon.generation import Draft, Model, TurnRequest, plan_turn
from antiphon.generation.constraint import constrain
from antiphon.generation.reply import as_history, reply_of
from antiphon.generation.turn import steps
from antiphon.tokens import ControlScanner, Piece, decode, encode_pieces, spell
from bridge.templates import Source
from kit.reply_writer import Markup, reply

HELD = "XPLACEHOLDERX"
SPELLINGS: tuple[tuple[str, str], ...] = (
    ("boolean", "false"), ("boolean", "False"), ("boolean", "true "), ("null", "null"), ("number", "1.0"),
    ("number", "1e3"), ("number", "100000000000000000000"), ("array", "[1, 2]"), ("array", "[1,2]"),
    ("array", "[\"a\", 'b']"), ("object", '{"a": 1,"b":2}'), ("object", '{"b": 2, "a": 1}'), ("object", "{}"),
    ("string", '"é\\u00e9"'), ("string", '"a\\/b"'), ("string", "\"<b>&'\""),
)  # fmt: skip
"""A type of the schema, and a value of it as a model may spell it."""
MEANT = ("reasoning", "end", "rewritten", "dropped")
"""Causes of a loss that are the template's own meaning."""
SHORTEST_MARK = 3
"""Characters of a mark that a prompt may have begun a reply with."""
KINDS = ("call", "text and call", "text", "calls", "call", "text")
SETTINGS = Settings(current_date=date(2026, 11, 21))


@dataclass
class Row:
    """Prompts of one template: how many were kept, how many lost by what the template means, and the others."""

    name: str
    kept: int = 0
    meant: Counter[str] = field(default_factory=Counter)
    breaks: list[str] = field(default_factory=list)

    def __add__(self, other: Row) -> Row:
        return Row(self.name, self.kept + other.kept, self.meant + other.meant, self.breaks + other.breaks)


class Talk:
    """A model of ``source`` whose calls have the value ``spelled``, of the schema's type ``kind``, and its client."""

    def __init__(self, source: Source, kind: str, spelled: str, *, thinks: bool) -> None:
        self._source, self._spelling, self._thinks = source, spelled, thinks
        self._ids: list[int] = []
        engine = ScriptedEngine(lambda *_: self._ids, grammar=False, context=10**7, end_ids=source.end_ids)
        self._model = Model(name="m", engine=engine, tokenizer=source.tokenizer, format=source.format)
        schema = {"type": "object", "properties": {"k": {"type": kind}}, "required": ["k"]}
        self._tools: tuple[ToolSpec, ...] = (ToolSpec("probe", "Looks something up", schema),)
        self._framed = isinstance(source.format, Harmony | OpenChatML)
        if not self._framed and not (source.description.calls and self._takes_tools()):
            self._tools = ()

    def _takes_tools(self) -> bool:
        try:
            self._plan([_asked(0)])
        except AntiphonError:
            return False
        return True

    def _plan(self, messages: Sequence[Message]) -> Draft:
        conversation = Conversation(tuple(messages), tools=self._tools, settings=SETTINGS)
        request = TurnRequest(conversation=conversation, return_token_ids=True, explain_prefix=True)
        return plan_turn(self._model, request)

    async def run(self, turns: int) -> Row:
        """The row of so many replies and the prompts behind them."""
        row = Row(self._source.name)
        messages, former = [_asked(0)], list[int]()
        for turn in range(turns + 1):
            try:
                draft = self._plan(messages)
            except AntiphonError as error:
                row.breaks.append(f"{self._spelling!r}: {error}")
                break
            if turn:
                self._judge(row, former, draft)
            if turn < turns:
                self._ids = self._encoded(self._reply(turn, draft.prompt))
                events, sampled = list[Event](), list[int]()
                async for step in steps(await constrain(draft)):
                    events += step.events
                    sampled += step.ids
                said = list(as_history(reply_of(events).messages))
                former = [*draft.prompt_ids, *sampled]
                messages += said
                messages += [_found(one, turn) for one in said if one.is_call] or [_asked(turn + 1)]
        return row

    def _judge(self, row: Row, former: Sequence[int], draft: Draft) -> None:
        ids, lost = draft.prompt_ids, draft.prefix and draft.prefix.lost
        if list(ids[: len(former)]) == former:
            row.kept += 1
        elif lost and lost.cause in MEANT:
            row.meant[lost.cause] += 1
        else:
            at = lost.at if lost else 0
            was, now = (decode(self._source.tokenizer, list(one[max(0, at - 30) : at + 40])) for one in (former, ids))
            row.breaks.append(f"{self._spelling!r}: {lost and lost.cause}: {was!r} -> {now!r}")

    def _encoded(self, text: str) -> list[int]:
        scanner = ControlScanner([*self._source.tokenizer.controls])
        return encode_pieces([*scanner.feed(text), *scanner.close()], self._source.tokenizer)

    def _reply(self, turn: int, prompt: Sequence[Piece]) -> str:
        """What the model says: in its template's form but for the value, behind what the prompt has begun."""
        kind = KINDS[turn % len(KINDS)] if self._tools else "text"
        thought = f"Thought {turn}." if self._thinks else None
        content = f"Answer {turn}." if "text" in kind else None
        calls = kind.count("call") + kind.count("calls")
        if self._framed:
            return self._spelled(self._frames(thought, content, calls))
        description, before = self._source.description, spell([*prompt[-3:]])
        ends = description.ends or tuple(map(str, self._source.format.stops)) or ("",)
        given = [("probe", {"k": HELD})] * calls
        parts = reply(replace_fields(description, ends=ends), reasoning=thought, content=content, calls=given)
        text = "".join(part.text if isinstance(part, Markup) else part for part in parts)
        region = description.reasoning
        if region is not None and thought is None and before.rstrip().endswith(region.open.strip()):
            text = region.open + region.close + text
        begun = next((size for size in range(len(text), SHORTEST_MARK - 1, -1) if before.endswith(text[:size])), 0)
        return self._spelled(text[begun:])

    def _frames(self, thought: str | None, content: str | None, calls: int) -> str:
        """The reply in Harmony, or in OpenChatML."""
        frames = [] if thought is None else [f"<|channel|>analysis<|message|>{thought}<|end|>"]
        if content is not None:
            channel, end = ("commentary", "<|end|>") if calls else ("final", "<|return|>")
            frames.append(f"<|channel|>{channel}<|message|>{content}{end}")
        head = '<|channel|>commentary <|constrain|>json<|message|>{"k": "' + HELD + '"}<|call|>'
        frames += [f" to=functions.probe{head}"] * bool(calls)
        return "<|start|>assistant".join(frames)

    def _spelled(self, text: str) -> str:
        for quoted in (f'"{HELD}"', f"'{HELD}'"):
            text = text.replace(quoted, self._spelling)
        bare = json.loads(self._spelling) if self._spelling.startswith('"') else self._spelling
        return text.replace(HELD, bare)


def _asked(number: int) -> Message:
    return Message(role=Role.USER, text=f"Question {number}?")


def _found(call: Message, turn: int) -> Message:
    return Message(
        role=Role.TOOL, text=f'{{"found": {turn}}}', name=call.recipient, call_id=call.call_id,
        channel=Channel.COMMENTARY, recipient="assistant",
    )  # fmt: skip
