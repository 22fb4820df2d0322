"""Only what is offered is called: without tools, with a narrower choice, by a name nobody offered; streamed and not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats import Format
from antiphon.formats.openchatml import openchatml
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import ByteTokenizer, Control, Piece
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import CALL, CHATML, END, TOKENIZER, UNCALL, Got, call, in_process, post_in_process
from kit.call_ids import CALL_ID
from kit.obliging import ObligingEngine, constrained
from kit.responses import CALL as OSS_CALL
from kit.responses import CHANNEL, CONSTRAIN, HARMONY, MESSAGE, RETURN, VOCABULARY

OPENCHATML = openchatml(VOCABULARY.controls)
Made = tuple[Format, ByteTokenizer]
FORMATS: dict[str, Made] = {
    "template": (CHATML, TOKENIZER),
    "harmony": (HARMONY, VOCABULARY),
    "openchatml": (OPENCHATML, VOCABULARY),
}
WORDS = '{"a": 1}'


def said(name: str, tool: str) -> list[Piece]:
    """A call as the format's model writes it, behind the head that the prompt has begun."""
    if name == "template":
        return [*call(tool, WORDS), END]
    id = " call_id=x1" if name == "openchatml" else ""
    return [f" to=functions.{tool}{id}", CHANNEL, "commentary", CONSTRAIN, "json", MESSAGE, WORDS, OSS_CALL]


def answered(name: str) -> list[Piece]:
    return ["So.", END] if name == "template" else [CHANNEL, "final", MESSAGE, "So.", RETURN]


def ids(tokenizer: ByteTokenizer, pieces: Sequence[Piece]) -> list[int]:
    return [
        id
        for piece in pieces
        for id in ([tokenizer.controls[piece]] if isinstance(piece, Control) else tokenizer.encode(piece))
    ]


def app(name: str, pieces: Sequence[Piece], *, constrained: bool = False, chunk: int = 3) -> tuple[Starlette, Any]:
    format, tokenizer = FORMATS[name]
    ends = frozenset(tokenizer.controls[end] for end in (END, RETURN, OSS_CALL) if end in tokenizer.controls)
    engine = ScriptedEngine(ids(tokenizer, pieces), end_ids=ends, chunk=chunk, grammar=constrained)
    compiler = ReplyCompiler(format, tokenizer, ends) if constrained else None
    model = Model(name="m", engine=engine, tokenizer=tokenizer, format=format, compiler=compiler)
    return create_app(StaticCatalog({"m": model})), engine


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


HISTORY = [
    {"role": "user", "content": "Add."},
    {
        "role": "assistant",
        "tool_calls": [{"id": "x0", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "x0", "content": "1"},
]
REQUESTS: dict[str, dict[str, Any]] = {
    "without tools": {},
    "without tools, after calls": {"messages": HISTORY},
    "none": {"tools": [tool("f")], "tool_choice": "none"},
    "another name": {"tools": [tool("g")]},
}


def message_of(got: Got) -> tuple[dict[str, Any], str]:
    """The message and its reason, of a stream too."""
    assert got.status == 200, got.body
    if got.body.startswith(b"{"):
        choice = got.json["choices"][0]
        return choice["message"], choice["finish_reason"]
    choices = [event["choices"][0] for event in got.events[:-1]]
    calls = [part for choice in choices for part in choice["delta"].get("tool_calls") or ()]
    content = "".join(choice["delta"].get("content") or "" for choice in choices)
    return {"content": content, **({"tool_calls": calls} if calls else {})}, choices[-1]["finish_reason"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("name", FORMATS)
async def test_a_call_of_nothing_that_is_offered_is_no_call_and_in_frames_no_answer_either(
    name: str, request_: dict[str, Any], stream: bool
) -> None:
    application, _ = app(name, said(name, "f"))
    message, reason = message_of(await in_process(application, **request_, stream=stream))
    assert not message.get("tool_calls")
    assert reason == "stop"
    assert message["content"] == ("".join(map(str, said(name, "f")[:-1])) if name == "template" else "")


@pytest.mark.parametrize("name", FORMATS)
async def test_the_same_in_responses(name: str) -> None:
    items = [
        {"role": "user", "content": "Add."},
        {"type": "function_call", "call_id": "x0", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "x0", "output": "1"},
    ]
    for fields in ({"input": "Hi"}, {"input": items}, {"input": "Hi", "tools": [{"type": "function", "name": "g"}]}):
        application, _ = app(name, said(name, "f"))
        got = await post_in_process(application, "/v1/responses", **fields)
        assert "call_not_allowed" in got.headers["x-antiphon-incidents"]
        (item,) = got.json["output"]
        assert item["type"] == ("message" if name == "template" else "reasoning")
        assert (WORDS in got.body.decode().replace("\\", "")) is (name == "template")


@pytest.mark.parametrize("name", FORMATS)
async def test_after_calls_a_request_without_tools_is_answered_under_a_grammar_without_calls(name: str) -> None:
    application, engine = app(name, answered(name), constrained=True)
    message, reason = message_of(await in_process(application, messages=HISTORY))
    assert (message["content"], reason) == ("So.", "stop")
    application, _ = app(name, said(name, "f"), constrained=True)
    got = await in_process(application, messages=HISTORY)
    assert got.error["code"] == "grammar_broken", "an engine that keeps to its grammar cannot write the call"
    assert engine.requests[0][2] is not None


async def test_free_text_without_tools_and_calls_has_no_grammar() -> None:
    application, engine = app("template", answered("template"), constrained=True)
    await in_process(application)
    assert engine.requests[0][2] is None


@pytest.mark.parametrize("stream", [False, True])
async def test_allowed_tools_are_the_only_ones_that_are_called(stream: bool) -> None:
    tools, allowed = [tool("f"), tool("g")], [tool("g")]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": allowed}}
    for called, expected in (("f", None), ("g", "g")):
        reply: list[Piece] = [CALL, f'\n{{"name": "{called}", "arguments": {{}}}}\n', UNCALL, END]
        application, _ = app("template", reply, constrained=True)
        got = await in_process(application, tools=tools, tool_choice=choice, stream=stream)
        if expected is None:
            assert b"grammar_broken" in got.body
        else:
            message, reason = message_of(got)
            assert (message["tool_calls"][0]["function"]["name"], reason) == ("g", "tool_calls")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", [{"type": "function", "function": {"name": "f"}}])
async def test_a_named_tool_is_called_exactly_once(choice: dict[str, Any], stream: bool) -> None:
    once: list[Piece] = [CALL, '\n{"name": "f", "arguments": {}}\n', UNCALL]
    application, _ = app("template", [*once, "\n", *once, END], constrained=True, chunk=500)
    got = await in_process(application, tools=[tool("f"), tool("g")], tool_choice=choice, stream=stream)
    assert b"grammar_broken" in got.body, "the grammar has no second call"
    application, _ = app("template", [*once, END], constrained=True)
    message, reason = message_of(
        await in_process(application, tools=[tool("f"), tool("g")], tool_choice=choice, stream=stream)
    )
    assert reason == "tool_calls"
    assert len([part for part in message["tool_calls"] if part.get("id")]) == 1
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("f")]}}
    application, _ = app("template", [*once, "\n", *once, END], constrained=True)
    message, _ = message_of(await in_process(application, tools=[tool("f")], tool_choice=allowed))
    assert len(message["tool_calls"]) == 2, "a list of one is no name"


def echo(text: str) -> str:
    """Says it again."""
    RUNS.append(text)
    return text


def docs__size(page: str) -> str:
    """How long a page is."""
    RUNS.append(page)
    return "4"


RUNS: list[str] = []
NAMED = [
    {"type": "function", "function": {"name": "docs__size"}},
    {"type": "function", "function": {"name": "functions.docs__size"}},
    {"type": "function", "function": {"name": "docs.size"}},
    {"type": "function", "function": {"name": "docs"}},
]


def obliging_app(toolbox: Toolbox) -> tuple[Starlette, ObligingEngine]:
    engine = ObligingEngine()
    return create_app(StaticCatalog({"m": constrained(engine, "m")}), tools=toolbox), engine


@pytest.mark.parametrize("choice", NAMED, ids=lambda choice: choice["function"]["name"])
async def test_a_tool_of_the_server_that_is_named_runs_exactly_once(choice: dict[str, Any]) -> None:
    RUNS.clear()
    application, _ = obliging_app(Toolbox([FunctionToolSet([echo, docs__size])]))
    message, _ = message_of(await in_process(application, server_tools=True, tool_choice=choice, max_tokens=400))
    assert len(RUNS) == 1
    assert not message.get("tool_calls")


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
async def test_modes_are_about_the_server_s_tools_too(choice: str) -> None:
    RUNS.clear()
    application, _ = obliging_app(Toolbox([FunctionToolSet([echo])]))
    got = await in_process(application, server_tools=True, tool_choice=choice, max_tokens=400)
    assert got.status == 200
    assert choice == "auto" or bool(RUNS) == (choice == "required")


async def test_in_responses_a_tool_of_the_server_is_named_by_its_type_or_its_qualified_name() -> None:
    for choice in (
        {"type": "function", "name": "docs__size"},
        {"type": "mcp", "server_label": "docs"},
        {"type": "mcp", "server_label": "docs", "name": "size"},
    ):
        RUNS.clear()
        application, _ = obliging_app(Toolbox([FunctionToolSet([echo, docs__size])]))
        body = {"input": "Hi", "tools": [{"type": "mcp", "server_label": "docs"}], "tool_choice": choice}
        response = (await post_in_process(application, "/v1/responses", **body, max_output_tokens=400)).json
        assert [item["type"] for item in response["output"]][:1] == ["mcp_call"]
        assert len(RUNS) == 1
    body["tool_choice"] = {"type": "mcp", "server_label": "docs", "name": "weight"}
    assert (await post_in_process(application, "/v1/responses", **body)).status == 400


async def test_what_nobody_has_cannot_be_named() -> None:
    application, _ = obliging_app(Toolbox([FunctionToolSet([echo])]))
    for name in ("shout", "functions", "ech", ""):
        choice = {"type": "function", "function": {"name": name}}
        got = await in_process(application, server_tools=True, tool_choice=choice)
        assert (got.status, got.error["param"]) == (400, "tool_choice"), name


@pytest.mark.parametrize("name", FORMATS)
async def test_every_call_of_every_choice_and_conversation_has_an_id_of_its_own(name: str) -> None:
    found: list[str] = []
    for stream in (False, True):
        application, _ = app(name, said(name, "f")) if name != "openchatml" else constrained_openchatml()
        got = await in_process(application, tools=[tool("f")], n=2, stream=stream)
        parts = got.events[:-1] if stream else [got.json]
        choices = [choice for part in parts for choice in part["choices"]]
        messages = [choice["delta"] if stream else choice["message"] for choice in choices]
        found += [part["id"] for one in messages for part in one.get("tool_calls") or () if part.get("id")]
    assert len({*found}) == len(found) == 4
    assert all(map(CALL_ID.fullmatch, found)), found


def constrained_openchatml() -> tuple[Starlette, Any]:
    """An OpenChatML model that writes the id that its grammar names, in both choices."""
    ends = frozenset({VOCABULARY.controls[RETURN], VOCABULARY.controls[OSS_CALL]})

    def script(prompt: Sequence[int], sampling: object, choice: int) -> list[int]:
        grammar = str(engine.requests[-1][2])
        found = CALL_ID.search(grammar)
        assert found is not None
        head = f" to=functions.f call_id={found[0]}"
        return ids(VOCABULARY, [head, CHANNEL, "commentary", CONSTRAIN, "json", MESSAGE, "{}", OSS_CALL])

    engine = ScriptedEngine(script, end_ids=ends)
    model = Model(
        name="m",
        engine=engine,
        tokenizer=VOCABULARY,
        format=OPENCHATML,
        compiler=ReplyCompiler(OPENCHATML, VOCABULARY, ends),
    )
    return create_app(StaticCatalog({"m": model})), engine


async def test_a_call_keeps_its_id_in_the_stored_response_and_in_the_prompt_that_goes_on() -> None:
    application, _ = app("template", said("template", "f"))
    tools = [{"type": "function", "name": "f"}]
    first = (await post_in_process(application, "/v1/responses", input="Hi", tools=tools)).json
    (item,) = first["output"]
    assert CALL_ID.fullmatch(item["call_id"])
    output = {"type": "function_call_output", "call_id": item["call_id"], "output": "2"}
    body = {"previous_response_id": first["id"], "input": [output], "tools": tools}
    second = (await post_in_process(application, "/v1/responses", **body)).json
    assert second["status"] == "completed"
    assert second["output"][0]["call_id"] != item["call_id"]
