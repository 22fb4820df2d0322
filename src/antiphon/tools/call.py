"""Calls, their results and the tools that answer: values, with the reply envelope for programs of OpenChatML §8.3."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from antiphon.conversation import Channel, JsonSchema, Message, OpaquePart, Part, TextPart, ToolNamespace, ToolSpec
from antiphon.conversation.calls import make_answer
from antiphon.errors import json_words

if TYPE_CHECKING:
    from jsonschema_rs import Validator


CALL_SCHEMA = "E-CALL-SCHEMA"
"""A call does not fit its tool's parameters."""
CALL_ID = "E-CALL-ID"
"""Another call of the conversation has this id."""
TOOL_BUSY = "E-TOOL-BUSY"
"""Everything that could run the call is at work; it may be tried again."""
TOOL_TIMEOUT = "E-TOOL-TIMEOUT"
"""The tool did not answer before its deadline."""
TOOL_CANCELLED = "E-TOOL-CANCELLED"
"""The call was cancelled before the tool answered."""
TOOL_UNKNOWN = "E-TOOL-UNKNOWN"
"""There is no tool of this name."""
TOOL_FAILED = "E-TOOL-FAILED"
"""The tool raised an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the model wrote it. ``body`` is the text of the call's frame and of no other: tools never see analysis.

    ``channel`` is where the call stood; its reply goes to the same one (resolution A-H04). ``owner`` is who makes the
    request (a key's name, empty without keys): tools that share something out count by it.
    """

    call_id: str
    recipient: str
    body: str
    content_type: str | None = None
    channel: str = Channel.COMMENTARY
    session: str = ""
    owner: str = ""

    @property
    def idempotency_key(self) -> tuple[str, str]:
        """The same for every attempt to run this call (OCM-93): its session and its id."""
        return self.session, self.call_id

    @classmethod
    def of(cls, message: Message, *, fallback_id: str, session: str = "", owner: str = "") -> ToolCall:
        """The call that a message is; ``fallback_id`` where the model gave no id (Harmony has none)."""
        assert message.is_call, "not a call"
        assert message.recipient is not None, "a call has a recipient"
        return cls(
            call_id=message.call_id or fallback_id,
            recipient=message.recipient,
            body=message.text,
            content_type=message.content_type,
            channel=message.channel or Channel.COMMENTARY,
            session=session,
            owner=owner,
        )


@dataclass(frozen=True, slots=True)
class ToolError:
    """Why a call has no result, for the model and for programs. ``retryable``: the same call may succeed later."""

    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "retryable": self.retryable} | (
            {"details": dict(self.details)} if self.details else {}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """Result of a tool: ``content`` is text or JSON; ``media`` (images …) goes with it; ``provenance``: whence."""

    content: Any
    media: tuple[OpaquePart, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False
    """The model is to read ``content`` as it is, without an envelope (the built-ins of gpt-oss)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The one answer to a call: an output or an error, never both."""

    call: ToolCall
    output: ToolOutput | None = None
    error: ToolError | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.error is None

    def text(self, *, envelope: bool) -> str:
        """The reply's body. An error is always the envelope, so that a model and a program can tell it from content.

        Lone surrogates, which cannot be written, are question marks.
        """
        if self.output is not None and (self.output.plain or not envelope):
            content = self.output.content
            return without_surrogates(content if isinstance(content, str) else dump(content))
        return without_surrogates(dump(self.envelope()))

    def envelope(self) -> dict[str, Any]:
        """``{ok, content, error, provenance}`` (OCM-94, resolution A-O17)."""
        return {
            "ok": self.ok,
            "content": self.output.content if self.output else None,
            "error": self.error.as_json() if self.error else None,
            "provenance": dict(self.output.provenance) if self.output else {},
        }

    def message(self, *, envelope: bool = False) -> Message:
        """The reply as a frame of the conversation, addressed to the assistant."""
        media = self.output.media if self.output else ()
        parts: tuple[Part, ...] = (TextPart(self.text(envelope=envelope)), *media)
        return make_answer(self.call.recipient, self.call.call_id, parts, channel=self.call.channel)


def without_surrogates(text: str) -> str:
    """The text with a question mark for each lone surrogate: those are no characters, and no encoding has them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def dump(value: Any) -> str:
    """JSON for a model: one line, other scripts as they are, and what JSON does not have as text (``"NaN"``)."""
    try:
        return _line(value)
    except ValueError:
        text = json.dumps(value, default=str)
        return _line(json.loads(text, parse_constant=str))


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str, allow_nan=False)


# A call's body → checked arguments, before any tool runs (OCM-136).

MAX_BODY = 1_000_000


class BadArguments(Exception):
    """The body does not fit the tool's schema; ``error`` goes to the model, so that it can repair the call."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.error = ToolError(CALL_SCHEMA, message, retryable=True, details=details)


class Arguments(msgspec.Struct, frozen=True):
    """``values`` for the tool; ``deadline_ms`` if the body has one that is not the tool's own (resolution A-O16)."""

    values: Mapping[str, Any]
    deadline_ms: int | None = None


class ArgumentReader:
    """Checks bodies against one tool's schema, which is compiled once, by the first of them."""

    def __init__(self, schema: JsonSchema | None) -> None:
        self._schema: JsonSchema = {"type": "object"} if schema is None else schema
        properties = self._schema.get("properties", {}) if isinstance(self._schema, dict) else {}
        self._owns_deadline = "deadline_ms" in properties

    def read(self, call: ToolCall) -> Arguments:
        """The arguments of a call. Raises `BadArguments`; an empty body reads as no arguments."""
        values = _parse(call.body)
        deadline = None
        if not self._owns_deadline and "deadline_ms" in values:
            deadline = values.pop("deadline_ms")
            if isinstance(deadline, bool) or not isinstance(deadline, int) or deadline <= 0:
                message = "deadline_ms must be a whole number of milliseconds above 0"
                raise BadArguments(message, path="$.deadline_ms")
        try:
            for error in self._validator.iter_errors(values):
                path = "".join(f"[{part!r}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
                raise BadArguments(error.message, path=f"${path}")
        except UnicodeEncodeError as error:
            raise BadArguments("the arguments hold a lone surrogate, which is no character") from error
        return Arguments(values, deadline)

    @cached_property
    def _validator(self) -> Validator:
        """A tool's server may have written the schema: nothing that it refers to elsewhere is fetched.

        Raises `ValueError` for a schema that cannot be used.
        """
        import jsonschema_rs  # here and not above: most servers run no tool

        return jsonschema_rs.validator_for(self._schema, offline=True)


def _parse(body: str) -> dict[str, Any]:
    if len(body) > MAX_BODY:
        raise BadArguments(f"the arguments have {len(body)} characters; at most {MAX_BODY} are possible")
    if not body.strip():
        return {}
    try:
        values = json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_number)
    except json.JSONDecodeError as error:
        what = f"the arguments are not JSON: {json_words(error)}"
        raise BadArguments(what, line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise BadArguments("the arguments are nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise BadArguments(f"the arguments cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise BadArguments(f"the arguments must be a JSON object, not {type(values).__name__}")
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadArguments(f"the argument {twice!r} is given twice")
    return values


def _no_constant(name: str) -> Any:
    raise BadArguments(f"{name} is not JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadArguments(f"the number {text[:80]} is too large")
    return number


# Tools and sets of them.


class ToolFailure(Exception):
    """Raised by a tool to answer with a typed error; every other exception becomes ``E-TOOL-FAILED``."""

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.message)
        self.error = error


class Tool(Protocol):
    """One thing that a model can call. Runs may be concurrent; a run that is cancelled must stop and clean up."""

    @property
    def recipient(self) -> str:
        """The qualified name that calls are addressed to."""

    @property
    def parameters(self) -> JsonSchema | None:
        """The schema that a call's body must satisfy; None when the body is not JSON (``python``'s is code)."""

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        """The output of one call. ``arguments`` is empty where ``parameters`` is None: the body is in ``call``."""


class DescribedTool(ABC):
    """Base of a tool that is offered as a function: its name and its parameters are those of its ``spec``."""

    __slots__ = ()
    spec: ToolSpec

    @property
    def recipient(self) -> str:
        return self.spec.recipient

    @property
    def parameters(self) -> JsonSchema | None:
        return self.spec.parameters

    @abstractmethod
    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        """The output of one call, as `Tool.run` has it."""


@runtime_checkable
class ToolSet(Protocol):
    """Tools that come together: a Python module's functions, an MCP server, the browser."""

    @property
    def tools(self) -> tuple[Tool, ...]: ...

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """How functions are described to the model."""

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        """How built-ins are described to the model (Harmony's system message)."""

    async def aclose(self) -> None: ...


class DescribedToolSet:
    """Base of a tool set of functions, which are described to the model one by one, and of no built-ins."""

    def __init__(self, tools: Iterable[DescribedTool] = ()) -> None:
        self._tools = tuple(tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools)

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return ()

    async def aclose(self) -> None:
        return None
