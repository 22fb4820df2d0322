"""The content of a body: text of the promised type (§6, A-O26), a call's arguments (A-O16), a tool's reply (A-O17)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn
from xml.parsers import expat

import jsonschema_rs
import msgspec
import yaml

from antiphon.conversation import FUNCTIONS, Channel, End, JsonSchema, Message, ToolSpec
from antiphon.errors import RequestError, json_words

from .finding import E_CALL, E_CONSTRAINT, Problem
from .yaml_header import yaml_problem

# Whether a text is JSON, however deeply it is nested: the standard library gives up at some thousand.

_WORD = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++|[\[\]{}]', re.DOTALL)


def is_json(text: str) -> bool:
    """Reads each array and object by itself, with a null in place of each that is in it."""
    opened: list[list[str]] = [[]]
    for word in _WORD.findall(text):
        if word in ("[", "{"):
            opened.append([])
        opened[-1].append(word)
        if word in ("]", "}"):
            inner = "".join(opened.pop())
            if not opened or not _is_flat_json(inner):
                return False
            opened[-1].append(" null ")
    return len(opened) == 1 and _is_flat_json("".join(opened[0]))


def _is_flat_json(text: str) -> bool:
    try:
        _FORM.decode(text)
    except ValueError:
        return False
    return True


DEADLINE = "deadline_ms"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_FORM = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)
"""Checks the form alone: numbers stay text, so that a huge one costs nothing."""
_VALUES = json.JSONDecoder(parse_constant=_refuse)
_QUICK = msgspec.json.Decoder()
"""Takes most JSON, as the other two do, and nothing else: what it refuses, as lone surrogates, is theirs to judge."""


def _decode(text: str, slow: json.JSONDecoder = _VALUES) -> Any:
    """The JSON value that the text is. Raises `ValueError` or `RecursionError`."""
    try:
        return _QUICK.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return slow.decode(text)


def constraint_problem(message: Message) -> Problem | None:
    """E-BODY-CONSTRAINT-VIOLATION for a body that is not of the type behind ``<|constrain|>``: json, yaml, toml or xml.

    Any text is text or markdown, and what other types are is not known here. The offset counts characters of the
    decoded body (A-O26).
    """
    check = _CHECKS.get(body_type(message.content_type) or "") if message.constrained else None
    return check(message.text) if check else None


_SPELLED = {"yml": "yaml", "x-yaml": "yaml"}


def body_type(content_type: str | None) -> str | None:
    """The type that a head names, without regard to case: ``JSON`` and ``application/json; charset=utf-8`` are json.

    Of media types the subtype counts, and of ``vnd.x+json`` what is behind the plus.
    """
    if content_type is None or content_type in _CHECKS:
        return content_type
    media, slash, subtype = content_type.partition(";")[0].strip().lower().partition("/")
    word = media if not slash else subtype.rpartition("+")[2] if media in ("application", "text") else content_type
    return _SPELLED.get(word, word)


def _not_promised(message: str, offset: int = 0, hint: str | None = None) -> Problem:
    return Problem(offset, message, hint, E_CONSTRAINT, rule="body-type")


def _bad_arguments(message: str, offset: int = 0) -> Problem:
    return Problem(offset, message, code=E_CALL, rule="call-arguments")


def _json_problem(text: str) -> Problem | None:
    try:
        _decode(text, _FORM)
    except json.JSONDecodeError as error:
        problem = f"the body is not JSON: {json_words(error)} at its line {error.lineno}, column {error.colno}"
        return _not_promised(problem, error.pos, "The head promises <|constrain|>json.")
    except RecursionError:
        return None if is_json(text) else _not_promised("the body is not JSON")
    except ValueError as error:
        return _not_promised(f"the body is not JSON: {error}")
    return None


def _yaml_problem(text: str) -> Problem | None:
    """Reads the events alone: nothing is built, whatever anchors and aliases would make of it."""
    try:
        for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
            pass
    except yaml.MarkedYAMLError as error:
        wrong, mark = yaml_problem(error, text), error.problem_mark
        at = 0 if mark is None else _offset(text, mark.line, mark.column)
        return _not_promised(f"the body is not YAML: {wrong.message}", at, wrong.hint)
    except (yaml.YAMLError, ValueError) as error:
        return _not_promised(f"the body is not YAML: {error}".splitlines()[0])
    return None


def _toml_problem(text: str) -> Problem | None:
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return _not_promised(f"the body is not TOML: {error}")
    return None


def _xml_problem(text: str) -> Problem | None:
    """A body with a document type is refused: its entities could grow."""
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        where = _offset(text, error.lineno - 1, error.offset)
        return _not_promised(f"the body is not XML: {expat.ErrorString(error.code)}", where)
    except ValueError as error:
        return _not_promised(f"the body is not XML: {error}")
    return None


def _refuse_doctype(*_: object) -> NoReturn:
    raise ValueError("it declares a document type")


def _offset(text: str, line: int, column: int) -> int:
    """The offset of a line and column, both from 0, in the text."""
    above = sum(map(len, text.splitlines(keepends=True)[:line]))
    return min(above + column, len(text))


_CHECKS = {"json": _json_problem, "yaml": _yaml_problem, "toml": _toml_problem, "xml": _xml_problem}


def is_function(call: Message) -> bool:
    """Whether the call is of a function, and not of a built-in tool."""
    return (call.recipient or "").startswith(f"{FUNCTIONS}.")


def shape_problem(message: Message) -> Problem | None:
    """E-CALL-SCHEMA for a function's call whose arguments are no JSON object, whatever its schema (§3, A-O26).

    A call whose head names another type than json has arguments of that type, and one that is cut off has none yet.
    The body is what its head promises, which `constraint_problem` tells.
    """
    if not message.is_call or message.end is End.NONE or not is_function(message):
        return None
    if body_type(message.content_type) not in (None, "json"):
        return None
    broken = None if message.constrained else _json_problem(message.text)
    if broken is None and message.text.lstrip(" \t\r\n").startswith("{"):
        return None
    return _bad_arguments(f"the arguments of {message.recipient} are not a JSON object", broken.offset if broken else 0)


def body_problem(message: Message, tool: ToolSpec | None, *, shaped: bool = True) -> Problem | None:
    """The problem of a whole message's body; ``tool`` is the declaration of the tool that it calls.

    ``shaped`` False: arguments without a type may be anything that the tool is not declared to refuse.
    """
    problem = constraint_problem(message) or (shape_problem(message) if shaped else None)
    if problem is not None or tool is None:
        return problem
    arguments = read_arguments(message, tool)
    return arguments if isinstance(arguments, Problem) else None


def canonical_call(message: Message) -> Message:
    """A call as §8.1 has it: on a channel, and its JSON arguments say that they are JSON (HIP-1.5); else the message.

    The arguments of a function that is called without any are ``{}``.
    """
    if not message.is_call:
        return message
    promised = body_type(message.content_type) == "json"
    untyped = is_function(message) and not message.content_type
    text = "{}" if (promised or untyped) and not message.text.strip() else message.text
    is_json = promised or (message.content_type is None and is_object(text))
    return replace(
        message, text=text, channel=message.channel or Channel.COMMENTARY, constrained=is_json or message.constrained,
        content_type="json" if is_json else message.content_type,
    )  # fmt: skip


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that the text is; None when it is none."""
    if not text.lstrip(" \t\r\n").startswith("{"):
        return None
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def is_object(text: str) -> bool:
    """Whether the text is a JSON object."""
    return json_object(text) is not None


_BEGINS_OBJECT = frozenset("{ \t\n\r")


def has_tool_calls(text: str) -> bool:
    """Whether the text is a JSON object with ``tool_calls``, which §6 does not want beside a call."""
    begins = text[:1] in _BEGINS_OBJECT
    return begins and '"tool_calls"' in text and "tool_calls" in (json_object(text) or {})


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A call's checked arguments: ``raw`` as the tool gets them, ``deadline_ms`` when the call gave one (A-O16)."""

    raw: str
    values: dict[str, Any]
    deadline_ms: int | None = None


def read_arguments(message: Message, tool: ToolSpec) -> CallArguments | Problem:
    """The arguments of a call to ``tool``, checked against its schema, or what is wrong with them (E-CALL-SCHEMA).

    ``deadline_ms`` is taken out before the check and before the tool sees it, unless the tool's own schema declares
    it; then it belongs to the tool (A-O16).
    """
    try:
        values = _decode(message.text) if message.text.strip() else {}
    except ValueError as error:
        return _bad_arguments(f"the arguments of {tool.recipient} are not JSON: {error}")
    except RecursionError:
        return _bad_arguments(f"the arguments of {tool.recipient} are nested too deeply")
    if not isinstance(values, dict):
        return _bad_arguments(f"the arguments of {tool.recipient} are not a JSON object")
    raw, deadline = message.text, None
    if DEADLINE in values and not _declares(tool, DEADLINE):
        deadline = values.pop(DEADLINE)
        if not _is_deadline(deadline):
            return _no_deadline(deadline)
        raw = json.dumps(values, ensure_ascii=False)
    problem = _schema_problem(values, tool)
    return problem or CallArguments(raw, values, deadline)


def deadline_problem(message: Message) -> Problem | None:
    """A warning for a deadline that is none, in a call of a tool of which it is not known what it takes (A-O16)."""
    values = json_object(message.text) if DEADLINE in message.text and message.is_call else None
    if not values or DEADLINE not in values or _is_deadline(values[DEADLINE]):
        return None
    return replace(_no_deadline(values[DEADLINE]), warning=True, rule="call-deadline")


def _is_deadline(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _no_deadline(value: object) -> Problem:
    return _bad_arguments(f"{DEADLINE} is {value!r}, not a positive whole number")


def _declares(tool: ToolSpec, name: str) -> bool:
    schema = tool.parameters
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(properties, dict) and name in properties


def _schema_problem(values: dict[str, Any], tool: ToolSpec) -> Problem | None:
    if tool.parameters is None:
        return None if not values else _bad_arguments(f"{tool.recipient} takes no arguments")
    try:
        error = next(_schema_errors(values, tool.parameters), None)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, RequestError, ValueError) as broken:
        message = f"the schema of {tool.recipient} cannot be used: {getattr(broken, 'message', broken)}"
        return Problem(0, message, "The call is not checked.", E_CALL, True, "declaration-unread")
    if error is None:
        return None
    where = ".".join(map(str, error.instance_path))
    return _bad_arguments(f"{tool.recipient}{'.' + where if where else ''}: {error.message}")


def _schema_errors(values: dict[str, Any], schema: JsonSchema) -> Iterator[jsonschema_rs.ValidationError]:
    """A schema that anybody may have written: nothing is fetched, and patterns give up rather than run on."""
    from antiphon.grammar import check_schema  # transcripts without a schema need not wait for it

    check_schema(schema, "parameters")
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
    yield from jsonschema_rs.validator_for(schema, offline=True, pattern_options=patterns).iter_errors(values)


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """``code`` may be one of the specification's (``E-TOOL-TIMEOUT`` …)."""

    message: str
    code: str | None = None
    retryable: bool | None = None
    details: Any = None


@dataclass(frozen=True, slots=True)
class ToolReply:
    """``error`` is set exactly when ``ok`` is False."""

    ok: bool
    content: Any = None
    error: ToolFailure | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


def read_tool_reply(text: str) -> ToolReply:
    """Reads a reply's body; one that is no envelope is content, and all went well (A-O17)."""
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return ToolReply(True, text)
    if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
        return ToolReply(True, value)
    provenance = value.get("provenance")
    failure = None if value["ok"] else _failure(value.get("error"))
    return ToolReply(value["ok"], value.get("content"), failure, provenance if isinstance(provenance, dict) else {})


def reply_problem(message: Message) -> Problem | None:
    """A warning for a reply's envelope that does not say what went wrong, or says both (§8, §11)."""
    envelope = json_object(message.text)
    if envelope is None or not isinstance(envelope.get("ok"), bool):
        return None
    error = envelope.get("error")
    if envelope["ok"]:
        return _doubtful_reply("the reply says ok, and has an error") if error is not None else None
    if error and isinstance(error, dict | str):
        return None
    hint = 'A tool says what went wrong: {"ok": false, "error": {"code": "E-TOOL-TIMEOUT", "message": "…"}}'
    return _doubtful_reply("the reply says that the tool failed, and not why", hint)


def _doubtful_reply(message: str, hint: str | None = None) -> Problem:
    return Problem(0, message, hint, E_CALL, True, "reply-envelope")


def _failure(error: Any) -> ToolFailure:
    """A bare string is the message."""
    if not isinstance(error, dict):
        return ToolFailure(error if isinstance(error, str) else "the tool failed")
    code, message, retryable = error.get("code"), error.get("message"), error.get("retryable")
    return ToolFailure(
        message if isinstance(message, str) else "the tool failed",
        code if isinstance(code, str) else None,
        retryable if isinstance(retryable, bool) else None,
        error.get("details"),
    )
