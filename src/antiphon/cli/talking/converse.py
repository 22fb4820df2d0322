"""One question, or turn after turn until the input ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from antiphon.cli.app import print_error
from antiphon.cli.options import as_json
from antiphon.conversation import TurnEnded
from antiphon.errors import AntiphonError

from .commands import Edit, Leave, command_named
from .session import Session, images_of, with_files
from .talk import answer_form

# What a person typed, as commands and questions; questions of several lines stand between three quotes.

QUOTES = '"""'


def is_open(text: str) -> bool:
    """Whether the text begins a question of several lines that has no end yet."""
    stripped = text.strip()
    return stripped.startswith(QUOTES) and not (len(stripped) >= 2 * len(QUOTES) and stripped.endswith(QUOTES))


def question_of(text: str) -> str:
    """The text of a question, without the quotes around one of several lines."""
    stripped = text.strip()
    if not stripped.startswith(QUOTES):
        return stripped
    return stripped.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")


def command_of(text: str) -> tuple[str, str] | None:
    """(``/name``, what follows it) of a command; None for a question."""
    stripped = text.strip()
    if not stripped.startswith("/"):
        return None
    word, _, rest = stripped.partition(" ")
    return word, rest.strip()


class Input(Protocol):
    """Typed input: `texts`, one command or question after the other; ``edited`` stands at the next prompt."""

    edited: str

    def texts(self) -> AsyncGenerator[str, None]: ...


class Piped:
    """Standard input that is no terminal: a line is a turn, and so is a question between quotes, if without an end."""

    def __init__(self) -> None:
        self.edited = ""

    async def texts(self) -> AsyncGenerator[str, None]:
        begun = ""
        while line := await asyncio.to_thread(sys.stdin.readline):
            begun += line
            if not is_open(begun):
                yield begun
                begun = ""
        if begun:
            yield begun


async def ask_once(session: Session, question: str) -> bool:
    """One question and its answer; False when it was stopped before its end."""
    state = session.state.with_question(with_files(question, session.files), images_of(session.files))
    _, events = await session.stream(state)
    if session.as_json:
        print(as_json(answer_form(events)))
    return any(isinstance(event, TurnEnded) for event in events)


async def converse(session: Session, source: Input) -> None:
    """Turn after turn until the input ends or /quit. An answer that fails does not end the conversation."""
    replaces = False
    async with aclosing(source.texts()) as texts:
        async for text in texts:
            try:
                if replaces and command_of(text) is None:
                    await session.again(question_of(text))
                else:
                    await act(session, text)
                replaces = False
            except Edit as edit:
                source.edited, replaces = str(edit), True
            except Leave:
                return
            except AntiphonError as error:
                print_error(error, as_json=session.as_json)


async def act(session: Session, text: str) -> None:
    """A command, or a question to the model; nothing for an empty line."""
    command = command_of(text)
    if command is not None:
        word, rest = command
        await command_named(word).run(session, rest)
    elif question := question_of(text):
        await session.ask(question)
