"""What a body holds: promised JSON (§6, A-O26), a call's arguments (A-O16), a tool's reply (A-O17)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import jsonschema_rs

from antiphon.conversation import FUNCTIONS, Message, ToolSpec

from .finding import E_CALL, E_CONSTRAINT, Problem

DEADLINE = "deadline_ms"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_FORM = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)
"""Checks the form alone: numbers stay text, so that a huge one costs nothing."""


def constraint_problem(message: Message) -> Problem | None:
    """E-BODY-CONSTRAINT-VIOLATION for a body marked ``<|constrain|>json`` that is not JSON.

    Other types are not checked. The offset counts characters of the decoded body (A-O26).
    """
    if not message.constrained or message.content_type != "json":
        return None
    try:
        _FORM.decode(message.text)
    except json.JSONDecodeError as error:
        problem = f"the body is not JSON: {error.msg} at its line {error.lineno}, column {error.colno}"
        return Problem(error.pos, problem, "The head promises <|constrain|>json.", E_CONSTRAINT)
    except RecursionError:
        return Problem(0, "the body is JSON nested too deeply to check", code=E_CONSTRAINT)
    except ValueError as error:
        return Problem(0, f"the body is not JSON: {error}", code=E_CONSTRAINT)
    return None


def shape_problem(message: Message) -> Problem | None:
    """E-CALL-SCHEMA for a constrained function call whose arguments are no object, whatever its schema."""
    recipient = message.recipient or ""
    if not message.is_call or not message.constrained or message.content_type != "json":
        return None
    if not recipient.startswith(FUNCTIONS + ".") or message.text.lstrip(" \t\r\n").startswith("{"):
        return None
    return Problem(0, f"the arguments of {recipient} are not a JSON object", code=E_CALL)


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
        values = json.loads(message.text, parse_constant=_refuse) if message.text.strip() else {}
    except (ValueError, RecursionError) as error:
        return Problem(0, f"the arguments of {tool.recipient} are not JSON: {error}", code=E_CALL)
    if not isinstance(values, dict):
        return Problem(0, f"the arguments of {tool.recipient} are not a JSON object", code=E_CALL)
    raw, deadline = message.text, None
    if DEADLINE in values and not _declares(tool, DEADLINE):
        deadline = values.pop(DEADLINE)
        if isinstance(deadline, bool) or not isinstance(deadline, int) or deadline <= 0:
            return Problem(0, f"{DEADLINE} is {deadline!r}, not a positive whole number", code=E_CALL)
        raw = json.dumps(values, ensure_ascii=False)
    problem = _schema_problem(values, tool)
    return problem or CallArguments(raw, values, deadline)


def _declares(tool: ToolSpec, name: str) -> bool:
    schema = tool.parameters
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(properties, dict) and name in properties


def _schema_problem(values: dict[str, Any], tool: ToolSpec) -> Problem | None:
    if tool.parameters is None:
        return None if not values else Problem(0, f"{tool.recipient} takes no arguments", code=E_CALL)
    try:
        error = next(iter(jsonschema_rs.validator_for(tool.parameters).iter_errors(values)), None)
    except (jsonschema_rs.ValidationError, ValueError) as broken:
        return Problem(0, f"the schema of {tool.recipient} cannot be used: {broken}", code=E_CALL)
    if error is None:
        return None
    where = ".".join(map(str, error.instance_path))
    return Problem(0, f"{tool.recipient}{'.' + where if where else ''}: {error.message}", code=E_CALL)


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
    """What a reply's body says; a body that is no envelope is content, and all went well (A-O17)."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return ToolReply(True, text)
    if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
        return ToolReply(True, value)
    provenance = value.get("provenance")
    failure = None if value["ok"] else _failure(value.get("error"))
    return ToolReply(value["ok"], value.get("content"), failure, provenance if isinstance(provenance, dict) else {})


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
