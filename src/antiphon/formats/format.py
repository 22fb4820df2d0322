"""The protocol of a format: conversation ⇄ pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, assert_never, runtime_checkable

from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    Incident,
    Message,
    ParserEvent,
    ResponseFormat,
    Role,
    ToolSpec,
)
from antiphon.errors import NotFoundError, RenderError, near
from antiphon.tokens import Control, Piece

if TYPE_CHECKING:  # a grammar takes longer to import than a short conversation takes to render
    from antiphon.grammar import Grammar, ReplyShape


class HistoryPolicy(StrEnum):
    """Which earlier reasoning a prompt keeps (resolution A-H03).

    GUIDE: everything after the last final answer, and no analysis before it. REFERENCE: what `openai-harmony` does.
    KEEP_ALL and DROP_ALL: all of it, none of it. The stored conversation is never changed. A model's own Jinja template
    decides by itself, so it is given all of it under every policy but DROP_ALL.
    """

    GUIDE = "guide"
    REFERENCE = "reference"
    KEEP_ALL = "keep_all"
    DROP_ALL = "drop_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingDefaults:
    """Generation settings that belong to a model (LMD-03): used where a request gives none. None: no opinion.

    ``max_tokens`` is the length of an answer whose request limits none, 0: what the context holds. ``context`` is what
    prompt and answer may have together; ``session_len`` is a template's word for that, which can only shorten it.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_tokens: int | None = None
    context: int | None = None
    session_len: int | None = None


NO_OPINION = SamplingDefaults()
"""Nothing is preferred: the next layer of defaults decides."""


class MendedPrompt(Iterator[Piece]):
    """The pieces of a prompt whose history was written otherwise than it was given, as the format cannot write that.

    ``incidents`` tell what was repaired. ``refusal`` is what a strict reader raises instead; None where
    something would only have been left out.
    """

    def __init__(
        self, pieces: Iterable[Piece], incidents: Sequence[Incident], refusal: RenderError | None = None
    ) -> None:
        self._pieces = iter(pieces)
        self.incidents = tuple(incidents)
        self.refusal = refusal

    def __next__(self) -> Piece:
        return next(self._pieces)


def strictly(prompt: Iterator[Piece]) -> Iterator[Piece]:
    """The prompt as it is. Raises `RenderError` where its history was repaired because the format refused it."""
    if isinstance(prompt, MendedPrompt) and prompt.refusal is not None:
        raise prompt.refusal
    return prompt


def incidents_of(prompt: Iterator[Piece]) -> tuple[Incident, ...]:
    """The repairs of a prompt's history."""
    return prompt.incidents if isinstance(prompt, MendedPrompt) else ()


class Parser(Protocol):
    """Reads one reply; a new one for each reply.

    Both calls return lists. In the default mode no input makes them raise, no generated text is lost, and cutting the
    input anywhere gives the same messages.
    """

    @property
    def ended(self) -> str | None:
        """The stop (a control's spelling or a stop word) that ended the reply; None while it goes on.

        Generation stops the engine when this is set; what is fed afterwards is an incident, not a message.
        """

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]: ...

    def close(self) -> list[ParserEvent]:
        """The reply is over: buffered text, and the end of the open message."""


@runtime_checkable
class CutParser(Protocol):
    """A `Parser` that tells what a limit cut in the middle: a mark, a header, the name of a call."""

    def cut(self) -> list[ParserEvent]:
        """As `close`, for a reply that was to go on: what may have become structure is set aside, and is no text."""


def last_events(parser: Parser, *, cut: bool) -> list[ParserEvent]:
    """The events that close a reply; ``cut``: a limit ended it, and not the model."""
    return parser.cut() if cut and isinstance(parser, CutParser) else parser.close()


@dataclass(frozen=True, slots=True)
class Rest:
    """A place in a reply where its reader holds nothing back: text is just more of the open message.

    Text between two equal places of one message may be left out: the reader stands where it stood. With ``json`` the
    message is the beginning of a JSON value, and its text may be another beginning that goes on in the same way.
    """

    place: Hashable = None
    json: bool = False


class RestingParser(ABC):
    """The base of a `Parser` that tells where it is at rest, so that a long reply can be gone on with from little."""

    @property
    @abstractmethod
    def rest(self) -> Rest | None:
        """The place where the reply stands, behind what was fed last; None where its reader is not at rest."""


def rest_of(parser: Parser) -> Rest | None:
    """The place where the parser is at rest; None for one that never tells."""
    return parser.rest if isinstance(parser, RestingParser) else None


class ForeseeingParser(ABC):
    """The base of a `Parser` that tells of texts, before they are fed, how many are just more of the open message."""

    @abstractmethod
    def more_text(self, texts: Sequence[str | None], start: int) -> int:
        """How many of the texts, from ``start`` on; whatever comes behind them changes nothing of it.

        They may then be fed as one, which is one `TextDelta`. None ends them.
        """


@runtime_checkable
class PicturedFormat(Protocol):
    """A `Format` that has places for images."""

    @property
    def image_mark(self) -> Sequence[Control]:
        """The controls that stand for an image in a prompt; none where there is no place for one."""


@runtime_checkable
class EffortFormat(Protocol):
    """A `Format` that does not know every effort of reasoning."""

    @property
    def efforts(self) -> Collection[str]:
        """The efforts that its prompts say as they are; another is said as one of these, or not at all."""


@runtime_checkable
class Format(Protocol):
    """One way to write conversations for a model. Stateless, shared by all requests."""

    @property
    def name(self) -> str: ...

    @property
    def controls(self) -> Collection[Control]:
        """The controls that renderings may contain and that the parser knows."""

    @property
    def stops(self) -> Sequence[Control | str]:
        """The stops of a turn: controls by id, strings in decoded text."""

    @property
    def framed(self) -> bool:
        """Whether replies have a structure of their own (headers, channels), which a grammar always constrains."""

    @property
    def arguments(self) -> Collection[str]:
        """The names of `Settings.template_kwargs` that change renderings."""

    @property
    def defaults(self) -> SamplingDefaults: ...

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        """The prompt. ``reply_as`` opens the next message for that role; None writes the conversation alone.

        A last assistant message with ``End.NONE`` is left open for the model to continue (prefill). No history that a
        model can write is refused: what cannot be written as it is comes in the nearest form, as a `MendedPrompt`.
        Errors: `RenderError`, when this format cannot represent the conversation.
        """

    def parser(
        self,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        prompt: Sequence[Piece] = (),
        strict: bool = False,
        tools: Collection[ToolSpec | str] = (),
        response_format: ResponseFormat | None = None,
        calls: Collection[str] | None = None,
    ) -> Parser:
        """A reader for one reply to ``prompt``, whose tail decides where the reply begins (inside a think tag, say).

        ``tools`` are those that were offered, a server's own by their recipients (``python``): a format with loose
        headers reads a bare name by them, and one without types in its replies the arguments by their schemas.
        ``response_format`` is what the answer must be: text in quotes before a call is prose unless JSON is requested.
        ``calls`` are the recipients that the reply may call (None: any): what it writes as a call of another is text,
        behind an incident (`formats.offered_calls`).
        ``strict`` raises `ParseError` where the default repairs and reports an `Incident`.
        """

    def grammar(self, shape: ReplyShape, *, prompt: Sequence[Piece] = ()) -> Grammar:
        """The grammar of replies to ``prompt`` that have the shape and that the strict parser reads.

        Errors: `RequestError` for a shape that this format cannot represent, or a choice of tools that cannot be met.
        """


# Formats by name. A name gives a factory; a vocabulary's controls make it a format.

FormatFactory = Callable[[Collection[Control]], Format]
"""Takes the controls of the model's vocabulary: those parts of the format's structure that exist as control tokens."""


class MoreFormats(Protocol):
    """Formats that a registry does not have itself, found only when they are requested."""

    def names(self) -> Iterable[str]: ...

    def find(self, name: str) -> FormatFactory | None: ...


class NoMoreFormats:
    """No formats at all."""

    def names(self) -> Iterable[str]:
        return ()

    def find(self, name: str) -> FormatFactory | None:
        return None


class FormatRegistry:
    """Format factories under unique names; passed to where it is needed. ``more`` has names not among them."""

    def __init__(self, more: MoreFormats | None = None) -> None:
        self._factories: dict[str, FormatFactory] = {}
        self._more = more or NoMoreFormats()

    def register(self, name: str, factory: FormatFactory) -> None:
        """Raises ValueError when the name is taken."""
        if name in self._factories:
            raise ValueError(f"a format named {name!r} is registered already")
        self._factories[name] = factory

    def __contains__(self, name: str) -> bool:
        return name in self._factories or name in self._more.names()

    @property
    def names(self) -> list[str]:
        return sorted({*self._factories, *self._more.names()})

    def get(self, name: str, controls: Collection[Control]) -> Format:
        """The format of that name for a vocabulary with these controls. Raises `NotFoundError` with near names."""
        factory = self._factories.get(name) or self._more.find(name)
        if factory is None:
            raise NotFoundError(f"unknown format {name!r}", code="format_not_found", hint=near(name, self.names))
        return factory(controls)


# Which earlier reasoning a prompt keeps (A-H03; HAR-68 … HAR-70). The conversation itself never changes.


def drop_before(messages: Sequence[Message], policy: HistoryPolicy) -> int:
    """Analysis is dropped from messages with an index below this one."""
    match policy:
        case HistoryPolicy.GUIDE:
            # An answer that the model is to continue still follows from its reasoning.
            ended = messages[:-1] if messages and messages[-1].end is End.NONE else messages
            return next((i for i in range(len(ended) - 1, -1, -1) if is_answer(ended[i])), 0)
        case HistoryPolicy.REFERENCE:
            return _reference(messages)
        case HistoryPolicy.KEEP_ALL:
            return 0
        case HistoryPolicy.DROP_ALL:
            return len(messages)
        case _:
            assert_never(policy)


def is_answer(message: Message) -> bool:
    """An assistant's final message, which closes the reasoning before it."""
    return message.role is Role.ASSISTANT and message.effective_channel == Channel.FINAL and not message.is_call


def _reference(messages: Sequence[Message]) -> int:
    """R-05: up to the first final of anybody, when the last assistant message is final."""
    last_reply = next((m for m in reversed(messages) if m.role is Role.ASSISTANT), None)
    if last_reply is None or last_reply.channel != Channel.FINAL:
        return 0
    return next(i for i, m in enumerate(messages) if m.channel == Channel.FINAL)
