"""Calls of tools that are not there: the model is told what there is and goes on; nobody is shown them as an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.conversation import ToolNamespace
from antiphon.formats.harmony.header import offered_names
from antiphon.tokens import decode
from antiphon.tools import FunctionToolSet, Toolbox, ToolCall, ToolOutput
from antiphon.tools.call import DescribedToolSet
from kit.api import END as IM_END
from kit.api import TOKENIZER, app, call, post_in_process, replies
from kit.messages import accumulated
from kit.messages import events_of as blocks_of
from kit.responses import events_of
from kit.tool_loops import CHAT_TOOL, QUESTION, check_goes_on, oss_app, plays, prompts, spelled, thinking
from kit.tool_loops import call as weather

Json = dict[str, Any]
FINAL = "<|channel|>final<|message|>Done.<|return|>"
EXEC = thinking("SECRET.") + '<|channel|>analysis to=container.exec code<|message|>{"cmd":["ls"]}<|call|>'


class Python:
    """Says what it ran."""

    recipient = "python"
    parameters = None

    async def run(self, call: ToolCall, arguments: object) -> ToolOutput:
        return ToolOutput(content=f"RAN {call.body}", plain=True)


class Built(DescribedToolSet):
    """Python as a built-in, and a function of the server's."""

    def __init__(self) -> None:
        super().__init__(FunctionToolSet([shout]).tools)  # type: ignore[arg-type]

    @property
    def tools(self) -> tuple[Any, ...]:
        return (Python(), *self._tools)

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return (ToolNamespace("python", description="Runs Python."),)


def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()


PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat")


async def asked(application: Any, path: str, *messages: Json, stream: bool = False, **fields: Any) -> tuple[Any, str]:
    """The answer: its text as its client reads it, and the names of the incidents."""
    body: Json = {"messages": [{"role": "user", "content": QUESTION}, *messages], "stream": stream, "model": "oss"}
    if path == "/v1/responses":
        body["input"] = body.pop("messages")
    if path == "/v1/messages":
        body["max_tokens"] = 400
    got = await post_in_process(application, path, **body, **fields)
    assert got.status == 200, got.body
    assert b"cmd" not in got.body or path == "/v1/responses", "of Responses it is an item of a call"
    return got, text_of(got, path, stream=stream)


def text_of(got: Any, path: str, *, stream: bool) -> str:
    match path:
        case "/v1/chat/completions" if stream:
            choices = [choice for event in got.events[:-1] for choice in event["choices"]]
            return "".join(choice["delta"].get("content") or "" for choice in choices)
        case "/v1/chat/completions":
            return str(got.json["choices"][0]["message"]["content"] or "")
        case "/v1/responses":
            response = events_of(got)[-1]["response"] if stream else got.json
            messages = [item for item in response["output"] if item["type"] == "message"]
            return "".join(part["text"] for item in messages for part in item["content"])
        case "/v1/messages":
            answer = accumulated(blocks_of(got)) if stream else got.json
            return "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        case _:
            lines = [json.loads(line) for line in got.body.splitlines() if line]
            return "".join(line["message"]["content"] for line in lines)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_the_model_is_told_what_there_is_and_goes_on(path: str, stream: bool) -> None:
    engine = plays(EXEC, FINAL)
    got, text = await asked(oss_app(engine, tools=Toolbox([Built()]), offer_tools=True), path, stream=stream)
    assert text == "Done."
    assert stream or got.headers["x-antiphon-incidents"] == "call_not_allowed"
    check_goes_on(engine, [EXEC])
    assert "there is no tool 'container.exec'; there are functions.shout, python" in spelled(prompts(engine)[1])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_twice_at_most_and_then_it_is_still_no_answer(path: str, stream: bool) -> None:
    engine = plays(EXEC)
    _, text = await asked(oss_app(engine, tools=Toolbox([Built()]), offer_tools=True), path, stream=stream)
    assert (text, len(engine.requests)) == ("", 3)


@pytest.mark.parametrize(
    "made",
    [
        EXEC,
        "<|channel|>commentary to=python code<|message|>print(3)<|call|>",
        "<|channel|>analysis to=python<|message|>print(3)<|call|>",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{'a': 1}<|call|>",
        '<|channel|>commentary to=functions.f<|message|>["a"]<|call|>',
    ],
)
async def test_where_the_server_runs_no_tools_it_is_not_shown(made: str) -> None:
    application = oss_app(plays(made))
    for path in PATHS:
        for stream in (False, True):
            got, text = await asked(application, path, stream=stream)
            assert text == ""
            assert b"print(" not in got.body
            assert stream or "call_not_allowed" in got.headers["x-antiphon-incidents"]


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        "<|channel|>commentary to=bob<|message|>Hello, Bob.<|call|>",
        "<|channel|>commentary to=bob<|message|>[1] says so.<|call|>",
        '<|channel|>commentary to=bob<|message|>{"a": 1}<|return|>',
        "<|channel|>commentary to=nobody<|message|>Hello.<|return|>",
        f"<|channel|>commentary to=bob<|message|><|end|><|start|>assistant{FINAL}",
    ],
)
async def test_a_text_that_is_for_no_tool_is_the_answer_whomever_its_header_names(said: str, served: bool) -> None:
    options: Json = {"tools": Toolbox([Built()]), "offer_tools": True} if served else {}
    engine = plays(said)
    _, text = await asked(oss_app(engine, **options), "/v1/chat/completions")
    assert text == said.rsplit("<|message|>", 1)[1].partition("<|")[0]
    assert len(engine.requests) == 1


@pytest.mark.parametrize("recipient", ["python.exec", "python.run", "functions.python"])
async def test_a_built_in_under_another_name_runs(recipient: str) -> None:
    made = f"<|channel|>analysis to={recipient} code<|message|>print(3)<|call|>"
    for path in PATHS:
        engine = plays(made, FINAL)
        _, text = await asked(oss_app(engine, tools=Toolbox([Built()]), offer_tools=True), path)
        assert text == "Done."
        check_goes_on(engine, [made])
        assert "RAN print(3)" in spelled(prompts(engine)[1])


def test_names_that_mean_one_built_in_are_its_own_and_a_function_s_name_is_the_function_s() -> None:
    names = offered_names(["python", "browser.search", "browser.open", "functions.search", "functions.f"])
    meant = {
        "python.exec": "python",
        "functions.python": "python",
        "functions.browser.search": "browser.search",
        "functions.open": "browser.open",
        "open": "browser.open",
        "functions.search": "functions.search",
        "f": "functions.f",
    }
    assert {name: names[name] for name in meant} == meant
    assert not {"browser", "browser.run", "search", "functions.browser", "container.exec"} & names.keys()


async def test_a_client_s_tool_stays_the_client_s_beside_one_that_is_not_there() -> None:
    """Its next prompt has both, with the result that the server gave."""
    turns = (EXEC, thinking("SECRET 2.") + weather("Bern"), FINAL)
    engine = plays(*turns)
    application = oss_app(engine, tools=Toolbox([Built()]), offer_tools=True)
    got, _ = await asked(application, "/v1/chat/completions", tools=[CHAT_TOOL])
    message = got.json["choices"][0]["message"]
    assert [one["function"]["name"] for one in message["tool_calls"]] == ["weather"]
    answer = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "dry"}
    _, text = await asked(application, "/v1/chat/completions", message, answer, tools=[CHAT_TOOL])
    assert text == "Done."
    check_goes_on(engine, turns[:2])


@pytest.mark.parametrize("name", ["whisper", "browser.search"])
async def test_so_it_is_in_a_template_s_form_of_calls(name: str) -> None:
    made: Sequence[Any] = (*call(name, "{}"), IM_END)
    engine = replies(made, ("Done.", IM_END))
    application = app(engine, tools=Toolbox([FunctionToolSet([shout])]), offer_tools=True)
    got = await post_in_process(application, "/v1/chat/completions", messages=[{"role": "user", "content": "x"}])
    message = got.json["choices"][0]["message"]
    assert (message["content"], message.get("tool_calls")) == ("Done.", None)
    assert f"there is no tool 'functions.{name}'; there are shout" in decode(TOKENIZER, engine.requests[1][0])
