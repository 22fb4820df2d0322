"""The language server of OpenChatML, over standard input and output.

Diagnostics are the linter's, with its changes as quick fixes; hovers, formatting and an outline come beside them.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from antiphon.errors import AntiphonError
from antiphon.formats.openchatml import format_transcript
from antiphon.formats.openchatml.lint import Diagnostic, Severity, findings, mended
from antiphon.version import __version__

from .transcript import Part, Span, meaning, parts

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
    actions = [_quick_fix(finding, uri, lines) for finding in here]
    if found:
        whole = types.TextEdit(lines.range(Span(0, len(lines.text))), mended(lines.text, harmony=ls.harmony))
        actions.append(_action("Mend all that can be mended", types.CodeActionKind.SourceFixAll, uri, whole))
    return actions


def _quick_fix(finding: Diagnostic, uri: str, lines: Lines) -> types.CodeAction:
    fix = finding.fix
    assert fix is not None, "only findings with a fix are asked for one"
    edit = types.TextEdit(lines.range(Span(fix.start, fix.end)), str(fix.text))
    action = _action(f"Mend: {finding.message}", types.CodeActionKind.QuickFix, uri, edit)
    action.diagnostics = [_diagnostic(finding, lines)]
    return action


def _action(title: str, kind: types.CodeActionKind, uri: str, edit: types.TextEdit) -> types.CodeAction:
    return types.CodeAction(title, kind, edit=types.WorkspaceEdit(changes={uri: [edit]}))


def document_symbol(ls: TranscriptServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    lines = ls.lines(params.text_document.uri)
    return [
        types.DocumentSymbol(part.name, _kind(part), lines.range(part.span), lines.range(part.title), part.detail)
        for part in parts(lines.text)
    ]


def _kind(part: Part) -> types.SymbolKind:
    if part.name == "header":
        return types.SymbolKind.Namespace
    return types.SymbolKind.Function if part.is_call else types.SymbolKind.String


def _diagnostic(finding: Diagnostic, lines: Lines) -> types.Diagnostic:
    where = lines.range(Span(finding.start.offset or 0, finding.end.offset or 0))
    message = f"{finding.message}\n{finding.hint}" if finding.hint else finding.message
    diagnostic = types.Diagnostic(where, message, severity=_GRADES[finding.level], source="antiphon")
    diagnostic.code = finding.code or finding.rule
    return diagnostic
