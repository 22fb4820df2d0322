"""Tools that run on the server's side are items between turns; others are the client's, or nobody's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from antiphon.http.gate.keys import new_key
from antiphon.tokens import Piece, decode
from antiphon.tools import Toolbox, ToolCall, ToolOutput
from kit.api import END as CHATML_END
from kit.api import call, ids, request, running, scripted
from kit.responses import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    FINAL,
    MESSAGE,
    RETURN,
    START,
    THOUGHT,
    VOCABULARY,
    WEATHER_TOOL,
    checked_response,
    events_of,
    harmony_ids,
    oss_app,
    respond,
    responses_app,
    text_of,
    turns,
)
from kit.toolbox import CountingPython, PythonSet, server_toolbox


@pytest.fixture
def toolbox(tmp_path: Path) -> Toolbox:
    return server_toolbox(tmp_path)


def to(recipient: str, body: str) -> tuple[Piece, ...]:
    return (START, f"assistant to={recipient}", CHANNEL, "analysis ", CONSTRAIN, "json", MESSAGE, body, CALL)


def begun(*pieces: Piece) -> list[int]:
    """A reply: the prompt has opened the first message already."""
    assert pieces[0] == START
    return harmony_ids(str(pieces[1]).removeprefix("assistant"), *pieces[2:])


def types(events: list[Any]) -> list[str]:
    kinds = [event["type"] for event in events]
    return [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]


SEARCH = begun(*to("browser.search", '{"query": "bears"}'))
ANSWER = begun(*FINAL)


def test_a_web_search_is_an_item_around_which_its_events_stand(toolbox: Toolbox) -> None:
    with running(
        oss_app(turns(harmony_ids(*THOUGHT, *to("browser.search", '{"query": "bears"}')), ANSWER), tools=toolbox)
    ) as base:
        events = events_of(respond(base, {"stream": True, "tools": [{"type": "web_search"}]}))
    assert types(events)[2:] == [
        "response.output_item.added",
        "response.output_item.done",
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "web_search_call", "message"]
    assert output[1]["action"] == {"type": "search", "query": "bears", "queries": ["bears"]}
    assert output[1]["status"] == "completed"


@pytest.mark.parametrize("query", ["bears", "zebra"])
def test_the_sources_of_a_search_are_there_where_they_are_requested(toolbox: Toolbox, query: str) -> None:
    searched = begun(*to("browser.search", f'{{"query": "{query}"}}'))
    for include in ([], ["web_search_call.action.sources"]):
        with running(oss_app(turns(searched, ANSWER), tools=toolbox)) as base:
            response = checked_response(respond(base, {"tools": [{"type": "web_search"}], "include": include}).json)
        action = response["output"][0]["action"]
        assert ("sources" in action) is bool(include)
        found = [source["url"].endswith("bern.md") for source in action.get("sources", ())]
        assert found == ([True] if include and query == "bears" else [])


BUILT_IN = {
    "browser.search": '{"query": "bears"}',
    "browser.open": '{"id": 0}',
    "browser.find": '{"pattern": "capital"}',
    "python": "print(1)",
}
UNMARKED: list[tuple[Piece, ...]] = [(), ("We need to look: SECRET.", END, START, "assistant")]


@pytest.mark.spec("HAR-17", "HAR-103", "HAR-104", "HAR-106", "HAR-107")
@pytest.mark.parametrize("before", UNMARKED, ids=["alone", "after text on no channel"])
@pytest.mark.parametrize("end", [[CALL], []], ids=["ended", "stopped"])
@pytest.mark.parametrize("channel", ["analysis", "commentary"])
def test_a_call_of_a_built_in_tool_is_run_on_either_channel(
    toolbox: Toolbox, channel: str, end: list[Piece], before: tuple[Piece, ...]
) -> None:
    def called(recipient: str, body: str) -> list[int]:
        return harmony_ids(*before, CHANNEL, f"{channel} to={recipient} code", MESSAGE, body, *end)

    engine = scripted(turns(*(called(*one) for one in BUILT_IN.items()), ANSWER))
    with running(responses_app(oss=engine, tools=toolbox)) as base:
        body = {"tools": [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]}
        response = respond(base, body).json
        kinds = [item["type"] for item in response["output"] if item["type"] != "reasoning"]
        assert kinds == ["web_search_call"] * 3 + ["code_interpreter_call", "message"]
        assert "SECRET" not in text_of(response)
        prompt = decode(VOCABULARY, engine.requests[-1][0])
        for recipient in BUILT_IN:
            assert f"{recipient} to=assistant" in prompt, "each call has its result"
        assert prompt.count("SECRET") == len(BUILT_IN) * bool(before), "the reasons of an open turn stay"


def test_opening_and_finding_are_actions_with_the_page(toolbox: Toolbox) -> None:
    script = turns(
        SEARCH,
        begun(*to("browser.open", '{"id": 0}')),
        begun(*to("browser.find", '{"pattern": "capital"}')),
        ANSWER,
    )
    with running(oss_app(script, tools=toolbox)) as base:
        response = respond(base, {"tools": [{"type": "web_search_preview"}]}).json
    assert [item["action"] for item in response["output"][:3]] == [
        {"type": "search", "query": "bears", "queries": ["bears"]},
        {"type": "open_page", "url": "corpus:/bern.md"},
        {"type": "find_in_page", "pattern": "capital", "url": "corpus:/bern.md"},
    ]
    assert text_of(response) == "It is sunny in Bern."


@pytest.mark.one_process("cites pages that a browser of its process has opened")
def test_pages_that_the_answer_names_are_annotations(toolbox: Toolbox) -> None:
    answer = begun(START, "assistant", CHANNEL, "final", MESSAGE, "Bern has bears【0†L0】.", RETURN)
    with running(oss_app(turns(SEARCH, answer), tools=toolbox)) as base:
        events = events_of(respond(base, {"stream": True, "tools": [{"type": "web_search"}]}))
    kinds = types(events)
    assert kinds.index("response.output_text.delta") < kinds.index("response.output_text.annotation.added")
    assert kinds.index("response.output_text.annotation.added") < kinds.index("response.output_text.done")
    (part,) = events[-1]["response"]["output"][-1]["content"]
    (annotation,) = part["annotations"]
    assert part["text"][annotation["start_index"] : annotation["end_index"]] == "【0†L0】"
    assert (annotation["type"], annotation["url"]) == ("url_citation", "search:bears")


def test_code_is_interpreted_and_its_output_included_where_requested(toolbox: Toolbox) -> None:
    code = (START, "assistant to=python", CHANNEL, "analysis ", "code", MESSAGE, "print(1)", CALL)
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    with running(oss_app(turns(begun(*code), ANSWER, begun(*code), ANSWER), tools=toolbox)) as base:
        events = events_of(respond(base, {"stream": True, "tools": tools}))
        included = respond(base, {"tools": tools, "include": ["code_interpreter_call.outputs"]}).json
    assert types(events)[2:9] == [
        "response.output_item.added",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.output_item.done",
    ]
    item = events[-1]["response"]["output"][0]
    assert (item["code"], item["outputs"], item["status"]) == ("print(1)", None, "completed")
    assert included["output"][0]["outputs"] == [{"type": "logs", "logs": "8 characters"}]


class OwnersPython(CountingPython):
    """Answers whose call it is."""

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput(content=f"a call of {call.owner}", plain=True)


def test_a_tool_knows_whose_request_it_serves() -> None:
    secret, alice = new_key("alice")
    code = (START, "assistant to=python", CHANNEL, "analysis ", "code", MESSAGE, "print(1)", CALL)
    body = {"tools": [{"type": "code_interpreter"}], "include": ["code_interpreter_call.outputs"]}
    application = oss_app(turns(begun(*code), ANSWER), tools=Toolbox([PythonSet((OwnersPython(),))]), keys=[alice])
    with running(application) as base:
        response = respond(base, body, authorization=f"Bearer {secret}").json
    assert response["output"][0]["outputs"] == [{"type": "logs", "logs": "a call of alice"}]


def test_a_tool_of_an_mcp_server_is_an_mcp_call(toolbox: Toolbox) -> None:
    tools = [{"type": "mcp", "server_label": "docs"}]
    script = turns(
        ids(*call("docs__size", '{"page": "bern"}'), CHATML_END),
        ids(*call("docs__size", '{"page": "missing"}'), CHATML_END),
        ids("Four.", CHATML_END),
    )
    with running(responses_app(small=scripted(script), tools=toolbox)) as base:
        events = events_of(respond(base, {"stream": True, "tools": tools}))
    right, wrong, answer = events[-1]["response"]["output"]
    assert (right["type"], right["server_label"], right["name"]) == ("mcp_call", "docs", "size")
    assert (right["arguments"], right["output"], right["error"]) == ('{"page": "bern"}', "4", None)
    assert (wrong["status"], wrong["output"]) == ("failed", None)
    assert "no such page" in wrong["error"]["content"]
    assert answer["content"][0]["text"] == "Four."
    kinds = types(events)
    assert kinds.index("response.mcp_call.completed") < kinds.index("response.mcp_call.failed")


def test_nothing_runs_that_the_request_does_not_list(toolbox: Toolbox) -> None:
    with running(oss_app(SEARCH, tools=toolbox)) as base:
        response = respond(base).json
    assert [item["type"] for item in response["output"]] == ["reasoning"], "nor is it a call for the client"


def test_the_owner_may_offer_tools_in_every_request(toolbox: Toolbox) -> None:
    with running(oss_app(turns(SEARCH, ANSWER), tools=toolbox, offer_tools=True)) as base:
        response = respond(base).json
    assert [item["type"] for item in response["output"]] == ["web_search_call", "message"]


def test_calls_beyond_max_tool_calls_are_not_run(toolbox: Toolbox) -> None:
    with running(oss_app(turns(SEARCH, SEARCH, ANSWER), tools=toolbox)) as base:
        response = respond(base, {"tools": [{"type": "web_search"}], "max_tool_calls": 1}).json
    first, second, answer = response["output"]
    assert (first["status"], second["status"], answer["type"]) == ("completed", "failed", "message")


def test_the_history_of_a_stored_response_has_the_results_of_tools(toolbox: Toolbox) -> None:
    engine = scripted(turns(ids(*call("docs__size", '{"page": "bern"}'), CHATML_END), ids("Four.", CHATML_END)))
    with running(responses_app(small=engine, tools=toolbox)) as base:
        first = respond(base, {"tools": [{"type": "mcp", "server_label": "docs"}]}).json
        respond(base, {"previous_response_id": first["id"], "input": "And of Basel?"})
    prompt = bytes(id for id in engine.requests[-1][0] if id < 256).decode()
    assert prompt.index("docs__size") < prompt.index("4") < prompt.index("Four.") < prompt.index("And of Basel?")


def test_a_search_that_nobody_has_is_left_out_and_named() -> None:
    requested = {"tools": [WEATHER_TOOL, {"type": "web_search"}]}
    with running(oss_app(ANSWER)) as base:
        got = respond(base, requested)
    assert [tool["type"] for tool in got.json["tools"]] == ["function"]
    assert got.headers["x-antiphon-ignored"] == "tools[1].type=web_search"


def test_functions_of_a_namespace_are_called_in_it() -> None:
    space = {"type": "namespace", "name": "home", "description": "The house.", "tools": [WEATHER_TOOL]}
    engine = scripted(ids(*call("home.weather", "{}"), CHATML_END))
    with running(responses_app(small=engine)) as base:
        response = respond(base, {"tools": [space, WEATHER_TOOL]}).json
        (item,) = response["output"]
        assert (item["type"], item["namespace"], item["name"]) == ("function_call", "home", "weather")
        again = respond(
            base,
            {
                "previous_response_id": response["id"],
                "tools": [space],
                "input": [{"type": "function_call_output", "call_id": item["call_id"], "output": "warm"}],
            },
        )
    assert again.status == 200
    assert "warm" in bytes(id for id in engine.requests[-1][0] if id < 256).decode()


def test_a_custom_tool_takes_free_text() -> None:
    shell = {"type": "custom", "name": "shell", "description": "Runs a command."}
    engine = scripted(ids(*call("shell", '{"input": "ls -l | \\"wc\\""}'), CHATML_END))
    with running(responses_app(small=engine)) as base:
        events = events_of(respond(base, {"stream": True, "tools": [shell]}))
        (item,) = events[-1]["response"]["output"]
        assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "shell", 'ls -l | "wc"')
        assert types(events)[2:6] == [
            "response.output_item.added",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.done",
        ]
        history = [
            {"role": "user", "content": "Count"},
            item,
            {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "7"},
        ]
        assert respond(base, {"input": history, "tools": [shell]}).status == 200


def test_half_a_pair_of_surrogates_that_a_model_escapes_is_stored_as_what_was_sent(toolbox: Toolbox) -> None:
    half = "\\ud83d"
    script = turns(
        ids(*call("browser__search", f'{{"query": "{half}"}}'), CHATML_END),
        ids(*call("python__exec", f'{{"code": "print(1)#{half}"}}'), CHATML_END),
        ids(*call("shell", f'{{"input": "ls {half}"}}'), CHATML_END),
    )
    tools = [{"type": "web_search"}, {"type": "code_interpreter"}, {"type": "custom", "name": "shell"}]
    with running(responses_app(small=scripted(script), tools=toolbox)) as base:
        got = respond(base, {"tools": tools})
        assert got.status == 200
        search, code, shell = got.json["output"]
        assert (search["action"]["query"], code["code"], shell["input"]) == ("\ufffd", "print(1)#\ufffd", "ls \ufffd")
        assert request(base, "GET", f"/v1/responses/{got.json['id']}").json["output"] == got.json["output"]


def test_a_model_that_knows_functions_only_has_the_same_tools(toolbox: Toolbox) -> None:
    script = turns(
        ids(*call("browser__search", '{"query": "bears"}'), CHATML_END),
        ids(*call("python__exec", '{"code": "print(1)"}'), CHATML_END),
        ids("Done.", CHATML_END),
    )
    tools = [{"type": "web_search"}, {"type": "code_interpreter"}]
    with running(responses_app(small=scripted(script), tools=toolbox)) as base:
        events = events_of(respond(base, {"stream": True, "tools": tools}))
    search, code, answer = events[-1]["response"]["output"]
    assert search["action"] == {"type": "search", "query": "bears", "queries": ["bears"]}
    assert (code["code"], code["status"], answer["type"]) == ("print(1)", "completed", "message")


DOCS = {"type": "mcp", "server_label": "docs"}
AUTO = {"type": "code_interpreter", "container": {"type": "auto"}}
SEARCHES = {"type": "web_search"}


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:1/mcp"}, "server_url"),
        ({**DOCS, "server_url": "https://example.com/mcp"}, "server_url"),
        ({**DOCS, "connector_id": "connector_gmail"}, "connector_id"),
        ({**DOCS, "authorization": "secret"}, "authorization"),
        ({**DOCS, "headers": {"x": "y"}}, "headers"),
        ({**DOCS, "require_approval": "always"}, "require_approval"),
        ({**DOCS, "require_approval": {"never": {"tool_names": ["size"]}}}, "require_approval"),
        ({**DOCS, "allowed_tools": ["nothing"]}, "allowed_tools[0]"),
        ({**DOCS, "allowed_tools": {"tool_names": ["size", "nothing"]}}, "allowed_tools.tool_names[1]"),
        ({**DOCS, "allowed_tools": {"read_only": True}}, "allowed_tools.read_only"),
        ({**DOCS, "allowed_tools": "size"}, "allowed_tools"),
        ({"type": "mcp", "server_label": "nobody"}, "server_label"),
        ({"type": "mcp"}, "server_label"),
        ({**SEARCHES, "filters": {"allowed_domains": ["example.com"]}}, "filters"),
        ({**AUTO, "container": "cntr_0"}, "container"),
        ({**AUTO, "container": {"type": "auto", "file_ids": ["file_1"]}}, "container.file_ids"),
        ({**AUTO, "container": {"type": "auto", "network_policy": {"type": "allowlist"}}}, "container.network_policy"),
        ({**AUTO, "container": {"type": "docker"}}, "container.type"),
    ],
)
def test_a_setting_of_a_tool_that_cannot_be_honoured_is_named(
    toolbox: Toolbox, tool: dict[str, Any], param: str
) -> None:
    with running(oss_app(ANSWER, tools=toolbox)) as base:
        got = respond(base, {"tools": [tool]})
    assert (got.status, got.error["param"]) == (400, f"tools[0].{param}")


@pytest.mark.parametrize("tool", [AUTO, DOCS])
def test_a_tool_that_is_off_is_refused_by_name(tool: dict[str, Any]) -> None:
    with running(oss_app(ANSWER)) as base:
        got = respond(base, {"tools": [tool]})
    assert (got.status, got.error["code"]) == (400, "unsupported_parameter")
    assert got.error["param"] in ("tools[0].type", "tools[0].server_label")


def test_settings_that_change_nothing_are_noted(toolbox: Toolbox) -> None:
    located = {**SEARCHES, "search_context_size": "low", "user_location": {"type": "approximate"}}
    tools = [
        located,
        {**AUTO, "container": {"type": "auto", "memory_limit": "1g"}},
        {**DOCS, "require_approval": "never"},
    ]
    with running(oss_app(harmony_ids(*FINAL), tools=toolbox)) as base:
        got = respond(base, {"tools": tools})
    assert got.status == 200
    ignored = "tools[0].search_context_size, tools[0].user_location, tools[1].container.memory_limit"
    assert got.headers["x-antiphon-ignored"] == ignored


def test_a_search_of_what_is_stored_alone_is_not_offered(toolbox: Toolbox) -> None:
    with running(oss_app(harmony_ids(*FINAL), tools=toolbox)) as base:
        got = respond(base, {"tools": [{**SEARCHES, "external_web_access": False}]})
    assert (got.json["tools"], got.headers["x-antiphon-ignored"]) == ([], "tools[0].type=web_search")


def test_only_the_tools_that_are_allowed_are_offered(toolbox: Toolbox) -> None:
    engine = scripted(harmony_ids(*FINAL))
    with running(responses_app(oss=engine, tools=toolbox)) as base:
        for allowed in (["size"], [], {"tool_names": ["size"]}, {"read_only": False}):
            assert respond(base, {"tools": [{**DOCS, "allowed_tools": allowed}]}).status == 200
    prompts = [bytes(id for id in prompt if id < 256).decode() for prompt, *_ in engine.requests]
    offered = ["docs__size" in prompt for prompt in prompts]
    assert offered == [True, False, True, True]
