"""Random replies in frames of Harmony over the real vocabulary, and the law of what is read of them.

A draw is a random reply: frames whose headers are words and controls in any order, cut or not, ended or not, among
frames as models are trained to write them. `misread` says what of the law does not hold of the reader and the renderer,
`mistold` what does not hold of a wire:

* it is read the same however it is cut, and what is read is written, and read again as itself, in both dialects;
* whole and streamed it is 200 and the same, and so is the turn that it is sent back in, or that goes on with what the
  server has stored of it, whose prompt has its words;
* no word of a whole thought is told, and where every frame is whole, the answer and each call are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from random import Random
from typing import Any

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, Incident, Message, MessageEnded, ParserEvent, Role, TextDelta
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.errors import RenderError
from antiphon.formats.harmony import Dialect, Harmony
from antiphon.formats.harmony.controls import CONTROLS, ENDOFTEXT
from antiphon.generation import Model
from antiphon.generation.reader.channels import with_channels
from antiphon.tokens import Control, ControlScanner, PieceDecoder, decode, encode_pieces, o200k_harmony
from kit.api import Got, post_in_process
from kit.damaged_replies import NAMES, WIRES, Answer, Chat, Responses, Wire, limited

TOKENIZER = o200k_harmony()
HARMONY = Harmony()
OFFERED = (*(f"functions.{name}" for name in NAMES), "python")
CHANNELS = ("analysis", "commentary", "final")
HEAD = (
    *("analysis", "commentary", "final", "final", "assistant", "user", "tool", "system", "functions.probe", "probe"),
    *(" to=functions.probe", "to=get_weather", "to:probe", " to= probe", "to=", " to=user", " to=all", "to=assistant"),
    *("functions.nosuch", "python", "browser.search", "to=container.exec", "json", " json", "code", "text", "xml"),
    *(" ", "\n", "\t", "  ", "\u00a0", "\u200b", "\x00", "\x1b", "\x85", "\u2028", "??", "response", "finals", "Final"),
    *("commentary?", "assistantfinal", "useranalysis", "<", "<|end|>", "<|channel|>", "a<b", "(", '"', "{", "[", "'"),
    *("to=f(", "to=f.", "to=.", "=", " =probe", "é", "天", "\U0001f5fc", "We must call it", ".", ":", "assistant:bob"),
    *(
        '"functions.probe"',
        "functions.probe;",
        "commentaryto=functions.probe",
        "@probe",
        "functions:probe,json",
        "probe?",
    ),
    *("<|constrain|>json", "word " * 60, "x" * 260, "json json", "a.b", "to=to=x", "to=<x", "\ufffd", "e\u0301"),
)
"""Texts of headers; control spellings among them are text."""
BODY = (
    '{"a": "',
    '"}',
    "{}",
    "[1]",
    '"x"',
    "null",
    "{'a': 'X'}",
    '{"a":1,}',
    "print(1)",
    "\n",
    "```json\n{}\n```",
    " ",
)
ENDS = ("end", "end", "call", "return")
MARKS = ("start", "end", "message", "channel", "constrain", "return", "call", "channel", "message", "endoftext")
WORD = re.compile(r"word\d+x")


TO = ("to=functions.probe", "to=probe", "to:functions.probe", "functions.probe", "probe", "to=functions.get_weather")
TYPES = ("", " json", " <|constrain|>json", "<|constrain|>json")
QUOTED = (
    '<|channel|>commentary to=functions.probe<|message|>{"a": "%s"}<|call|>',
    '<|start|>assistant<|channel|>commentary to=functions.probe <|constrain|>json<|message|>{"a": "%s"}',
    "<|start|>assistant<|channel|>final<|message|>%s<|return|>",
    'functions.probe({"a": "%s"})',
    '<tool_call>{"name": "probe", "arguments": {"a": "%s"}}</tool_call>',
    '{"name": "probe", "arguments": {"a": "%s"}}',
    '```json\n{"name": "probe", "arguments": {"a": "%s"}}\n```',
    "[probe(a='%s')]",
    "<function=probe><parameter=a>%s</parameter></function>",
    "assistantcommentary to=functions.probe json{}assistantfinal%s",
    "I say %s, then",
)
"""What a thought may say; all of it is text there."""
GIVEN: tuple[dict[str, object], ...] = (
    {"a": "%s"},
    {"a": "%s <|call|><|end|> \U0001f5fc"},
    {"a": '"%s" \\ \n'},
    {"a": "%s", "b": [1, None, {}], "c": {}},
    {"d": 1, "a": "%s\u2028"},
)
"""Arguments of whole calls."""


class Frames:
    """Random replies, by a seed. ``hidden`` words are of thoughts.

    ``answer`` and ``calls``: what must be told; None: nobody knows. ``limited``: the reply is as long as it may be.
    ``count`` is how many frames it has.
    """

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._words = self.count = 0
        self.hidden: list[str] = []
        self.answer: str | None = ""
        self.calls: list[tuple[str, Mapping[str, Any]]] | None = []
        self.limited = self._often(0.1)
        self.ids = tuple(self._ids())

    def _ids(self) -> list[int]:
        said: list[int] = []
        for number in range(self._chance.choice((1, 1, 2, 2, 3, 4))):
            self.count += 1
            start = "<|start|>assistant" if number else ""
            match self._chance.randrange(8):
                case 0 | 1:
                    said += ids_of(start + self._thought())
                case 2:
                    said += ids_of(start + self._call())
                case 3:
                    said += ids_of(start + self._answer())
                case _:
                    self.answer = self.calls = None
                    said += self._frame(number)
            if said[-1:] in STOPS:
                break
        if self._often(0.2):
            self.answer = self.calls = None
            return said[: self._chance.randrange(len(said) + 1)]
        return said

    def _often(self, chance: float) -> bool:
        return self._chance.random() < chance

    # Whole frames

    def _thought(self) -> str:
        self._words += 1
        self.hidden.append(f"hidden{self._words}x")
        said = self._chance.choice(QUOTED).replace("%s", self.hidden[-1]).replace("<|", "<¦")
        return f"<|channel|>analysis<|message|>{said}{self._chance.choice(('<|end|>', '<|end|>', ''))}"

    def _call(self) -> str:
        to, type = (
            self._chance.choice(TO),
            self._chance.choice(("", " json", " <|constrain|>json", "<|constrain|>json")),
        )
        head = self._chance.choice(
            (f"<|channel|>commentary {to}{type}", f" {to}<|channel|>commentary{type}", f"<|channel|>{to}{type}",
             f"<|channel|> {to}{type}", f"<|channel|>{to} commentary{type}", f"<|channel|>analysis {to}{type}",
             f"<|channel|>commentary<|channel|>commentary {to}{type}", f"<|channel|>commentary{type} {to}")
        )  # fmt: skip
        given = json.loads(json.dumps(self._chance.choice(GIVEN)).replace("%s", self._word()))
        text = json.dumps(given, ensure_ascii=self._often(0.5), indent=self._chance.choice((None, None, 2)))
        if self.calls is not None:
            self.calls.append(("get_weather" if "get_weather" in to else "probe", given))
        return f"{head}<|message|>{text.replace('<|', '<¦')}{self._chance.choice(('<|call|>', '<|call|>', '<|end|>'))}"

    def _answer(self) -> str:
        head = self._chance.choice(
            ("final", "final", "final", "final to=user", "final <|constrain|>json", "final json")
        )
        said = self._chance.choice(("%s", " %s ", "<¦call¦> %s", '{"a": "%s"}', "I call functions.probe: %s"))
        said = said.replace("%s", self._word())
        self.answer = None if self.answer is None else f"{self.answer} {said.replace('¦', '|')}"
        return f"<|channel|>{head}<|message|>{said}{self._chance.choice(('<|return|>', '<|return|>', '<|end|>'))}"

    # Any frame

    def _frame(self, number: int) -> list[int]:
        spelled = "<|start|>assistant" if number and self._often(0.9) else "<|start|>" if self._often(0.1) else ""
        ids = [*ids_of(spelled), *(self._text(HEAD) if self._often(0.3) else ())]
        for control in self._chance.choice((["channel"], ["channel"], ["channel", "constrain"], ["channel"] * 2, [])):
            ids += ids_of(f"<|{control}|>")
            ids += ids_of(self._chance.choice(CHANNELS)) if control == "channel" and self._often(0.5) else ()
            ids += [id for _ in range(self._chance.randrange(3)) for id in self._text(HEAD)]
        ids += ids_of(f"<|{self._chance.choice(MARKS)}|>") if self._often(0.1) else ()
        ids += ids_of("<|message|>") if self._often(0.85) else ()
        for _ in range(self._chance.randrange(4)):
            ids += self._text((*BODY, f" {self._word()} ", f" {self._word()} "))
            ids += ids_of(f"<|{self._chance.choice(MARKS)}|>") if self._often(0.05) else ()
        return [*ids, *(ids_of(f"<|{self._chance.choice(ENDS)}|>") if self._often(0.9) else ())]

    def _word(self) -> str:
        self._words += 1
        return f"word{self._words}x"

    def _text(self, texts: Sequence[str]) -> tuple[int, ...]:
        return _encoded(self._chance.choice(texts))


def spelled(ids: Sequence[int]) -> str:
    """The ids as a text, its controls spelled."""
    pieces = map(TOKENIZER.piece, ids)
    return b"".join(p.spelling.encode() if isinstance(p, Control) else p for p in pieces).decode("utf-8", "replace")


@cache
def ids_of(spelled: str) -> tuple[int, ...]:
    """The ids of a text, those of the controls that it spells; ``¦`` in them stands for ``|`` in a text."""
    scanner = ControlScanner((*CONTROLS, ENDOFTEXT))
    pieces = [*scanner.feed(spelled), *scanner.close()]
    return tuple(encode_pieces([p if isinstance(p, Control) else p.replace("¦", "|") for p in pieces], TOKENIZER))


@cache
def _encoded(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER.encode(text))


STOPS = [[*ids_of(stop)] for stop in ("<|call|>", "<|return|>")]


# The reader and the renderer


def misread(seed: int) -> list[str]:
    """What does not hold of the reply that this seed draws; nothing where all does."""
    ids = Frames(seed).ids
    whole = _read(ids, len(ids) or 1)
    found = [] if _read(ids, 1) == whole == _read(ids, 3) else ["read otherwise where it is cut otherwise"]
    text = spelled(ids)
    if not _read_spelled(text, 1) == _read_spelled(text, 7) == _read_spelled(text, len(text) or 1):
        found.append("spelled, it is read otherwise where it is cut otherwise")
    shown = with_channels(whole, HARMONY)
    messages = [e.message for events in (whole, shown) for e in events if isinstance(e, MessageEnded)]
    for message in messages:
        for dialect in ("a", "b"):
            found += _rewritten(message, dialect)
            found += _rewritten(replace(message, header=()), dialect)
    return found


def _read(ids: Sequence[int], chunk: int, role: Role | None = Role.ASSISTANT) -> list[ParserEvent]:
    """The events, however many ids come at once, without places; each message's text is one."""
    decoder, parser = PieceDecoder(TOKENIZER), HARMONY.parser(reply_as=role, tools=OFFERED)
    events: list[ParserEvent] = []
    for start in range(0, len(ids), chunk):
        events += parser.feed(decoder.feed(ids[start : start + chunk]))
    events += [*parser.feed(decoder.close()), *parser.close()]
    return list(_joined(events))


def _read_spelled(text: str, chunk: int) -> list[ParserEvent]:
    """The same of a reply whose controls arrive as text."""
    parser = HARMONY.parser(tools=OFFERED, spelled=True)
    events = [event for start in range(0, len(text), chunk) for event in parser.feed([text[start : start + chunk]])]
    return list(_joined([*events, *parser.close()]))


def _joined(events: Sequence[ParserEvent]) -> Iterator[ParserEvent]:
    for text, run in groupby(events, lambda event: isinstance(event, TextDelta)):
        if text:
            yield TextDelta("".join(event.text for event in run if isinstance(event, TextDelta)))
        else:
            yield from (Incident(e.code, 0, e.text) if isinstance(e, Incident) else e for e in run)


def _rewritten(message: Message, dialect: Dialect) -> Iterator[str]:
    """What differs where the message is written and read again."""
    try:
        pieces = list(Harmony(dialect=dialect).render(Conversation((message,), verbatim=True), reply_as=None))
    except RenderError as error:
        yield f"{_fields(message)} is not written: {error.message}"
        return
    again = [e.message for e in _read(encode_pieces(pieces, TOKENIZER), 10**6, None) if isinstance(e, MessageEnded)]
    if [_fields(one) for one in again] != [_fields(message)]:
        yield f"{_fields(message)} (dialect {dialect}) is read again as {[_fields(one) for one in again]}"


def _fields(message: Message) -> tuple[str | None, ...]:
    recipient = None if message.recipient == "all" else message.recipient
    return message.role, message.name, recipient, message.channel, message.content_type, message.text


# The wires


class Stored(Responses):
    """Responses whose next request names the one before."""

    def request(self, history: Sequence[Any]) -> dict[str, Any]:
        known = {"previous_response_id": history[0], "input": history[1:]} if history else {}
        return {**super().request([]), "store": True, **known}

    def whole(self, got: Got) -> Answer:
        return replace(super().whole(got), back=[got.json["id"]])


class Session(Chat):
    """Chat completions of one session; each first request has its own."""

    def __init__(self) -> None:
        self._begun = 0

    def request(self, history: Sequence[Any]) -> dict[str, Any]:
        if not history:
            self._begun += 1
            return {**super().request([]), "session_id": self._begun}
        return {**super().request([]), "messages": history[1:], "session_id": self._begun - 1}


EVERY: Mapping[str, Wire] = {**WIRES, "responses stored": Stored(), "session": Session()}


@cache
def served() -> tuple[Starlette, ScriptedEngine, list[int]]:
    """A server whose model says what the list holds."""
    reply: list[int] = []

    def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        return reply

    engine = ScriptedEngine(script, chunk=7, context=100_000)
    model = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=HARMONY)
    return create_app(StaticCatalog({"small": model})), engine, reply


async def told(reply: str, wire: str) -> tuple[Answer, Answer]:
    """The reply as a client of the wire has it whole, and streamed."""
    return await _told(ids_of(reply), EVERY[wire])


async def _told(ids: Sequence[int], client: Wire, most: int | None = None) -> tuple[Answer, Answer]:
    app, engine, reply = served()
    reply[:] = ids
    engine.requests.clear()
    got, flow = [
        await post_in_process(app, client.path, **limited(client, client.request([]), most), stream=stream)
        for stream in (False, True)
    ]
    assert (got.status, flow.status) == (200, 200), (got.body[:300], flow.body[:300])
    return client.whole(got), client.streamed(flow)


async def mistold(seed: int, wire: str) -> list[str]:
    """What does not hold of the reply that this seed draws, on a wire; nothing where all does."""
    frames, client = Frames(seed), EVERY[wire]
    whole, streamed = await _told(frames.ids, client, len(frames.ids) if frames.limited else None)
    if frames.limited and wire == "messages" and len(whole.calls) < len(streamed.calls):
        streamed.calls.pop()  # A call that a limit cut is no block of a whole answer there.
    found = [] if whole.told == streamed.told else [f"streamed {streamed.told} is not whole {whole.told}"]
    everything = json.dumps([whole.content, whole.calls], ensure_ascii=False)
    if any("\ud800" <= sign <= "\udfff" for sign in everything):
        found.append(f"surrogates: {whole.told}")
    if whole.calls and not frames.limited and whole.finish != client.called:
        found.append(f"finish {whole.finish!r} beside {whole.calls}")
    if any(word in everything for word in frames.hidden):
        found.append(f"{frames.hidden} told: {whole.told}")
    if frames.answer is not None and "".join(frames.answer.split()) != "".join(whole.content.split()):
        found.append(f"the answer {frames.answer!r} is not {whole.content!r}")
    if frames.calls is not None and frames.calls != [(name, json.loads(text)) for name, text in whole.calls]:
        found.append(f"the calls {frames.calls} are not {whole.calls}")
    app, engine, _ = served()
    again = await post_in_process(app, client.path, **client.request(client.history(whole)), stream=False)
    if again.status != 200:
        return [*found, f"next turn {again.status}: {again.body[:300]!r}"]
    prompt = decode(TOKENIZER, list(engine.requests[-1][0]))
    lost = [word for word in WORD.findall(everything) if word not in prompt]
    return [*found, f"next turn: lost {lost} of {whole.told}"] if lost else found
