"""Free text in which a call in another form, once it has begun, goes on to a whole call of an offered tool.

A call has begun with its name and the key of its arguments, wherever they stand: alone, in a fence, a list, marks or
an object of their own. The patterns exclude nothing from a text, for that costs the engine a look at its whole
vocabulary at each token (1.2 ms with 152,000 tokens, where these patterns take 0.06 ms).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from antiphon.conversation import ToolSpec
from antiphon.grammar import Grammar, Repeat, ReplyShape, chain, choice
from antiphon.grammar.grammar import Lexeme
from antiphon.grammar.rules import GAP, quote

from .offered import ARGUMENT_KEYS, NAME_KEYS

STRICT_BEGINNING = r"[ \t\n]*(```(json|tool|function|[ \t\n]*[\{\[])|[\{\[])"
"""How an answer does not begin where only the trained form of calls counts."""
_SPACE = r" \t\n"


def text_with_calls(shape: ReplyShape, tools: Sequence[ToolSpec]) -> Grammar:
    """Any text; in it, the arguments of each call of one of the tools fit the tool's schema, and its object is closed.

    A call may be where its name stands before its arguments, both in double quotes.
    """
    calls = [
        chain(
            Lexeme(_begun(tool.name)),
            replace(shape.arguments(tool), any_whitespace=True),
            Lexeme(rf"{GAP}\}}"),
        )
        for tool in tools
    ]
    return Repeat(choice(Lexeme(r'[^"]+'), Lexeme(_other_strings(tool.name for tool in tools)), *calls))


def _begun(name: str) -> str:
    """The pattern of what is before the arguments, from the quote of the name's key on."""
    space = rf"[{_SPACE}]*"
    key, argument = _one_of(NAME_KEYS), _one_of(ARGUMENT_KEYS)
    return f'"{key}"{space}:{space}"{quote(name)}"{space},{space}"{argument}"{space}:{GAP}'


def _other_strings(names: Iterable[str]) -> str:
    """The pattern of a quote and what is behind it, up to the first character that begins no call; or to the end."""
    parts = [_quoted(NAME_KEYS), [":"], _quoted(names), [","], _quoted(ARGUMENT_KEYS), [":"]]
    ways, before = [_departing([word[1:] for word in parts[0]])], _one_of(word[1:] for word in parts[0])
    for part in parts[1:]:
        ways.append(f"{before}[{_SPACE}]*{_departing(part, besides=_SPACE)}")
        before += f"[{_SPACE}]*{_one_of(part)}"
    return f'"({"|".join(ways)})'


def _quoted(words: Iterable[str]) -> list[str]:
    return [f'"{word}"' for word in words]


def _one_of(words: Iterable[str]) -> str:
    return f"({'|'.join(map(quote, words))})"


def _departing(words: Iterable[str], *, besides: str = "") -> str:
    """The pattern of the words' beginnings, with a character behind that none of them has there, or without.

    ``besides``: characters which are none of these. No word begins another.
    """
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(word[0], []).append(word[1:])
    ways = [f"[^{besides}{''.join(map(quote, by_first))}]"]
    ways += [f"{quote(first)}{_departing(after)}" for first, after in by_first.items() if after != [""]]
    return f"({'|'.join(ways)})?"
