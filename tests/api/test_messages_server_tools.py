"""Tools of the server that a Messages request lists by their types: their calls and results are blocks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from antiphon.api.messages.read import read_choice, read_tools
from antiphon.api.messages.schema import MessageTool, MessageToolChoice
from antiphon.engines import ScriptedEngine
from antiphon.errors import RequestError
from antiphon.http.gate.keys import new_key
from antiphon.tokens import decode
from antiphon.tools import Toolbox
from kit.api import END as CHATML_END
from kit.api import TOKENIZER, Got, call, exchange, ids, scripted
from kit.messages import USER, WEATHER, Fields, accumulated, checked, events_of, without_ids
from kit.responses import CALL, CHANNEL, FINAL, MESSAGE, VOCABULARY, harmony_ids, responses_app, turns
from kit.responses import WEATHER as CALL_WEATHER
from kit.toolbox import server_toolbox

SEARCH: Fields = {"type": "web_search_20250305", "name": "web_search"}
CODE: Fields = {"type": "code_execution_20250522", "name": "code_execution"}


@pytest.fixture
def toolbox(tmp_path: Path) -> Toolbox:
    return server_toolbox(tmp_path)


def begun(recipient: str, body: str) -> list[int]:
    """A call of a built-in tool, with which the reply begins."""
    return harmony_ids(f" to={recipient}", CHANNEL, "analysis code", MESSAGE, body, CALL)


SEARCHED = begun("browser.search", '{"query": "bears"}')
ANSWER = harmony_ids(*FINAL[2:])
ROUNDS: dict[str, tuple[list[int], ...]] = {
    "oss": (
        SEARCHED,
        begun("browser.open", '{"id": 0}'),
        begun("browser.find", '{"pattern": "capital"}'),
        begun("python", "print(1)"),
        ANSWER,
    ),
    "small": tuple(
        ids(*said, CHATML_END)
        for said in (
            call("browser__search", '{"query": "bears"}'),
            call("browser__open", '{"id": 0}'),
            call("browser__find", '{"pattern": "capital"}'),
            call("python__exec", '{"code": "print(1)"}'),
            ("It is sunny in Bern.",),
        )
    ),
}


def served(name: str, replies: Sequence[list[int]], tools: Toolbox | None, **options: Any) -> tuple[Any, Any]:
    """An application over one model that says these replies, and its engine."""
    engine = scripted(turns(*replies))
    models: dict[str, ScriptedEngine] = {name: engine}
    return responses_app(**models, tools=tools, **options), engine


async def asked(application: Any, key: str | None = None, **fields: Any) -> Got:
    body: Fields = {"max_tokens": 400, "messages": [USER], **fields}
    return await exchange(application, "/v1/messages", body, [], key=key)


async def answered(application: Any, *, stream: bool = False, **fields: Any) -> Any:
    got = await asked(application, stream=stream, **fields)
    return checked(accumulated(events_of(got)) if stream else got.json)


def prompts(name: str, engine: ScriptedEngine) -> list[str]:
    vocabulary = VOCABULARY if name == "oss" else TOKENIZER
    return [decode(vocabulary, prompt) for prompt, *_ in engine.requests]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ROUNDS)
async def test_searches_pages_and_code_are_blocks_with_their_results(toolbox: Toolbox, name: str, stream: bool) -> None:
    application, engine = served(name, ROUNDS[name], toolbox)
    answer = await answered(application, model=name, tools=[SEARCH, CODE], stream=stream)
    content = answer["content"]
    kinds = [(block["type"], block.get("name")) for block in content]
    assert kinds == [
        ("server_tool_use", "web_search"), ("web_search_tool_result", None),
        ("server_tool_use", "web_fetch"), ("web_fetch_tool_result", None),
        ("server_tool_use", "web_fetch"), ("web_fetch_tool_result", None),
        ("server_tool_use", "code_execution"), ("code_execution_tool_result", None),
        ("text", None),
    ]  # fmt: skip
    assert [block["input"] for block in content[:7:2]] == [
        {"query": "bears"}, {"id": 0}, {"pattern": "capital"}, {"code": "print(1)"},
    ]  # fmt: skip
    assert [block["tool_use_id"] for block in content[1:8:2]] == [block["id"] for block in content[:7:2]]
    assert without_ids(content[1]["content"]) == [
        {"type": "web_search_result", "url": "corpus:/bern.md", "title": "Bern", "page_age": None,
         "encrypted_content": "…"}
    ]  # fmt: skip
    page = content[3]["content"]
    assert (page["type"], page["url"], page["content"]["title"]) == ("web_fetch_result", "corpus:/bern.md", "Bern")
    assert "has bears" in page["content"]["source"]["data"]
    assert content[7]["content"] == {
        "type": "code_execution_result", "stdout": "8 characters", "stderr": "", "return_code": 0, "content": [],
    }  # fmt: skip
    assert answer["stop_reason"] == "end_turn"
    assert answer["usage"]["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 2}
    assert len(engine.requests) == 5


@pytest.mark.parametrize("name", ROUNDS)
async def test_an_answer_that_comes_back_is_what_the_model_read(toolbox: Toolbox, name: str) -> None:
    application, engine = served(name, (*ROUNDS[name], ROUNDS[name][-1]), toolbox)
    fields: Fields = {"model": name, "tools": [SEARCH, CODE]}
    content = (await answered(application, **fields))["content"]
    await answered(application, **fields, messages=[USER, {"role": "assistant", "content": content[:-1]}])
    *_, last, again = prompts(name, engine)
    for read in ("Results for 'bears'", "has bears", "matches of 'capital'", "print(1)", "8 characters"):
        assert read in again
    assert again == last or name == "oss", "only Harmony has several spellings of a header"
    await answered(application, **fields, messages=[USER, {"role": "assistant", "content": content}, USER])
    finished = prompts(name, engine)[-1]
    assert "It is sunny in Bern." in finished
    seen = [read in finished for read in ("Results for 'bears'", "has bears", "8 characters")]
    assert seen == [name == "small"] * 3, "Harmony drops analysis, where its built-in tools are called, with the answer"


async def test_a_search_that_another_key_or_server_made_is_read_as_its_pages(toolbox: Toolbox) -> None:
    (mine, a), (other, b) = new_key("a"), new_key("b")
    application, engine = served("oss", (SEARCHED, ANSWER), toolbox, keys=[a, b])
    fields: Fields = {"model": "oss", "tools": [SEARCH]}
    content = (await asked(application, mine, **fields)).json["content"]
    history = [USER, {"role": "assistant", "content": content[:-1]}, USER]
    assert (await asked(application, other, **fields, messages=history)).status == 200
    prompt = prompts("oss", engine)[-1]
    assert "Results for" not in prompt
    assert "Bern\ncorpus:/bern.md" in prompt


async def test_a_search_that_found_nothing_and_a_result_that_is_an_error_are_read(toolbox: Toolbox) -> None:
    application, engine = served("oss", (ANSWER,), toolbox)
    blocks: list[Fields] = []
    for i, (use, given, kind, content) in enumerate(
        [
            ("web_search", {"query": "x"}, "web_search", []),
            ("web_search", {"query": "y"}, "web_search", {"error_code": "max_uses_exceeded"}),
            ("web_fetch", {"id": 3}, "web_fetch", {"error_code": "url_not_accessible"}),
            ("code_execution", {"code": "1"}, "code_execution", {"error_code": "unavailable"}),
        ]
    ):
        error = {"type": f"{kind}_tool_result_error", **content} if isinstance(content, dict) else content
        blocks += [
            {"type": "server_tool_use", "id": f"srvtoolu_{i}", "name": use, "input": given},
            {"type": f"{kind}_tool_result", "tool_use_id": f"srvtoolu_{i}", "content": error},
        ]
    history = [USER, {"role": "assistant", "content": blocks}, USER]
    await answered(application, model="oss", messages=history)
    prompt = prompts("oss", engine)[-1]
    for read in ("No results.", "max_uses_exceeded", "url_not_accessible", "Error: unavailable"):
        assert read in prompt


async def test_searches_beyond_max_uses_are_not_made(toolbox: Toolbox) -> None:
    application, _ = served("oss", (SEARCHED, SEARCHED, begun("browser.open", '{"id": 0}'), ANSWER), toolbox)
    answer = await answered(application, model="oss", tools=[{**SEARCH, "max_uses": 1}])
    first, second, page = (block["content"] for block in answer["content"][1:6:2])
    assert first[0]["type"] == "web_search_result"
    assert second == {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert page["type"] == "web_fetch_result", "pages are not counted"
    assert answer["usage"]["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 1}


async def test_what_a_tool_cannot_do_is_an_error_of_its_kind(toolbox: Toolbox) -> None:
    replies = (begun("browser.search", "{}"), begun("browser.open", '{"id": "https://nowhere.invalid"}'), ANSWER)
    application, _ = served("oss", replies, toolbox)
    answer = await answered(application, model="oss", tools=[SEARCH])
    assert [block["content"] for block in answer["content"][1:4:2]] == [
        {"type": "web_search_tool_result_error", "error_code": "invalid_tool_input"},
        {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"},
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_that_goes_on_for_too_long_is_paused_and_gone_on_with(toolbox: Toolbox, stream: bool) -> None:
    application, engine = served("oss", (*(SEARCHED,) * 16, ANSWER), toolbox)
    fields: Fields = {"model": "oss", "tools": [SEARCH]}
    answer = await answered(application, **fields, stream=stream)
    assert answer["stop_reason"] == "pause_turn"
    assert len(engine.requests) == 16
    more = await answered(application, **fields, messages=[USER, {"role": "assistant", "content": answer["content"]}])
    assert more["content"] == [{"type": "text", "text": "It is sunny in Bern."}]


async def test_a_call_of_the_client_s_goes_back_to_it_after_ours(toolbox: Toolbox) -> None:
    weather = harmony_ids(" to=functions.weather", *CALL_WEATHER[2:])
    application, _ = served("oss", (SEARCHED, weather, ANSWER), toolbox)
    answer = await answered(application, model="oss", tools=[SEARCH, WEATHER])
    assert [block["type"] for block in answer["content"]] == ["server_tool_use", "web_search_tool_result", "tool_use"]
    assert answer["stop_reason"] == "tool_use"


async def test_what_the_owner_offers_to_all_and_nobody_listed_runs_unseen(toolbox: Toolbox) -> None:
    replies = (SEARCHED, begun("python", "print(1)"), ANSWER)
    application, _ = served("oss", replies, toolbox, offer_tools=True)
    answer = await answered(application, model="oss", tools=[CODE])
    assert [block["type"] for block in answer["content"]] == ["server_tool_use", "code_execution_tool_result", "text"]
    assert answer["usage"]["server_tool_use"] == {"web_search_requests": 0, "web_fetch_requests": 0}


async def test_only_what_is_listed_can_be_called(toolbox: Toolbox) -> None:
    application, engine = served("oss", (ANSWER,), toolbox)
    await answered(application, model="oss", tools=[CODE])
    assert "server_tool_use" not in (await answered(application, model="oss"))["usage"]
    first, second = prompts("oss", engine)
    assert ("python" in first, "browser" in first, "python" in second) == (True, False, False)


def test_a_choice_names_a_tool_of_the_server_s(toolbox: Toolbox) -> None:
    for offer in (toolbox.offer, toolbox.functions):
        tools = read_tools([convert(SEARCH, MessageTool)], offer, always=False)
        choice, _ = read_choice(MessageToolChoice(type="tool", name="web_search"), tools)
        assert set(choice.names or ()) == tools.shown
        with pytest.raises(RequestError, match=r"tool_choice\.name"):
            read_choice(MessageToolChoice(type="tool", name="code_execution"), tools)


REFUSED: list[tuple[Fields, str]] = [
    ({**SEARCH, "allowed_domains": ["example.com"]}, "allowed_domains"),
    ({**SEARCH, "blocked_domains": ["example.com"]}, "blocked_domains"),
    ({**SEARCH, "user_location": {"type": "approximate", "city": "Bern"}}, "user_location"),
    ({**SEARCH, "max_uses": 0}, "max_uses"),
    ({**SEARCH, "max_uses": "many"}, "max_uses"),
    ({**SEARCH, "name": "search"}, "name"),
    ({"type": "web_search_20250305"}, "name"),
    ({**CODE, "allowed_callers": ["code_execution_20250825"]}, "allowed_callers"),
    ({"type": "web_fetch_20250910", "name": "web_fetch"}, "type"),
    ({"type": "web_search", "name": "web_search"}, "type"),
    ({"type": "web_search_20250305 ", "name": "web_search"}, "type"),
    ({"type": "bash_20991231", "name": "bash"}, "type"),
]


@pytest.mark.parametrize(("tool", "field"), REFUSED, ids=[f"{tool['type']} {field}" for tool, field in REFUSED])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_what_cannot_be_honoured_is_refused_by_name(
    toolbox: Toolbox, path: str, tool: Fields, field: str
) -> None:
    application, _ = served("oss", (ANSWER,), toolbox)
    got = await exchange(application, path, {"model": "oss", "max_tokens": 9, "messages": [USER], "tools": [tool]}, [])
    assert got.status == 400
    assert f"tools[0].{field}" in got.json["error"]["message"]


@pytest.mark.parametrize("tool", [SEARCH, CODE], ids=["web_search", "code_execution"])
async def test_a_tool_that_is_off_says_how_it_is_turned_on(tool: Fields) -> None:
    application, _ = served("oss", (ANSWER,), None)
    got = await asked(application, model="oss", tools=[tool])
    assert got.status == 400
    assert "tools[0].type" in got.json["error"]["message"]
    assert "--tools" in got.json["error"]["message"]


async def test_two_tools_of_one_name_are_refused_also_where_one_is_the_client_s(toolbox: Toolbox) -> None:
    application, _ = served("oss", (ANSWER,), toolbox)
    for tools in ([SEARCH, SEARCH], [SEARCH, {**WEATHER, "name": "web_search"}]):
        got = await asked(application, model="oss", tools=tools)
        assert (got.status, "tools[1].name" in got.json["error"]["message"]) == (400, True)


BAD: list[tuple[Fields, str]] = [
    ({"type": "server_tool_use", "id": "a", "name": "bash_code_execution", "input": {}}, "name"),
    ({"type": "server_tool_use", "id": "a", "name": "web_search", "input": []}, "input"),
    ({"type": "server_tool_use", "id": "a", "name": "web_search"}, "input"),
    ({"type": "server_tool_use", "name": "web_search", "input": {}}, "id"),
    ({"type": "web_search_tool_result", "tool_use_id": "nobody", "content": []}, "tool_use_id"),
    ({"type": "code_execution_tool_result", "content": []}, "tool_use_id"),
]


@pytest.mark.parametrize(("block", "field"), BAD, ids=[f"{block['type']} {field}" for block, field in BAD])
async def test_a_block_that_cannot_be_read_is_named(toolbox: Toolbox, block: Fields, field: str) -> None:
    application, _ = served("oss", (ANSWER,), toolbox)
    history = [USER, {"role": "assistant", "content": [block]}, USER]
    got = await asked(application, model="oss", messages=history)
    assert (got.status, f"messages[1].content[0].{field}" in got.json["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    "content",
    [
        "text",
        [{"type": "text", "text": "x"}],
        {"type": "encrypted_code_execution_result"},
        {"type": "web_fetch_result", "url": "u", "content": {"type": "document", "source": {"type": "base64"}}},
        {"type": "web_fetch_result", "url": "u", "content": [{"type": "document"}]},
        None,
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("kind", ["web_search", "web_fetch", "code_execution"])
async def test_a_result_that_cannot_be_read_is_named(toolbox: Toolbox, kind: str, content: Any) -> None:
    application, _ = served("oss", (ANSWER,), toolbox)
    use = {"type": "server_tool_use", "id": "a", "name": kind, "input": {}}
    result = {"type": f"{kind}_tool_result", "tool_use_id": "a", "content": content}
    got = await asked(application, model="oss", messages=[USER, {"role": "assistant", "content": [use, result]}, USER])
    assert (got.status, "messages[1].content[1].content" in got.json["error"]["message"]) == (400, True)
