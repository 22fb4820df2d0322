"""Definitions of chat and Responses: a function that the model may call, and the format of its answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from antiphon.conversation import FUNCTIONS, JsonSchema, ResponseFormat, ToolNamespace, ToolSpec, described
from antiphon.errors import Position, RequestError, UnsupportedError, near
from antiphon.grammar.limits import check_pattern

from .errors import refused
from .projection import CUSTOM_INPUT

# Which tools a choice names: the caller's own by their names, a server's by their qualified names.


def chosen_tools(
    name: str, path: str, own: Collection[ToolSpec], served: Sequence[ToolSpec], builtins: Sequence[ToolNamespace] = ()
) -> tuple[str, ...]:
    """The recipients that ``name`` stands for: a tool of the caller's ``own``, else those of the server's.

    One of the server's is named as its calls are addressed (``browser.search``, ``python``) or as answers spell that
    (``browser__search``); ``browser`` is all of them. Raises `RequestError` at ``path`` where nothing is named so.
    """
    mine = [tool.recipient for tool in own if name in (tool.name, tool.recipient)]
    found = tuple(mine) or served_by(name, served, builtins)
    if not found:
        known = [tool.name for tool in own] or [tool.recipient for tool in served]
        raise refused(path, f"no tool is named {name[:64]!r}.", hint=near(name[:64], known))
    return found


def served_by(name: str, specs: Sequence[ToolSpec], builtins: Sequence[ToolNamespace] = ()) -> tuple[str, ...]:
    """The recipients among a server's tools that the name stands for."""
    offered = [spec.recipient for spec in specs]
    offered += [recipient for namespace in map(described, builtins) for recipient in namespace.recipients]
    exact = [recipient for recipient in offered if _spelled(recipient) == _spelled(name)]
    return tuple(exact or [one for one in offered if _spelled(one).startswith(f"{_spelled(name)}__")])


def _spelled(name: str) -> str:
    return name.removeprefix(f"{FUNCTIONS}.").replace(".", "__")


# Calls of the browser and of ``python``, in whichever way a model addresses them.

BuiltInName = Literal["browser", "python"]
DOMAINS = "pages are not searched by their domain."
"""Why a search within domains, or without some, is refused."""


class BuiltIn(msgspec.Struct, frozen=True):
    """A tool that stands behind a recipient: ``function`` of the browser, empty for ``python``.

    ``wrapped``: it is called as a function, so code comes as an argument.
    """

    name: BuiltInName
    function: str = ""
    wrapped: bool = False

    @property
    def recipient(self) -> str:
        if self.wrapped:
            return f"{FUNCTIONS}.{self.name}__{self.function or 'exec'}"
        return f"{self.name}.{self.function}" if self.function else self.name


def built_in(recipient: str) -> BuiltIn | None:
    """Names the built-in tool of ``browser.search``, ``functions.browser__search``, ``python`` …; None for another."""
    name = recipient.removeprefix(f"{FUNCTIONS}.")
    wrapped = name != recipient
    label, _, function = name.partition("__" if wrapped else ".")
    match label:
        case "browser" if function:
            return BuiltIn("browser", function, wrapped)
        case "python":
            return BuiltIn("python", "", wrapped)
        case _:
            return None


def impossible(path: str, message: str, hint: str | None = None) -> RequestError:
    """The error for a setting of a tool that cannot be honoured here."""
    return refused(path, message, code="unsupported_parameter", hint=hint)


def no_such_tool(kind: str, path: str, possible: Iterable[str], *, by: str | None = None) -> UnsupportedError:
    """The error for a tool of a type that is not there; ``by``: our tool that would be it, were it on."""
    state, how = "are not possible here", ""
    if by is not None:
        state, how = "are off in this server", f" Its owner turns them on with antiphon serve --tools {by}."
    return UnsupportedError(
        f"{path}.type: tools of type {kind[:64]!r} {state}.",
        position=Position(path=f"{path}.type"),
        hint=f"Possible: {', '.join(possible)}.{how}",
    )


Given = TypeVar("Given")
NAME = re.compile(r"(?=.{1,64}$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""The name of a function: as OpenAI has it, or with dots between such words, as tools of MCP servers have."""
NAMESPACE = "a namespace is named with 1 to 64 of a-z, A-Z, 0-9, _ and -."


class FunctionFields(Protocol):
    """A function tool's definition, wherever its wire puts it."""

    name: str
    description: str | None
    parameters: dict[str, Any] | bool | None
    strict: bool | None


class SchemaFields(Protocol):
    """The JSON Schema of an answer. A wire may let ``name`` be absent; here it is needed."""

    @property
    def name(self) -> str | None: ...

    description: str | None
    schema: JsonSchema | None
    strict: bool | None


def read_function(
    function: FunctionFields,
    path: str,
    *,
    namespace: str | None = None,
    taken: Collection[str] = (),
    any_name: bool = False,
) -> ToolSpec:
    """The function at ``path`` as a tool, named ``namespace.name`` where there is a namespace.

    Raises `RequestError` at ``path.name`` for a malformed name and for one that is ``taken``; ``any_name`` lets both
    pass, for a body that is converted and never answered.
    """
    name = f"{namespace}.{function.name}" if namespace else function.name
    if not any_name:
        if not NAME.fullmatch(function.name):
            raise refused(
                f"{path}.name",
                "must be 1 to 64 of the characters a-z, A-Z, 0-9, _, - and single dots within.",
            )
        if name in taken:
            raise refused(f"{path}.name", f"another tool is named {name!r}.")
    return ToolSpec(name, function.description or "", function.parameters, strict=function.strict)


# Custom tools: a call is one text, which the model writes as the only argument of a function.


class GrammarText(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A grammar: ``definition``, written as ``syntax`` says: ``lark`` or ``regex``."""

    syntax: str | None = None
    definition: str | None = None


def custom_tool(spec: ToolSpec, kind: str, grammar: GrammarText | None, path: str, inner: str) -> ToolSpec:
    """The custom tool, as the function that it is to the model.

    The format at ``path`` is of a ``kind``, which is text or grammar; its grammar is at ``inner``. Raises
    `RequestError` for one that cannot be held.
    """
    text = {"type": "string"}
    if kind == "grammar":
        text["pattern"] = _held(_needed(grammar, inner, kind), inner)
    elif kind != "text":
        raise refused(f"{path}.type", f"{kind[:32]!r} is neither text nor grammar.")
    parameters: JsonSchema = {
        "type": "object",
        "properties": {CUSTOM_INPUT: text},
        "required": [CUSTOM_INPUT],
        "additionalProperties": False,
    }
    return replace(spec, parameters=parameters, strict=kind == "grammar" or None)


_ENDS = re.compile(r"(?<!\\)((?:\\\\)*)\$$")
_PARAMETERS = re.compile(r"tools\[([0-9]+)\]\.function\.parameters")


def _held(grammar: GrammarText, path: str) -> str:
    """The pattern of a grammar's texts."""
    syntax, at = _needed(grammar.syntax, f"{path}.syntax", "grammar"), f"{path}.definition"
    definition = _needed(grammar.definition, at, "grammar")
    match syntax:
        case "regex":
            inside = _ENDS.sub(r"\1", definition.removeprefix("^"))
        case "lark":
            from antiphon.grammar.source.expression import check_text, pattern_of  # few tools have a grammar
            from antiphon.grammar.source.lark import read_lark

            check_text(definition, at)
            inside = pattern_of(read_lark(definition, at))
        case _:
            raise refused(f"{path}.syntax", f"{syntax[:32]!r} is neither lark nor regex.")
    pattern = f"^(?:{inside})$"
    check_pattern(pattern, at)
    return pattern


def at_grammar(error: RequestError, places: Mapping[int, str]) -> bool:
    """Whether an error is about a custom tool's arguments; it then names its grammar, of which ``places`` has the path.

    ``places`` goes by the number of the tool among those of the turn.
    """
    found = _PARAMETERS.match((error.position and error.position.path) or "")
    path = places.get(int(found[1])) if found else None
    if path is None:
        return False
    error.position = Position(path=path)
    if error.code == "invalid_schema":
        malformed = error.message.startswith("this is no schema")
        error.code = "invalid_grammar"
        error.message = f"{path}: {'it is malformed' if malformed else f'it cannot be held: {error.message}'}."
        error.hint = "Write it without look-around, back-references and anchors in its midst."
        error.args = (error.message,)
    return True


class FormatFields(Protocol):
    """The format of an answer but for its schema."""

    @property
    def type(self) -> Literal["text", "json_object", "json_schema", "regex", "choice", "grammar"]: ...

    pattern: str | None
    choices: list[str] | None
    grammar: str | None
    compact: bool | None


def read_response_format(
    wire: FormatFields, schema: SchemaFields | None, path: str, schema_path: str
) -> ResponseFormat | None:
    """The answer's format, which is at ``path``; None for ``text``, which requires nothing.

    ``schema_path`` is where ``schema`` is. Raises `RequestError` at what its type needs and lacks.
    """
    match wire.type:
        case "text":
            return None
        case "json_object":
            return ResponseFormat(wire.type, compact=wire.compact is True)
        case "regex":
            return ResponseFormat(wire.type, pattern=_needed(wire.pattern, f"{path}.pattern", wire.type))
        case "choice":
            return ResponseFormat(wire.type, choices=tuple(_needed(wire.choices, f"{path}.choices", wire.type)))
        case "grammar":
            return ResponseFormat(wire.type, grammar=_needed(wire.grammar, f"{path}.grammar", wire.type))
        case "json_schema":
            given = _needed(schema, schema_path, wire.type)
            for field in ("name", "schema"):
                _needed(getattr(given, field), f"{schema_path}.{field}", wire.type)
            return ResponseFormat(
                wire.type, given.name, given.description, given.schema, given.strict, compact=wire.compact is True
            )


def _needed(value: Given | None, path: str, kind: str) -> Given:
    if value is None:
        raise refused(path, f"is needed for type {kind}.", code="missing_required_parameter")
    return value
