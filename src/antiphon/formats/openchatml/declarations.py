"""Tools that a transcript declares: in its header's ``builtin_tools``, under ``# Tools`` in its messages (§16.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile

from antiphon.conversation import FUNCTIONS, Conversation, Message, Role, ToolNamespace, ToolSpec
from antiphon.conversation.tools import by_namespace, is_named
from antiphon.errors import RenderError, near
from antiphon.formats.harmony.sections import SectionWriter
from antiphon.formats.harmony.typescript import FullTypePrinter, JsonText

from .body import body_problem
from .finding import E_CALL, Problem
from .spelling import is_utf8
from .types_reader import TypeReader, TypeSyntaxError

TITLE = "# Tools"
AUTHORS = (Role.SYSTEM, Role.DEVELOPER)
"""The roles whose messages declare tools."""

_SECTION = re.compile(r"^# Tools[ \t\r]*$", re.MULTILINE)
_NEXT_SECTION = re.compile(r"^# (?!Tools[ \t\r]*$)\S", re.MULTILINE)
_NAMESPACE = re.compile(r"^##[ \t]+([\w.-]+)[ \t\r]*$", re.MULTILINE)
_BLOCK = re.compile(r"^namespace[ \t]+([\w.-]+)[ \t]*\{", re.MULTILINE)
_FUNCTION = re.compile(r"^[ \t]*type[ \t]+([\w.-]+)[ \t]*=[ \t]*(?=\()", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//[ ]?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """The tools that one text declares. ``unread``: those whose arguments are declared as nothing reads, and why.

    ``rest`` is the text without its ``# Tools``.
    """

    namespaces: tuple[ToolNamespace, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    rest: str = ""


def read_declaration(text: str) -> ToolDeclaration:
    """The tools under the ``# Tools`` of a text: TypeScript-like types as §16.2 has them, or a JSON object a line."""
    title = _SECTION.search(text)
    if title is None:
        return ToolDeclaration(rest=text)
    after = _NEXT_SECTION.search(text, title.end())
    end = after.start() if after else len(text)
    unread: list[tuple[str, str]] = []
    namespaces = tuple(_namespaces(text[title.end() : end], unread))
    parts = (text[: title.start()].rstrip(), text[end:].rstrip())
    return ToolDeclaration(namespaces, tuple(unread), "\n\n".join(part for part in parts if part))


def _namespaces(section: str, unread: list[tuple[str, str]]) -> Iterator[ToolNamespace]:
    titles = list(_NAMESPACE.finditer(section)) or list(_BLOCK.finditer(section))
    for i, title in enumerate(titles):
        end = titles[i + 1].start() if i + 1 < len(titles) else len(section)
        yield _namespace(title[1], section[title.end() : end], unread)


def _namespace(name: str, text: str, unread: list[tuple[str, str]]) -> ToolNamespace:
    functions = [*_typed(name, text, unread), *_in_json(name, text)]
    words = _BLOCK.split(text)[0]
    if functions:
        words = "\n".join(line for line in words.splitlines() if not line.startswith("{"))
    description = _COMMENT.sub("", words).strip() if functions else words.strip()
    return ToolNamespace(name, description or None, tuple(functions))


def _typed(namespace: str, text: str, unread: list[tuple[str, str]]) -> Iterator[ToolSpec]:
    """``type name = (_: {…}) => any;``, each with the comments before it."""
    behind = 0
    for found in _FUNCTION.finditer(text):
        comments = takewhile(_COMMENT.match, reversed(text[behind : found.start()].splitlines()))
        description = "\n".join(_COMMENT.sub("", line).rstrip() for line in reversed([*comments]))
        spec = ToolSpec(found[1], description, namespace=namespace)
        behind = found.end()
        try:
            yield replace(spec, parameters=_parameters(text, behind))
        except TypeSyntaxError as error:
            unread.append((spec.recipient, str(error)))
            yield replace(spec, parameters=True)


def _parameters(text: str, at: int) -> dict[str, object] | None:
    """The argument of ``(_: type) => any``; None where there is none."""
    reader = TypeReader(text, at)
    reader.expect("(")
    schema = None
    if not reader.skip(")"):
        if reader.next().kind != "word":
            raise TypeSyntaxError("the argument has no name")
        reader.expect(":")
        schema = reader.type()
        reader.skip(",")
        reader.expect(")")
    reader.expect("=>")
    return schema


def _in_json(namespace: str, text: str) -> Iterator[ToolSpec]:
    """``{"name", "description", "parameters"}``, also where it is the ``function`` of a chat request's tool."""
    for line in text.splitlines():
        try:
            value = json.loads(line) if line.startswith("{") else None
        except (ValueError, RecursionError):
            continue
        spec = _spec(namespace, value.get("function", value)) if isinstance(value, dict) else None
        if spec is not None:
            yield spec


def _spec(namespace: str, declared: object) -> ToolSpec | None:
    name = declared.get("name") if isinstance(declared, dict) else None
    if not isinstance(declared, dict) or not isinstance(name, str):
        return None
    description, parameters, strict = (declared.get(key) for key in ("description", "parameters", "strict"))
    return ToolSpec(
        name.removeprefix(f"{namespace}."),
        description if isinstance(description, str) else "",
        parameters if isinstance(parameters, dict | bool) else None,
        strict if isinstance(strict, bool) else None,
        namespace,
    )


def declared_tools(messages: Iterable[Message]) -> tuple[ToolNamespace, ...]:
    """The namespaces that messages declare, in their order; of a tool the last declaration counts."""
    merged: dict[str, ToolNamespace] = {}
    for message in messages:
        if message.role in AUTHORS and TITLE in message.text:
            for found in read_declaration(message.text).namespaces:
                merged[found.name] = _merged(merged.get(found.name), found)
    return tuple(merged.values())


def _merged(earlier: ToolNamespace | None, later: ToolNamespace) -> ToolNamespace:
    if earlier is None:
        return later
    tools = {tool.name: tool for tool in (*earlier.tools, *later.tools)}
    return ToolNamespace(later.name, later.description or earlier.description, tuple(tools.values()))


def lift_tools(conversation: Conversation) -> Conversation:
    """The same with its declarations among ``tools`` and ``builtins`` instead of in its messages.

    A prompt then has them in its own format's form. A message that has nothing else is left out.
    """
    declared = declared_tools(conversation.messages)
    if not declared:
        return conversation
    names = {namespace.name for namespace in declared}
    tools = tuple(tool for namespace in declared if namespace.name == FUNCTIONS for tool in namespace.tools)
    builtins = tuple(namespace for namespace in declared if namespace.name != FUNCTIONS)
    return replace(
        conversation,
        messages=tuple(_without_declarations(conversation.messages)),
        tools=(*conversation.tools, *tools),
        builtins=(*(one for one in conversation.builtins if one.name not in names), *builtins),
    )


def _without_declarations(messages: Iterable[Message]) -> Iterator[Message]:
    for message in messages:
        if message.role not in AUTHORS or TITLE not in message.text:
            yield message
            continue
        declaration = read_declaration(message.text)
        if not declaration.namespaces:
            yield message
        elif declaration.rest:
            yield replace(message, text=declaration.rest)


def tools_behind(conversation: Conversation) -> DeclaredTools:
    """The tools that are known at the end of a transcript."""
    known = DeclaredTools((namespace.name for namespace in conversation.builtins), {})
    known.add(declared_tools(conversation.messages))
    return known


class DeclaredTools:
    """The tools that are known at a place of a transcript: those of its header, of the messages so far, and given ones.

    ``given`` are by their recipients, and count for what they name whatever is declared.
    """

    def __init__(self, builtins: Iterable[str], given: Mapping[str, ToolSpec]) -> None:
        self._builtins = tuple(builtins)
        self._given = given
        self._known: dict[str, ToolSpec] = {}
        self._whole: set[str] = set()
        self._spaces = {tool.namespace for tool in given.values()}

    def add(self, namespaces: Iterable[ToolNamespace]) -> None:
        for namespace in namespaces:
            self._known |= {tool.recipient: tool for tool in namespace.tools}
            (self._spaces if namespace.tools else self._whole).add(namespace.name)

    def get(self, recipient: str) -> ToolSpec | None:
        """How the tool is declared; None where nothing is said of its arguments."""
        return self._given.get(recipient) or self._known.get(recipient)

    def undeclared(self, recipient: str) -> str | None:
        """A hint where ``recipient`` is not declared, and other tools of its namespace are."""
        if not self._spaces or recipient.partition(".")[0] not in self._spaces:
            return None
        if self.get(recipient) is not None or self._is_builtin(recipient):
            return None
        return near(recipient, [*self._known, *self._given])

    def unlisted(self, recipient: str) -> str | None:
        """A hint where it is a built-in tool that the header's ``builtin_tools`` leave out."""
        if not self._builtins or recipient.partition(".")[0] in {FUNCTIONS, *self._spaces}:
            return None
        return None if self._is_builtin(recipient) else f"The header has builtin_tools: {', '.join(self._builtins)}."

    def problem(self, message: Message) -> Problem | None:
        """Why a whole message is not what its head, or the declaration of its tool, promises (§6, §8)."""
        recipient = (message.recipient or "") if message.is_call else ""
        if hint := self.undeclared(recipient):
            return Problem(0, f"{recipient} is not declared", hint, E_CALL)
        problem = body_problem(message, self.get(recipient))
        return None if problem is None or problem.warning else problem

    def _is_builtin(self, recipient: str) -> bool:
        """Named by the header, or a namespace without tools of its own; ``functions.browser__search`` is browser's."""
        name = recipient.removeprefix(f"{FUNCTIONS}.").partition("__")[0]
        named = (*self._builtins, *self._whole)
        return any(is_named(recipient, one) or name == one for one in named)


# Tools, written as a developer's message declares them (§16.2): what `read_declaration` reads.

_SECTIONS = SectionWriter(FullTypePrinter(JsonText()))


def spell_tools(tools: Sequence[ToolSpec]) -> str:
    """The ``# Tools`` of a developer's message: each namespace in types where these say all of it, else in JSON."""
    return "\n\n".join([TITLE, *map(_written, by_namespace(tools).values())])


def _written(namespace: ToolNamespace) -> str:
    with suppress(RenderError):  # too deep, or too large
        typed = _SECTIONS.tools({namespace.name: namespace})
        if read_declaration(typed).namespaces == (namespace,):
            return typed.removeprefix(TITLE).lstrip("\n")
    return "\n".join([f"## {namespace.name}", "", *map(_line, namespace.tools)])


def _line(tool: ToolSpec) -> str:
    fields = {"name": tool.recipient, "description": tool.description or None, "parameters": tool.parameters,
              "strict": tool.strict}  # fmt: skip
    given = {key: value for key, value in fields.items() if value is not None}
    line = json.dumps(given, ensure_ascii=False)
    return line if is_utf8(line) and len(line.splitlines()) == 1 else json.dumps(given)
