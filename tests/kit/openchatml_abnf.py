"""The grammar of docs/openchatml.abnf, as a pattern over octets: the grammar is regular, so it is one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

GRAMMAR = Path(__file__).parents[2] / "docs" / "openchatml.abnf"
CORE = {
    "ALPHA": "[A-Za-z]", "DIGIT": "[0-9]", "HEXDIG": "[0-9A-Fa-f]", "SP": " ", "HTAB": "\\t", "WSP": "[ \\t]",
    "CR": "\\r", "LF": "\\n",
}  # fmt: skip
"""RFC 5234, appendix B.1: the rules that every grammar may use."""

_TOKEN = re.compile(
    r"""(?P<repeat>\d*\*\d*|\d+) | (?P<text>(?:%[si])?"[^"]*") | (?P<octets>%x[0-9A-F.-]+) | (?P<rule>[A-Za-z][\w-]*)
      | (?P<mark>[()\[\]/])""",
    re.VERBOSE,
)
_RULE = re.compile(r"^([A-Za-z][\w-]*) +(=/?) +(.*(?:\n .*)*)", re.MULTILINE)


def parses(transcript: bytes, *, rule: str = "transcript", declared: tuple[str, ...] = ()) -> bool:
    """Whether the rule matches all of the octets. ``declared``: the namespaces that the header names."""
    return _pattern(rule, declared).fullmatch(transcript.decode("latin-1")) is not None


@cache
def _pattern(rule: str, declared: tuple[str, ...]) -> re.Pattern[str]:
    text = re.sub(r";.*", "", GRAMMAR.read_text("utf-8"))
    rules = {name: body for name, _, body in _RULE.findall(text)}
    rules["declared"] += "".join(f' / %s"{namespace}"' for namespace in declared)
    return re.compile(_Translation(rules).of(rule))


class _Translation:
    """Rules of ABNF as patterns; a rule that no grammar has is a KeyError."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._rules = rules
        self._known = dict(CORE)

    def of(self, name: str) -> str:
        if name not in self._known:
            assert not _TOKEN.sub("", self._rules[name]).strip(), f"{name} has what is no ABNF"
            tokens = [(found.lastgroup or "", found.group()) for found in _TOKEN.finditer(self._rules[name])]
            self._known[name] = self._alternatives(iter([*tokens, ("mark", "")]), "")
        return self._known[name]

    def _alternatives(self, tokens: Iterator[tuple[str, str]], close: str) -> str:
        """Up to the mark that closes them."""
        ways, repeat = [""], ""
        for kind, token in tokens:
            if token == close and kind == "mark":
                break
            if kind == "repeat":
                repeat = token
            elif token == "/":
                ways.append("")
            else:
                ways[-1] += self._element(kind, token, tokens) + _times(repeat)
                repeat = ""
        return f"(?:{'|'.join(ways)})"

    def _element(self, kind: str, token: str, tokens: Iterator[tuple[str, str]]) -> str:
        if kind == "rule":
            return self.of(token)
        if kind == "text":
            sign, _, text = token.partition('"')
            return f"(?{'' if sign == '%s' else 'i'}:{re.escape(text[:-1])})"
        if kind == "octets":
            ends = [f"\\x{digits}" for digits in re.split("[.-]", token[2:])]
            return f"[{ends[0]}-{ends[1]}]" if "-" in token else f"(?:{''.join(ends)})"
        return self._alternatives(tokens, ")") if token == "(" else f"{self._alternatives(tokens, ']')}?"


def _times(repeat: str) -> str:
    least, star, most = repeat.partition("*")
    if not repeat:
        return ""
    return f"{{{least or 0},{most}}}" if star else f"{{{least}}}"
