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
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.conversation import JsonSchema, ToolSpec
from antiphon.errors import RequestError
from antiphon.formats.template.reply.literal import as_json, leading
from antiphon.formats.template.reply.typed import Schema, typed

if TYPE_CHECKING:  # jsonschema_rs is imported with the first call that is checked
    from antiphon.grammar.schema import CompiledSchema

JSON_FENCES = frozenset(("", "json", "jsonc", "json5"))
FENCES = JSON_FENCES | {"tool_call", "tool_calls", "tool_code", "function_call", "tool"}
"""The languages of fences in which a call is written; of others the text is code."""
NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "kwargs")
ID_KEYS = ("id", "call_id", "tool_call_id")
TYPES = frozenset(("function", "function_call", "tool_call", "tool_use", "tool"))
LISTS = ("tool_calls", "tool_call", "function_call", "function_calls", "calls")
"""Keys of an object that holds calls, beside which only a message's own fields stand."""
_BESIDE = frozenset(("role", "content"))
_MOST = 65536
"""Characters of a text that is read as calls; a longer one is an answer."""
_DECODER = json.JSONDecoder()
_BETWEEN = " \t\r\n,;"
_NAMED = re.compile(r"([A-Za-z_][\w.-]{0,127})\s*(?:\[ARGS\])?\s*(?=\{)")
_FENCE = re.compile(r"```([A-Za-z_0-9]*)\s*")
_FUNCTION = re.compile(r"<(function|invoke)[ =](?:name=)?[\"']?([\w.-]+)[\"']?\s*>(.*?)</\1>", re.DOTALL)
_PARAMETER = re.compile(
    r"\s*<param(?:eter)?[ =](?:name=)?[\"']?([\w.-]+)[\"']?\s*>\n?(.*?)\n?</param(?:eter)?>", re.DOTALL
)
_WORDS = {"true": True, "false": False, "null": None}


class FoundCall(msgspec.Struct, frozen=True):
    """A call that was read: ``arguments`` is a JSON object that fits the tool's schema."""

    tool: ToolSpec
    arguments: str
    call_id: str | None = None


class Mark(msgspec.Struct, frozen=True):
    """Two literals between which calls stand; an empty ``close``: up to the end."""

    open: str
    close: str


MARKS = tuple(
    Mark(open, close)
    for open, close in (
        ("<tool_call>", "</tool_call>"),
        ("<tool_calls>", "</tool_calls>"),
        ("<function_call>", "</function_call>"),
        ("<function_calls>", "</function_calls>"),
        ("<functioncall>", "</functioncall>"),
        ("<tool>", "</tool>"),
        ("<tool_use>", "</tool_use>"),
        ("<tools>", "</tools>"),
        ("<tool_code>", "</tool_code>"),
        ("<|tool_call|>", "<|/tool_call|>"),
        ("<|tool_call_start|>", "<|tool_call_end|>"),
        ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ("<|python_tag|>", ""),
        ("[TOOL_CALLS]", ""),
        ("[TOOL_CALL]", "[/TOOL_CALL]"),
    )
)
"""The marks of calls that models know, spelled in plain text."""
FUNCTION_MARKS = ("<function=", "<function ", "<invoke ")


class Offered:
    """The tools that a reply may call, by the names that models give them."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._tools: dict[str, ToolSpec] = {}
        for tool in tools:
            for name in (tool.name, tool.recipient):
                self._tools.setdefault(name, tool)
        self._schemas: dict[str, CompiledSchema | None] = {}

    def __len__(self) -> int:
        return len(self._tools)

    def named(self, name: object) -> ToolSpec | None:
        """The tool of that name."""
        return self._tools.get(name.strip()) if isinstance(name, str) else None

    def begins(self, text: str) -> bool:
        """Whether a tool's name begins with the text."""
        return any(name.startswith(text) for name in self._tools)

    def fitted(self, tool: ToolSpec, arguments: object) -> str | None:
        """The arguments as JSON that fits the tool's schema; None where they do not fit.

        Where they need it, texts are typed by the schema, and null is left out for what need not be there.
        """
        if not isinstance(arguments, dict):
            return None
        schema = Schema(tool.parameters, tool.parameters) if tool.parameters is not None else Schema()
        if not set(arguments) <= _known(schema.resolved, arguments):
            return None
        written = json.dumps(arguments, ensure_ascii=False)
        compiled = self._schema(tool)
        if compiled is None or compiled.fault(written) is None:
            return written
        mended = {
            key: _typed(value, schema.member(key))
            for key, value in arguments.items()
            if value is not None or key in _required(schema.resolved)
        }
        written = json.dumps(mended, ensure_ascii=False)
        return written if compiled.fault(written) is None else None

    def _schema(self, tool: ToolSpec) -> CompiledSchema | None:
        """The tool's schema; None for one that takes anything. One that is none is refused elsewhere."""
        from antiphon.grammar.schema import judge_schema  # by most replies not needed

        if tool.name not in self._schemas:
            try:
                found = None if tool.parameters is None else judge_schema(tool.parameters)
            except RequestError:
                found = None
            self._schemas[tool.name] = found
        return self._schemas[tool.name]


def calls_in(text: str, offered: Offered) -> list[FoundCall]:
    """The calls that the text is, each of an offered tool with arguments that fit; none where it is anything else."""
    if len(text) > _MOST:
        return []
    try:
        return _calls(text.strip(), offered)
    except (_NoCallError, RecursionError):
        return []


class _NoCallError(Exception):
    """The text is something else than calls."""


def _calls(text: str, offered: Offered) -> list[FoundCall]:
    found: list[FoundCall] = []
    while text:
        calls, text = _first(text, offered)
        found += calls
        text = text.lstrip(_BETWEEN)
    return found


def _first(text: str, offered: Offered) -> tuple[list[FoundCall], str]:
    """The calls of the first fence, mark or value, and the text behind it."""
    if text.startswith("```"):
        return _fenced(text, offered)
    for mark in MARKS:
        if text.startswith(mark.open):
            inside, _, behind = _until(text[len(mark.open) :], mark)
            return _inside(inside.strip(), offered), behind
    if text.startswith(FUNCTION_MARKS):
        return _functions(text, offered)
    if text[0] in "{[":
        value, behind = _value(text)
        if value is not None:
            return _of_value(value[0], offered), behind
    if text[0] == "[":
        return _python(text, offered), ""
    raise _NoCallError


def _until(text: str, mark: Mark) -> tuple[str, str, str]:
    """What stands before the mark's close, or before its next opening, where the model left the close out."""
    ends = [at for end in (mark.close, mark.open) if end and (at := text.find(end)) >= 0]
    if not ends:
        return text, "", ""
    at = min(ends)
    return text[:at], "", text[at:].removeprefix(mark.close) if mark.close else text[at:]


def _fenced(text: str, offered: Offered) -> tuple[list[FoundCall], str]:
    """The calls of a fence, which ends behind one of them: a string of an argument may have a fence of its own."""
    opened = _FENCE.match(text)
    if opened is None or opened.group(1).lower() not in FENCES:
        raise _NoCallError
    text = text[opened.end() :]
    if opened.group(1).lower() not in JSON_FENCES:
        inside, _, behind = text.partition("\n```")
        return _inside(inside.strip(), offered), behind
    found: list[FoundCall] = []
    while text and not text.startswith("```"):
        calls, text = _first(text, offered)
        found += calls
        text = text.lstrip(_BETWEEN)
    if not found:
        raise _NoCallError
    return found, text.removeprefix("```")


def _inside(text: str, offered: Offered) -> list[FoundCall]:
    """Calls between marks, where also a name before its arguments and Python's spelling are calls."""
    if not text:
        raise _NoCallError
    if text[0] in "{[<`":
        try:
            return _calls(text, offered)
        except _NoCallError:
            return _python(text, offered)
    named = _NAMED.match(text)
    if named is None:
        return _python(text, offered)
    value, behind = _value(text[named.end() :])
    if value is None:
        return _python(text, offered)
    call = _call(named.group(1), value[0], None, offered)
    behind = behind.strip()
    return [call, *(_inside(behind, offered) if behind else [])]


def _value(text: str) -> tuple[tuple[Any], str] | tuple[None, str]:
    """The JSON value, or Python's literal, that the text begins with, and what is behind it."""
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        literal = leading(text)
        return ((json.loads(literal[0]),), text[literal[1] :]) if literal is not None else (None, text)
    return (value,), text[end:]


def _of_value(value: Any, offered: Offered) -> list[FoundCall]:
    if isinstance(value, list) and value:
        return [call for each in value for call in _of_value(each, offered)]
    if not isinstance(value, dict):
        raise _NoCallError
    for key in LISTS:
        inner = value.get(key)
        if isinstance(inner, (list, dict)) and inner and set(value) - {key} <= _BESIDE:
            return _of_value(inner, offered)
    return [_of_object(value, offered)]


def _of_object(value: dict[str, Any], offered: Offered) -> FoundCall:
    rest = dict(value)
    call_id = next((rest.pop(key) for key in ID_KEYS if key in rest), None)
    if rest.get("type") in TYPES:
        del rest["type"]
    if isinstance(rest.get("function"), dict) and len(rest) == 1:
        rest = dict(rest["function"])
    name = next((rest.pop(key) for key in NAME_KEYS if isinstance(rest.get(key), str)), None)
    key = next((key for key in ARGUMENT_KEYS if key in rest), None)
    if key is None or len(rest) > 1:
        raise _NoCallError
    return _call(name, rest[key], call_id, offered)


def _call(name: object, arguments: object, call_id: object, offered: Offered) -> FoundCall:
    tool = offered.named(name)
    if tool is None:
        raise _NoCallError
    if isinstance(arguments, str):
        written = as_json(arguments) if arguments.strip() else "{}"
        arguments = json.loads(written) if written is not None else None
    elif arguments is None:
        arguments = {}
    fitted = offered.fitted(tool, arguments)
    if fitted is None:
        raise _NoCallError
    return FoundCall(tool, fitted, call_id if isinstance(call_id, str) and call_id else None)


def _functions(text: str, offered: Offered) -> tuple[list[FoundCall], str]:
    """``<function=NAME>``, inside it parameters as tags of their own, or one JSON object."""
    found = _FUNCTION.match(text)
    if found is None:
        raise _NoCallError
    inside = found.group(3).strip()
    arguments: object = dict(_PARAMETER.findall(inside))
    if _PARAMETER.sub("", inside).strip():
        arguments = inside
    return [_call(found.group(2), arguments, None, offered)], text[found.end() :]


def _python(text: str, offered: Offered) -> list[FoundCall]:
    """``f(a="x")``, ``f({"a": 1})``, one a line or in a list."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, MemoryError):
        raise _NoCallError from None
    found = [_python_call(node, offered) for statement in body for node in _expressions(statement)]
    if not found:
        raise _NoCallError
    return found


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    if not isinstance(statement, ast.Expr):
        raise _NoCallError
    yield from statement.value.elts if isinstance(statement.value, (ast.List, ast.Tuple)) else [statement.value]


def _python_call(node: ast.expr, offered: Offered) -> FoundCall:
    if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
        raise _NoCallError
    given: dict[str, Any] = {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords}
    values = [_literal(value) for value in node.args]
    name = ast.unparse(node.func)
    tool = offered.named(name)
    if len(values) == 1 and isinstance(values[0], dict) and not given:
        given = values[0]
    elif values:
        names = _properties(tool) if tool is not None else ()
        if len(values) > len(names):
            raise _NoCallError
        given = dict(zip(names, values, strict=False)) | given
    return _call(name, given, None, offered)


def _literal(node: ast.expr) -> Any:
    """Python's literal, in which JSON's words may stand for Python's."""
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise _NoCallError
        return {str(_literal(key)): _literal(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    try:
        value = ast.literal_eval(node)
        json.dumps(value)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        raise _NoCallError from None
    return value


def _properties(tool: ToolSpec) -> Sequence[str]:
    node = tool.parameters if isinstance(tool.parameters, dict) else {}
    named = node.get("properties")
    return list(named) if isinstance(named, dict) else []


def _known(node: JsonSchema, arguments: dict[str, Any]) -> set[str]:
    """The names that arguments may have; all of them where the schema names none, or says that others may be."""
    named = node.get("properties") if isinstance(node, dict) else None
    if not isinstance(named, dict) or not isinstance(node, dict) or node.get("additionalProperties"):
        return set(arguments)
    return set(named)


def _required(node: JsonSchema) -> Sequence[object]:
    required = node.get("required") if isinstance(node, dict) else None
    return required if isinstance(required, list) else []


def _typed(value: Any, schema: Schema) -> Any:
    return json.loads(typed(value, schema)) if isinstance(value, str) else value
