"""The Harmony format of gpt-oss: conversations ⇄ pieces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Conversation,
    DeveloperContent,
    End,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    ResponseFormat,
    Role,
    TextDelta,
    ToolSpec,
)
from antiphon.errors import RenderError
from antiphon.formats.format import HistoryPolicy, Parser, SamplingDefaults, drop_before
from antiphon.formats.offered_calls import offered_calls
from antiphon.tokens import Control, Piece, utf8

from .arrange import ARGUMENTS, arrange, is_reasoning
from .bare import BareParser, LiteralParser, pieces_of, spelled_out
from .controls import CALL, CONSTRAIN, CONTROLS, END, ENDS, MESSAGE, RETURN, START, Dialect, Types
from .header import CONTENT_TYPES, Header, HeaderBuffer, HeaderStart
from .parser import HarmonyParser
from .reference import ReferenceEnvelope, ReferenceParser, ReferenceState
from .render import MessageRenderer, envelope_of, refuse, remembered
from .sections import EFFORT, SectionWriter
from .typescript import FullTypePrinter, JsonText, TypePrinter

if TYPE_CHECKING:
    from antiphon.grammar import Grammar, ReplyShape


# Strict reading of pieces: the reference's messages as our events, and its errors as `ParseError`.


class StrictParser:
    """Reads one reply, or a whole conversation when ``reply_as`` is None."""

    def __init__(self, reply_as: Role | None, *, dialect: Dialect = "a", prefix: Message | None = None) -> None:
        self._machine = ReferenceParser(lambda id: b"", reply_as, dialect=dialect)
        self._header = HeaderBuffer()
        self._header.begin(HeaderStart.IN_PROMPT)
        self._open: Message | None = None
        self._streamed = 0
        self._ended: str | None = None
        self._events: list[ParserEvent] = []
        if prefix is not None:
            self._machine.open(envelope_of(prefix))
            self._start(prefix)

    @property
    def ended(self) -> str | None:
        """The control that ended the reply."""
        return self._ended

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        for piece in pieces:
            if isinstance(piece, Control):
                self._step(piece.spelling, piece, ENDS.get(piece, End.NONE))
            elif piece:
                self._step(repr(piece), utf8(piece), End.NONE)
        return self._take()

    def close(self) -> list[ParserEvent]:
        finished = len(self._machine.messages)
        self._machine.process_eos()
        self._note(finished, End.NONE)
        return self._take()

    def _step(self, token: str, piece: bytes | Control, end: End) -> None:
        before, finished = self._machine.state, len(self._machine.messages)
        read = piece
        if isinstance(piece, bytes) and self._machine.header[-1:] == [CONSTRAIN.spelling]:
            read = piece.lstrip(b" ")  # what the mark of a type and the type have between them says nothing
        if read:
            self._machine.step(token, read)
        if before is not ReferenceState.CONTENT:
            self._note_header(piece)
        if self._machine.delta:
            self._streamed += len(self._machine.delta)
            self._events.append(TextDelta(self._machine.delta))
        self._note(finished, end)
        if piece in (RETURN, CALL) and self._machine.state is ReferenceState.EXPECT_START:
            self._ended = self._ended or token

    def _note_header(self, piece: bytes | Control) -> None:
        if self._machine.state is ReferenceState.CONTENT:
            assert self._machine.envelope is not None
            message = message_of(self._machine.envelope)
            self._start(remembered(message, self._header.written(message.role)))
        elif piece == START:
            self._header.begin(HeaderStart.CONTROL)
        elif self._header.room < 0:
            return  # it is too long to be remembered
        elif isinstance(piece, Control):
            self._header.open_section(piece)
        else:
            self._header.add(str(piece, "utf-8"))

    def _start(self, message: Message) -> None:
        self._open = message
        self._events.append(MessageStarted(message))

    def _note(self, finished: int, end: End) -> None:
        for message in self._machine.messages[finished:]:
            assert self._open is not None
            if rest := message.text[self._streamed :]:
                self._events.append(TextDelta(rest))
            self._events.append(MessageEnded(replace(self._open, text=message.text, end=end)))
            self._streamed = 0

    def _take(self) -> list[ParserEvent]:
        events, self._events = self._events, []
        return events


def message_of(envelope: ReferenceEnvelope) -> Message:
    """The reference's header as a `Message`, but that a type which stands alone, or of an answer, is no recipient."""
    recipient, content_type = envelope.recipient, envelope.content_type
    marked = recipient is not None and recipient.startswith(CONSTRAIN.spelling)
    typed = envelope.channel == Channel.FINAL and recipient in CONTENT_TYPES
    if content_type is None and (marked or typed):
        recipient, content_type = None, recipient
    constrained = content_type is not None and content_type.startswith(CONSTRAIN.spelling)
    header = Header(envelope.role, envelope.name, recipient, envelope.channel, content_type, constrained)
    if content_type is not None and constrained:
        header.content_type = content_type.removeprefix(CONSTRAIN.spelling)
    return header.message()


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmony:
    """Harmony with its options; a `Format`.

    ``names`` writes the names of users and assistants as ``user:NAME`` (A-H12). ``literal`` spells the controls out as
    text, for a model whose vocabulary lacks them. ``spelled`` reads controls that arrive as text, or not at all, from a
    model whose vocabulary has them (F-15). ``refuse`` gets the error of a header that would be read as another one;
    where it returns, the header is written as it stands.
    """

    dialect: Dialect = "a"
    types: Types = "reference"
    names: bool = False
    literal: bool = False
    spelled: bool = False
    refuse: Callable[[RenderError], None] = field(default=refuse, repr=False, compare=False)
    messages: MessageRenderer = field(init=False, repr=False, compare=False)

    name = "harmony"
    framed = True
    defaults = SamplingDefaults(temperature=1.0, top_p=1.0)

    def __post_init__(self) -> None:
        json = JsonText(signed_exponent=self.dialect == "b")
        sections = SectionWriter(_printer(self.types, json))
        object.__setattr__(self, "messages", MessageRenderer(self.dialect, sections, self.refuse))

    @property
    def arguments(self) -> Collection[str]:
        return ARGUMENTS

    @property
    def efforts(self) -> Collection[str]:
        return EFFORT.values()

    @property
    def controls(self) -> Sequence[Control]:
        return () if self.literal else CONTROLS

    @property
    def stops(self) -> Sequence[Control | str]:
        """HAR-34, HAR-42: inference stops at both."""
        return (RETURN.spelling, CALL.spelling) if self.literal else (RETURN, CALL)

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        """The prompt (HAR-36, HAR-39): earlier messages, and the start of the reply unless one is left open."""
        pieces = self._render(conversation, reply_as, history)
        return spelled_out(pieces) if self.literal else pieces

    def _render(self, conversation: Conversation, reply_as: Role | None, history: HistoryPolicy) -> Iterator[Piece]:
        messages = arrange(conversation, names=self.names)
        before = drop_before(messages, history)
        drops = _is_on_analysis if history is HistoryPolicy.REFERENCE else is_reasoning
        shown = [m for i, m in enumerate(messages) if i >= before or not drops(m)]
        # Only the conversation's last message is gone on with, not one that is last because reasoning was dropped.
        open_end = bool(shown) and shown[-1] is messages[-1] and is_open(shown[-1])
        yield from self.frames(shown[:-1] if open_end else shown, functions_offered=offers_functions(messages))
        if open_end:
            yield from self.messages.opened(shown[-1])
        elif reply_as is not None:
            yield from reply_opening(reply_as)

    def frames(self, messages: Sequence[Message], *, functions_offered: bool) -> Iterator[Piece]:
        """The messages, whole, as they are."""
        for message in messages:
            yield from self.messages.frame(message, functions_offered=functions_offered)

    def render_for_training(
        self, conversation: Conversation, *, history: HistoryPolicy = HistoryPolicy.GUIDE
    ) -> Iterator[Piece]:
        """The conversation as a training example: a last final answer ends with ``<|return|>`` (HAR-47)."""
        pieces = list(self._render(conversation, None, history))
        last = conversation.messages[-1] if conversation.messages else None
        answers = last is not None and last.role is Role.ASSISTANT and last.channel == "final"
        if answers and pieces and pieces[-1] in (END, CALL):
            pieces[-1] = RETURN
        return spelled_out(pieces) if self.literal else iter(pieces)

    def parser(
        self,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        prompt: Sequence[Piece] = (),
        strict: bool = False,
        tools: Collection[ToolSpec | str] = (),
        response_format: ResponseFormat | None = None,
        calls: Collection[str] | None = None,
        spelled: bool = False,
    ) -> Parser:
        """A reader for one reply, or for a whole conversation when ``reply_as`` is None.

        ``tools`` are the recipients that were offered: they decide what a bare name means. ``spelled`` reads controls
        that arrive as ordinary text (F-15), as the format's own does. ``strict`` gives the reference's messages, or
        its error as `ParseError`.
        """
        prefix = open_message(pieces_of(prompt) if self.literal else prompt)
        reader: Parser
        if strict:
            reader = StrictParser(reply_as, dialect=self.dialect, prefix=prefix)
        else:
            reader = HarmonyParser(reply_as, tools=tools, prefix=prefix)
        if self.literal or self.spelled or spelled:
            whole_reply = prefix is None and reply_as is not None and not strict
            reader = LiteralParser(BareParser(reader) if whole_reply else reader, report=not self.literal)
        return offered_calls(reader, calls, strict=strict)

    def grammar(self, shape: ReplyShape, *, prompt: Sequence[Piece] = ()) -> Grammar:
        """The grammar of a reply: at most one call, at which inference stops (HAR-42)."""
        from .grammar import HarmonyGrammar  # rendering and parsing need not wait for it

        opened = open_message(pieces_of(prompt) if self.literal else prompt)
        return HarmonyGrammar(shape, literal=self.literal).reply(opened)


def harmony(controls: Collection[Control]) -> Harmony:
    """Harmony for a vocabulary with these controls (a `FormatFactory`); spelled out if one of Harmony's is missing."""
    return Harmony(literal=not set(CONTROLS) <= set(controls))


def reply_opening(role: Role) -> tuple[Piece, Piece]:
    """The start of the next message (HAR-39): nothing after the role."""
    return START, role.value


def open_message(prompt: Sequence[Piece]) -> Message | None:
    """The header of the message that a prompt leaves open for the model to continue, if it does."""
    start = next((i for i in range(len(prompt) - 1, -1, -1) if prompt[i] == START), None)
    if start is None or MESSAGE not in prompt[start:] or any(piece in ENDS for piece in prompt[start:]):
        return None
    reader = HarmonyParser(None)
    (started,) = (e for e in reader.feed(prompt[start:]) if isinstance(e, MessageStarted))
    return started.message


def is_open(message: Message) -> bool:
    """An assistant's message that the model is to continue."""
    return message.role is Role.ASSISTANT and message.end is End.NONE


def _is_on_analysis(message: Message) -> bool:
    return message.channel == Channel.ANALYSIS


def offers_functions(messages: Sequence[Message]) -> bool:
    """HAR-55: somewhere a developer message has function tools."""
    return any(
        isinstance(part, DeveloperContent) and part.tools and FUNCTIONS in part.tools and part.tools[FUNCTIONS].tools
        for message in messages
        for part in message.parts
    )


def _printer(types: Types, json: JsonText) -> TypePrinter:
    match types:
        case "reference":
            return TypePrinter(json)
        case "full":
            return FullTypePrinter(json)
        case _:
            assert_never(types)
