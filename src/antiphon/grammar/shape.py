"""The requirements of a request on a reply, before any format says how it is written.

The schema of a call's arguments, which are always an object, whatever else a tool's parameters would let through.

>>> arguments_schema({"properties": {"a": True}}, "parameters")
{'properties': {'a': True}, 'type': 'object'}
>>> arguments_schema({"type": ["object", "null"]}, "parameters")
{'type': 'object'}
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from antiphon.conversation import JsonSchema, ResponseFormat, ToolChoice, ToolNamespace, ToolSpec, described, is_named
from antiphon.errors import Position, RequestError
from antiphon.errors.extras import extra
from antiphon.tokens import Control, Tokenizer

from .grammar import Grammar, Json, Regex, choice

if TYPE_CHECKING:  # llguidance is an extra
    from .following import Matcher


NOTHING: JsonSchema = {"type": "object", "additionalProperties": False}
"""The parameters of a tool that declares none: it takes an empty object."""
_MOST_STEPS = 32


def arguments_schema(parameters: JsonSchema | None, path: str) -> JsonSchema:
    """The part of ``parameters`` that an object fits; the same value where that is all of it.

    Error: `RequestError` with ``path`` where no object fits.
    """
    if parameters is None:
        return NOTHING
    if parameters is True or (isinstance(parameters, dict) and parameters.get("$ref") == "#"):
        return {"type": "object"}  # A schema that leads to itself says nothing.
    if not isinstance(parameters, dict) or "$ref" in parameters:
        _check_target(parameters, path)
        return parameters
    given = parameters.get("type", "object")
    if given != "object" and not (isinstance(given, list) and "object" in given):
        raise _no_object(f"{path}.type")
    if parameters.get("type") == "object" and parameters.get("nullable") is not True:
        return parameters
    return {**{key: value for key, value in parameters.items() if key != "nullable"}, "type": "object"}


def _check_target(parameters: JsonSchema, path: str) -> None:
    """A reference at the top is left as it stands, and must not lead to what is no object."""
    node: Any = parameters
    for _ in range(_MOST_STEPS):
        if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
            break
        key, _, name = node["$ref"].removeprefix("#/").partition("/")
        definitions = parameters.get(key) if isinstance(parameters, dict) else None
        node = definitions.get(name) if isinstance(definitions, dict) else None
    type = node.get("type") if isinstance(node, dict) else None
    if isinstance(type, str) and type != "object":
        raise _no_object(f"{path}.$ref")


def _no_object(path: str) -> RequestError:
    return RequestError(
        "the arguments of a call are an object, and none fits these parameters",
        code="invalid_schema",
        position=Position(path=path),
        hint='Give parameters of {"type": "object", …}.',
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyShape:
    """The frame of one reply.

    ``tools`` are those offered, ``builtins`` the server's own that a format may call besides. ``call_ids`` are the ids
    that the server gives to the calls in order (so as many calls as ids at most). ``parallel`` False allows one call.
    ``other_calls``: calls in other forms than the model's own are read. ``held``: the grammar is for an engine, which
    keeps the model from what a reader would take too: a call in another form that is not whole.
    ``max_reasoning`` (of the one thought) and ``max_text`` (of a preamble, a free answer, or code) are in characters,
    where one that may begin a spelled-out mark counts with the next; None for no bound but the request's token limit.
    ``params`` name where tools and format stand in the request, for errors.
    """

    tools: tuple[ToolSpec, ...] = ()
    builtins: tuple[ToolNamespace, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel: bool = True
    response_format: ResponseFormat = field(default_factory=ResponseFormat)
    reasoning: Literal["off", "optional", "required"] = "optional"
    preambles: bool = True
    call_ids: tuple[str, ...] = ("call_0", "call_1", "call_2", "call_3")
    max_reasoning: int | None = None
    max_text: int | None = None
    other_calls: bool = False
    held: bool = False
    tools_param: str = "tools"
    format_param: str = "response_format"

    @property
    def callable(self) -> tuple[ToolSpec, ...]:
        """The tools that this reply may call. Error: `RequestError` for a choice that cannot be met."""
        if self.tool_choice.mode == "none":
            return ()
        builtin = tuple(recipient for namespace in self.builtins for recipient in described(namespace).recipients)
        offered = (*(tool.recipient for tool in self.tools), *builtin)
        for name in self.tool_choice.names:
            if not any(is_named(recipient, name) for recipient in offered):
                raise RequestError(
                    f"tool_choice names the unknown tool {name!r}",
                    position=Position(path="tool_choice"),
                    hint="Name one of the tools of this request.",
                )
        allowed = tuple(tool for tool in self.tools if self.tool_choice.allows(tool.recipient))
        if self.must_call and not allowed and not any(map(self.tool_choice.allows, builtin)):
            raise RequestError(
                "tool_choice requires a call, and there are no tools", position=Position(path="tool_choice")
            )
        return allowed

    @property
    def must_call(self) -> bool:
        return self.tool_choice.mode == "required"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the calls that this reply may make."""
        return self.call_ids if self.parallel else self.call_ids[:1]

    def arguments(self, tool: ToolSpec, avoid: tuple[Control | str, ...] = ()) -> Json:
        """The arguments of a call of the tool."""
        place = next(i for i, offered in enumerate(self.tools) if offered is tool)
        path = f"{self.tools_param}[{place}].function.parameters"
        return Json(arguments_schema(tool.parameters, path), path, strict=tool.strict is True, avoid=avoid)

    def builtin_calls(self, avoid: tuple[Control | str, ...] = ()) -> list[tuple[str, Json | None]]:
        """The server's own recipients that a reply may call, and a call's arguments; None for free text (code)."""
        calls: list[tuple[str, Json | None]] = []
        for i, namespace in enumerate(map(described, self.builtins)):
            calls += [(recipient, None) for recipient in namespace.recipients if not namespace.tools]
            for k, tool in enumerate(namespace.tools):
                path = f"builtins[{i}].tools[{k}]"
                arguments = Json(arguments_schema(tool.parameters, path), path, avoid=avoid)
                calls.append((f"{namespace.name}.{tool.name}", arguments))
        return [call for call in calls if self.tool_choice.allows(call[0])]

    def answer(self, avoid: tuple[Control | str, ...] = (), *, any_whitespace: bool = False) -> Grammar | None:
        """The form of the final answer, None for free text; ``any_whitespace``: of JSON that need not be compact."""
        form = self.response_format
        any_whitespace = any_whitespace and not form.compact
        match form.kind:
            case "text":
                return None
            case "json_object":
                return Json({"type": "object"}, self.format_param, avoid=avoid, any_whitespace=any_whitespace)
            case "json_schema":
                schema = True if form.schema is None else form.schema
                path = f"{self.format_param}.json_schema.schema"
                return Json(schema, path, form.strict is True, avoid, any_whitespace)
            case "regex":
                return Regex(form.pattern or "", f"{self.format_param}.pattern")
            case "choice":
                if not form.choices or "" in form.choices:
                    raise RequestError(
                        "choices must be non-empty texts", position=Position(path=f"{self.format_param}.choices")
                    )
                return choice(*form.choices)
            case "grammar":
                from .source.read import read_grammar  # few replies have a grammar of their client's

                return read_grammar(form.grammar or "", f"{self.format_param}.grammar")


class HasGrammar(Protocol):
    """Any `antiphon.formats.Format`."""

    def grammar(self, shape: ReplyShape) -> Grammar: ...


def matcher(format: HasGrammar, shape: ReplyShape, tokenizer: Tokenizer, end_ids: Collection[int]) -> Matcher:
    """A matcher for one reply, whose ``mask()`` any engine can lay over its logits. Needs the extra ``local``.

    ``end_ids`` are the model's own end tokens. Building the vocabulary takes a quarter of a second for a real model;
    who calls it more than once makes a `Vocabulary` and uses `compile_grammar`.

    Errors: `RequestError` for a shape that cannot be enforced, with its place.
    """
    with extra("local", "a grammar"):
        from .compiler import Vocabulary, compile_grammar

    return compile_grammar(format.grammar(shape), Vocabulary(tokenizer, end_ids)).matcher()
