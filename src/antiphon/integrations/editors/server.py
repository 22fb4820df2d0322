"""The language server of OpenChatML, over standard input and output.

Diagnostics are the linter's, with its changes as quick fixes; hovers, formatting and an outline come beside them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from antiphon.conversation import End
from antiphon.errors import AntiphonError
from antiphon.errors.place import Place
from antiphon.formats.openchatml import format_transcript
from antiphon.formats.openchatml.frame import Frame
from antiphon.formats.openchatml.frame_reader import FrameReader
from antiphon.formats.openchatml.head import ATTRIBUTES as HEAD_ATTRIBUTES
from antiphon.formats.openchatml.lint import Diagnostic, Severity, findings, mended
from antiphon.formats.openchatml.spelling import CHANNEL, CONSTRAIN, START, TOKEN
from antiphon.formats.openchatml.yaml_header import HeaderScanner
from antiphon.version import __version__

# A transcript as an editor shows it: its parts, and what a word means.
#
# Places are offsets in the text, in characters from 0.

# What the words of the format mean, in a sentence or two of Markdown each: for a hover.

CONTROLS = {
    "<|start|>": "Opens a frame. The author follows at once, then attributes (§6).",
    "<|channel|>": "The frame's channel follows: `analysis`, `commentary` or `final`. Without one it is `final` (§5).",
    "<|message|>": "Ends the head; the body follows, up to the footer (§6).",
    "<|constrain|>": "The type of the body follows. A body that is not of it is `E-BODY-CONSTRAINT-VIOLATION` (§6).",
    "<|end|>": "Closes the frame (§3).",
    "<|call|>": "Closes a call of a tool. Generation stops here, and the tool is run (§3, §8).",
    "<|return|>": "Closes the assistant's final answer. Generation stops here (§3).",
    "<|literal|>": "Opens a literal block: up to `<|endliteral|>` nothing is a control or an escape (§3).",
    "<|endliteral|>": "Ends a literal block (§3).",
}
"""Each control by its spelling."""

ESCAPE = "A control as text: one `<` more than it has, which is dropped when it is read (§3)."

_MARKERS = {
    "reflect": "criticism of oneself",
    "introspect": "probing",
    "reason": "steps of reasoning",
}
_MARKER = re.compile(r"<\|(start|end)_(reflect|introspect|reason)\|>")

ROLES = {
    "system": "What cannot be argued with; it outranks all others, and end users do not see it (§4).",
    "developer": "Instructions and definitions of tools, below `system`; end users do not see it (§4).",
    "user": "What the end user wrote (§4).",
    "assistant": "What the model wrote: reasoning, calls, answers (§4).",
    "tool": "A tool's reply. `name=` names the tool, `call_id=` the call that it answers (§4, §8).",
}
_AUTHOR = "A reply by the tool `{}`, in the older form. It is written `tool name={}` (§4, HIP-1)."

CHANNELS = {
    "analysis": "Reasoning. End users never see it (§5).",
    "commentary": "Calls of tools; and plans for the user, which are shown if the head says `intent=preamble` (§5).",
    "final": "The answer, which end users see (§5).",
}
CONSTRAINT = "The type that the body has, `json` for arguments of a call (§6)."

ATTRIBUTES = {
    "to": "Whom the message goes to: a tool (`functions.x`, `browser.x`, `python`), which makes it a call, or "
    "`assistant` (§6).",
    "call_id": "The call's id, unique in the transcript; the reply has the same (§8).",
    "name": "The speaker's name. A reply of the role `tool` has the tool's name here (§6).",
    "intent": "What a commentary is for: `preamble`, `status` or `debug` (§6).",
    "content_type": "A hint at what the body is. `<|constrain|>` makes it a promise (§6).",
}
INTENTS = {
    "preamble": "a plan for the user, which is shown",
    "status": "a word about progress, which is not shown",
    "debug": "for developers, which is not shown",
}

KEYS = {
    "version": "The format's version, major.minor; in quotes, since YAML reads 2.10 as 2.1 (§2).",
    "model": "The model that the transcript is for, or is by (§2).",
    "generation_settings": "Settings of generation, for the whole transcript (§2).",
    "temperature": "From 0, which is greedy, to 2 (§2).",
    "reasoning_effort": "How much the model reasons: `low`, `medium` or `high` (§2).",
    "builtin_tools": "Tools that the model has beside functions, as `browser` and `python` (§2).",
    "capabilities": "What the transcript may use. A list that is there leaves out all that it does not name (§2).",
    "roles": "The roles in use; `functions.*` is every function (§2).",
    "channels": "The channels in use (§2).",
    "tokens": "The controls in use (§2).",
    "streaming": "The streaming events that this side takes (§2, §9).",
    "profiles": "Further sets of rules, each by its name (§2).",
    "harmony": "HIP-1: the rules that let Harmony's text through and back (§12).",
    "enabled": "Whether the profile's rules hold (§2).",
    "encoding": "The profile's vocabulary, for information (§2).",
    "require_channels": "Channels of which assistant and tools must name one (§2).",
    "tool_calls_in": "The channels on which functions are called (§2).",
    "builtins_in": "The channels on which built-in tools are called (§2).",
}
"""The keys of a header."""


def of_control(spelled: str) -> str | None:
    """The meaning of a control, an escaped control or a reflection marker; None for other text."""
    if spelled in CONTROLS:
        return CONTROLS[spelled]
    if f"<{spelled.lstrip('<')}" in CONTROLS:
        return ESCAPE
    marker = _MARKER.fullmatch(spelled)
    if marker is None:
        return None
    return f"Marks where {_MARKERS[marker[2]]} {marker[1]}s. It is text of analysis, and triggers nothing (§7)."


def of_attribute(spelled: str) -> str:
    """The meaning of ``key=value``."""
    key, _, value = spelled.partition("=")
    described = ATTRIBUTES[key]
    return f"{described}\n\n`{value}`: {INTENTS[value]}." if key == "intent" and value in INTENTS else described


DETAIL = 60
"""Characters of a body that an outline shows."""

_WORD = re.compile(r"<+\|\w+\|>|<|[^\s<]+")
_KEY = re.compile(r"^([ \t-]*)([\w-]+)(?=[ \t]*:)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from ``start`` up to, and without, ``end``."""

    start: int
    end: int

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the outline: the header, or a frame. ``title`` is the span of its head."""

    name: str
    detail: str
    span: Span
    title: Span
    kind: types.SymbolKind


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of the word at a place, in Markdown."""

    text: str
    span: Span


def parts(text: str) -> Iterator[Part]:
    """The header and the frames, whatever is wrong with them."""
    begin, frames = _frames(text)
    if text[:begin].strip():
        title = Span(0, len(text[:begin].split("\n", 1)[0]))
        yield Part("header", "", Span(0, begin), title, types.SymbolKind.Namespace)
    for frame in frames:
        places, message = frame.places, frame.message
        end = places.footer.offset + (0 if message.end is End.NONE else len(f"<|{message.end}|>"))
        detail = " ".join(message.text[: DETAIL * 2].split())[:DETAIL]
        span, title = Span(places.start.offset, end), Span(places.start.offset, places.body.offset)
        speaker = message.name or "tool" if message.role == "tool" else str(message.role)
        towards = f" → {message.recipient}" if message.is_call else ""
        name = f"{speaker}{towards}" + (f" ({message.channel})" if message.channel else "")
        kind = types.SymbolKind.Function if message.is_call else types.SymbolKind.String
        yield Part(name, detail, span, title, kind)


def _frames(text: str) -> tuple[int, Sequence[Frame]]:
    """The offset at which the frames begin, and those that can be read."""
    scanner, reader = HeaderScanner(), FrameReader()
    scanner.feed(text, last=True)
    begin = len(scanner.bom) + (scanner.frames_at or 0)
    reader.place = Place(begin)
    reader.feed(text[begin:])
    reader.close()
    return begin, [found for found in reader.take() if isinstance(found, Frame)]


def meaning(text: str, offset: int) -> Meaning | None:
    """The meaning of the word at the offset; None where it is text of a body or of no meaning to the format."""
    begin, frames = _frames(text)
    if offset < begin:
        key = _KEY.match(text, text.rfind("\n", 0, offset) + 1)
        span = Span(*key.span(2)) if key is not None else Span(0, 0)
        return Meaning(KEYS[key[2]], span) if key is not None and offset in span and key[2] in KEYS else None
    word = _word_at(text, offset)
    if word is None:
        return None
    frame = next((f for f in frames if word.start in Span(f.places.start.offset, f.places.body.offset)), None)
    spelled = text[word.start : word.end]
    if frame is not None and not TOKEN.fullmatch(spelled):
        return _of_head(text, word, frame)
    explained = of_control(spelled)
    return Meaning(explained, word) if explained else None


def _word_at(text: str, offset: int) -> Span | None:
    line = text.rfind("\n", 0, offset) + 1
    found = next((w for w in _WORD.finditer(text, line, min(len(text), offset + 4096)) if offset < w.end()), None)
    return Span(*found.span()) if found and found.start() <= offset else None


def _of_head(text: str, word: Span, frame: Frame) -> Meaning | None:
    """A word of a head: the author, the channel, the type of the body, or an attribute."""
    spelled, before = text[word.start : word.end], text[frame.places.start.offset : word.start].rstrip(" \t")
    key = spelled.partition("=")[0]
    explained: str | None
    if before == START.spelling:
        explained = ROLES.get(spelled) or _AUTHOR.format(spelled, spelled)
    elif before.endswith(CHANNEL.spelling):
        explained = CHANNELS.get(spelled)
    elif before.endswith(CONSTRAIN.spelling):
        explained = CONSTRAINT
    else:
        explained = of_attribute(spelled) if key in HEAD_ATTRIBUTES else None
    return Meaning(explained, word) if explained else None


_GRADES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
_ACTIONS = types.CodeActionOptions([types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll])
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class TranscriptServer(LanguageServer):
    """A server for transcripts; ``harmony``: the rules of HIP-1 hold for all of them.

    The client sends the whole text of a document when it changes.
    """

    def __init__(self, *, harmony: bool = False) -> None:
        super().__init__("antiphon", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self.harmony = harmony
        self.feature(types.TEXT_DOCUMENT_DID_OPEN)(did_open)
        self.feature(types.TEXT_DOCUMENT_DID_CHANGE)(did_change)
        self.feature(types.TEXT_DOCUMENT_DID_CLOSE)(did_close)
        self.feature(types.TEXT_DOCUMENT_HOVER)(hover)
        self.feature(types.TEXT_DOCUMENT_CODE_ACTION, _ACTIONS)(code_action)
        self.feature(types.TEXT_DOCUMENT_FORMATTING)(formatting)
        self.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(document_symbol)

    def lines(self, uri: str) -> Lines:
        """The document's text, in which the client's places can be found."""
        return Lines(self.workspace.get_text_document(uri).source, self.workspace.position_codec)

    def report(self, uri: str, version: int | None) -> None:
        """Sends all that is wrong with the document."""
        lines = self.lines(uri)
        found = [_diagnostic(finding, lines) for finding in findings(lines.text, harmony=self.harmony)]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))


class Lines:
    """A text in the protocol's places: lines, and in them the units of the encoding that the client counts in."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text = text
        self._codec = codec
        self._starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]

    def position(self, offset: int) -> types.Position:
        line = bisect_right(self._starts, offset) - 1
        return types.Position(line, self._codec.client_num_units(self.text[self._starts[line] : offset]))

    def range(self, span: Span) -> types.Range:
        return types.Range(self.position(span.start), self.position(span.end))

    def offset(self, position: types.Position) -> int:
        """The offset of a place; of one behind a line's end, that of the end."""
        if position.line >= len(self._starts):
            return len(self.text)
        start, units = self._starts[position.line], 0
        end = next(iter(self._starts[position.line + 1 :]), len(self.text) + 1) - 1
        for offset in range(start, end):
            if units >= position.character:
                return offset
            units += self._codec.client_num_units(self.text[offset])
        return end


def did_open(ls: TranscriptServer, params: types.DidOpenTextDocumentParams) -> None:
    ls.report(params.text_document.uri, params.text_document.version)


def did_change(ls: TranscriptServer, params: types.DidChangeTextDocumentParams) -> None:
    ls.report(params.text_document.uri, params.text_document.version)


def did_close(ls: TranscriptServer, params: types.DidCloseTextDocumentParams) -> None:
    ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def hover(ls: TranscriptServer, params: types.HoverParams) -> types.Hover | None:
    lines = ls.lines(params.text_document.uri)
    found = meaning(lines.text, lines.offset(params.position))
    if found is None:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.text), lines.range(found.span))


def formatting(ls: TranscriptServer, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """The transcript in canonical form. One that is not valid stays as it is, and the client is told so."""
    lines = ls.lines(params.text_document.uri)
    try:
        text = format_transcript(lines.text)
    except AntiphonError as error:
        message = f"Not formatted: {error.message}"
        ls.window_show_message(types.ShowMessageParams(types.MessageType.Warning, message))
        return None
    return [] if text == lines.text else [types.TextEdit(lines.range(Span(0, len(lines.text))), text)]


def code_action(ls: TranscriptServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The changes that mend what is wrong in a range, and one that mends all of the document that can be."""
    uri, lines = params.text_document.uri, ls.lines(params.text_document.uri)
    first, last = lines.offset(params.range.start), lines.offset(params.range.end)
    found = [finding for finding in findings(lines.text, harmony=ls.harmony) if finding.fix is not None]
    here = [finding for finding in found if (finding.start.offset or 0) <= last and (finding.end.offset or 0) >= first]
    actions = []
    for finding in here:
        assert finding.fix is not None
        edit = types.TextEdit(lines.range(Span(finding.fix.start, finding.fix.end)), str(finding.fix.text))
        actions.append(_action(f"Mend: {finding.message}", types.CodeActionKind.QuickFix, uri, edit))
        actions[-1].diagnostics = [_diagnostic(finding, lines)]
    if found:
        whole = types.TextEdit(lines.range(Span(0, len(lines.text))), mended(lines.text, harmony=ls.harmony))
        actions.append(_action("Mend all that can be mended", types.CodeActionKind.SourceFixAll, uri, whole))
    return actions


def _action(title: str, kind: types.CodeActionKind, uri: str, edit: types.TextEdit) -> types.CodeAction:
    return types.CodeAction(title, kind, edit=types.WorkspaceEdit(changes={uri: [edit]}))


def document_symbol(ls: TranscriptServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    lines = ls.lines(params.text_document.uri)
    return [
        types.DocumentSymbol(part.name, part.kind, lines.range(part.span), lines.range(part.title), part.detail)
        for part in parts(lines.text)
    ]


def _diagnostic(finding: Diagnostic, lines: Lines) -> types.Diagnostic:
    where = lines.range(Span(finding.start.offset or 0, finding.end.offset or 0))
    message = f"{finding.message}\n{finding.hint}" if finding.hint else finding.message
    diagnostic = types.Diagnostic(where, message, severity=_GRADES[finding.level], source="antiphon")
    diagnostic.code = finding.code or finding.rule
    return diagnostic
