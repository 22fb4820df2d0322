"""Conversations as transcripts: what was read is written byte for byte, all else in canonical form (A-O02, A-O49)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import yaml

from antiphon.conversation import Conversation, End, Message, OpaquePart, Role, Settings
from antiphon.errors import ParseError, Position, RenderError
from antiphon.errors.place import Place
from antiphon.tokens import spell

from .document import DocumentHeader
from .finding import E_HEADER, E_TRUNCATED, Finding
from .frame import MAX_HEAD, Frame, Places, Trivia
from .head import Head, head_pieces
from .head_reader import MAX_CACHED, HeadReader
from .reader import TranscriptEnvelope, read
from .rules import Fix, Fixer, Rules, cited
from .spelling import BLANK, LITERAL, MESSAGE, START, TOKEN, encode_value, is_utf8, spell_body, unescape
from .yaml_header import FENCE, HeaderScanner, read_header, spell_header

_BLOCK = re.compile(r"(?<!<)<\|literal\|>(.*?)<\|endliteral\|>", re.DOTALL)
_CANONICAL = Trivia()
_MARK = "-"
_NOWHERE = Places(Place(), Place(), Place())
"""Nobody asks where a frame is that is written."""
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_CONTROL = re.compile(f"(?<!<){TOKEN.pattern}")


class Writer:
    """Writes a transcript message by message, so that its length does not matter.

    The recorded spelling of a message is used as long as it still has the message's fields. What a strict reader would
    refuse, by the header's capabilities and version and by the rules that span frames too, is a `RenderError` with the
    specification's code; `fix` repairs what can be repaired.
    """

    def __init__(self, envelope: TranscriptEnvelope | None = None) -> None:
        self._envelope = envelope or TranscriptEnvelope(DocumentHeader())
        self._heads = HeadReader()
        if self._envelope.header:
            self._heads.declare(self._envelope.header.builtin_tools)
        self._rules = Rules(self._envelope.header, warnings=False)
        self._is_free = self._rules.is_free
        self._cache: dict[tuple[object, ...], tuple[str, str, Head]] = {}
        self._number = 0
        self._open = False

    def header(self) -> str:
        """The header, as it was written when it was read."""
        envelope = self._envelope
        return envelope.text or (spell_header(envelope.header) if envelope.header else "")

    def write(self, message: Message) -> str:
        """One frame and what precedes it. Raises `RenderError` for a frame that would not be valid here."""
        if self._open:
            raise RenderError("a message without an end is not the last one", code=E_HEADER)
        trivia = _trivia(message)
        if trivia.synthetic is not None:
            message = self._without_implied_id(message, trivia)
        before = trivia.before
        if before is None or before.strip(BLANK):
            before = "\n" if self._number else ""
        spelled, head = self._head(message, trivia)
        body = self._body(message, trivia)
        self._check(message, spelled, head, body)
        self._number += 1
        self._open = message.end is End.NONE
        footer = "" if self._open else f"<|{message.end}|>"
        return f"{before}{START}{spelled}{MESSAGE}{body}{footer}"

    def skip(self, message: Message) -> None:
        """A message that stands in front of those that are written: its call id is taken."""
        spelled, head = self._canonical(message)
        self._rules.check_frame(Frame(message, head, spelled, _NOWHERE, None))
        self._number += 1

    def close(self) -> str:
        """The text behind the last frame: a line break, or what followed it when it was read."""
        if self._open:
            raise RenderError("the last message has no end", code=E_TRUNCATED, hint="Give it an end, or fix() it.")
        tail = self._envelope.tail
        if tail is None or tail.strip(BLANK):
            return "\n" if self._number else ""
        return tail

    def _head(self, message: Message, trivia: Trivia) -> tuple[str, Head]:
        """The head as it was read, where it still is the message's, else in canonical form."""
        if trivia.head is None:
            return self._canonical(message)
        head = self._heads.read_text(trivia.head)
        return (trivia.head, head) if head.matches(message) and not head.problems else self._canonical(message)

    def _canonical(self, message: Message) -> tuple[str, Head]:
        """The canonical head. Heads repeat but for their call ids, so each is made and checked once."""
        call_id = message.call_id
        key = (
            message.role, message.name, message.recipient, message.channel, message.content_type, message.constrained,
            message.intent, call_id is None,
        )  # fmt: skip
        cached = self._cache.get(key)
        if cached is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            cached = self._cache[key] = self._made(message)
        before, after, head = cached
        return (before, head) if call_id is None else (f"{before}{encode_value(call_id)}{after}", head)

    def _made(self, message: Message) -> tuple[str, str, Head]:
        """The head in front of its call id, and behind it, which an empty mark stands for."""
        if message.call_id is not None:
            message = replace(message, call_id=_MARK)
        spelled = spell(list(head_pieces(message, author=self._rules.state.author(message))))
        head = self._heads.read_text(spelled)
        if head.problems:
            problem = head.problems[0]
            raise self._refused(problem.message, problem.code, problem.hint)
        if not head.matches(message):
            raise self._refused("its head would be read otherwise", E_HEADER)
        before, _, after = spelled.partition(f" call_id={_MARK}")
        return (before, "", head) if message.call_id is None else (f"{before} call_id=", after, head)

    def _without_implied_id(self, message: Message, trivia: Trivia) -> Message:
        """The message without a call id that a reader gives it anyway."""
        legacy = trivia.head is not None and self._heads.read_text(trivia.head).is_legacy_reply
        implied = trivia.synthetic == message.call_id == self._rules.state.implied_id(message)
        return replace(message, call_id=None) if implied and (legacy or self._rules.state.harmony) else message

    def _body(self, message: Message, trivia: Trivia) -> str:
        if not is_utf8(message.text) and _NO_BYTE.search(message.text):  # A-O24
            raise self._refused("its text has a lone surrogate, which stands for no byte", E_HEADER)
        if trivia.body is not None and _read_body(trivia.body) == message.text:
            return trivia.body
        return spell_body(message.text)

    def _check(self, message: Message, spelled: str, head: Head, body: str) -> None:
        """That a strict reader takes the frame behind those before it."""
        if len(spelled) > MAX_HEAD and len(TOKEN.sub("", spelled)) > MAX_HEAD:
            raise self._refused(f"its head has more than {MAX_HEAD} characters", E_HEADER)
        if self._is_free and not head.needs_body and message.role is not Role.TOOL and message.end is not End.CALL:
            return
        literal = not self._is_free and LITERAL.spelling in body and _BLOCK.search(body) is not None
        for finding in self._rules.check_frame(Frame(message, head, spelled, _NOWHERE, None, literal)):
            if not finding.warning:
                raise self._refused(finding.message, finding.code, cited(finding))

    def _refused(self, problem: str, code: str, hint: str | None = None) -> RenderError:
        return RenderError(problem, code=code, position=Position(path=f"messages[{self._number}]"), hint=hint)


def _read_body(raw: str) -> str | None:
    """The text of a spelled body; None when it has, outside literal blocks, what no body has there."""
    parts = _BLOCK.split(raw)
    if any(_CONTROL.search(plain) or not is_utf8(plain) for plain in parts[::2]) or parts[-1].endswith("<"):
        return None
    return "".join(part if i % 2 else unescape(part) for i, part in enumerate(parts))


def unwritable(conversation: Conversation) -> list[str]:
    """The parts of a conversation that a transcript cannot represent: descriptions, each with its place in front."""
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


def fix(conversation: Conversation) -> tuple[Conversation, tuple[Fix, ...]]:
    """The conversation as its transcript can say it, and each change. What cannot be fixed `write` refuses."""
    fixer = Fixer(envelope_of(conversation).header)
    messages = tuple(map(fixer.message, conversation.messages))
    return (replace(conversation, messages=messages), tuple(fixer.fixes)) if fixer.fixes else (conversation, ())


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
    return write(conversation).encode("utf-8", "surrogateescape")


# A transcript in canonical form: the same header, the same messages, one way to write them (A-O02).

_VERSION = re.compile(r"^version:[ \t]*([0-9.]+)(?=[ \t]*(?:#|$))", re.MULTILINE)


def format_transcript(transcript: str | bytes, *, fragment: bool = False) -> str:
    """The canonical form of a valid transcript.

    A fenced header with the version quoted; heads, escapes and blanks as `Writer` writes them. A header with comments
    stays in its own lines, so that none is lost. Raises `ParseError` for a transcript that is not valid; ``fragment``:
    one without a header is accepted.
    """
    text = transcript if isinstance(transcript, str) else transcript.decode("utf-8", "surrogateescape")
    conversation = read(text, fragment=fragment)
    formatted = _written(conversation, text)
    if not _reads_as(formatted, conversation, fragment=fragment):
        raise RenderError("the canonical form of this transcript does not read as the same messages")
    return formatted


def _written(conversation: Conversation, text: str) -> str:
    header = envelope_of(conversation).header
    writer = Writer(TranscriptEnvelope(header, "" if header is None else format_header(header, text)))
    called = {m.call_id: m for m in conversation.messages if m.is_call and m.call_id is not None}
    allowed = header is None or header.capabilities.allows_role(Role.TOOL)

    def frame(message: Message) -> str:
        """The frame in canonical form; with the head that it has where no other can say it, as at its limit."""
        try:
            return writer.write(_without_spelling(message, called, rename=allowed))
        except RenderError:
            return writer.write(_with(message, Trivia(head=_trivia(message).head)))

    return "".join((writer.header(), *map(frame, conversation.messages), writer.close()))


def _without_spelling(message: Message, called: Mapping[str, Message], *, rename: bool) -> Message:
    """The message with nothing of how it was written but what cannot be written otherwise.

    A call id that no text carries is written only where a reply needs it: the reply that was written under its tool's
    name becomes ``tool``, unless the header's capabilities forbid that role (``rename`` False).
    """
    trivia = _trivia(message)
    if not rename and message.role is Role.TOOL:
        return _with(message, Trivia(head=trivia.head, synthetic=trivia.synthetic))
    call = called.get(message.call_id or "")
    answers_an_id = message.role is Role.TOOL and call is not None and _trivia(call).synthetic is None
    return _with(message, Trivia(synthetic=None if answers_an_id else trivia.synthetic))


def _with(message: Message, trivia: Trivia) -> Message:
    return replace(message, extra={**message.extra, "openchatml": trivia})


def _trivia(message: Message) -> Trivia:
    recorded = message.extra.get("openchatml")
    return recorded if isinstance(recorded, Trivia) else _CANONICAL


def _reads_as(text: str, conversation: Conversation, *, fragment: bool) -> bool:
    try:
        again = read(text, fragment=fragment)
    except ParseError:
        return False
    return again.messages == conversation.messages and envelope_of(again).header == envelope_of(conversation).header


# -- the header -------------------------------------------------------------------------------------------------------


def format_header(header: DocumentHeader, text: str) -> str:
    """The canonical header of a transcript; its own lines between fences where comments would be lost otherwise."""
    scanner = HeaderScanner()
    scanner.feed(text, last=True)
    source = scanner.text[: scanner.yaml_end]
    if not has_comment(source):
        with suppress(RenderError):  # the fences may be too much for it
            return spell_header(header)
    lines = FENCE.sub("", source.replace("\r\n", "\n"), count=1).strip("\n")
    fenced = f"---\n{lines}\n---\n"
    if not _reads_as_header(fenced, header):
        return scanner.text[: scanner.frames_at]
    quoted = _VERSION.sub(r'version: "\1"', fenced, count=1)
    return quoted if _reads_as_header(quoted, header) else fenced


def _reads_as_header(text: str, header: DocumentHeader) -> bool:
    scanner = HeaderScanner()
    scanner.feed(text, last=True)
    read = read_header(scanner.text[: scanner.yaml_end], Place())
    return not (scanner.overlong or isinstance(read, Finding)) and read == header


def has_comment(source: str) -> bool:
    """Whether YAML has a comment: a ``#`` that belongs to no token."""
    last = 0
    try:
        for token in yaml.scan(source, Loader=yaml.SafeLoader):
            first_line = source[token.start_mark.index : token.end_mark.index].split("\n", 1)[0]
            if "#" in source[last : token.start_mark.index] or (first_line[:1] in ("|", ">") and "#" in first_line):
                return True
            last = token.end_mark.index
    except yaml.YAMLError:
        return True
    return "#" in source[last:]
