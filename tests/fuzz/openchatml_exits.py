"""Throws random headers, conversations and replies at everything that writes OpenChatML.

    [DRAWS=20000] python tests/fuzz/openchatml_exits.py [SECONDS] [SEED]

What comes out is valid for the strict reader, or the exit refuses with a typed error; nothing else may happen. A
failure prints the check and the input.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from antiphon.api.transcript.write import Gate
from antiphon.conversation import (
    Conversation,
    DebugCapability,
    End,
    Event,
    FinishReason,
    Message,
    MessageEnded,
    MessageStarted,
    Role,
    TextDelta,
    TurnEnded,
    Usage,
    visible_to_user,
)
from antiphon.conversion import Conversion, SidecarWriter, read_sidecar
from antiphon.errors import AntiphonError, ParseError, RenderError
from antiphon.formats.openchatml import (
    DocumentHeader,
    EventReader,
    EventStream,
    Finding,
    TranscriptEnvelope,
    fix,
    from_json,
    openchatml,
    read,
    repair,
    to_json,
    tools_behind,
    write,
)
from antiphon.formats.openchatml.lint import RULES, Severity, mended
from antiphon.formats.openchatml.spelling import CONTROLS
from antiphon.formats.openchatml.yaml_header import alike, plain_fields
from antiphon.tokens import Control, well_formed
from antiphon.tools import ToolCancelled
from fuzz.openchatml import corpus, invent, mutate

FORMS = ("harmony", "harmony-ids", "harmony-json", "chat", "responses", "openchatml")
SPELLED = [control.spelling for control in CONTROLS]
TEXTS = ["", "a", "Hello.", "\n", "é", "<", "<<", "a <", "|end|>", "\udc80", "\0", "---\n", *SPELLED, f"<{SPELLED[0]}"]
BODIES = ["{}", '{"a": 1}', '{"a": ', "[1]", "1", "print(1)", "", " ", "NaN", '{"a": "<|call|>"}']
TOOLS = ["functions.f", "functions.g", "python", "browser.search"]
ODD_TOOLS = ["f", "functions.", "x.y", "function.f", "all", "user", "assistant", "a b", "<|end|>", "", "é"]
SCALARS: list[Any] = [
    None, True, False, 0, -7, 10**30, 0.5, 1e300, -0.0, float("inf"), float("nan"), date(2024, 1, 1),
    "", " ", "a", "null", "~", "true", "no", "off", "1", "1.5", "1e3", ".nan", "2024-01-01", "1:30", "0x1F", "0o7", "=",
    "<<", "---", "...", "- a", "a: b", "# c", "'", '"', "*a", "&a", "!t", "%Y", "@", "`", "{", "[", "? a", ",", "\t",
    "\n", "a\nb", "a\n", "\r", "\x85", "\u2028", "\ufeff", "é", "😀", "\0", "\x7f", "<|start|>", "<|start|>user",
    "a " * 80, "x" * 130, "\ud800",
]  # fmt: skip
KEYS: list[Any] = [key for key in SCALARS if key is not None and not (isinstance(key, float) and math.isnan(key))]
REASONS = [*FinishReason]


@dataclass(frozen=True)
class Failure:
    check: str
    given: object
    problem: str


# -- what is drawn ----------------------------------------------------------------------------------------------------


def value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.7 or depth > 3:
        return rng.choice(SCALARS)
    if kind < 0.85:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def some(rng: random.Random, words: list[str]) -> list[str]:
    return [word for word in words if rng.random() < 0.8]


def header(rng: random.Random) -> DocumentHeader:
    """A header that limits what may be used, more often than not."""
    fields: dict[str, Any] = {"model": "m"} if rng.random() < 0.3 else {}
    if rng.random() < 0.4:
        lists = {
            "roles": ["system", "developer", "user", "assistant", "tool", "functions.*"],
            "channels": ["analysis", "commentary", "final"],
            "tokens": SPELLED,
        }
        fields["capabilities"] = {key: some(rng, words) for key, words in lists.items() if rng.random() < 0.6}
    if rng.random() < 0.2:
        profile: dict[str, Any] = {"enabled": True}
        if rng.random() < 0.5:
            profile["require_channels"] = ["analysis", "commentary", "final"]
        if rng.random() < 0.5:
            profile["tool_calls_in"] = some(rng, ["analysis", "commentary", "final"]) or ["analysis"]
        fields["profiles"] = {"harmony": profile}
    return DocumentHeader(rng.choice(["2.2", "2.2", "2.10", "1.0"]), fields)


def text(rng: random.Random) -> str:
    return "".join(rng.choices(TEXTS, k=rng.randrange(4)))


def plausible(rng: random.Random, number: int) -> list[Message]:
    """Messages as programs write them."""
    match rng.randrange(5):
        case 0:
            return [Message(role=rng.choice([Role.USER, Role.SYSTEM, Role.DEVELOPER]), text=text(rng))]
        case 1:
            return [Message(role=Role.ASSISTANT, channel="analysis", text=text(rng))]
        case 2:
            kind, body = rng.choice([None, None, "json", "markdown"]), rng.choice([text(rng), "[1]"])
            typed = kind is not None and rng.random() < 0.5
            return [Message(role=Role.ASSISTANT, channel=rng.choice(["final", None]), text=body, content_type=kind,
                            constrained=typed, end=End.RETURN)]  # fmt: skip
        case 3:
            return [Message(role=Role.ASSISTANT, channel="commentary", intent="preamble", text=text(rng))]
    tool, id = rng.choice(TOOLS), rng.choice([f"c{number}", "c", "é <", None])
    typed = rng.random() < 0.7
    call = Message(role=Role.ASSISTANT, recipient=tool, channel=rng.choice(["commentary", "commentary", "final", None]),
                   call_id=id, content_type="json" if typed else None, constrained=typed, text=rng.choice(BODIES),
                   end=rng.choice([End.CALL, End.END]))  # fmt: skip
    reply = Message(role=Role.TOOL, name=rng.choice([tool, tool, None]), call_id=id, text=text(rng),
                    channel=rng.choice([None, "commentary"]), recipient=rng.choice([None, "assistant"]))  # fmt: skip
    return [call, reply] if rng.random() < 0.8 else [call]


def any_message(rng: random.Random) -> Message:
    """A message of any fields at all."""
    return Message(
        role=rng.choice(list(Role)),
        text=rng.choice([text(rng), rng.choice(BODIES)]),
        name=rng.choice([None, None, *TOOLS, *ODD_TOOLS]),
        recipient=rng.choice([None, None, *TOOLS, *ODD_TOOLS]),
        channel=rng.choice([None, "final", "analysis", "commentary", "finl", "Comentary", "notes", ""]),
        content_type=rng.choice([None, None, "json", "text", "", "a b"]),
        constrained=rng.random() < 0.2,
        call_id=rng.choice([None, "c", "c1", "", "x" * 5000]),
        intent=rng.choice([None, None, "preamble", "preambel", "status", "debug", "loud", ""]),
        end=rng.choice(list(End)),
    )


def messages(rng: random.Random) -> tuple[Message, ...]:
    drawn: list[Message] = []
    for number in range(rng.randrange(1, 5)):
        drawn += plausible(rng, number) if rng.random() < 0.8 else [any_message(rng)]
    return tuple(drawn)


def conversation(rng: random.Random) -> Conversation:
    extra = {"openchatml": TranscriptEnvelope(header(rng))} if rng.random() < 0.7 else {}
    return Conversation(messages(rng), extra=extra)


def transcript(rng: random.Random, seeds: list[str]) -> str | None:
    """A valid transcript: of the suite, or one that was written."""
    if rng.random() < 0.5:
        found = rng.choice(seeds)
        return found if is_valid(found) is None else None
    try:
        return write(fix(conversation(rng))[0])
    except RenderError:
        return None


def is_valid(written: str | bytes, *, fragment: bool = False) -> str | None:
    try:
        read(written, fragment=fragment)
    except ParseError as error:
        return f"the strict reader says {error.code}: {error}"
    return None


# -- what must hold ---------------------------------------------------------------------------------------------------


def check_header(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """A header of any values is read as the same values, or refused."""
    fields = {rng.choice([*KEYS, "model", "x"]): value(rng) for _ in range(rng.randrange(4))}
    given = DocumentHeader(rng.choice(["2.2", "2.10"]), fields)
    try:
        written = write(Conversation(extra={"openchatml": TranscriptEnvelope(given)}))
    except RenderError as error:
        return given, None if error.code == "E-PARSE-HEADER" else f"refused with {error.code}"
    envelope = read(written).extra["openchatml"]
    back = envelope.header if isinstance(envelope, TranscriptEnvelope) else None
    return given, None if back and alike(back.fields, plain_fields(given)) else f"read as {back}"


def check_write(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """A conversation is written as a valid transcript or refused; fixed once, there is nothing more to fix."""
    given = conversation(rng)
    fixed, _ = fix(given)
    for one in (given, fixed):
        try:
            problem = is_valid(write(one))
        except RenderError as error:
            problem = None if error.code.startswith("E-") else f"refused with {error.code}"
        if problem:
            return given, problem
    again = fix(fixed)[1]
    return given, f"fixed again: {again[0]}" if again else None


def check_mends(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """Messages keep their texts and their number; what was hidden stays hidden."""
    given = conversation(rng) if rng.random() < 0.6 else repair(mutate(rng, rng.choice(seeds), seeds)[:2000])[0]
    fixed, fixes = fix(given)
    if fix(fixed) != (fixed, ()):
        return given, f"fixed again: {fix(fixed)[1][0]}"
    if [message.text for message in fixed.messages] != [message.text for message in given.messages]:
        return given, "a text is changed"
    shows = [
        i
        for i, (had, has) in enumerate(zip(given.messages, fixed.messages, strict=True))
        if visible_to_user(has) and not visible_to_user(had)
    ]
    return given, f"messages[{shows[0]}] is shown: {list(map(str, fixes))}" if shows else None


def check_lint(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """What the linter mends has no more errors, shows no more, is mended at once, and says the same."""
    given, harmony = mutate(rng, rng.choice(seeds), seeds)[:1500], rng.random() < 0.2
    levels = dict.fromkeys(RULES, Severity.WARNING) if rng.random() < 0.3 else None
    after = mended(given, levels=levels, harmony=harmony)
    if mended(after, levels=levels, harmony=harmony) != after:
        return given, "it is mended again"
    (was, had), (has, more) = (errors_and_shown(text, harmony=harmony) for text in (given, after))
    if not was and has:
        return given, f"it was valid, and now there is {has[0]}"
    if any(not any(text in old for old in had) for text in more):
        return given, "what was hidden is shown"
    if not was and [m.text for m in repair(given)[0].messages] != [m.text for m in repair(after)[0].messages]:
        return given, "a text is changed"
    return given, None


def errors_and_shown(text: str, *, harmony: bool) -> tuple[list[Finding], list[str]]:
    read, findings = repair(text, fragment=False, harmony=harmony)
    errors = [finding for finding in findings if not finding.warning]
    return errors, [message.text for message in read.messages if visible_to_user(message)]


def check_lenient(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """The best reading of a broken text is written as a valid transcript, or refused."""
    source, text = rng.choice(["openchatml", "harmony"]), mutate(rng, rng.choice(seeds), seeds)[:2000]
    given = (source, text[max(0, text.find(SPELLED[0])) :] if source == "harmony" else text)
    try:
        written = b"".join(Conversion(to="openchatml", source=source, lenient=True).run([as_bytes(given[1])]))
    except AntiphonError:
        return given, None
    envelope = repair(text)[0].extra["openchatml"]
    headless = isinstance(envelope, TranscriptEnvelope) and envelope.header is None
    return given, is_valid(written, fragment=source == "openchatml" and headless)


def check_chat(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """Chat JSON of any kind becomes a valid transcript, or is refused."""
    given = json.dumps({"messages": [chat_message(rng) for _ in range(rng.randrange(1, 5))]})
    try:
        written = b"".join(Conversion(to="openchatml", source="chat").run([given.encode()]))
    except AntiphonError:
        return given, None
    return given, is_valid(written)


def chat_message(rng: random.Random) -> dict[str, Any]:
    role = rng.choice(["system", "developer", "user", "assistant", "assistant", "tool"])
    message: dict[str, Any] = {"role": role, "content": rng.choice([None, text(rng), text(rng)])}
    if role == "tool":
        message["tool_call_id"] = rng.choice(["c", "d"])
    if role == "assistant" and rng.random() < 0.6:
        names = ["f", "python", "a.b", "a b", "<|end|>", "assistant"]
        calls = [
            {"id": id, "type": "function", "function": {"name": rng.choice(names), "arguments": rng.choice(BODIES)}}
            for id in ("c", "d")[: rng.randrange(1, 3)]
        ]
        message |= {"tool_calls": calls}
    if rng.random() < 0.2:
        message["reasoning" if role == "assistant" else "name"] = rng.choice(["hm", "é <"])
    return message


def check_convert(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """There and back is valid, with a sidecar whole, and adds no message in silence; each way may be refused."""
    given, form, beside = transcript(rng, seeds), rng.choice(FORMS), rng.random() < 0.5
    if given is None:
        return given, None
    losses: list[object] = []
    there = Conversion(
        to=form, source="openchatml", on_loss=losses.append, sidecar_writer=SidecarWriter() if beside else None
    )
    try:
        output = b"".join(there.run([as_bytes(given)]))
    except RenderError:
        return (form, given), None
    sidecar = there.sidecar()
    back = Conversion(to="openchatml", source=form, input_sidecar=read_sidecar(sidecar.encode()) if sidecar else None)
    try:
        again = b"".join(back.run([output]))
    except RenderError as error:
        return (form, given), f"the way back is refused: {error}" if beside else None
    except ParseError as error:
        return (form, given), f"our reader refuses what was written: {error.code} {error}"
    if beside and again != as_bytes(given):
        return (form, given), "it is not whole"
    if problem := is_valid(again):
        return (form, given), problem
    more = len(read(again).messages) > len(read(given).messages)
    return (form, given), "a message was added, and no loss says so" if more and not losses else None


def check_json(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """The projection of a valid transcript is one, and gives the transcript's messages."""
    given = transcript(rng, seeds)
    if given is None:
        return given, None
    conversation = read(given)
    back = from_json(to_json(conversation))
    return given, None if back.messages == conversation.messages else "it has other messages"


def check_answer(rng: random.Random, seeds: list[str]) -> tuple[object, str | None]:
    """Whatever a model wrote, the transcript with its turn is valid and has the stream's frames, or it is an error."""
    given = transcript(rng, seeds)
    conversation = read(given) if given is not None else None
    if given is None or conversation is None or not conversation.messages:
        return given, None
    reply, reason, revealed = model_reply(rng, seeds), rng.choice(REASONS), rng.random() < 0.3
    last = conversation.messages[-1]
    if last.role is Role.ASSISTANT and last.channel in ("final", None) and visible_to_user(last) and rng.random() < 0.3:
        given = given.rstrip().removesuffix(f"<|{last.end}|>")
        conversation, wrong = repair(given)
        if (
            conversation.messages[-1].end is not End.NONE
            or conversation.messages[-1].text != last.text
            or len(wrong) != 1
        ):
            return given, None
    shown = (given, reply, reason, revealed)
    try:
        gate, reader = Gate(conversation, revealed=revealed), EventReader()
        stream = EventStream("s", debug=DebugCapability("fuzz") if revealed else None, tools=tools_behind(conversation))
        happened = [*(one for message in reply for one in events_of(message)), TurnEnded(reason, Usage())]
        passed = [one for event in happened for one in gate.feed(event) if not isinstance(one, ToolCancelled)]
        streamed = [message for one in passed for sent in stream.feed(one) for message in reader.feed(sent)]
        frames = "".join(gate.written)
    except (RenderError, ParseError) as error:
        return shown, None if error.code.startswith("E-") else f"refused with {error.code}"
    between = "" if conversation.messages[-1].end is End.NONE or given.endswith("\n") else "\n"
    whole = given + between + frames
    if problem := is_valid(whole):
        return shown, problem
    more = read(whole).messages[len(conversation.messages) - (conversation.messages[-1].end is End.NONE) :]
    if streamed != list(more):
        return shown, f"streamed it is {streamed}"
    hidden = [message for message in more if message.channel == "analysis" and not message.is_call]
    return shown, "reasoning is shown" if hidden and not revealed else None


def events_of(message: Message) -> list[Event]:
    """The events of a model's message, whose text is a decoder's and so has no half of a character."""
    message = replace(message, text=well_formed(message.text), extra={}, parts=())
    return [MessageStarted(replace(message, text="")), TextDelta(message.text), MessageEnded(message)]


def model_reply(rng: random.Random, seeds: list[str]) -> list[Message]:
    """What a model wrote, as its own format reads it."""
    if rng.random() < 0.5:
        drawn = [replace(m, extra={}) for m in messages(rng) if m.role is Role.ASSISTANT]
        ids = [f"n{i}" if m.call_id in (None, "") else m.call_id for i, m in enumerate(drawn)]
        return [replace(m, call_id=id if m.is_call else None) for m, id in zip(drawn, ids, strict=True)]
    parser = openchatml(rng.choice([[], CONTROLS])).parser()
    events = parser.feed([invent(rng, seeds)[:600], *([Control("<|im_end|>")] if rng.random() < 0.5 else [])])
    return [event.message for event in events + parser.close() if isinstance(event, MessageEnded)]


def as_bytes(given: str) -> bytes:
    return given.encode("utf-8", "surrogateescape")


CHECKS: dict[Callable[[random.Random, list[str]], tuple[object, str | None]], int] = {
    check_header: 3,
    check_write: 6,
    check_mends: 6,
    check_lint: 2,
    check_lenient: 3,
    check_chat: 2,
    check_convert: 2,
    check_json: 2,
    check_answer: 4,
}
"""Each check, and how often it is drawn."""


def fuzz(seed: int, *, seconds: float = 0.0, count: int = 0) -> tuple[int, Failure | None]:
    """How many inputs were tried, and the first that failed."""
    seeds = corpus()
    rng = random.Random(seed)
    end, tried = time.monotonic() + seconds, 0
    while tried < count or (not count and time.monotonic() < end):
        tried += 1
        (check,) = rng.choices(list(CHECKS), list(CHECKS.values()))
        state = rng.getstate()
        try:
            given, problem = check(rng, seeds)
        except Exception as error:  # noqa: BLE001 - a traceback is what we look for
            given, problem = f"state {hash(state)}", f"{type(error).__name__}: {error}"
        if problem:
            return tried, Failure(check.__name__, given, problem)
    return tried, None


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    tried, found = fuzz(seed, seconds=seconds, count=int(os.environ.get("DRAWS", "0")))
    print(
        f"{tried} inputs, seed {seed}: "
        + (f"{found.check}: {found.problem}\n{found.given!r}" if found else "no failure")
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
