"""Values between two markers, where a string stands as it is and anything else as a literal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from antiphon.conversation import JsonSchema

from .kinds import of_type, resolved, types_of
from .literals import MOST_COUNTED, LiteralWriter, Relax
from .rules import Rules
from .spelling import ValueSpelling
from .text import any_text, quoted

_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[[^]]*\]|[^]\\])*\]|.", re.DOTALL)


class RawValueWriter:
    """Writes a value's rules together with the marker behind it."""

    def __init__(self, rules: Rules, literals: LiteralWriter, form: ValueSpelling, root: JsonSchema, relax: Relax):
        self._rules = rules
        self._literals = literals
        self._form = form
        self._root = root
        self._relax = relax

    def value(self, node: JsonSchema, where: str, *, strings: bool = True, others: bool = True) -> str | None:
        """A value of the schema, of those that are ``strings`` (as they are) or ``others``; None for no value."""
        ways = list(dict.fromkeys(self._ways(resolved(node, self._root), where, strings, others)))
        free = self._closed(any_text(None))
        if free in ways:
            return free
        return f"({' | '.join(ways)})" if ways else None

    def _ways(self, node: JsonSchema, where: str, strings: bool, others: bool) -> Iterator[str]:
        if node is False:
            return
        given = node if isinstance(node, dict) else {}
        if "anyOf" in given and not given.keys() & {"enum", "const", "type"}:
            for i, branch in enumerate(given["anyOf"]):
                inner = resolved(branch, self._root)
                yield from self._ways(inner, f"{where}.anyOf[{i}]", strings, others)
            return
        if "enum" in given or "const" in given:
            yield from self._fixed(given.get("enum", [given.get("const")]), strings, others)
            return
        types = types_of(given, self._root)
        if strings and "string" in types:
            yield (text := self._string(given, where))
            others = others and text != self._closed(any_text(None))
        if others and set(types) != {"string"}:
            literal = self._literals.value(_without_strings(given, types), where)
            if literal is not None:
                yield f"{literal} {self._rules.pieces(self._form.after)}"

    def _fixed(self, values: list[Any], strings: bool, others: bool) -> Iterator[str]:
        for value in values:
            if isinstance(value, str) and strings:
                if not any(word in value for word in self._form.avoid):
                    yield " ".join(filter(None, [quoted(value), self._rules.pieces(self._form.after)]))
            elif not isinstance(value, str) and others:
                literal = self._literals.fixed(value)
                if literal is not None:
                    yield f"{literal} {self._rules.pieces(self._form.after)}"

    def _string(self, node: dict[str, Any], where: str) -> str:
        """The string as it is."""
        text = any_text(None)
        least, most = int(node.get("minLength", 0)), node.get("maxLength")
        if max(least, most or 0) > MOST_COUNTED:
            self._relax("maxLength", f"{where}.{'maxLength' if most else 'minLength'}")
        elif least or most is not None:
            text = f"/(?s:.){{{least},{'' if most is None else int(most)}}}/"
        for part in (node, *node.get("allOf", ())):
            if "pattern" in part:
                whole = whole_pattern(part["pattern"])
                if whole is None:
                    self._relax("pattern", f"{where}.pattern")
                else:
                    text += f" & /{whole}/"
        return self._closed(text)

    def _closed(self, text: str) -> str:
        return self._rules.closed(self._rules.clear(text, self._form.avoid), self._form.after)


def _without_strings(node: dict[str, Any], types: tuple[str, ...]) -> JsonSchema:
    return {**of_type(node, ""), "type": [name for name in types if name != "string"]}


def whole_pattern(pattern: str) -> str | None:
    """What a whole text matches in which the pattern is found; None where its anchors stand inside.

    >>> whole_pattern("^[a-z]+$"), whole_pattern("b/c"), whole_pattern("^a|b$")
    ('(?:[a-z]+)', '(?s:.*)(?:b\\\\/c)(?s:.*)', None)
    """
    signs = _SIGN.findall(pattern)
    begins, ends = signs[:1] == ["^"], signs[-1:] == ["$"]
    inner = signs[begins : len(signs) - ends]
    if "^" in inner or "$" in inner or ((begins or ends) and _has_choice(inner)) or any("\n" in s for s in inner):
        return None
    text = "".join(sign.replace("/", "\\/") if not sign.startswith("\\") else sign for sign in inner)
    return f"{'' if begins else '(?s:.*)'}(?:{text}){'' if ends else '(?s:.*)'}"


def _has_choice(signs: list[str]) -> bool:
    depth = 0
    for sign in signs:
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            return True
    return False
