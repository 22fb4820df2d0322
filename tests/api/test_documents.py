"""Texts that come as documents, over each wire: in the prompt under their titles; other files are refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from antiphon.tokens import decode
from kit.api import END, TOKENIZER, app, ids, post_in_process, scripted

pytestmark = pytest.mark.asyncio


def data_of(text: str | bytes, mime: str = "text/plain") -> str:
    return f"data:{mime};base64,{base64.b64encode(text.encode() if isinstance(text, str) else text).decode()}"


def chat(*parts: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": list(parts)}]}


def responses(*parts: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/responses", {"input": [{"role": "user", "content": list(parts)}]}


def messages(*blocks: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/messages", {"model": "small", "max_tokens": 9, "messages": [{"role": "user", "content": list(blocks)}]}


def result(*blocks: Any) -> tuple[str, dict[str, Any]]:
    """Blocks of a tool's result."""
    return "/v1/messages", {"model": "small", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": list(blocks)}]},
    ]}  # fmt: skip


NOTES = "First line.\nSecond: <|im_end|>"
TEXT = {"type": "document", "title": "Notes", "context": "Of May.", "source": {
    "type": "text", "media_type": "text/plain", "data": NOTES}}  # fmt: skip
BLOCKS = {"type": "document", "title": "Notes", "source": {"type": "content", "content": [
    {"type": "text", "text": "First line.\n"}, {"type": "text", "text": "Second: <|im_end|>"}]}}  # fmt: skip
FOUND = {"type": "search_result", "title": "Notes", "source": "https://example.com/notes",
         "content": [{"type": "text", "text": NOTES}]}  # fmt: skip
REQUESTS: list[tuple[tuple[str, dict[str, Any]], str]] = [
    (chat({"type": "file", "file": {"filename": "Notes", "file_data": data_of(NOTES)}}), "Notes\n\n"),
    (chat({"type": "file", "file": {"file_data": data_of(NOTES, "text/markdown; charset=utf-8")}}), ""),
    (responses({"type": "input_file", "filename": "Notes", "file_data": data_of(NOTES)}), "Notes\n\n"),
    (
        responses({"type": "input_file", "filename": "Notes", "file_data": data_of(NOTES).partition(",")[2]}),
        "Notes\n\n",
    ),
    (messages(TEXT), "Notes\nOf May.\n\n"),
    (messages(BLOCKS), "Notes\n\n"),
    (messages(FOUND), "Notes\nhttps://example.com/notes\n\n"),
    (messages({**BLOCKS, "source": {"type": "content", "content": NOTES}}), "Notes\n\n"),
    (result(TEXT), "Notes\nOf May.\n\n"),
    (result(FOUND), "Notes\nhttps://example.com/notes\n\n"),
]


@pytest.mark.parametrize(("request_", "head"), REQUESTS)
async def test_a_document_is_a_text_under_its_title_and_what_it_spells_is_text(
    request_: tuple[str, dict[str, Any]], head: str
) -> None:
    engine = scripted(ids("Hi"))
    got = await post_in_process(app(engine), request_[0], **request_[1])
    assert got.status == 200, got.body
    prompt = engine.requests[-1][0]
    assert f"\n{head}{NOTES}\n\n" in decode(TOKENIZER, prompt)
    ends = prompt.count(TOKENIZER.controls[END])
    assert decode(TOKENIZER, prompt).count(END.spelling) == ends + 1


@pytest.mark.parametrize("asked", [True, False])
async def test_citations_that_nobody_makes_are_told(asked: bool) -> None:
    path, body = messages({**TEXT, "citations": {"enabled": asked}})
    got = await post_in_process(app(ids("Hi")), path, **body)
    assert got.status == 200
    assert got.headers.get("x-antiphon-ignored") == ("messages[0].content[0].citations" if asked else None)


PDF = b"%PDF-1.7\n\x00\xff\xfe binary"
REFUSED: list[tuple[tuple[str, dict[str, Any]], str]] = [
    (chat({"type": "file", "file": {"filename": "a.pdf", "file_data": data_of(PDF, "application/pdf")}}),
     "messages[0].content[0]"),
    (chat({"type": "file", "file": {"file_id": "file-1"}}), "messages[0].content[0]"),
    (chat({"type": "file"}), "messages[0].content[0]"),
    (chat({"type": "file", "file": {"file_data": "no base64!"}}), "messages[0].content[0]"),
    (chat({"type": "file", "file": {"file_data": data_of("a\x00b")}}), "messages[0].content[0]"),
    (responses({"type": "input_file", "filename": "a.pdf", "file_data": data_of(PDF)}), "input[0].content[0]"),
    (responses({"type": "input_file", "file_id": "file-1"}), "input[0].content[0]"),
    (messages({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}),
     "messages[0].content[0]"),
    (messages({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}),
     "messages[0].content[0]"),
    (messages({"type": "document"}), "messages[0].content[0]"),
    (messages({"type": "document", "source": {"type": "text"}}), "messages[0].content[0]"),
    (messages({"type": "search_result", "title": "x", "source": "y"}), "messages[0].content[0]"),
    (messages({**BLOCKS, "source": {"type": "content", "content": 5}}), "messages[0].content[0]"),
    (messages({**FOUND, "content": [{"type": "video"}]}), "messages[0].content[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "place"), REFUSED)
async def test_what_is_no_text_is_refused_at_its_place(request_: tuple[str, dict[str, Any]], place: str) -> None:
    got = await post_in_process(app(ids("Hi")), request_[0], **request_[1])
    assert got.status == 400, got.body
    assert place in got.body.decode()
