"""Forms of conversations: a source that reads one and a target that writes it, message by message."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from antiphon.api.transcript.schema import GenerationSettings
from antiphon.conversation import (
    FUNCTIONS,
    Conversation,
    Loss,
    Message,
    OpaquePart,
    ReasoningEffort,
    Role,
    TextPart,
    ToolSpec,
)
from antiphon.formats.openchatml import DocumentHeader, envelope_of, read_arguments, read_declaration
from antiphon.formats.openchatml.body import CallArguments
from antiphon.formats.openchatml.declarations import AUTHORS, TITLE, spell_tools
from antiphon.structs import ready

from .json_text import Repeated

# What a request says beside its conversation and a transcript's header has a place for: the model, how to sample.

REQUEST = "request"
"""The key of a `Conversation`'s ``extra`` that has it, as a `DocumentHeader`, by the names of OpenChatML (§2)."""
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "stop")
CHAT = {**{name: (name,) for name in SAMPLING}, "max_tokens": ("max_completion_tokens", "max_tokens")}
"""The settings that chat JSON has, each with its names there; the first one is written."""
RESPONSES = {**{name: (name,) for name in SAMPLING}, "max_tokens": ("max_output_tokens",)}
Names = Mapping[str, tuple[str, ...]]


def header_of(about: Conversation) -> DocumentHeader:
    """The header of a transcript, or what a request says that would be in one."""
    if "openchatml" in about.extra:
        return envelope_of(about).header or DocumentHeader()
    known = about.extra.get(REQUEST)
    return known if isinstance(known, DocumentHeader) else DocumentHeader()


def read_request(request: Mapping[str, Any], names: Names) -> tuple[dict[str, DocumentHeader], dict[str, Any]]:
    """Reads the request's fields as ``extra`` of a conversation, and returns the fields that it is made of."""
    given = {name: key for name, keys in names.items() for key in keys if _fits(name, request.get(key))}
    model = request.get("model")
    fields: dict[str, Any] = {"model": model} if isinstance(model, str) else {}
    settings = {name: request[key] for name, key in given.items()}
    header = DocumentHeader(fields={**fields, "generation_settings": settings} if settings else fields)
    return ({REQUEST: header} if header.fields else {}), {key: request[key] for key in (*fields, *given.values())}


def read_effort(value: object) -> ReasoningEffort | None:
    """The effort of that name; None for a value that is none."""
    return next((effort for effort in ReasoningEffort if effort == value), None)


def written_request(about: Conversation, names: Names) -> dict[str, Any]:
    """The request's fields for what the header says, where it is of the right kind."""
    header = header_of(about)
    settings = {
        keys[0]: header.generation_settings[name]
        for name, keys in names.items()
        if _fits(name, header.generation_settings.get(name))
    }
    return ({"model": header.model} if header.model is not None else {}) | settings


def carried_request(about: Conversation, names: Names) -> dict[str, DocumentHeader]:
    """Returns the part that a reader of `written_request` gets, as ``extra`` of a conversation."""
    return read_request(written_request(about, names), names)[0]


def with_request(header: DocumentHeader, about: Conversation) -> DocumentHeader:
    """The header with the model and the settings of the request that the conversation comes from."""
    known = header_of(about)
    own = {key: value for key, value in known.fields.items() if key != "generation_settings"}
    return replace(header, fields={**own, **header.fields}).with_settings(
        **{**known.generation_settings, **header.generation_settings}
    )


def _fits(name: str, value: Any) -> bool:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return False
    try:
        msgspec.convert({name: value}, ready(GenerationSettings))
    except msgspec.ValidationError:
        return False
    return True


# Parts that are no text: carried as they came to forms that have a place for them.


def without_media(message: Message) -> Message:
    """The message for a form that has no images, sounds and files; the report then lists them."""
    if not any(isinstance(part, OpaquePart) for part in message.parts):
        return message
    rest = tuple(part for part in message.parts if not isinstance(part, OpaquePart))
    plain = len(rest) < 2 and all(isinstance(part, TextPart) for part in rest)
    return replace(message, parts=() if plain else rest)


@dataclass(frozen=True, slots=True)
class Written:
    """A part of the output, the messages that it stands for, and those that a reader of it gets.

    Where the two differ, the form loses something; so the report of losses is complete without a list of rules.
    """

    text: str = ""
    messages: tuple[Message, ...] = ()
    read: tuple[Message, ...] = ()
    ambiguous: tuple[Loss, ...] = ()
    """Parts that a reader would take for something else, though all of the text is in the output."""
    expected: tuple[Message, ...] | None = None
    """Messages for a reader, where tools move between messages and a list beside them; None: ``messages``."""


# Parts of a JSON input that no field took: found by comparing it with what was read, not by a list of keys.


def unread(path: str, given: Any, taken: Any) -> Iterator[Loss]:
    """Yields each part of a JSON value that ``taken`` lacks, at any depth; null counts as absent.

    ``taken`` is what was read of the value, in the spelling in which it was given.
    """
    if given is None or given == taken:
        return
    if isinstance(given, dict) and isinstance(taken, Mapping):
        for key, value in given.before if isinstance(given, Repeated) else ():
            yield Loss(f"{path}.{key}" if path else key, shown(value), shown(given[key]))
        for key, value in given.items():
            yield from unread(f"{path}.{key}" if path else key, value, taken.get(key))
    elif isinstance(given, list) and isinstance(taken, list):
        for i, value in enumerate(given):
            yield from unread(f"{path}[{i}]", value, taken[i] if i < len(taken) else None)
    else:
        yield Loss(path, shown(given), None if taken is None else shown(taken))


def taken_content(given: Any, message: Message | None) -> Any:
    """The content that the message took, in the spelling in which it was given: a text, or a list of parts."""
    text = "" if message is None else message.text
    parts = (message and message.parts) or (TextPart(text),)
    if not isinstance(given, list):
        return text
    if len(given) != len(parts):
        return text if given else given
    return [
        msgspec.to_builtins(part.data) if isinstance(part, OpaquePart)
        # The text of a refusal is carried, but not that it is one.
        else {"type": "refusal", "refusal": {"text": part.text}} if one.get("type") == "refusal"
        else {"type": one.get("type"), "text": part.text, "annotations": [], "logprobs": []}
        for one, part in zip(given, parts, strict=True)
        if isinstance(part, OpaquePart | TextPart)
    ]  # fmt: skip


def taken_function(tool: ToolSpec) -> dict[str, Any]:
    """The parts of a function's definition that a tool has."""
    return {name: getattr(tool, name) for name in ("name", "description", "parameters", "strict")}


def shown(value: object) -> str:
    """A value for a report, cut at 60 characters."""
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


class Source(Protocol):
    """Reads one input, cut anywhere."""

    @property
    def about(self) -> Conversation:
        """Tools, settings and the like, without the messages; complete when `close` was called."""

    @property
    def ready(self) -> bool:
        """Whether ``about`` is known as far as a writer needs it to begin."""

    @property
    def repairs(self) -> list[str]:
        """Repairs of the input; who reports them clears the list."""

    @property
    def unread(self) -> list[Loss]:
        """Parts of the input that no conversation has a place for; who reports them clears the list."""

    def feed(self, chunk: bytes) -> list[Message]:
        """Raises `FormatError` or `RequestError` where the input is not what it should be."""

    def close(self) -> Iterable[Message]: ...


class Target(Protocol):
    """Writes one output."""

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        """The beginning of the output, and what of ``about`` a reader will get from it."""

    def write(self, message: Message) -> list[Written]: ...

    def close(self, about: Conversation) -> Iterable[Written]: ...


# Tools that a message of a transcript declares (§16.2), for forms that list tools beside their messages; and back.


@dataclass(frozen=True, slots=True)
class Lift:
    """A message whose functions are listed elsewhere; ``rest`` is what else it says, None for nothing."""

    message: Message
    rest: Message | None
    losses: tuple[Loss, ...]

    def parts(self, parts: Sequence[Written]) -> list[Written]:
        """The output's parts for ``rest``, as those of the message."""
        if self.rest is None:
            return [*parts, Written("", (self.message,), (), self.losses, expected=())]
        *before, last = parts
        return [*before, replace(last, messages=(self.message,), ambiguous=self.losses, expected=(self.rest,))]


class Lifted:
    """The functions that the messages so far declare, each as it was declared last."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolSpec] = {}
        self._number = -1

    def with_tools(self, about: Conversation) -> Conversation:
        """The conversation with these functions among its tools."""
        return replace(about, tools=tuple(({tool.recipient: tool for tool in about.tools} | self._tools).values()))

    def lift(self, message: Message) -> Lift | None:
        """The message without its functions; None where it has none, or declares what a list of them cannot say."""
        self._number += 1
        if message.role not in AUTHORS or TITLE not in message.text or message.parts:
            return None
        declared = read_declaration(message.text)
        if declared.unread or [namespace.name for namespace in declared.namespaces] != [FUNCTIONS]:
            return None
        [functions] = declared.namespaces
        if functions.description or not functions.tools:
            return None
        self._tools |= {tool.recipient: tool for tool in functions.tools}
        rest = replace(message, text=declared.rest) if declared.rest else None
        same = message.role is Role.DEVELOPER and rest is None and spell_tools(functions.tools) == message.text
        spelled = Loss(f"messages[{self._number}].text", TITLE, "tools", "spelling")
        return Lift(message, rest, () if same else (spelled,))


def as_declared(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools as a reader gets them from a message that declares them."""
    namespaces = read_declaration(spell_tools(tools)).namespaces if tools else ()
    return tuple(tool for namespace in namespaces for tool in namespace.tools)


class CheckedCalls:
    """Whether all calls are what declared functions take: a strict reader refuses a transcript in which one is not."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.recipient: tool for tool in as_declared(tools)}
        self.fit = True

    def note(self, message: Message) -> None:
        recipient = message.recipient or ""
        if not message.is_call or not recipient.startswith(f"{FUNCTIONS}."):
            return
        tool = self._tools.get(recipient)
        self.fit = self.fit and tool is not None and isinstance(read_arguments(message, tool), CallArguments)
