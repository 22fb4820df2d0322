"""Hostile exchanges over POST /v1/openchatml: what is streamed is the whole answer, frame by frame.

    python tests/fuzz/openchatml_exchanges.py [EXCHANGES] [SEED]

Each is one of 76 transcripts, whose headers exclude what a model may write, with a model's reply of random frames, of
which some are cut, damaged or on channels that there are not. Whole and streamed it is the same: frames, valid behind
the transcript for both readers (the second where Node.js is), and written by our `Writer`; or the same error. No
hidden text is in either. A failure prints the exchange.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jsonschema_rs

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, End, Message, Role
from antiphon.engines import ScriptedEngine
from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import (
    SCHEMAS,
    EventReader,
    Implementation,
    TranscriptEnvelope,
    Writer,
    envelope_of,
    openchatml,
    read,
    repair,
)
from antiphon.formats.openchatml.spelling import CONTROLS
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, ControlScanner, encode_pieces
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import CHATML, TOKENIZER, Got, exchange_bytes

PATH = "/v1/openchatml"
VOCABULARY = ByteTokenizer(CONTROLS)
FORMATS: dict[str, tuple[Format, ByteTokenizer]] = {
    "openchatml": (openchatml(CONTROLS), VOCABULARY),
    "spelled": (openchatml([]), TOKENIZER),
    "harmony": (Harmony(), ByteTokenizer(Harmony().controls)),
    "chatml": (CHATML, TOKENIZER),
}
EVENTS = jsonschema_rs.Draft202012Validator(SCHEMAS["events"])

# What is sent

HEADERS = [
    "",
    "capabilities: {tokens: ['<|start|>', '<|message|>', '<|end|>', '<|return|>']}\n",
    "capabilities: {tokens: ['<|start|>', '<|channel|>', '<|message|>', '<|call|>', '<|end|>', '<|return|>']}\n",
    "capabilities: {tokens: ['<|start|>', '<|channel|>', '<|message|>', '<|call|>', '<|constrain|>', '<|return|>']}\n",
    "capabilities: {tokens: ['<|start|>', '<|channel|>', '<|message|>', '<|call|>', '<|constrain|>', '<|end|>']}\n",
    "capabilities: {channels: [final]}\n",
    "capabilities: {channels: [commentary]}\n",
    "capabilities: {channels: [final, commentary]}\n",
    "capabilities: {roles: [user, assistant]}\n",
    "capabilities: {roles: [user, assistant, functions.*]}\n",
    "profiles: {harmony: {enabled: true}}\n",
    "profiles: {harmony: {enabled: true, require_channels: [analysis, commentary, final]}}\n",
    "profiles: {harmony: {enabled: true, tool_calls_in: [analysis]}}\n",
    "profiles: {harmony: {enabled: true, tool_calls_in: [final], builtins_in: [final]}}\n",
    "generation_settings: {max_tokens: 40}\n",
    "generation_settings: {max_tokens: 90}\n",
    "generation_settings: {builtin_tools: [quick, broken]}\n",
    "generation_settings: {builtin_tools: [quick], stop: ['stop']}\n",
]
CALLED = (
    "<|start|>assistant to=functions.f call_id=call_0<|channel|>commentary<|constrain|>json<|message|>"
    '{"a": 1}<|call|>\n'
    "<|start|>tool to=assistant call_id=call_0 name=functions.f<|channel|>commentary<|message|>1<|end|>\n"
)
DECLARED = """<|start|>developer<|message|># Tools
## functions
{"name": "f", "parameters": {"type": "object", "required": ["a"]}}<|end|>
"""
ASKED = "<|start|>user<|message|>Say <<|end|>, please.<|end|>\n"
HISTORIES = [
    ASKED,
    DECLARED + ASKED,
    ASKED + CALLED,
    ASKED + "<|start|>assistant<|channel|>final<|message|>So it is, and",
]
OLD = ['version: "1.0"\n' + ASKED, 'version: "1.1"\n' + ASKED + "<|start|>assistant<|message|>So it"]
CONSTRAINED = ASKED + '<|start|>assistant<|channel|>final<|constrain|>json<|message|>{"a": '
TRANSCRIPTS = [
    *(f'version: "2.2"\n{header}{history}' for header in HEADERS for history in HISTORIES),
    *OLD,
    'version: "2.2"\n' + CONSTRAINED,
    'version: "2.2"\n' + ASKED + "<|start|>assistant intent=preamble<|channel|>commentary<|message|>I will",
]
assert len(TRANSCRIPTS) == 76

# What is replied

HEADS = [
    *("<|channel|>final", "<|channel|>final", "<|channel|>final<|constrain|>json", "<|channel|>final<|constrain|>toml"),
    *("", " name=Ann<|channel|>final", " intent=preamble<|channel|>commentary", "<|channel|>commentary"),
    *(" intent=status<|channel|>final", " intent=debug<|channel|>final", " to=user<|channel|>final"),
    *(" content_type=text<|channel|>final", "<|channel|>response", "<|channel|>answer"),
]
"""Those of texts that may be shown."""
HIDDEN = ["<|channel|>analysis", "<|channel|>thinking", "<|channel|>comentary", "<|channel|>Analysis", "<|channel|>x-1"]
CALLS = [
    *(" to=functions.f call_id=a<|channel|>commentary<|constrain|>json", " to=functions.f<|channel|>commentary"),
    *("<|channel|>commentary to=functions.f <|constrain|>json", " to=functions.f call_id=call_0<|channel|>final"),
    *(" to=python call_id=p<|channel|>analysis", " to=functions.quick call_id=q<|channel|>commentary<|constrain|>json"),
    *(" to=functions.broken<|channel|>commentary", " to=f call_id=a<|channel|>commentary", " to=nobody.x"),
    *(" to=functions.g call_id=a<|channel|>thinking<|constrain|>json", " to=functions.f content_type=yaml"),
]
BODIES = ["Four.", "", " ", "One.\n\nTwo.", "a <", "<", "{}", '{"a": 1}', '{"a": ', "1}", "Please stop here.", "é\n"]
MARKED = ["<|start_reason|>", "a <|start_reflect|> b", "<|end_intro"]
ARGUMENTS = ["{}", '{"a": 1}', '{"a": ', "[1]", "", "print(1)", '{"word": "w"}', '{"word": 5}', "{'a': 1}"]
ENDS = ["<|end|>", "<|end|>", "<|end|>", "<|return|>", "<|return|>", "<|call|>", ""]
SECRET = "SECRET"


def frame(rng: random.Random) -> str:
    """A frame behind ``<|start|>assistant``."""
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(HIDDEN) + f"<|message|>{SECRET}" + rng.choice(ENDS)
    if kind < 0.55:
        return rng.choice(CALLS) + "<|message|>" + rng.choice(ARGUMENTS) + rng.choice(["<|call|>", "<|call|>", *ENDS])
    return rng.choice(HEADS) + "<|message|>" + rng.choice([*BODIES, *BODIES, *MARKED]) + rng.choice(ENDS)


def turn(rng: random.Random) -> str:
    """A model's reply; now and then a part of it is lost or doubled, where nothing is hidden."""
    text = "<|start|>assistant".join(frame(rng) for _ in range(rng.choice([1, 1, 2, 2, 3, 4])))
    if rng.random() < 0.2 and SECRET not in text:
        at = rng.randrange(len(text))
        text = (
            text[:at] + rng.choice(["", "<|message|>", "<|channel|>", "x", "<|end|>"]) + text[at + rng.choice([0, 9]) :]
        )
    return text


def chatml(rng: random.Random) -> str:
    """The same for a model of a template."""
    parts = [
        *(f"<think>{SECRET}</think>", *BODIES, *MARKED),
        *(f'<tool_call>{{"name": "{name}", "arguments": {made}}}</tool_call>' for name in ("f", "quick", "g")
          for made in ('{"a": 1}', '{"word": "w"}', "{}")),
    ]  # fmt: skip
    thought = rng.choice(["", parts[0]])
    return thought + "".join(rng.choices(parts[1:], k=rng.randrange(4))) + rng.choice(["<|im_end|>", ""])


@dataclass(frozen=True, slots=True)
class Exchange:
    """A transcript, and what a model of the format replies in each round; the last has an answer."""

    transcript: str
    format: str
    turns: tuple[str, ...]

    @classmethod
    def drawn(cls, rng: random.Random, number: int) -> Exchange:
        format = rng.choice(list(FORMATS))
        draw = chatml if format == "chatml" else turn
        return cls(TRANSCRIPTS[number % len(TRANSCRIPTS)], format, tuple(draw(rng) for _ in range(3)))


async def quick(word: str) -> str:
    """Say the word."""
    return word.upper()


async def broken() -> str:
    """Fail."""
    raise ValueError("broken")


async def answered(given: Exchange, *, stream: bool, chunk: int) -> Got:
    """What a server gives for the exchange; its model samples ``chunk`` tokens a step."""
    format, tokenizer = FORMATS[given.format]
    rounds = count()

    def script(*_: object) -> Sequence[int]:
        scanner, text = ControlScanner(tokenizer.controls), given.turns[min(next(rounds), 2)]
        return encode_pieces([*scanner.feed(text), *scanner.close()], tokenizer)

    def spelled(id: int) -> bytes:
        piece = tokenizer.piece(id)
        return piece if isinstance(piece, bytes) else piece.spelling.encode()

    engine = ScriptedEngine(script, chunk=chunk, token_bytes=spelled)
    model = Model(name="m", engine=engine, tokenizer=tokenizer, format=format)
    tools = Toolbox([FunctionToolSet([quick, broken])])
    application = create_app(StaticCatalog({"m": model}), tools=tools)
    return await exchange_bytes(application, PATH, given.transcript.encode(), [], query=b"stream=%d" % stream)


# What must hold


@dataclass(slots=True)
class Seen:
    """What a client has of an answer: its messages, whether the first goes on with the open one, and its error."""

    messages: Sequence[Message] = ()
    error: str | None = None
    faults: list[str] = field(default_factory=list)


def whole(given: Exchange, before: Conversation, got: Got) -> Seen:
    if got.status != 200:
        return Seen(error=got.json["error"]["code"], faults=[f"status {got.status}"] if got.status >= 500 else [])
    text = got.body.decode()
    if not text.startswith(given.transcript):
        return Seen(faults=["the transcript is not its beginning"])
    try:
        return Seen(read(text).messages[len(before.messages) - is_open(before) :])
    except AntiphonError as error:
        return Seen(faults=[f"whole, it is not valid: {error}"])


def streamed(given: Exchange, before: Conversation, got: Got) -> Seen:
    if got.status != 200:
        return whole(given, before, got)
    reader, messages, error, faults = EventReader(), list[Message](), None, list[str]()
    events = [json.loads(line[6:]) for line in got.body.decode().splitlines() if line.startswith("data: ")]
    for event in events:
        messages += reader.feed(event)
        faults += [f"{event}: {wrong.message[:99]}" for wrong in EVENTS.iter_errors(event)]
        if event["type"] == "error" and event["code"] != "E-STREAM-TRUNCATED":
            error = event["code"]
    numbers = [event["seq"] for event in events if "seq" in event]
    faults += [] if numbers == list(range(len(numbers))) else ["numbers are missing"]
    if error is None:
        faults += written(given, before, messages)
    return Seen(messages, error, faults)


def written(given: Exchange, before: Conversation, messages: Sequence[Message]) -> Iterator[str]:
    """The client's own transcript, which it writes with our writer, is valid behind each frame of the stream."""
    opened = is_open(before) and messages
    text = given.transcript[: given.transcript.rindex("<|start|>")] if opened else given.transcript
    writer = Writer(TranscriptEnvelope(envelope_of(before).header))
    for message in before.messages[: len(before.messages) - bool(opened)]:
        if message.is_call or message.role is Role.TOOL:
            writer.skip(message)
    for message in messages:
        try:
            text += writer.write(message).removeprefix("\n") + "\n"
            read(text)
        except AntiphonError as error:
            yield f"streamed, {message} is refused: {error}"
            return


def numbered(messages: Sequence[Message]) -> list[Message]:
    """The messages with their call ids by number: those that a server makes up are others each time."""
    ids = {id: f"call {i}" for i, id in enumerate(dict.fromkeys(message.call_id for message in messages))}
    return [
        message if message.call_id is None else replace(message, call_id=ids[message.call_id]) for message in messages
    ]


def is_open(conversation: Conversation) -> bool:
    return conversation.messages[-1].end is End.NONE


async def faults_of(given: Exchange, second: Implementation | None = None) -> tuple[str, list[str]]:
    """How the exchange ended, and what is wrong with it."""
    got = [await answered(given, stream=stream, chunk=chunk) for stream, chunk in ((False, 1), (True, 1), (True, 7))]
    before, _ = repair(given.transcript)
    one, *others = whole(given, before, got[0]), *(streamed(given, before, each) for each in got[1:])
    faults = [fault for seen in (one, *others) for fault in seen.faults]
    for other in others:
        if one.error != other.error:
            faults.append(f"whole: {one.error}, streamed: {other.error}")
        elif one.error is None and numbered(one.messages) != numbered(other.messages):
            faults.append(f"whole: {one.messages}\n streamed: {other.messages}")
    faults += ["hidden text is shown"] if any(SECRET.encode() in each.body for each in got) else []
    if second is not None and one.error is None:
        report: Any = second(got[0].body, [])
        if not (report["valid"] or report.get("unsupported")):
            faults.append(f"the second reader: {report['errors']}")
    return one.error or "answered", faults


async def run(exchanges: int, seed: int, second: Implementation | None = None) -> tuple[Counter[str], list[str]]:
    """How so many exchanges ended, and the first that has faults, with them."""
    rng, ended = random.Random(seed), Counter[str]()
    for number in range(exchanges):
        given = Exchange.drawn(rng, number)
        end, faults = await faults_of(given, second)
        ended[end] += 1
        if faults:
            return ended, [f"{given}", *faults]
    return ended, []


def main() -> int:
    exchanges = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    reader: AbstractContextManager[Implementation | None] = nullcontext()
    with suppress(ImportError):
        from kit.javascript import second_reader

        reader = second_reader()
    with reader as second:
        ended, faults = asyncio.run(run(exchanges, seed, second))
    print(f"{ended.total()} exchanges, seed {seed}: {dict(ended)}", *faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
