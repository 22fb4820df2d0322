"""POST /v1/parse: with the chat request that a reply answers, at once, and part by part with a state between."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.generation import Model
from antiphon.http.gate.keys import new_key
from kit.api import (
    CALL,
    CHATML,
    END,
    START,
    THINK,
    TOKENIZER,
    UNTHINK,
    app,
    call,
    ids,
    post,
    post_in_process,
    request,
    running,
    served,
)
from kit.family_server import family

HI = [{"role": "user", "content": "Hi"}]
KEY = bytes(range(32))
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"zip": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
REPLY = ids(THINK, "hm " * 9, UNTHINK, "Look: ", *call("f", '{"zip": "02134", "days": 3}'), END)

base = served(lambda: app(REPLY))


def ask(base: str, **fields: Any) -> Any:
    got = post(base, "/v1/parse", **fields)
    assert got.status == 200, got.body
    return got.json


def parts(base: str, reply: list[int] | str, size: int, **same: Any) -> list[Any]:
    """The answers to all parts, the last with the end."""
    state, answers = "", []
    for at in range(0, len(reply), size):
        more: dict[str, Any] = {"text" if isinstance(reply, str) else "ids": reply[at : at + size], "state": state}
        answers.append(ask(base, **more, **same))
        state = answers[-1]["state"]
        if state is None:
            break
    return answers


def joined(answers: list[Any]) -> dict[str, Any]:
    """The message that a client of a chat's stream reads."""
    read: dict[str, Any] = {"content": "", "reasoning": "", "calls": []}
    for answer in answers:
        (choice,) = answer["chunk"]["choices"]
        delta = choice["delta"]
        read["content"] += delta.get("content", "")
        read["reasoning"] += delta.get("reasoning", "")
        for one in delta.get("tool_calls", ()):
            if "id" in one:
                read["calls"].append([one["id"], one["function"]["name"], ""])
            read["calls"][one["index"]][2] += one["function"]["arguments"]
        read["finish"] = choice["finish_reason"]
    return read


# A whole reply, with the request that it answers.


def test_arguments_are_typed_by_the_tools_and_are_not_without_them() -> None:
    qwen = family("xml parameter")
    reply = "<tool_call>\n<function=f>\n<parameter=zip>\n02134\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    reply += "</function>\n</tool_call>"
    with running(qwen.app(reply)) as base:
        typed = ask(base, text=reply, tools=[TOOL])["message"]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(typed) == {"zip": "02134", "days": 3}
        (state, *_), answers = [""], parts(base, qwen.ids(reply), 7, tools=[TOOL], messages=HI)
        assert state == ""
        assert answers[-1]["state"] is not None, "nothing ended it"


def test_what_is_not_offered_is_no_call_where_the_request_is_known(base: str) -> None:
    assert ask(base, ids=REPLY)["message"]["tool_calls"][0]["function"]["name"] == "f"
    of_chat = ask(base, ids=REPLY, messages=HI)
    assert "tool_calls" not in of_chat["message"]
    assert "call_not_allowed" in {one["code"] for one in of_chat["incidents"]}
    none = ask(base, ids=REPLY, tools=[TOOL], tool_choice="none")
    assert "tool_calls" not in none["message"]


def test_the_prompt_of_the_messages_tells_where_the_reply_begins() -> None:
    qwen = family("hermes")
    with running(qwen.app("")) as base:
        inside = ask(base, text="hm\n</think>\n\nYes.", messages=HI, prompt_ids=qwen.ids("<think>\n"))
        assert (inside["message"]["reasoning"], inside["message"]["content"]) == ("hm", "Yes.")


def test_json_that_was_requested_is_no_call(base: str) -> None:
    text = '{"name": "f", "arguments": {}}'
    as_call = ask(base, text=text, tools=[TOOL])
    assert as_call["message"]["tool_calls"][0]["function"]["name"] == "f"
    as_json = ask(base, text=text, tools=[TOOL], response_format={"type": "json_object"})
    assert as_json["message"]["content"] == text


@pytest.mark.parametrize(("finish", "read"), [("stop", "tool_calls"), ("length", "length"), (None, "tool_calls")])
def test_why_sampling_ended_is_why_the_reply_did(base: str, finish: str | None, read: str) -> None:
    cut = ids(*call("f", '{"zip": "0213')[:-1], '{"zip": "0213')
    answer = ask(base, ids=cut if finish == "length" else REPLY, finish_reason=finish, tools=[TOOL])
    assert answer["finish_reason"] == read


def test_what_comes_behind_the_end_is_told_and_no_message(base: str) -> None:
    answer = ask(base, ids=[*ids("a", END), *ids("b")])
    assert (answer["message"]["content"], answer["ended"]) == ("a", "<|im_end|>")
    assert [(one["code"], one["text"]) for one in answer["incidents"]] == [("after_end", "b")]


# Part by part.


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_parts_are_the_reply_at_once(base: str, size: int) -> None:
    answers = parts(base, REPLY, size, tools=[TOOL], messages=HI)
    whole, read = ask(base, ids=REPLY, tools=[TOOL], messages=HI), joined(answers)
    assert (read["content"], read["reasoning"]) == (whole["message"]["content"], whole["message"]["reasoning"])
    ((id, name, arguments),) = read["calls"]
    assert {"name": name, "arguments": arguments} == whole["message"]["tool_calls"][0]["function"]
    assert id.startswith("call_")
    assert (read["finish"], answers[-1]["ended"], answers[-1]["state"]) == ("tool_calls", "<|im_end|>", None)
    assert len({answer["chunk"]["id"] for answer in answers}) == 1
    assert {answer["chunk"]["choices"][0]["delta"].get("role") for answer in answers[1:]} <= {None}


def test_incidents_are_where_the_reply_was_when_they_were_found(base: str) -> None:
    """However it is cut."""
    reply = ids("a long text ", START, "b", END)
    for size in (1, 5, 100):
        found = [one for answer in parts(base, reply, size) for one in answer["incidents"]]
        assert found == [{"code": "unexpected_control", "position": 13, "text": "<|im_start|>"}]


def test_a_text_is_read_in_parts_too_and_its_end_is_said(base: str) -> None:
    first = ask(base, text="<think>h", state="")
    second = ask(base, text="m</thi", state=first["state"])
    last = ask(base, text="nk>Yes.", state=second["state"], finish_reason="stop")
    read = joined([first, second, last])
    assert (read["reasoning"], read["content"], read["finish"], last["state"]) == ("hm", "Yes.", "stop", None)


PARSING: Starlette = app(ids(END))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 261), min_size=1, max_size=60), st.integers(1, 9))
async def test_no_reply_is_too_broken_to_be_read_in_parts(reply: list[int], size: int) -> None:
    state: str | None = ""
    for at in range(0, len(reply), size):
        got = await post_in_process(PARSING, "/v1/parse", ids=reply[at : at + size], state=state, tools=[TOOL])
        assert got.status == 200, got.body
        state = got.json["state"]
        if state is None:
            return
        assert len(state) <= 4096


def test_a_state_stays_small_and_the_answer_whole_however_long_the_reply(base: str) -> None:
    longest, state, text = 0, "", ""
    for number in range(60):
        part = ask(base, text=f'It said "{number}": and more.\n\n' * 20, state=state)
        state, longest = part["state"], max(longest, len(part["state"]))
        text += part["chunk"]["choices"][0]["delta"].get("content", "")
    assert text.count("It said") == 60 * 20
    assert longest < 1000


def test_another_replica_goes_on_where_it_has_the_key() -> None:
    def replica() -> Starlette:
        model = Model(name="small", engine=ScriptedEngine([]), tokenizer=TOKENIZER, format=CHATML)
        return create_app(StaticCatalog({"small": model}), reasoning_key=KEY)

    with running(replica()) as one, running(replica()) as other:
        answers = [ask(one, ids=REPLY[:30], state="")]
        answers.append(ask(other, ids=REPLY[30:], state=answers[0]["state"]))
    assert joined(answers)["reasoning"] == "hm " * 8 + "hm"
    assert joined(answers)["finish"] == "tool_calls"


# What is wrong is named.


def test_a_state_is_of_one_request(base: str) -> None:
    state = ask(base, ids=REPLY[:9], state="", tools=[TOOL])["state"]
    ask(base, ids=REPLY[9:], state=state, tools=[TOOL])
    for other in ({}, {"tools": [TOOL], "messages": HI}, {"tools": [TOOL], "prompt_ids": [1]}):
        got = post(base, "/v1/parse", ids=REPLY[9:], state=state, **other)
        assert (got.status, got.error["code"], got.error["param"]) == (400, "invalid_state", "state")


@pytest.mark.parametrize("change", [lambda s: s[:-4], lambda s: "AAAA" + s[4:], lambda s: s * 200, lambda s: "é"])
def test_a_state_that_was_changed_is_refused(base: str, change: Any) -> None:
    state = ask(base, ids=REPLY[:9], state="")["state"]
    got = post(base, "/v1/parse", ids=REPLY[9:], state=change(state))
    assert (got.status, got.error["code"]) == (400, "invalid_state")


def test_a_state_is_of_one_key() -> None:
    (alice, first), (bob, second) = new_key("alice"), new_key("bob")
    with running(app(REPLY, keys=[first, second])) as base:

        def parsed(secret: str, **fields: Any) -> Any:
            body, bearer = json.dumps(fields).encode(), f"Bearer {secret}"
            return request(base, "POST", "/v1/parse", body, content_type="application/json", authorization=bearer)

        state = parsed(alice, ids=REPLY[:9], state="").json["state"]
        assert parsed(alice, ids=REPLY[9:], state=state).status == 200
        assert parsed(bob, ids=REPLY[9:], state=state).error["code"] == "invalid_state"


def test_a_reply_comes_as_ids_or_as_text(base: str) -> None:
    state = ask(base, ids=REPLY[:9], state="")["state"]
    got = post(base, "/v1/parse", text="more", state=state)
    assert (got.status, got.error["code"]) == (400, "invalid_value")


def test_too_much_that_waits_to_be_decided_is_said_and_the_reply_can_be_sent_whole(base: str) -> None:
    waits = '{"name": "f", "arguments": {"zip": ' + "".join(f"[{number * 7919}, " for number in range(800))
    got = post(base, "/v1/parse", text=waits, state="", tools=[TOOL])
    assert (got.status, got.error["code"], got.error["param"]) == (400, "state_too_long", "state")
    assert "send the whole reply at once" in got.error["message"]


def test_what_would_be_read_again_with_each_part_is_bounded_too(base: str) -> None:
    """Of so many equal marks a state would be short, and long to read."""
    got = post(base, "/v1/parse", ids=[TOKENIZER.controls[CALL]] * 5000, state="", tools=[TOOL])
    assert (got.status, got.error["code"]) == (400, "state_too_long")
    assert ask(base, ids=[TOKENIZER.controls[CALL]] * 5000, tools=[TOOL])["incidents"]


def test_sessions_have_no_replies_to_parse(base: str) -> None:
    got = post(base, "/v1/parse", text="a", session_id="s")
    assert (got.status, got.error["param"]) == (400, "session_id")
