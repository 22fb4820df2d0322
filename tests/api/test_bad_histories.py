"""No history that a model can write is refused over any wire; its words are in the prompt, and repairs are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.template import jinja_format
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Piece, SampledText, decode
from antiphon.wire.projection import arguments_object
from kit.api import (
    CALL,
    END,
    THINK,
    TOKENIZER,
    UNCALL,
    UNTHINK,
    Got,
    app,
    call,
    exchange_bytes,
    ids,
    post_in_process,
    scripted,
)
from kit.bad_histories import (
    HISTORIES,
    NAME,
    Chat,
    as_chat,
    as_messages,
    as_ollama,
    as_responses,
    as_transcript,
    called,
    result,
    said,
    user,
)
from kit.family_templates import FAMILIES

PLAIN = ByteTokenizer([])
IN_TURN = """{%- set ns = namespace(user=true) %}{% for m in messages %}{% if m.role == 'tool' %}[R]{{ m.content }}
{%- elif m.tool_calls %}[C]{{ m.tool_calls|tojson }}{% elif (m.role == 'user') != ns.user %}
{{- raise_exception('roles must alternate') }}{% else %}[{{ m.role }}]{{ m.content }}{% set ns.user = not ns.user %}
{%- endif %}{% endfor %}"""
FORMATS: dict[str, Format] = {
    "hermes": jinja_format(FAMILIES["hermes"], ()),
    "xml": jinja_format(FAMILIES["xml parameter"], ()),
    "in turn": jinja_format(IN_TURN, ()),
    "harmony": Harmony(),
    "openchatml": openchatml(()),
}
WIRES: dict[str, tuple[str, Callable[[Chat], dict[str, Any]]]] = {
    "chat": ("/v1/chat/completions", as_chat),
    "responses": ("/v1/responses", as_responses),
    "messages": ("/v1/messages", as_messages),
    "ollama": ("/api/chat", as_ollama),
    "batches and counts": ("/v1/messages/count_tokens", as_messages),
    "render": ("/v1/render", as_chat),
}


def serving(format: Format) -> tuple[Starlette, Callable[[], str]]:
    """The application, and what gives its last prompt."""
    tokenizer = ByteTokenizer(format.controls)
    engine = scripted([65], context=200_000)
    model = Model(name="small", engine=engine, tokenizer=tokenizer, format=format)
    application = create_app(StaticCatalog({"small": model}), expose_reasoning=True)
    return application, lambda: decode(tokenizer, engine.requests.pop()[0]) if engine.requests else ""


@pytest.mark.parametrize("name", FORMATS)
async def test_every_history_is_answered_with_its_words_in_the_prompt(name: str) -> None:
    """Over one wire in each format, and over another in each of the others."""
    application, prompt = serving(FORMATS[name])
    failed: dict[str, object] = {}
    wires = islice(cycle(WIRES.items()), list(FORMATS).index(name), None)
    for (history, (chat, words)), (wire, (path, body_of)) in zip(HISTORIES.items(), wires, strict=False):
        got = await post_in_process(application, path, model="small", **body_of(chat))
        shown = got.json["text"] if wire == "render" and got.status == 200 else prompt()
        respelled = wire in ("messages", "ollama") and words.startswith('{"a":{')
        if got.status != 200 or (words not in shown and wire != "batches and counts" and not respelled):
            failed[history] = wire, got.status, got.json if got.status != 200 else shown[-200:]
    assert failed == {}


@pytest.mark.parametrize("name", FORMATS)
async def test_every_transcript_is_answered(name: str) -> None:
    application, prompt = serving(FORMATS[name])
    for history, (chat, words) in HISTORIES.items():
        if (transcript := as_transcript(chat)) is None:
            continue
        got = await exchange_bytes(application, "/v1/openchatml", transcript.encode(), [])
        shown = prompt()
        assert (got.status, words in shown) == (200, True), (history, got.body[-200:], shown[-200:])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "chat", "named"),
    [
        ("xml", [user(), called("False"), result()], "history_arguments"),
        ("in turn", [said("a"), user()], "history_filled"),
        ("in turn", [said("a"), said("b"), called("nope"), result(), user()],
         "history_arguments, history_joined, history_filled"),
        ("harmony", [user(), called(name="get weather"), result()], "history_names"),
        ("hermes", [user(), called(), result()], None),
    ],
)  # fmt: skip
async def test_a_header_names_what_was_repaired(name: str, chat: Chat, named: str | None, stream: bool) -> None:
    application, _ = serving(FORMATS[name])
    for path in ("/v1/chat/completions", "/v1/render"):
        body = {**as_chat(chat), **({"stream": True} if stream and path != "/v1/render" else {})}
        got = await post_in_process(application, path, **body)
        given = got.headers.get("x-antiphon-incidents", "")
        assert got.status == 200
        assert ", ".join(code for code in given.split(", ") if code.startswith("history")) == (named or "")


async def test_a_transcript_s_findings_are_named_and_its_settings_still_refused() -> None:
    application, _ = serving(FORMATS["hermes"])
    transcript = as_transcript([user(), called("nope"), result(id="other")]) or ""
    got = await exchange_bytes(application, "/v1/openchatml", transcript.encode(), [])
    assert "E-CALL-SCHEMA" in got.headers["x-antiphon-incidents"]
    got = await exchange_bytes(
        application, "/v1/openchatml", (transcript + "<|start|>who<|message|>x<|end|>").encode(), []
    )
    assert got.status == 400


# A model's own broken call, which its client sends back as it got it.

BROKEN = '{"k": False}'


def calling() -> tuple[Starlette, Callable[[], str]]:
    engine = scripted(ids(*call(NAME, BROKEN), END))
    return app(engine), lambda: decode(TOKENIZER, engine.requests[-1][0])


async def asked(application: Starlette, path: str, **fields: Any) -> Any:
    got: Got = await post_in_process(application, path, **fields)
    assert got.status == 200, got.body
    return got.json


async def test_a_broken_call_comes_back_over_messages() -> None:
    application, prompt = calling()
    fields = {**as_messages([user()]), "model": "small", "max_tokens": 99}
    answer = await asked(application, "/v1/messages", **fields)
    assert [block["input"] for block in answer["content"]] == [{"INVALID_JSON": BROKEN}]
    results = [{"type": "tool_result", "tool_use_id": block["id"], "content": "r"} for block in answer["content"]]
    said = {"role": "assistant", "content": answer["content"]}
    fields["messages"] = [*fields["messages"], said, {"role": "user", "content": results}]
    await asked(application, "/v1/messages", **fields)
    assert BROKEN in prompt()
    assert "INVALID_JSON" not in prompt()


def test_sampled_arguments_are_a_text_like_any_other() -> None:
    assert type(arguments_object(SampledText(BROKEN, (1,), "v"))["INVALID_JSON"]) is str


async def test_a_tool_may_have_an_argument_of_that_name() -> None:
    application, prompt = calling()
    chat = as_messages([user(), called('{"INVALID_JSON": "{}"}'), result()])
    await asked(application, "/v1/messages", **{**chat, "model": "small"})
    assert json.dumps({"INVALID_JSON": "{}"}) in prompt()


REPLIES: dict[str, tuple[Piece, ...]] = {
    "cut": (CALL, '{"name": "probe", "arguments": {"k": '),
    "cut in a name": (CALL, '{"name": "pro'),
    "no close": (CALL, '{"name": "probe", "arguments": {}}', END),
    "other quotes": (CALL, "{'name': 'probe', 'arguments': {'k': 1}}", UNCALL, END),
    "a broken value": (*call(NAME, '{"k": ["a", \'b\']}'), END),
    "more behind the object": (*call(NAME, '{"k": 1} and more'), END),
    "a list": (*call(NAME, "[1]"), END),
    "null": (*call(NAME, "null"), END),
    "a word of another language": (*call(NAME, BROKEN), END),
    "nothing": (CALL, UNCALL, END),
    "no name": (*call("", "{}"), END),
    "another name": (*call("other", "{}"), END),
    "a name of words": (*call("get weather", "{}"), END),
    "twice": (*call(NAME, "False"), *call(NAME, "False"), END),
    "two, one broken": (*call(NAME, "{}"), *call(NAME, "{"), END),
    "a text and a broken call": ("So: ", *call(NAME, "nope"), END),
    "a broken call and a text": (*call(NAME, "nope"), "so", END),
    "a call within a call": (CALL, *call(NAME, "{}"), UNCALL, END),
    "a close alone": ("a", UNCALL, "b", END),
    "reasoning alone": (THINK, "hm", UNTHINK, END),
    "reasoning without an end": (THINK, "hm", END),
    "a call in reasoning": (THINK, *call(NAME, "nope"), UNTHINK, END),
    "blanks": (" ", END),
    "nothing at all": (END,),
}


@pytest.mark.parametrize("reply", REPLIES)
async def test_whatever_the_model_wrote_the_next_turn_is_answered_over_every_wire(reply: str) -> None:
    """And the next prompt has a call's broken arguments, once."""
    engine = scripted(ids(*REPLIES[reply]))
    application = app(engine, expose_reasoning=True)

    async def goes_on(path: str, **fields: Any) -> None:
        await asked(application, path, **fields)
        broken = decode(TOKENIZER, engine.requests[-1][0]).count(BROKEN)
        assert broken == (reply == "a word of another language"), path

    fields = as_chat([user()])
    for session in ({}, {"session_id": "s"}):
        message = (await asked(application, "/v1/chat/completions", **fields, **session))["choices"][0]["message"]
        results = [result(id=one["id"]) for one in message.get("tool_calls") or ()] or [user("more")]
        more = results if session else [*fields["messages"], message, *results]
        await goes_on("/v1/chat/completions", **{**fields, "messages": more}, **session)
    fields = as_responses([user()])
    answer = await asked(application, "/v1/responses", **fields)
    called = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
    outputs = as_responses([result(id=id) for id in called] or [user("more")])["input"]
    await goes_on("/v1/responses", **{**fields, "input": [*fields["input"], *answer["output"], *outputs]})
    await goes_on("/v1/responses", **{**fields, "input": outputs}, previous_response_id=answer["id"])
    fields = {**as_messages([user()]), "model": "small", "max_tokens": 99}
    blocks = (await asked(application, "/v1/messages", **fields))["content"]
    used = [block["id"] for block in blocks if block["type"] == "tool_use"]
    more = as_messages([result(id=id) for id in used] or [user("more")])["messages"]
    said = {"role": "assistant", "content": blocks}
    await goes_on("/v1/messages", **{**fields, "messages": [*fields["messages"], said, *more]})
    fields = {**as_ollama([user()]), "model": "small"}
    message = (await asked(application, "/api/chat", **fields))["message"]
    tools = [{"role": "tool", "content": "r", "tool_name": NAME} for _ in message.get("tool_calls") or ()]
    more = [*fields["messages"], message, *(tools or [user("more")])]
    await goes_on("/api/chat", **{**fields, "messages": more})
