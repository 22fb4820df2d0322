"""Random replies in frames of Harmony over the real vocabulary, and the law of what is read of them.

A draw is a random reply: frames whose headers are words and controls in any order, cut or not, ended or not. `misread`
says what of the law does not hold of the reader and the renderer, `mistold` what does not hold of a wire:

* it is read the same however it is cut, and what is read is written, and read again as itself, in both dialects;
* whole and streamed it is 200 and the same, and so is the turn that it is sent back in, whose prompt has its words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from random import Random

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, Incident, Message, MessageEnded, ParserEvent, Role, TextDelta
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.errors import RenderError
from antiphon.formats.harmony import Dialect, Harmony
from antiphon.generation import Model
from antiphon.generation.reader.channels import with_channels
from antiphon.tokens import Control, ControlScanner, PieceDecoder, decode, encode_pieces, o200k_harmony
from kit.api import post_in_process
from kit.damaged_replies import NAMES, WIRES, Answer

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
MARKS = ("start", "end", "message", "channel", "constrain", "return", "call", "channel", "message", "endoftext")
WORD = re.compile(r"word\d+x")


class Frames:
    """Random replies, by a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._words = 0

    def ids(self) -> list[int]:
        """The reply's ids, some of them cut off."""
        said: list[int] = []
        for number in range(self._chance.choice((1, 1, 2, 2, 3))):
            said += self._frame(number)
        return said[: self._chance.randrange(len(said) + 1)] if self._often(0.2) else said

    def _often(self, chance: float) -> bool:
        return self._chance.random() < chance

    def _frame(self, number: int) -> list[int]:
        spelled = "<|start|>assistant" if number and self._often(0.9) else "<|start|>" if self._often(0.1) else ""
        ids = _ids(spelled) + (self._text(HEAD) if self._often(0.3) else [])
        for control in self._chance.choice((["channel"], ["channel"], ["channel", "constrain"], ["channel"] * 2, [])):
            ids += _ids(f"<|{control}|>")
            ids += _ids(self._chance.choice(CHANNELS)) if control == "channel" and self._often(0.5) else []
            ids += [id for _ in range(self._chance.randrange(3)) for id in self._text(HEAD)]
        ids += _ids(f"<|{self._chance.choice(MARKS)}|>") if self._often(0.1) else []
        ids += _ids("<|message|>") if self._often(0.85) else []
        for _ in range(self._chance.randrange(4)):
            self._words += 1
            ids += self._text((*BODY, f" word{self._words}x ", f" word{self._words}x "))
            ids += _ids(f"<|{self._chance.choice(MARKS)}|>") if self._often(0.05) else []
        return ids + (_ids(f"<|{self._chance.choice(('end', 'end', 'call', 'return'))}|>") if self._often(0.9) else [])

    def _text(self, texts: Sequence[str]) -> list[int]:
        return TOKENIZER.encode(self._chance.choice(texts))


def spelled(ids: Sequence[int]) -> str:
    """The ids as a text, its controls spelled."""
    pieces = map(TOKENIZER.piece, ids)
    return b"".join(p.spelling.encode() if isinstance(p, Control) else p for p in pieces).decode("utf-8", "replace")


def _ids(spelled: str) -> list[int]:
    scanner = ControlScanner(list(TOKENIZER.controls))
    return encode_pieces([*scanner.feed(spelled), *scanner.close()], TOKENIZER)


# The reader and the renderer


def misread(seed: int) -> list[str]:
    """What does not hold of the reply that this seed draws; nothing where all does."""
    ids = Frames(seed).ids()
    whole = _read(ids, len(ids) or 1)
    found = [] if _read(ids, 1) == whole == _read(ids, 3) else ["read otherwise where it is cut otherwise"]
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
    return await _told(_ids(reply), wire)


async def _told(ids: Sequence[int], wire: str) -> tuple[Answer, Answer]:
    app, engine, reply = served()
    client = WIRES[wire]
    reply[:] = ids
    engine.requests.clear()
    got = await post_in_process(app, client.path, **client.request([]), stream=False)
    flow = await post_in_process(app, client.path, **client.request([]), stream=True)
    assert (got.status, flow.status) == (200, 200), (got.body[:300], flow.body[:300])
    return client.whole(got), client.streamed(flow)


async def mistold(seed: int, wire: str) -> list[str]:
    """What does not hold of the reply that this seed draws, on a wire; nothing where all does."""
    whole, streamed = await _told(Frames(seed).ids(), wire)
    client = WIRES[wire]
    found = [] if whole.told == streamed.told else [f"streamed {streamed.told} is not whole {whole.told}"]
    if any("\ud800" <= sign <= "\udfff" for sign in json.dumps([whole.content, whole.calls], ensure_ascii=False)):
        found.append(f"surrogates: {whole.told}")
    if whole.calls and whole.finish != client.called:
        found.append(f"finish {whole.finish!r} beside {whole.calls}")
    app, engine, _ = served()
    again = await post_in_process(app, client.path, **client.request(client.history(whole)), stream=False)
    if again.status != 200:
        return [*found, f"next turn {again.status}: {again.body[:300]!r}"]
    prompt = decode(TOKENIZER, list(engine.requests[-1][0]))
    said = WORD.findall(" ".join([whole.content, *(arguments for _, arguments in whole.calls)]))
    lost = [word for word in said if word not in prompt]
    return [*found, f"next turn: lost {lost} of {whole.told}"] if lost else found
