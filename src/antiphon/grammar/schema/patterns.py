r"""Regular expressions that several translations need.

>>> all_except(["no", "non"])
'^(?s:|[^n].*|n(?:|[^o].*|o(?:[^n].*|n(?:.+))))$'
>>> pattern_keywords(["^a", "b$"])
{'pattern': '^a', 'allOf': [{'type': 'string', 'pattern': 'b$'}]}
>>> [matches("^a", "abc"), matches("^a", "cba")]
[True, False]
>>> [bool(LOOKS_AROUND.search(pattern)) for pattern in (r"^(?=a)", r"\bword", r"(a)\1", r"a\\b")]
[True, True, True, False]
>>> [is_regular(pattern) for pattern in (r"^a$|^b$", r"[^$]+\$", r"a$b", r"(?m)^a$", r"\bword")]
[True, True, False, False, False]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import jsonschema_rs

from antiphon.errors.extras import extra
from antiphon.grammar.text import quote

LOOKS_AROUND = re.compile(r"(?:^|[^\\])(?:\\\\)*(?:\(\?<?[=!]|\\[1-9bB]|\\k<)")
"""A pattern that looks around or back, which the engine's automata cannot."""

_CLASSES_AND_ESCAPES = re.compile(r"\[\^?\]?(?:\\.|[^]\\])*\]|\\.", re.DOTALL)

_MIDST = re.compile(r"[\^$]|\(\?[a-z]*m")


def is_regular(pattern: str) -> bool:
    """Whether the engine's automata can take the pattern: what looks around they cannot, nor anchors in its midst."""
    if LOOKS_AROUND.search(pattern):
        return False
    inside = _CLASSES_AND_ESCAPES.sub("", pattern.removeprefix("^").removesuffix("$"))
    return not _MIDST.search(inside) or not engine_fault({"type": "string", "pattern": pattern})


def engine_fault(schema: dict[str, Any]) -> str:
    """What the engine has against a schema, in its own words; empty where it takes it. Needs the extra ``local``."""
    with extra("local", "a grammar"):
        from llguidance import LLMatcher

    return str(LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema)))


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
