"""Reads a text that is nothing but calls: JSON in a fence or bare, the marks of a model family, Python-like calls.

>>> weather = ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})
>>> [call.arguments for call in calls_in('{"name": "get_weather", "arguments": {"city": "Paris"}}', Offered([weather]))]
['{"city": "Paris"}']
>>> calls_in('{"name": "Ada", "arguments": {"city": "Paris"}}', Offered([weather]))
[]
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from antiphon.conversation import ToolSpec
from antiphon.formats.replies.json_text import JsonScan
from antiphon.formats.replies.literal import CLOSES, as_json, leading
from antiphon.tokens import well_formed

from .offered import (
    ARGUMENT_KEYS,
    BESIDE,
    DOUBLED_END,
    FENCES,
    FUNCTION_MARKS,
    ID_KEYS,
    JSON_FENCES,
    LISTS,
    MARKS,
    NAME_KEYS,
    PLAN,
    THOUGHT_KEYS,
    TYPES,
    FoundCall,
    Mark,
    Offered,
    properties_of,
)

# Calls in Python's spelling: ``f(a="x")``, ``f({"a": 1})``, one a line or in a list; ``print`` may be round them.

PythonCall = tuple[str, dict[str, Any]]
"""A name, and the arguments by theirs."""


def python_calls(text: str, offered: Offered) -> list[PythonCall]:
    """The calls that the text is; none where it is anything else."""
    try:
        body = ast.parse(text).body
        return [_call(node, offered) for statement in body for node in _expressions(statement)]
    except (SyntaxError, ValueError, MemoryError):
        return []


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    if not isinstance(statement, ast.Expr):
        raise ValueError("no expression")
    yield from statement.value.elts if isinstance(statement.value, (ast.List, ast.Tuple)) else [statement.value]


def _call(node: ast.expr, offered: Offered) -> PythonCall:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("no call")
    given: dict[str, Any] = {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords}
    values = [_literal(value) for value in node.args]
    name = ast.unparse(node.func)
    if len(values) == 1 and isinstance(values[0], dict) and not given:
        return name, values[0]
    tool = offered.named(name)
    names = properties_of(tool) if tool is not None else ()
    if len(values) > len(names):
        raise ValueError("more arguments than the tool has")
    return name, dict(zip(names, values, strict=False)) | given


def _literal(node: ast.expr) -> Any:
    """Python's literal, in which JSON's words may stand for Python's."""
    written = as_json(ast.unparse(node))
    if written is None:
        raise ValueError("no literal")
    return json.loads(written)


__all__ = ["FoundCall", "Offered", "ToolSpec", "calls_in"]

_MOST = 65536
"""Characters of a text that is read as calls; a longer one is an answer."""
_MOST_OPEN = 4
"""Brackets that a model may leave open at its end."""
_DECODER = json.JSONDecoder()
_BETWEEN = " \t\r\n,;"
_DOUBLE_BRACES = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{|\}\}')
_NAMED = re.compile(r"([A-Za-z_][\w.-]{0,127})\s*(?:\[ARGS\])?\s*(?=\{)")
_FENCE = re.compile(r"```([A-Za-z_0-9]*)\s*")
_TAG = r"<(function|invoke|tool_call|tool)[ =](?:name=)?[\"']?([\w.-]+)[\"']?\s*>"
_FUNCTION = re.compile(_TAG + r"(.*?)(?:</\1>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"\s*<param(?:eter)?[ =](?:name=)?[\"']?([\w.-]+)[\"']?\s*>(.*?)</param(?:eter)?>", re.DOTALL)
_PAIR = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_KEYED = re.compile(r"([A-Za-z_][\w.-]{0,127})\s*((?:<arg_key>.*)?)", re.DOTALL)
_PLANNED = re.compile(re.escape(PLAN) + r"[ \t]*`?([\w.-]+)`?(?:\(\))?[ \t]*\n+Action Input:\s*", re.IGNORECASE)
_PYTHON_LIST = re.compile(r"\[\s*[A-Za-z_][\w.]*\s*\(")
_STOP = re.compile("```|</")


class _NoCallError(Exception):
    """The text is something else than calls."""


def calls_in(text: str, offered: Offered, *, whole: bool = True) -> list[FoundCall]:
    """The calls that the text is, each of an offered tool with arguments that fit; none where it is anything else.

    ``whole``: the model itself ended the text, so that brackets which it left open are closed.
    """
    if len(text) > _MOST:
        return []
    try:
        return _Reader(offered, mends=whole).calls(text.strip())
    except (_NoCallError, RecursionError):
        return []


class _Reader:
    def __init__(self, offered: Offered, *, mends: bool) -> None:
        self._offered = offered
        self._mends = mends

    def calls(self, text: str) -> list[FoundCall]:
        found: list[FoundCall] = []
        while text:
            calls, text = self._first(text)
            found += calls
            text = text.lstrip(_BETWEEN)
        return found

    def _first(self, text: str) -> tuple[list[FoundCall], str]:
        """The calls of the first fence, mark or value, and the text behind it."""
        if text.startswith("```"):
            return self._fenced(text)
        for mark in MARKS:
            if text.startswith(mark.open):
                inside, behind = _until(text[len(mark.open) :], mark)
                return self._inside(inside.strip()), behind
        if text.startswith(FUNCTION_MARKS):
            return self._functions(text)
        if (planned := _PLANNED.match(text)) is not None:
            value, behind = self._value(text[planned.end() :])
            return [self._call(planned.group(1), value, None)], behind
        if _PYTHON_LIST.match(text) is not None:
            return self._python(text), ""
        if text.startswith("{{"):
            return self._doubled(text)
        if text[0] in "{[":
            value, behind = self._value(text)
            return self._of_value(value), behind
        raise _NoCallError

    def _doubled(self, text: str) -> tuple[list[FoundCall], str]:
        """A call in double braces: some files' templates show calls so, and their models write what they were shown."""
        try:
            value, behind = self._value(text[1:])
        except _NoCallError:
            value, behind = self._value(_DOUBLE_BRACES.sub(_single, text))
        return self._of_value(value), DOUBLED_END.sub("", behind, count=1)

    def _fenced(self, text: str) -> tuple[list[FoundCall], str]:
        """The calls of a fence, which ends behind one of them: a string of an argument may have a fence of its own."""
        opened = _FENCE.match(text)
        if opened is None or opened.group(1).lower() not in FENCES:
            raise _NoCallError
        text = text[opened.end() :]
        if opened.group(1).lower() not in JSON_FENCES:
            inside, _, behind = text.partition("\n```")
            return self._inside(inside.strip().removesuffix("```")), behind
        found: list[FoundCall] = []
        while text and not text.startswith("```"):
            calls, text = self._first(text)
            found += calls
            text = text.lstrip(_BETWEEN)
        if not found:
            raise _NoCallError
        return found, text.removeprefix("```")

    def _inside(self, text: str) -> list[FoundCall]:
        """Calls between marks, where also a name before its arguments and Python's spelling are calls."""
        if not text:
            raise _NoCallError
        if text[0] in "{[<`":
            try:
                return self.calls(text)
            except _NoCallError:
                return self._python(text)
        keyed = _KEYED.fullmatch(text)
        if keyed is not None and (keyed.group(2) or self._offered.named(text) is not None):
            if _PAIR.sub("", keyed.group(2)).strip():
                raise _NoCallError
            return [self._call(keyed.group(1), dict(_PAIR.findall(keyed.group(2))), None)]
        named = _NAMED.match(text)
        if named is None:
            return self._python(text)
        value, behind = self._value(text[named.end() :])
        call = self._call(named.group(1), value, None)
        behind = behind.strip()
        return [call, *(self._inside(behind) if behind else [])]

    def _value(self, text: str) -> tuple[Any, str]:
        """The JSON value, or Python's literal, that the text begins with, and what is behind it."""
        try:
            value, end = _DECODER.raw_decode(text)
        except ValueError:
            literal = leading(text)
            if literal is None:
                return self._mended(text)
            return json.loads(literal[0]), text[literal[1] :]
        return value, text[end:]

    def _mended(self, text: str) -> tuple[Any, str]:
        """A value whose last brackets are missing where the text, the fence or the mark ends."""
        scan = JsonScan()
        at = scan.feed(text, 0)
        if scan.broken:
            stop = _STOP.search(text, at)
            at = scan.run_on(text, at, stop.start() if stop else len(text), last=True)
        open = "".join(CLOSES[bracket] for bracket in reversed(scan.open))
        if not self._mends or not 0 < len(open) <= _MOST_OPEN or scan.in_string:
            raise _NoCallError
        literal = leading(text[:at].rstrip().rstrip(",") + open)
        if literal is None:
            raise _NoCallError
        return json.loads(literal[0]), text[at:]

    def _of_value(self, value: Any) -> list[FoundCall]:
        if isinstance(value, list) and value:
            return [call for each in value for call in self._of_value(each)]
        if not isinstance(value, dict):
            raise _NoCallError
        for key in LISTS:
            inner = value.get(key)
            if isinstance(inner, (list, dict)) and inner and set(value) - {key} <= BESIDE:
                return self._of_value(inner)
        return [self._of_object(value)]

    def _of_object(self, value: dict[str, Any]) -> FoundCall:
        rest = {key: each for key, each in value.items() if key not in THOUGHT_KEYS or not isinstance(each, str)}
        call_id = next((rest.pop(key) for key in ID_KEYS if key in rest), None)
        if rest.get("type") in TYPES:
            del rest["type"]
        if isinstance(rest.get("index"), int):
            del rest["index"]
        if isinstance(rest.get("function"), dict) and len(rest) == 1:
            rest = dict(rest["function"])
        name = next((rest.pop(key) for key in NAME_KEYS if isinstance(rest.get(key), str)), None)
        key = next((key for key in ARGUMENT_KEYS if key in rest), None)
        if key is None or len(rest) > 1:
            raise _NoCallError
        return self._call(name, rest[key], call_id)

    def _call(self, name: object, arguments: object, call_id: object) -> FoundCall:
        tool = self._offered.named(name)
        if tool is None:
            raise _NoCallError
        if isinstance(arguments, str):
            written = as_json(arguments) if arguments.strip() else "{}"
            arguments = json.loads(written) if written is not None else None
        elif arguments is None:
            arguments = {}
        fitted = self._offered.fitted(tool, arguments)
        if fitted is None:
            raise _NoCallError
        return FoundCall(tool, fitted, well_formed(call_id) if isinstance(call_id, str) and call_id else None)

    def _functions(self, text: str) -> tuple[list[FoundCall], str]:
        """``<function=NAME>``, inside it parameters as tags of their own, or one JSON object."""
        found = _FUNCTION.match(text)
        if found is None:
            raise _NoCallError
        inside = found.group(3).strip()
        arguments: object = {name: _laid_out(value) for name, value in _PARAMETER.findall(inside)}
        if _PARAMETER.sub("", inside).strip():
            arguments = inside
        return [self._call(found.group(2), arguments, None)], text[found.end() :]

    def _python(self, text: str) -> list[FoundCall]:
        found = [self._call(name, given, None) for name, given in python_calls(text, self._offered)]
        if not found:
            raise _NoCallError
        return found


def _single(found: re.Match[str]) -> str:
    """One brace of two; a string stays as it is."""
    return found[0] if found[0].startswith('"') else found[0][0]


def _laid_out(value: str) -> str:
    """A parameter's value without the line break at each end, where it stands on lines of its own."""
    return value[1:].removesuffix("\n") if value.startswith("\n") else value


def _until(text: str, mark: Mark) -> tuple[str, str]:
    """The text before the mark's close, or before its next opening, where the model left the close out."""
    ends = [at for end in (mark.close, mark.open) if end and (at := text.find(end)) >= 0]
    if not ends:
        return text, ""
    at = min(ends)
    return text[:at], text[at:].removeprefix(mark.close) if mark.close else text[at:]
