"""The language server of OpenChatML, over standard input and output.

Diagnostics are the linter's, with its changes as quick fixes; hovers, completions, formatting, an outline are beside.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import cached_property

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from antiphon.errors import AntiphonError
from antiphon.formats.openchatml import format_transcript
from antiphon.formats.openchatml.edited import Change, EditedFrames, GivenFrames, affecting
from antiphon.formats.openchatml.lint import Diagnostic, Severity, findings, mended
from antiphon.formats.openchatml.lint.rule import LintedText
from antiphon.version import __version__

from .transcript import Span, completions, meaning, parts

_GRADES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
_ACTIONS = types.CodeActionOptions(
    [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll], resolve_provider=True
)
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_COMPLETIONS = types.CompletionOptions(trigger_characters=[">", "=", " ", "."])


class TranscriptServer(LanguageServer):
    """A server for transcripts; ``harmony``: the rules of HIP-1 hold for all of them.

    The client sends the whole text of a document when it changes; its frames are read from the change on.
    """

    def __init__(self, *, harmony: bool = False) -> None:
        super().__init__("antiphon", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self.harmony = harmony
        self._open: dict[str, Document] = {}
        self.feature(types.TEXT_DOCUMENT_DID_OPEN)(did_open)
        self.feature(types.TEXT_DOCUMENT_DID_CHANGE)(did_change)
        self.feature(types.TEXT_DOCUMENT_DID_CLOSE)(did_close)
        self.feature(types.TEXT_DOCUMENT_HOVER)(hover)
        self.feature(types.TEXT_DOCUMENT_COMPLETION, _COMPLETIONS)(completion)
        self.feature(types.TEXT_DOCUMENT_CODE_ACTION, _ACTIONS)(code_action)
        self.feature(types.CODE_ACTION_RESOLVE)(resolve_action)
        self.feature(types.TEXT_DOCUMENT_FORMATTING)(formatting)
        self.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(document_symbol)

    def document(self, uri: str) -> Document:
        """The document as it is now; earlier readings of it are reused."""
        text, known = self.workspace.get_text_document(uri).source, self._open.get(uri)
        if known is None or known.source.text != text:
            codec = self.workspace.position_codec
            known = self._open[uri] = Document(text, codec, harmony=self.harmony, before=known)
        return known

    def report(self, uri: str, version: int | None) -> None:
        """Sends all that is wrong with the document."""
        found = self.document(uri).diagnostics
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def forget(self, uri: str) -> None:
        self._open.pop(uri, None)


class Document:
    """One state of a document: its text, what is wrong with it, and the client's places in it.

    ``before`` is the state before, of which the frames are taken that have not changed, and is of no use then.
    """

    def __init__(self, text: str, codec: PositionCodec, *, harmony: bool, before: Document | None = None) -> None:
        self._frames: EditedFrames = before._frames if before else EditedFrames()
        self.source = LintedText(text, self._frames, harmony=harmony)
        self.lines = Lines(text, codec)
        self.findings = findings(self.source) if before is None else self._changed(before, harmony)

    @property
    def diagnostics(self) -> list[types.Diagnostic]:
        return [_diagnostic(finding, self.lines) for finding in self.findings]

    def _changed(self, before: Document, harmony: bool) -> list[Diagnostic]:
        """The same as `findings` of the text, where only what was read again is judged, if it can be."""
        found = self.source.read.found
        change = None if self.source.overlong else self._frames.change
        context = affecting(found, change) if change else None
        if change is None or context is None:
            return findings(self.source)
        text, old_text = self.source.text, before.source.text
        start = change.start if change.number else 0
        part = LintedText(text, GivenFrames(context, self._frames.end), harmony=harmony)
        earlier = [one for one in before.findings if _at(one) < start]
        again = [
            one for one in findings(part)
            if start <= _at(one) < change.new.offset or _at(one) == len(text)
        ]  # fmt: skip
        later = [
            _moved(one, change) for one in before.findings if change.old.offset <= _at(one) < len(old_text)
        ]  # fmt: skip
        return sorted([*earlier, *again, *later], key=_at)


def _at(finding: Diagnostic) -> int:
    return finding.start.offset or 0


def _moved(finding: Diagnostic, change: Change) -> Diagnostic:
    fix, grown = finding.fix, change.new.offset - change.old.offset
    moved = fix and replace(fix, start=fix.start + grown, end=fix.end + grown)
    return replace(finding, start=change.moved(finding.start), end=change.moved(finding.end), fix=moved)


_UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


class Lines:
    """A text in the protocol's places: lines, and in them the units of the encoding that the client counts in."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text = text
        self._encoding = types.PositionEncodingKind(codec.encoding or "utf-16").value

    @cached_property
    def _starts(self) -> list[int]:
        """The offsets of line starts, counted when a place is first needed."""
        return [0, *(found.end() for found in _LINE_BREAK.finditer(self.text))]

    def position(self, offset: int) -> types.Position:
        line = bisect_right(self._starts, offset) - 1
        return types.Position(line, self._units(self._starts[line], offset))

    def range(self, span: Span) -> types.Range:
        return types.Range(self.position(span.start), self.position(span.end))

    def offset(self, position: types.Position) -> int:
        """The offset of a place; of one behind a line's end, that of the end."""
        if position.line >= len(self._starts):
            return len(self.text)
        start = self._starts[position.line]
        end = next(iter(self._starts[position.line + 1 :]), len(self.text) + 1) - 1
        return start + bisect_left(range(start, end), position.character, key=lambda at: self._units(start, at))

    def _units(self, start: int, end: int) -> int:
        part = self.text[start:end]
        if part.isascii():
            return len(part)
        return len(part.encode(f"{self._encoding}-le", "surrogatepass")) // _UNITS[self._encoding]


def did_open(ls: TranscriptServer, params: types.DidOpenTextDocumentParams) -> None:
    ls.report(params.text_document.uri, params.text_document.version)


def did_change(ls: TranscriptServer, params: types.DidChangeTextDocumentParams) -> None:
    ls.report(params.text_document.uri, params.text_document.version)


def did_close(ls: TranscriptServer, params: types.DidCloseTextDocumentParams) -> None:
    ls.forget(params.text_document.uri)
    ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def hover(ls: TranscriptServer, params: types.HoverParams) -> types.Hover | None:
    document = ls.document(params.text_document.uri)
    found = meaning(document.source, document.lines.offset(params.position))
    if found is None:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.text), document.lines.range(found.span))


def completion(ls: TranscriptServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    """The words that may be written at the place."""
    document = ls.document(params.text_document.uri)
    return [
        types.CompletionItem(
            one.word.strip(" :="), kind=one.kind, text_edit=types.TextEdit(document.lines.range(one.span), one.word),
            documentation=types.MarkupContent(types.MarkupKind.Markdown, one.meaning) if one.meaning else None,
        )
        for one in completions(document.source, document.lines.offset(params.position))
    ]  # fmt: skip


def formatting(ls: TranscriptServer, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """The transcript in canonical form. One that is not valid stays as it is, and the client gets a message."""
    lines = ls.document(params.text_document.uri).lines
    try:
        text = format_transcript(lines.text)
    except AntiphonError as error:
        message = f"Not formatted: {error.message}"
        ls.window_show_message(types.ShowMessageParams(types.MessageType.Warning, message))
        return None
    return [] if text == lines.text else [types.TextEdit(lines.range(Span(0, len(lines.text))), text)]


def code_action(ls: TranscriptServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The changes that mend what is wrong in a range, and one that mends all of the document that can be."""
    uri = params.text_document.uri
    document = ls.document(uri)
    lines = document.lines
    first, last = lines.offset(params.range.start), lines.offset(params.range.end)
    actions = []
    for finding in document.findings:
        if finding.fix is None or (finding.start.offset or 0) > last or (finding.end.offset or 0) < first:
            continue
        edit = types.TextEdit(lines.range(Span(finding.fix.start, finding.fix.end)), finding.fix.text)
        action = types.CodeAction(f"Mend: {finding.message}", types.CodeActionKind.QuickFix, edit=_change(uri, edit))
        action.diagnostics = [_diagnostic(finding, lines)]
        actions.append(action)
    if any(finding.fix is not None and not finding.fix.reveals for finding in document.findings):
        title = "Mend all that can be mended"
        whole = types.CodeAction(title, types.CodeActionKind.SourceFixAll, data=uri)
        actions.append(whole if _resolves(ls.client_capabilities) else resolve_action(ls, whole))
    return actions


def _resolves(client: types.ClientCapabilities) -> bool:
    """Whether the client asks for an action's edit when its user has chosen it."""
    action = client.text_document.code_action if client.text_document else None
    return bool(action and action.resolve_support and "edit" in action.resolve_support.properties)


def resolve_action(ls: TranscriptServer, action: types.CodeAction) -> types.CodeAction:
    """The action that mends all of a document, with its edit."""
    uri = str(action.data)
    lines = ls.document(uri).lines
    text = mended(lines.text, harmony=ls.harmony)
    action.edit = _change(uri, types.TextEdit(lines.range(Span(0, len(lines.text))), text))
    return action


def _change(uri: str, edit: types.TextEdit) -> types.WorkspaceEdit:
    return types.WorkspaceEdit(changes={uri: [edit]})


def document_symbol(ls: TranscriptServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    document = ls.document(params.text_document.uri)
    lines = document.lines
    return [
        types.DocumentSymbol(part.name, part.kind, lines.range(part.span), lines.range(part.title), part.detail)
        for part in parts(document.source)
    ]


def _diagnostic(finding: Diagnostic, lines: Lines) -> types.Diagnostic:
    where = lines.range(Span(finding.start.offset or 0, finding.end.offset or 0))
    message = f"{finding.message}\n{finding.hint}" if finding.hint else finding.message
    diagnostic = types.Diagnostic(where, message, severity=_GRADES[finding.level], source="antiphon")
    diagnostic.code = finding.code or finding.rule
    return diagnostic
