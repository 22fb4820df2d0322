"""Conversations as transcripts: what was read is written byte for byte, all else in canonical form (A-O02, A-O49)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from antiphon.conversation import Conversation, End, Message, OpaquePart, Settings
from antiphon.errors import RenderError
from antiphon.tokens import spell

from .document import DocumentHeader
from .finding import E_HEADER
from .frame import Trivia
from .head import head_pieces
from .head_reader import HeadReader
from .reader import TranscriptEnvelope
from .spelling import MESSAGE, START, TOKEN, spell_body, unescape
from .yaml_header import spell_header

_BLOCK = re.compile(r"(?<!<)<\|literal\|>(.*?)<\|endliteral\|>", re.DOTALL)
_CONTROL = re.compile(f"(?<!<){TOKEN.pattern}")


class Writer:
    """Writes a transcript message by message, so that its length does not matter.

    The recorded spelling of a message is used as long as it still has the message's fields.
    """

    def __init__(self, envelope: TranscriptEnvelope | None = None) -> None:
        self._envelope = envelope or TranscriptEnvelope(DocumentHeader())
        self._heads = HeadReader()
        if self._envelope.header:
            self._heads.declare(self._envelope.header.builtin_tools)
        self._separator = ""
        self._open = False

    def header(self) -> str:
        """The header, as it was written when it was read."""
        envelope = self._envelope
        return envelope.text or (spell_header(envelope.header) if envelope.header else "")

    def write(self, message: Message) -> str:
        """One frame and what precedes it."""
        if self._open:
            raise RenderError("a message without an end is not the last one", code=E_HEADER)
        recorded = message.extra.get("openchatml")
        trivia = recorded if isinstance(recorded, Trivia) else Trivia()
        before = self._separator if trivia.before is None else trivia.before
        self._separator = "\n"
        self._open = message.end is End.NONE
        footer = "" if self._open else f"<|{message.end}|>"
        return f"{before}{START}{self._head(message, trivia)}{MESSAGE}{self._body(message, trivia)}{footer}"

    def close(self) -> str:
        """What follows the last frame: a line break, or what followed it when it was read."""
        if self._open:
            return ""
        return self._separator if self._envelope.tail is None else self._envelope.tail

    def _head(self, message: Message, trivia: Trivia) -> str:
        if trivia.synthetic is not None and trivia.synthetic == message.call_id:
            message = replace(message, call_id=None)
        if trivia.head is not None:
            head = self._heads.read_text(trivia.head)
            if head.matches(message) and not head.problems:
                return trivia.head
        return spell(list(head_pieces(message)))

    @staticmethod
    def _body(message: Message, trivia: Trivia) -> str:
        if trivia.body is not None and _read_body(trivia.body) == message.text:
            return trivia.body
        return spell_body(message.text)


def _read_body(raw: str) -> str | None:
    """The text of a spelled body; None when it holds a control that is neither escaped nor in a literal block."""
    parts = _BLOCK.split(raw)
    if any(_CONTROL.search(plain) for plain in parts[::2]):
        return None
    return "".join(part if i % 2 else unescape(part) for i, part in enumerate(parts))


def unwritable(conversation: Conversation) -> list[str]:
    """What a transcript cannot represent of the conversation: descriptions, each with the place in front."""
    settings = replace(conversation.settings, reasoning_effort=None)
    unrepresentable = ["tools: definitions are text of a developer message"] if conversation.tools else []
    unrepresentable += ["response_format"] if conversation.response_format else []
    unrepresentable += ["settings other than reasoning_effort"] if settings != Settings() else []
    unrepresentable += [f"builtins[{i}]: its tools" for i, names in enumerate(conversation.builtins) if names.tools]
    for i, message in enumerate(conversation.messages):
        kinds = [part.kind for part in message.parts if isinstance(part, OpaquePart)]
        unrepresentable += [f"messages[{i}]: a part of kind {kind}" for kind in kinds]
    return unrepresentable


def envelope_of(conversation: Conversation) -> TranscriptEnvelope:
    """The conversation's own envelope, with the settings that it has now."""
    recorded = conversation.extra.get("openchatml")
    envelope = recorded if isinstance(recorded, TranscriptEnvelope) else TranscriptEnvelope(DocumentHeader())
    header = envelope.header or DocumentHeader()
    names = tuple(namespace.name for namespace in conversation.builtins)
    effort = conversation.settings.reasoning_effort
    if header.reasoning_effort == effort and header.builtin_tools == names:
        return envelope
    settings = {"reasoning_effort": effort.value if effort else None, "builtin_tools": list(names) or None}
    return replace(envelope, header=header.with_settings(**settings), text="")


def iter_write(conversation: Conversation) -> Iterator[str]:
    """The transcript in parts: header, one string a message, end."""
    unrepresentable = unwritable(conversation)
    if unrepresentable:
        raise RenderError(
            f"a transcript cannot represent {'; '.join(unrepresentable)}",
            hint="Convert with a sidecar, or render a prompt instead.",
        )
    writer = Writer(envelope_of(conversation))
    yield writer.header()
    for message in conversation.messages:
        yield writer.write(message)
    yield writer.close()


def write(conversation: Conversation) -> str:
    """The conversation as a transcript. Raises `RenderError` when it holds what a transcript cannot represent."""
    return "".join(iter_write(conversation))


def write_bytes(conversation: Conversation) -> bytes:
    """The transcript as bytes; those that were not UTF-8 when read are what they were (A-O24)."""
    try:
        return write(conversation).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise RenderError(f"a lone surrogate at character {error.start} stands for no byte") from None
