r"""Regular expressions that several translations need.

>>> all_except(["no", "non"])
'^(?s:|[^n].*|n(?:|[^o].*|o(?:[^n].*|n(?:.+))))$'
>>> pattern_keywords(["^a", "b$"])
{'pattern': '^a', 'allOf': [{'type': 'string', 'pattern': 'b$'}]}
>>> [matches("^a", "abc"), matches("^a", "cba")]
[True, False]
>>> [bool(LOOKS_AROUND.search(pattern)) for pattern in (r"^(?=a)", r"\bword", r"(a)\1", r"a\\b")]
[True, True, True, False]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import jsonschema_rs

from antiphon.grammar.text import quote

LOOKS_AROUND = re.compile(r"(?:^|[^\\])(?:\\\\)*(?:\(\?<?[=!]|\\[1-9bB]|\\k<)")
"""A pattern that looks around or back, which the engine's automata cannot."""


def pattern_keywords(patterns: Sequence[str]) -> dict[str, Any]:
    """The keywords of a schema whose texts match every one of the patterns."""
    rest = [{"type": "string", "pattern": pattern} for pattern in patterns[1:]]
    return {"pattern": patterns[0], **({"allOf": rest} if rest else {})} if patterns else {}


def all_except(texts: Collection[str], *, without: str = "") -> str:
    """A pattern of every text but ``texts``, and without any character of ``without``.

    Such a text leaves all of ``texts`` at some character, or ends before or after them: a trie, written as a pattern.
    """
    return f"^(?s:{_leaving('', texts, without)})$"


def _leaving(prefix: str, texts: Collection[str], without: str) -> str:
    """How texts go on behind ``prefix`` that are none of ``texts``."""
    following = sorted({text[len(prefix)] for text in texts if text.startswith(prefix) and text != prefix})
    any_ = f"[^{quote(without)}]" if without else "."
    if not following:
        return f"{any_}+"
    ways = [f"[^{''.join(map(quote, sorted({*following, *without})))}]{any_}*"]
    ways += [f"{quote(char)}(?:{_leaving(prefix + char, texts, without)})" for char in following]
    return "|".join(ways if prefix in texts else ["", *ways])


def matches(pattern: str, text: str) -> bool:
    """Whether ECMA-262's ``pattern`` is found in the text."""
    return jsonschema_rs.is_valid({"pattern": pattern}, text)
