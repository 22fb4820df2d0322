"""OpenChatML as a form to convert from and to: streaming, and byte for byte where it comes from OpenChatML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from antiphon.conversation import (
    Conversation,
    DeveloperContent,
    Loss,
    Message,
    Role,
    Settings,
    SystemContent,
    ToolNamespace,
    ToolSpec,
)
from antiphon.errors import ParseError, RenderError
from antiphon.formats.openchatml import (
    DocumentHeader,
    Finding,
    Fixer,
    FromHarmony,
    Reader,
    TranscriptEnvelope,
    Trivia,
    Writer,
    envelope_of,
)
from antiphon.formats.openchatml.declarations import spell_tools

from .form import REQUEST, CheckedCalls, Written, as_declared, header_of, with_request, without_media
from .json_text import Spool
from .sidecar import tool_losses


class TranscriptSource:
    """Reads OpenChatML. ``lenient``: the best reading, in which messages are fixed too."""

    def __init__(self, *, lenient: bool = False) -> None:
        self._reader = Reader(strict=not lenient, fragment=lenient)
        self._lenient = lenient
        self._fixer: Fixer | None = None
        self.repairs: list[str] = []
        self.ready = False
        self.unread: list[Loss] = []

    @property
    def about(self) -> Conversation:
        header = self._reader.header or DocumentHeader()
        return Conversation(
            builtins=tuple(ToolNamespace(name) for name in header.builtin_tools),
            settings=Settings(reasoning_effort=header.reasoning_effort),
            extra={"openchatml": self._reader.envelope},
        )

    def feed(self, chunk: bytes) -> list[Message]:
        return self._messages(self._reader.feed(chunk))

    def close(self) -> list[Message]:
        return self._messages(self._reader.close())

    def _messages(self, found: list[Message | Finding]) -> list[Message]:
        self.repairs += [str(item) for item in found if isinstance(item, Finding) and not item.warning]
        messages = [item for item in found if isinstance(item, Message)]
        self.ready = self.ready or bool(messages)
        if not self._lenient:
            return messages
        fixer = self._fixer = self._fixer or Fixer(self._reader.header)
        before = len(fixer.fixes)
        fixed = list(map(fixer.message, messages))
        self.repairs += map(str, fixer.fixes[before:])
        return fixed


class TranscriptTarget:
    """Writes OpenChatML. A conversation without a header of its own waits until it is whole: it gets one.

    Messages are fixed where a transcript cannot have them as they are; what the strict reader refuses even then is an
    error.
    """

    def __init__(self) -> None:
        self._writer: Writer | None = None
        self._reader = Reader(strict=False)
        self._fixer = Fixer(None)
        self._waiting = Spool()
        self._way = FromHarmony()
        self._about = Conversation()
        self._calls = CheckedCalls(())

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        self._about, self._calls = about, CheckedCalls(about.tools)
        if "openchatml" not in about.extra:
            return Written(), self._carried(about)
        envelope = envelope_of(about)
        self._writer = Writer(replace(envelope, tail=None))
        return self._header(envelope), self._carried(about)

    def write(self, message: Message) -> list[Written]:
        # Media are left out, and reported; Harmony's own content has no text here.
        if any(isinstance(part, SystemContent | DeveloperContent) for part in message.parts):
            what = "OpenChatML carries text only, and a message has a part of another kind"
            hint = "Convert to harmony first, which writes system and developer content as text."
            raise RenderError(what, code="unsupported_part", hint=hint)
        if self._writer is None:
            self._waiting.add(message)
            self._way.note(message)
            self._calls.note(message)
            return []
        return [self._frame(self._writer, message, message)]

    def close(self, about: Conversation) -> Iterator[Written]:
        if self._writer is not None:
            tail = envelope_of(about).tail if "openchatml" in about.extra else None
            yield self._end(self._writer, tail)
            return
        envelope = envelope_of(self._way.about(replace(self._about, tools=())))
        header = with_request(envelope.header or DocumentHeader(), self._about)
        writer = Writer(replace(envelope, header=header, tail=None))
        yield self._header(replace(envelope, header=header))
        tools = self._about.tools
        for message in self._waiting.take():
            if message.role is not Role.SYSTEM:
                yield from self._declared(writer, tools)
                tools = ()
            yield self._frame(writer, message, self._way.message(message))
        yield from self._declared(writer, tools)
        yield self._end(writer, None)

    def _declared(self, writer: Writer, tools: tuple[ToolSpec, ...]) -> Iterator[Written]:
        """§16.2: a developer's message declares the tools. Where a call is not what they take, they are left out."""
        if not tools:
            return
        if not self._calls.fit:
            yield Written(ambiguous=tuple(tool_losses(tools)))
            return
        text = writer.write(Message(role=Role.DEVELOPER, text=spell_tools(tools)))
        read = tuple(self._read(text))
        yield Written(text, (), read, expected=read)

    def _header(self, envelope: TranscriptEnvelope) -> Written:
        text = Writer(envelope).header()
        self._reader = Reader(strict=True, fragment=envelope.header is None)
        self._fixer = Fixer(envelope.header)
        self._read(text)
        return Written(text)

    def _frame(self, writer: Writer, message: Message, as_written: Message) -> Written:
        fixed, trivia = self._fixer.message(without_media(as_written)), as_written.extra.get("openchatml")
        # A head that a transcript had is valid as it was spelled, though it might not be in its canonical form.
        is_spelled = isinstance(trivia, Trivia) and trivia.head is not None
        text = writer.write(as_written if is_spelled else fixed)
        return Written(text, (message,), tuple(self._read(text)))

    def _end(self, writer: Writer, tail: str | None) -> Written:
        end = writer.close()
        text = end if tail is None else tail
        self._read(text, last=True)
        return Written(text)

    def _read(self, text: str, *, last: bool = False) -> list[Message]:
        """The messages that a strict reader gets. Raises `RenderError` for a text that it refuses."""
        try:
            found = self._reader.feed(text) + (self._reader.close() if last else [])
        except ParseError as error:
            raise RenderError(error.message, code=error.code, hint=error.hint) from None
        return [item for item in found if isinstance(item, Message)]

    @staticmethod
    def _carried(about: Conversation) -> Conversation:
        """Returns the part that a transcript carries: tools, model, settings, the effort, names of built-in tools."""
        own = "openchatml" in about.extra
        extra: dict[str, Any] = {"openchatml": envelope_of(about)} if own else {REQUEST: header_of(about)}
        return Conversation(
            tools=() if own else as_declared(about.tools),
            builtins=tuple(ToolNamespace(namespace.name) for namespace in about.builtins),
            settings=Settings(reasoning_effort=about.settings.reasoning_effort),
            extra=extra,
        )
