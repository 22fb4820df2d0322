"""The Harmony format: conversations ⇄ pieces, as gpt-oss speaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from antiphon.conversation import FUNCTIONS, Conversation, DeveloperContent, End, Message, Role
from antiphon.formats.format import HistoryPolicy, SamplingDefaults
from antiphon.tokens import Control, Piece

from .arrange import arrange
from .controls import CALL, CONTROLS, END, RETURN, START
from .history import for_prompt
from .numbers import JsonText
from .render import Dialect, MessageRenderer
from .sections import Sections
from .typescript import FullTypePrinter, TypePrinter

Types = Literal["reference", "full"]
"""``reference`` prints tools as gpt-oss was trained on them; ``full`` adds what that loses (anyOf, $ref, const …)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmony:
    """One way to speak Harmony; a `Format`.

    ``names`` writes the names of users and assistants as ``user:NAME`` (A-H12).
    """

    dialect: Dialect = "a"
    types: Types = "reference"
    names: bool = False
    messages: MessageRenderer = field(init=False, repr=False, compare=False)

    name = "harmony"
    controls: Sequence[Control] = CONTROLS
    stops: Sequence[Control | str] = (RETURN, CALL)
    defaults = SamplingDefaults(temperature=1.0, top_p=1.0)

    def __post_init__(self) -> None:
        json = JsonText(signed_exponent=self.dialect == "b")
        object.__setattr__(self, "messages", MessageRenderer(self.dialect, Sections(_printer(self.types, json))))

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        """The prompt (HAR-36, HAR-39): earlier messages, and the start of the reply unless one is left open."""
        messages = arrange(conversation, names=self.names)
        shown = for_prompt(messages, history)
        open_end = bool(shown) and is_open(shown[-1])
        yield from self.frames(shown[:-1] if open_end else shown, functions_offered=offers_functions(messages))
        if open_end:
            yield from self.messages.opened(shown[-1])
        elif reply_as is not None:
            yield from opening(reply_as)

    def frames(self, messages: Sequence[Message], *, functions_offered: bool) -> Iterator[Piece]:
        """The messages, whole, as they stand."""
        for message in messages:
            yield from self.messages.frame(message, functions_offered=functions_offered)

    def render_for_training(
        self, conversation: Conversation, *, history: HistoryPolicy = HistoryPolicy.GUIDE
    ) -> Iterator[Piece]:
        """The conversation as a training example: a last final answer ends with ``<|return|>`` (HAR-47)."""
        pieces = self.render(conversation, reply_as=None, history=history)
        if not _ends_in_answer(conversation):
            yield from pieces
            return
        held: Piece | None = None
        for piece in pieces:
            if held is not None:
                yield held
            held = piece
        yield RETURN if held in (END, CALL) else held if held is not None else ""


def opening(role: Role) -> tuple[Piece, Piece]:
    """The start of the next message (HAR-39): nothing after the role."""
    return START, role.value


def is_open(message: Message) -> bool:
    """An assistant's message that the model is to continue."""
    return message.role is Role.ASSISTANT and message.end is End.NONE


def offers_functions(messages: Sequence[Message]) -> bool:
    """HAR-55: somewhere a developer message has function tools."""
    return any(
        isinstance(part, DeveloperContent) and part.tools and FUNCTIONS in part.tools and part.tools[FUNCTIONS].tools
        for message in messages
        for part in message.parts
    )


def _ends_in_answer(conversation: Conversation) -> bool:
    last = conversation.messages[-1] if conversation.messages else None
    return last is not None and last.role is Role.ASSISTANT and last.channel == "final"


def _printer(types: Types, json: JsonText) -> TypePrinter:
    match types:
        case "reference":
            return TypePrinter(json)
        case "full":
            return FullTypePrinter(json)
        case _:
            assert_never(types)
