"""The language server as an editor has it: a process, and a client of the protocol's own library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.workspace import PositionCodec

from antiphon.formats.openchatml import read
from antiphon.formats.openchatml.edited import EditedFrames, affecting
from antiphon.formats.openchatml.lint.rule import LintedText
from antiphon.integrations.editors.server import Document, Lines
from antiphon.integrations.editors.transcript import Span
from kit.openchatml import SPELLINGS, TRICKY
from kit.program import PROGRAM, antiphon
from kit.waiting import until

GOOD = '---\nversion: "2.2"\n---\n<|start|>user   name=😀<|message|>Hi<|end|>\n\n'.replace("😀", "%F0%9F%98%80")
BAD = 'version: "2.2"\r\n<|start|>user<|message|>😀 <|message|> x<|end|>\r\n<|start|>user<|message|>cut'

ERROR = types.DiagnosticSeverity.Error


class Editor:
    """What a client knows: the diagnostics that were sent for its last document, and the messages for its user."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.diagnostics: list[types.PublishDiagnosticsParams] = []
        self.messages: list[types.ShowMessageParams] = []
        self._names = (f"file:///talk{i}.openchatml" for i in count())
        self.document = types.TextDocumentIdentifier("")

        def published(params: types.PublishDiagnosticsParams) -> None:
            if params.uri == self.document.uri:
                self.diagnostics.append(params)

        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
        client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.append(params))

    async def open(self, text: str) -> list[types.Diagnostic]:
        self.diagnostics.clear()
        self.document = types.TextDocumentIdentifier(next(self._names))
        item = types.TextDocumentItem(self.document.uri, "openchatml", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await until(lambda: self.diagnostics)
        return list(self.diagnostics[-1].diagnostics)

    async def hover(self, line: int, character: int) -> str | None:
        found = await self.client.text_document_hover_async(
            types.HoverParams(self.document, types.Position(line, character))
        )
        if found is None:
            return None
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def formatted(self) -> list[types.TextEdit] | None:
        options = types.FormattingOptions(4, True)
        edits = await self.client.text_document_formatting_async(types.DocumentFormattingParams(self.document, options))
        return None if edits is None else list(edits)


@asynccontextmanager
async def editor(*flags: str, resolves: bool = False) -> AsyncIterator[Editor]:
    client = LanguageClient("test", "1")
    known = Editor(client)
    await client.start_io(*PROGRAM, "lsp", *flags)
    try:
        resolving = types.CodeActionClientCapabilities(resolve_support=types.ClientCodeActionResolveOptions(["edit"]))
        capabilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(code_action=resolving if resolves else None),
            general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16]),
        )
        await client.initialize_async(types.InitializeParams(capabilities))
        client.initialized(types.InitializedParams())
        yield known
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def known() -> AsyncIterator[Editor]:
    """One editor for all tests that have documents of their own."""
    async with editor() as known:
        yield known


SHARED = pytest.mark.asyncio(loop_scope="module")


def places(found: Sequence[types.Diagnostic]) -> list[tuple[int, int, int, object]]:
    return [
        (d.range.start.line, d.range.start.character, d.range.end.character, d.code)
        for d in found
        if d.severity is ERROR
    ]


@SHARED
async def test_what_is_wrong_is_sent_with_its_place_in_utf_16_and_taken_away_when_the_document_closes(
    known: Editor,
) -> None:
    found = await known.open(BAD)
    assert places(found) == [(1, 27, 38, "E-PARSE-HEADER"), (2, 27, 27, "E-STREAM-TRUNCATED")]
    assert any("As text it is written <<|message|>" in d.message for d in found)
    known.client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(2, known.document.uri),
            [types.TextDocumentContentChangeWholeDocument(GOOD)],
        )
    )
    await until(lambda: len(known.diagnostics) > 1)
    assert (known.diagnostics[-1].version, places(known.diagnostics[-1].diagnostics)) == (2, [])
    assert await known.open(BAD)
    known.client.text_document_did_close(types.DidCloseTextDocumentParams(known.document))
    await until(lambda: len(known.diagnostics) > 1)
    assert not known.diagnostics[-1].diagnostics


@SHARED
async def test_a_hover_tells_what_a_word_means(known: Editor) -> None:
    await known.open(BAD)
    assert "major.minor" in str(await known.hover(0, 3))
    assert "end user wrote" in str(await known.hover(1, 10))
    assert "Ends the head" in str(await known.hover(1, 28))
    assert await known.hover(1, 25) is None
    assert await known.hover(99, 0) is None


@SHARED
async def test_a_valid_transcript_is_formatted_and_another_is_not_and_says_why(known: Editor) -> None:
    await known.open(GOOD)
    edits = await known.formatted()
    assert edits
    [edit] = edits
    assert edit.range == types.Range(types.Position(0, 0), types.Position(5, 0))
    assert read(edit.new_text).messages == read(GOOD).messages
    assert "<|start|>user name=%F0%9F%98%80<|message|>Hi<|end|>\n" in edit.new_text
    await known.open(BAD)
    assert await known.formatted() is None
    await until(lambda: known.messages)
    assert "Not formatted: <|message|> stands in a body" in known.messages[0].message


async def actions(known: Editor, line: int) -> list[types.CodeAction]:
    where = types.Range(types.Position(line, 0), types.Position(line, 999))
    found = await known.client.text_document_code_action_async(
        types.CodeActionParams(known.document, where, types.CodeActionContext([]))
    )
    return [action for action in found or () if isinstance(action, types.CodeAction)]


@SHARED
async def test_a_slip_of_the_pen_has_a_quick_fix_on_its_line_and_the_document_one_for_all(known: Editor) -> None:
    head = '---\nversion: "2.2"\n---\n<|start|>usr<|message|>😀<|end|>\n<|start|>assistant<|channel|>'
    text = f"{head}analisis<|message|>x<|end|>\n"
    await known.open(text)
    shows, _ = await actions(known, 3)
    assert shows.edit
    assert shows.edit.changes
    assert list(shows.edit.changes[known.document.uri]) == [
        types.TextEdit(types.Range(types.Position(3, 9), types.Position(3, 12)), "user")
    ]
    fix, fix_all = await actions(known, 4)
    assert fix.edit
    assert fix.edit.changes
    assert list(fix.edit.changes[known.document.uri]) == [
        types.TextEdit(types.Range(types.Position(4, 9), types.Position(4, 37)), "assistant<|channel|>analysis")
    ]
    assert fix.kind == types.CodeActionKind.QuickFix
    assert fix_all.kind == types.CodeActionKind.SourceFixAll
    assert fix_all.edit
    assert fix_all.edit.changes
    [whole] = fix_all.edit.changes[known.document.uri]
    assert whole.new_text == f"{head}analysis<|message|>x<|end|>\n"  # Nobody sees what a tool that is none says.
    assert [action.kind for action in await actions(known, 0)] == [types.CodeActionKind.SourceFixAll]


async def test_what_mends_a_whole_document_is_told_when_it_is_chosen_if_the_editor_can_ask() -> None:
    text = GOOD.replace("%F0%9F%98%80", "😀")
    async with editor(resolves=True) as known:
        await known.open(text)
        [fix_all] = await actions(known, 0)
        assert fix_all.edit is None
        chosen = await known.client.code_action_resolve_async(fix_all)
        assert chosen.edit
        assert chosen.edit.changes
        [whole] = chosen.edit.changes[known.document.uri]
        assert whole.new_text == GOOD.replace("   ", " ")


@SHARED
async def test_the_channels_are_completed_where_one_is_typed(known: Editor) -> None:
    await known.open('version: "2.2"\n<|start|>assistant name=😀<|channel|>com')
    found = await known.client.text_document_completion_async(
        types.CompletionParams(known.document, types.Position(1, 40))
    )
    assert isinstance(found, Sequence)
    where = types.Range(types.Position(1, 37), types.Position(1, 40))
    assert [(one.label, one.text_edit) for one in found] == [
        (channel, types.TextEdit(where, channel)) for channel in ("analysis", "commentary", "final")
    ]


@SHARED
async def test_the_outline_has_a_symbol_for_each_frame(known: Editor) -> None:
    await known.open(BAD)
    symbols = await known.client.text_document_document_symbol_async(types.DocumentSymbolParams(known.document))
    assert symbols
    named = [(s.name, s.range.start.line) for s in symbols if isinstance(s, types.DocumentSymbol)]
    assert named == [("header", 0), ("user", 1), ("user", 2)]


@SHARED
async def test_the_profile_is_the_servers(known: Editor) -> None:
    async with editor("--profile", "harmony") as harmony:
        for server, expected in ((known, []), (harmony, ["E-PARSE-CHANNEL-MISSING"])):
            found = await server.open('version: "2.2"\n<|start|>assistant<|message|>x<|return|>')
            assert [d.code for d in found if d.severity is ERROR] == expected


def test_the_command_needs_its_extra(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ImportError\n")
    done = antiphon("lsp", home=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'antiphon[lsp]'" in done.stderr


def test_places_of_a_document_come_back() -> None:

    lines = Lines("a\r\n😀b\rc\n", PositionCodec())
    for offset in (0, 1, 3, 4, 5, 6, 7, 8):
        assert lines.offset(lines.position(offset)) == offset
    assert lines.range(Span(4, 5)) == types.Range(types.Position(1, 2), types.Position(1, 3))
    assert lines.offset(types.Position(0, 50)) == 2
    assert lines.offset(types.Position(50, 0)) == 8


# -- a document that is edited ----------------------------------------------------------------------------------------

HEADERS = ["", '---\nversion: "2.2"\n---\n', 'version: "2.2"\ngeneration_settings: {builtin_tools: [robot]}\n',
           "\ufeff---\nversion: '1.0'\n---\n", '{"messages": [']  # fmt: skip
CALL = "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>"
FRAMES = [
    "<|start|>user<|message|>Hi 😀<|end|>\n",
    "<|start|>assistant<|channel|>final<|message|>4\n<|start_reason|><|return|>\r\n",
    CALL,
    CALL.replace(" call_id=c1", ""),
    "<|start|>tool call_id=c1 name=functions.f<|message|>{}<|end|>",
    "<|start|>functions.f<|message|>{}<|end|>",
    "<|start|>robot<|message|>a<<|end|>b<|end|>",
    "<|start|>user<|message|><|literal|>x<|end|>y<|endliteral|><|end|>",
    '<|start|>assistant<|message|>{"tool_calls": []}<|return|>',
]
TOOLS = "<|start|>developer<|message|># Tools\n\n## functions\n\ntype f = (_: {city: string}) => any;\n<|end|>"
USER, REPLY, IN_JSON = FRAMES[0], FRAMES[4], FRAMES[8]
FAR = USER * 4
THOUGHT = "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
OTHER = CALL.replace("c1", "c3")
DEVELOPER = "<|start|>developer<|message|>Be brief.<|end|>"
ROBOT = "<|start|>robot call_id=c1<|message|>{}<|end|>"
TOOL = "<|start|>tool call_id=c9 name=functions.f<|message|>{}<|end|>"
texts = st.lists(st.sampled_from(FRAMES) | st.sampled_from([*TRICKY, *SPELLINGS]), max_size=8).map("".join)
edits = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 30), st.sampled_from(["", "x", "\n", *FRAMES, *TRICKY, *SPELLINGS])),
    max_size=6,
)


@settings(max_examples=60)
@given(st.sampled_from(HEADERS), texts, edits, st.booleans())
@example(HEADERS[1], FRAMES[0] * 3, [(40, 0, "<|literal|>"), (40, 11, "")], False)
@example(HEADERS[1], FRAMES[0] + CALL + FRAMES[4] + FRAMES[0], [(100, 0, "\n\n"), (3, 0, "version: 2\n")], True)
def test_after_any_edits_the_diagnostics_are_those_of_a_document_that_is_opened(
    header: str, text: str, edits: list[tuple[int, int, str]], harmony: bool
) -> None:
    text, codec, edited = header + text, PositionCodec(), None
    for at, length, new in [(0, 0, ""), *edits]:
        text = text[:at] + new + text[at + length :]
        edited = Document(text, codec, harmony=harmony, before=edited)
        opened = Document(text, codec, harmony=harmony)
        assert edited.diagnostics == opened.diagnostics
        assert edited.findings == opened.findings


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (TOOLS + DEVELOPER + FAR + CALL.replace("{}", '{"city": "a"}') + FAR, '"a"', "1"),
        (TOOLS + DEVELOPER + FAR + CALL.replace("{}", '{"city": 1}') + FAR, "city: string", "city: number"),
        (CALL + FAR + REPLY + TOOL, "f<|message|>{}", "f<|message|>{1}"),
        (CALL + REPLY + FAR + REPLY + TOOL, "{}<|end|>" + FAR, "[]<|end|>" + FAR),
        (CALL + FAR + REPLY, "c1<|channel|>", "c2<|channel|>"),
        (CALL + FAR + REPLY, "call_id=c1 name", "call_id=c2 name"),
        (CALL + FAR + REPLY, "name=functions.f", "name=functions.g"),
        (CALL + FAR + REPLY, "to=functions.f", "to=functions.g"),
        (CALL + FAR + CALL + FAR + THOUGHT, "{}<|call|>" + FAR, "{1}<|call|>" + FAR),
        (CALL + FAR + THOUGHT, "{}", "{1}"),
        (CALL + ROBOT + FAR + REPLY, "robot", "functions.f"),
        (CALL + FAR + ROBOT + FAR + TOOL, "robot", "functions.f"),
        (CALL + FAR + ROBOT.replace("robot call_id=c1", "functions.f call_id=c2") + FAR + TOOL, "{}<|ca", "[]<|ca"),
        (CALL + FAR + ROBOT.replace("robot call_id=c1", "functions.f call_id=c2") + FAR + TOOL, "f call_id=c2", "f"),
        (USER + IN_JSON + THOUGHT + THOUGHT + CALL + USER, "{}<|call|>", "{1}<|call|>"),
        (USER + IN_JSON + THOUGHT + THOUGHT + CALL + USER, "tool_calls", "tool_call"),
        (CALL + USER + IN_JSON + THOUGHT + CALL + USER, "{}<|call|>" + USER + "<", "[]<|call|>" + USER + "<"),
        (CALL + USER + IN_JSON + THOUGHT + CALL + USER, THOUGHT + CALL, THOUGHT + CALL.replace("{}", "{1}")),
        (USER + CALL + THOUGHT + IN_JSON + USER, "[]", "[1]"),
        (USER + IN_JSON + CALL + THOUGHT + THOUGHT + OTHER + USER, OTHER, OTHER.replace("{}", "1")),
        (CALL + TOOL.replace(" call_id=c9", "") + FAR + REPLY, "f<|message|>{}<|end|>", "f<|message|>{1}<|end|>"),
        (CALL + TOOL.replace(" call_id=c9", "") + FAR + REPLY, REPLY, REPLY.replace("{}", "1")),
        (CALL + FRAMES[3] + REPLY + FRAMES[3] + FAR, " call_id=c1<|channel|>", " call_id=call_0<|channel|>"),
        (FAR + THOUGHT, "Hm", "Hmm"),
        (FAR + THOUGHT, "😀", "hi"),
        (FAR + THOUGHT, "analysis", "final"),
        (FAR + "<|start|>user<|message|>cut", "😀", "hi"),
        (FAR + "out of frames" + FAR, "😀", "h\ni"),
        (FAR + "usr<|start|>usr<|message|>" + FAR, "😀", "hi"),
        (USER + FAR, "|end|>\n<|start|>user", "|end|}\n<|start|>user"),
        (USER + FRAMES[1].strip() + "stray" + USER, "return", "end"),
        ("\n\n" + USER, "|start|", "|strt|"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("header", HEADERS[:2])
def test_what_is_wrong_elsewhere_is_known_of_a_change(header: str, text: str, old: str, new: str) -> None:
    """Both ways: a change at one place of what matters at another, and of what another place matters to."""
    codec = PositionCodec()
    before, behind = header + text, header + text.replace(old, new, 1)
    assert before != behind
    for one, other in ((before, behind), (behind, before)):
        edited = Document(other, codec, harmony=False, before=Document(one, codec, harmony=False))
        assert edited.findings == Document(other, codec, harmony=False).findings


def test_a_change_in_a_body_judges_few_frames_again() -> None:
    text = HEADERS[1] + "".join((CALL + REPLY + USER).replace("c1", f"d{i}") for i in range(201))
    frames = EditedFrames()
    assert len(LintedText(text, frames).frames) == 603
    changed = text.replace("Hi", "Hello", 1)
    source = LintedText(changed, frames)
    assert len(source.frames) == 603
    assert frames.change
    assert len(frames.change.found) == 1
    assert len(affecting(source.read.found, frames.change) or ()) < 10
