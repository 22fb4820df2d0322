"""What a person typed, as commands and questions; questions of several lines stand between three quotes."""

from __future__ import annotations

from collections.abc import AsyncIterator

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


async def joined(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """The lines, those of a question between quotes as one. One without an end ends with the input."""
    begun = ""
    async for line in lines:
        begun += line
        if not is_open(begun):
            yield begun
            begun = ""
    if begun:
        yield begun
