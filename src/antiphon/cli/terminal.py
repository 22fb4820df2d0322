"""How a conversation looks at a terminal or in a pipe, and the commands that it knows."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import assert_never

import msgspec

from antiphon.conversation import (
    Incident,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    visible_to_user,
)
from antiphon.errors import AntiphonError
from antiphon.generation import RoundEvent
from antiphon.tokens import spell
from antiphon.tools import ToolCancelled, ToolEnded, ToolStarted

from .answer import answer_form
from .app import print_error
from .pretty import UNSAFE
from .talk import Partner, Talk, hear
from .transcript import transcript_json

HELP = """\
/system TEXT   the system message (without a text: nothing)
/retry         another answer to the last question
/raw           the conversation as the model reads it
/save FILE     the conversation as JSON
/quit          leave (so does Ctrl-D); Ctrl-C stops an answer"""


class Screen:
    """Shows one answer while it comes: what end users may see, on stdout; how it went, on stderr of a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._visible = False
        self._started = time.perf_counter()
        self._first: float | None = None

    def show(self, event: RoundEvent) -> None:
        match event:
            case MessageStarted(message):
                self._visible = visible_to_user(message)
            case TextDelta(text):
                self._first = self._first or time.perf_counter()
                if self._visible:
                    print(UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text) if self._terminal else text, end="", flush=True)
            case MessageEnded():
                if self._visible:
                    print(flush=True)
                self._visible = False
            case TurnEnded():
                self._figures(event)
            case ToolStarted(call):
                self._aside(f"{call.recipient} {call.body}")
            case ToolEnded(result):
                outcome = "ok" if result.error is None else f"{result.error.code}: {result.error.message}"
                self._aside(f"{result.call.recipient} {outcome}, {result.seconds:.1f} s")
            case Incident() | ToolCancelled():
                pass
            case _:
                assert_never(event)

    def _aside(self, text: str) -> None:
        """What the tools do, on stderr: a line, cut, without what moves a cursor."""
        line = UNSAFE.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))[:160]
        print(f"\x1b[2m· {line}\x1b[0m" if sys.stderr.isatty() else f"· {line}", file=sys.stderr, flush=True)

    def _figures(self, ended: TurnEnded) -> None:
        if not sys.stderr.isatty():
            return
        now = time.perf_counter()
        first = self._first or now
        speed = ended.usage.completion_tokens / max(now - self._started, 1e-9)
        print(
            f"\x1b[2mprompt {ended.usage.prompt_tokens}  out {ended.usage.completion_tokens}  "
            f"first {1000 * (first - self._started):.0f} ms  {speed:.0f} tok/s\x1b[0m",
            file=sys.stderr,
        )


async def ask_once(partner: Partner, talk: Talk, question: str, *, as_json: bool) -> bool:
    """One question and its answer; False when it was stopped before its end."""
    talk = talk.with_question(question)
    _, heard = await hear(partner, talk, quiet if as_json else Screen().show)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(answer_form(heard))).decode())
    return any(isinstance(event, TurnEnded) for event in heard)


def quiet(event: RoundEvent) -> None:
    """Shows nothing."""


async def converse(partner: Partner, talk: Talk, *, as_json: bool) -> None:
    """Turn after turn until the input ends or /quit. An answer that fails does not end the conversation."""
    async for line in lines():
        word, _, rest = line.strip().partition(" ")
        if word == "/quit":
            return
        if not word:
            continue
        try:
            talk = await act(partner, talk, word, rest.strip(), line, as_json=as_json)
        except AntiphonError as error:
            print_error(error, as_json=as_json)


async def act(partner: Partner, talk: Talk, word: str, rest: str, line: str, *, as_json: bool) -> Talk:
    """One line of input: a command, or a message to the model."""
    match word:
        case "/help":
            print(HELP)
        case "/system":
            return talk.with_system(rest)
        case "/raw":
            print(spell(tuple(partner.model.format.render(talk.conversation, reply_as=None))))
        case "/save":
            save(talk, rest)
        case "/retry" if talk.last_question is None:
            print("there is no question yet", file=sys.stderr)
        case "/retry":
            question = talk.last_question or ""
            return await ask(partner, talk.before_last_question(), question, as_json=as_json)
        case _ if word.startswith("/"):
            print(f"unknown command {word}; /help lists them", file=sys.stderr)
        case _:
            return await ask(partner, talk, line.strip(), as_json=as_json)
    return talk


async def ask(partner: Partner, talk: Talk, question: str, *, as_json: bool) -> Talk:
    """The talk after one more question and what was answered; as it was, when the answer failed."""
    talk, heard = await hear(partner, talk.with_question(question), quiet if as_json else Screen().show)
    if as_json:
        print(msgspec.json.encode(answer_form(heard)).decode(), flush=True)
    elif not any(isinstance(event, TurnEnded) for event in heard):
        print("\n(stopped)", flush=True)
    return talk


def save(talk: Talk, name: str) -> None:
    if not name:
        print("/save needs a file's name", file=sys.stderr)
        return
    try:
        Path(name).expanduser().write_text(transcript_json(talk.conversation), "utf-8")
    except OSError as error:
        print(f"cannot write {name}: {error.strerror}", file=sys.stderr)
        return
    print(f"saved {name}", file=sys.stderr)


async def lines() -> AsyncIterator[str]:
    """What the user types, with an editor's keys on a terminal; else the lines of standard input."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        while line := await asyncio.to_thread(sys.stdin.readline):
            yield line
        return
    # Only a terminal needs an editor, and it is slow to import.
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession()
    while True:
        try:
            yield await session.prompt_async("▸ ")
        except KeyboardInterrupt:  # Ctrl-C at the prompt clears the line
            continue
        except EOFError:
            return
