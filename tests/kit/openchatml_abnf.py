"""The grammar of docs/openchatml.abnf, as a pattern over octets."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from abnf import Rule
from abnf.grammars.misc import load_grammar_rulelist
from abnf_to_regexp import single_regexp

GRAMMAR = Path(__file__).parents[2] / "docs" / "openchatml.abnf"


def parses(transcript: bytes, *, rule: str = "transcript", declared: tuple[str, ...] = ()) -> bool:
    """Whether the rule matches all of the octets. ``declared``: the namespaces that the header names."""
    return _pattern(rule, declared).fullmatch(transcript.decode("latin-1")) is not None


@cache
def _pattern(rule: str, declared: tuple[str, ...]) -> re.Pattern[str]:
    """The whole grammar is regular, so it is one pattern; a header's namespaces are alternatives of ``declared``."""
    lines = [f"root = {rule}", *GRAMMAR.read_text("utf-8").splitlines()]
    lines += [f'declared =/ %s"{namespace}"' for namespace in declared]

    @load_grammar_rulelist()
    class Grammar(Rule):
        grammar = "\n".join(line for line in lines if line)

    return re.compile(single_regexp.represent(single_regexp.translate(Grammar)))
