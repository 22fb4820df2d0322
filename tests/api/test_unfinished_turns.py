"""What chat clients are not shown of a turn is in their next prompt, however they write it, and in no one else's."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.errors import StoreError
from antiphon.http.gate.keys import new_key
from antiphon.store import MemoryStore, Record, SessionLimits, TurnLimits
from antiphon.store.store import Delete, Key, Write
from antiphon.tokens import Piece, decode
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import CALL, THINK, TOKENIZER, UNCALL, UNTHINK, app, chat, ids, post, request, running, scripted
from kit.api import END as IM_END
from kit.family_server import family
from kit.program import serving
from kit.tool_loops import (
    CHAT_TOOL,
    QUESTION,
    REPLIES,
    call,
    check_goes_on,
    oss,
    oss_app,
    plays,
    prompts,
    spelled,
    thinking,
)

ASKED: dict[str, Any] = {"role": "user", "content": QUESTION}
SECRET = "SECRET 0."


@contextmanager
def served(*replies: str, **options: Any) -> Iterator[tuple[str, ScriptedEngine]]:
    engine = plays(*(replies or REPLIES))
    with running(oss_app(engine, **options)) as base:
        yield base, engine


def asked(base: str, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The assistant's message that answers the question and ``messages``."""
    got = chat(base, messages=[ASKED, *messages], tools=[CHAT_TOOL], **fields)
    assert got.status == 200, got.body
    message: dict[str, Any] = got.json["choices"][0]["message"]
    assert "SECRET" not in json.dumps(message)
    return message


def result(call: dict[str, Any], content: str = "dry") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def with_call(message: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The message with another id of its call, or with another function."""
    (call,) = message["tool_calls"]
    id = changes.pop("id", call["id"])
    return {
        **message,
        "tool_calls": [{"id": id, "type": "function", "function": {**call["function"], **changes}}],
    }


def legacy(message: dict[str, Any]) -> dict[str, Any]:
    (call,) = message["tool_calls"]
    return {"role": "assistant", "content": None, "function_call": call["function"]}


THE_SAME: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "as it came": lambda message: message,
    "without content": lambda message: {"role": "assistant", "tool_calls": message["tool_calls"]},
    "an empty text": lambda message: {**message, "content": ""},
    "empty parts": lambda message: {**message, "content": [{"type": "text", "text": ""}]},
    "blanks for a text": lambda message: {**message, "content": " \n"},
    "arguments anew": lambda message: with_call(message, arguments='{"city":"Bern"}'),
    "arguments with escapes": lambda message: with_call(message, arguments='{ "c\\u0069ty" : "B\\u0065rn" }'),
    "arguments as an object": lambda message: with_call(message, arguments={"city": "Bern"}),
    "an id of the client's": lambda message: with_call(message, id="a1b2c3d4e"),
    "the reasoning, as if it were shown": lambda message: {**message, "reasoning_content": SECRET},
    "of the old form": legacy,
}


@pytest.mark.parametrize("way", THE_SAME)
def test_what_is_the_same_to_the_client_is_what_the_model_wrote(way: str) -> None:
    with served() as (base, engine):
        message = THE_SAME[way](asked(base))
        calls = message.get("tool_calls", [])
        answers = [result(call) for call in calls] or [{"role": "function", "name": "weather", "content": "dry"}]
        asked(base, message, *answers)
    check_goes_on(engine, REPLIES[:1])
    assert spelled(prompts(engine)[1]).count("SECRET") == 1


CHANGED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "other arguments": lambda message: with_call(message, arguments='{"city": "Basel"}'),
    "another function": lambda message: with_call(message, name="rain"),
    "a text": lambda message: {**message, "content": "I look."},
    "reasoning of the client's own": lambda message: {**message, "reasoning": "Mine."},
}


@pytest.mark.parametrize("way", CHANGED)
def test_what_the_client_changed_stays_the_client_s(way: str) -> None:
    with served() as (base, engine):
        message = CHANGED[way](asked(base))
        asked(base, message, result(message["tool_calls"][0]))
    prompt = spelled(prompts(engine)[1])
    assert "SECRET" not in prompt
    said = {"other arguments": "Basel", "another function": "functions.rain", "a text": "I look."}.get(way, "Mine.")
    assert said in prompt


def test_ids_that_are_new_need_the_messages_before_to_be_the_same() -> None:
    with served() as (base, engine):
        message = with_call(asked(base), id="mine")
        chat(base, messages=[{"role": "user", "content": "Another?"}, message, result(message["tool_calls"][0])])
        same_id = asked(base)
        before = [{"role": "system", "content": "It is noon."}, {"role": "user", "content": "Another?"}]
        chat(base, messages=[*before, same_id, result(same_id["tool_calls"][0])], tools=[CHAT_TOOL])
    assert "SECRET" not in spelled(prompts(engine)[1])
    assert "SECRET" in spelled(prompts(engine)[3]), "our own ids are in no other conversation"


def test_nothing_is_looked_for_before_the_last_answer() -> None:
    with served() as (base, engine):
        message = asked(base)
        answered = {"role": "assistant", "content": "Dry."}
        asked(base, message, result(message["tool_calls"][0]), answered, {"role": "user", "content": "Sure?"})
    assert "SECRET" not in spelled(prompts(engine)[1])


def test_a_user_who_speaks_before_the_answer_ends_nothing() -> None:
    with served() as (base, engine):
        message = asked(base)
        asked(base, message, result(message["tool_calls"][0]), {"role": "user", "content": "Hurry."})
    assert "SECRET" in spelled(prompts(engine)[1])


def test_another_key_s_turn_is_not_there() -> None:
    (ann, anns), (bob, bobs) = new_key("ann"), new_key("bob")

    def as_who(base: str, key: str, *messages: dict[str, Any]) -> Any:
        body = json.dumps({"messages": [ASKED, *messages], "tools": [CHAT_TOOL]}).encode()
        bearer = {"content_type": "application/json", "authorization": f"Bearer {key}"}
        got = request(base, "POST", "/v1/chat/completions", body, **bearer)
        assert got.status == 200, got.body
        return got.json["choices"][0]["message"]

    with served(keys=[anns, bobs]) as (base, engine):
        message = as_who(base, ann)
        as_who(base, bob, message, result(message["tool_calls"][0]))
        as_who(base, ann, message, result(message["tool_calls"][0]))
    _, of_bob, of_ann = map(spelled, prompts(engine))
    assert "SECRET" not in of_bob
    assert "SECRET" in of_ann


def test_another_model_does_not_get_it() -> None:
    first, other = plays(*REPLIES), plays(REPLIES[-1])
    models = {"oss": oss(first), "other": oss(other)}
    models["other"] = type(models["oss"])(
        name="other", engine=other, tokenizer=models["oss"].tokenizer, format=models["oss"].format
    )
    with running(create_app(StaticCatalog(models))) as base:
        message = asked(base, model="oss")
        asked(base, message, result(message["tool_calls"][0]), model="other")
    assert "SECRET" not in spelled(prompts(other)[0])


@pytest.mark.parametrize(
    ("path", "id"),
    [
        ("/mindie/v1/chat/completions", None),
        ("/databricks/v1/chat/completions", "tool_call_id"),
        ("/serving-endpoints/oss/invocations", "tool_call_id"),
        ("/lmdeploy/v1/chat/completions", "tool_call_id"),
    ],
)
def test_every_dialect_s_clients_get_it(path: str, id: str | None) -> None:
    with served() as (base, engine):
        fields: dict[str, Any] = {"model": "oss", "tools": [CHAT_TOOL], "stream": False}
        first = post(base, path, messages=[ASKED], **fields)
        assert first.status == 200, first.body
        message = first.json["choices"][0]["message"]
        answer = {"role": "tool", "content": "dry", **({id: message["tool_calls"][0]["id"]} if id else {})}
        assert post(base, path, messages=[ASKED, message, answer], **fields).status == 200
    check_goes_on(engine, REPLIES[:1])


def test_each_of_several_choices_has_its_own_reasons() -> None:
    turns = [thinking(f"SECRET {i}.") + call("Bern") for i in range(3)]
    with served(*turns, REPLIES[-1]) as (base, engine):
        got = chat(base, messages=[ASKED], tools=[CHAT_TOOL], n=3).json
        for choice in got["choices"]:
            message = choice["message"]
            asked(base, message, result(message["tool_calls"][0]))
    for number, prompt in enumerate(prompts(engine)[1:]):
        assert spelled(prompt).count("SECRET") == spelled(prompt).count(f"SECRET {number}.") == 1


def test_a_stream_s_turn_is_there_when_its_end_is_read() -> None:
    with served() as (base, engine):
        host, port = base.removeprefix("http://").split(":")
        body = json.dumps({"messages": [ASKED], "tools": [CHAT_TOOL], "stream": True}).encode()
        lines = ("POST /v1/chat/completions HTTP/1.1", "host: x", "content-type: application/json")
        head = "\r\n".join((*lines, f"content-length: {len(body)}", "", ""))
        with socket.create_connection((host, int(port))) as client:
            client.sendall(head.encode() + body)
            read = b""
            while b'"finish_reason":"tool_calls"' not in read:
                read += client.recv(1)  # And no byte more: this client hangs up with the call's end.
        (id,) = set(re.findall(rb"call_[0-9A-Za-z]{16}", read))
        function = {"name": "weather", "arguments": '{"city": "Bern"}'}
        message = {"role": "assistant", "tool_calls": [{"id": id.decode(), "type": "function", "function": function}]}
        asked(base, message, result({"id": id.decode()}))
    check_goes_on(engine, REPLIES[:1])


def thought(text: str) -> tuple[Piece, ...]:
    """A thought as the template writes it."""
    return THINK, f"\n{text}\n", UNTHINK, "\n\n"


def called(name: str, arguments: str) -> tuple[Piece, ...]:
    return "\n", CALL, f'\n{{"name": "{name}", "arguments": {arguments}}}\n', UNCALL


PARALLEL = (*thought("Both. SECRET"), *called("f", '{"a": 1}'), *called("g", '{"b": 2.0}'), IM_END)
FG = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in "fg"]


def test_calls_that_are_left_out_or_sent_one_by_one_have_their_reasons_once() -> None:
    """Other APIs want a result for each call, or one call a message; the text beside calls is not taken by all."""
    replies = ((*thought("Both. SECRET"), "I look.", *PARALLEL[4:]), ("Done.", IM_END))
    engine = scripted(lambda prompt, sampling, choice: ids(*replies[len(engine.requests) > 1]))
    with running(app(engine)) as base:
        message = chat(base, messages=[ASKED], tools=FG).json["choices"][0]["message"]
        first, second = ({"role": "assistant", "tool_calls": [call]} for call in message["tool_calls"])
        turned = {**message, "tool_calls": message["tool_calls"][::-1]}
        one, other = (result(call) for call in message["tool_calls"])
        first_id, second_id = (call["id"] for call in message["tool_calls"])
        swapped = [{**call, "id": id} for call, id in zip(message["tool_calls"], (second_id, first_id), strict=True)]
        histories = (
            [second, other],
            [first, one, second, other],
            [turned, other, one],
            [{**first, "content": "!"}, one],
            [{**message, "tool_calls": swapped}, result(swapped[0], "of f"), result(swapped[1], "of g")],
        )
        for history in histories:
            assert chat(base, messages=[ASKED, *history], tools=FG).status == 200
    sent = [decode(TOKENIZER, prompt) for prompt, _, _ in engine.requests[1:]]
    assert [prompt.count("SECRET") for prompt in sent] == [1, 1, 1, 0, 1]
    assert [prompt.count("I look.") for prompt in sent] == [1, 1, 1, 0, 1]
    assert sent[4].index("of f") < sent[4].index("of g")
    calls = [(prompt.count('"f", "arguments"'), prompt.count('"g", "arguments"')) for prompt in sent]
    assert calls == [(0, 1), (1, 1), (1, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1,)])
def test_calls_beside_each_other_are_answered_in_any_order_and_in_part(order: Sequence[int]) -> None:
    engine = scripted(lambda prompt, sampling, choice: ids(*PARALLEL))
    with running(app(engine)) as base:
        message = chat(base, messages=[ASKED], tools=FG).json["choices"][0]["message"]
        message["tool_calls"][1]["function"]["arguments"] = '{"b":2}'
        answers = [result(message["tool_calls"][i], f"r{i}") for i in order]
        chat(base, messages=[ASKED, message, *answers], tools=FG)
    first, second = (list(prompt) for prompt, _, _ in engine.requests)
    begun = [*first, *ids(*PARALLEL)]
    assert second[: len(begun)] == begun


def test_what_the_server_s_tools_did_before_the_client_s_call_comes_back() -> None:
    def look(place: str) -> str:
        return f"LOOKED at {place}"

    turns = (
        (*thought("SECRET 1"), "First.", *called("look", '{"place": "x"}'), IM_END),
        (*thought("SECRET 2"), "Then.", *called("f", "{}"), IM_END),
        ("Done.", IM_END),
    )
    said = iter(turns)
    engine = scripted(lambda prompt, sampling, choice: ids(*next(said)))
    with running(app(engine, tools=Toolbox([FunctionToolSet([look])]))) as base:
        fields: Any = {"tools": FG[:1], "server_tools": True}
        message = chat(base, messages=[ASKED], **fields).json["choices"][0]["message"]
        assert message["content"] == "First.\n\nThen."
        assert [one["function"]["name"] for one in message["tool_calls"]] == ["f"]
        chat(base, messages=[ASKED, message, result(message["tool_calls"][0])], **fields)
    _, second, third = (list(prompt) for prompt, _, _ in engine.requests)
    assert b"LOOKED" in bytes(id for id in second if id < 256)
    begun = [*second, *ids(*turns[1])]
    assert third[: len(begun)] == begun


def test_a_client_that_may_not_see_it_is_not_shown_it() -> None:
    with served() as (base, _):
        message = asked(base)
        history = [ASKED, message, result(message["tool_calls"][0])]
        refused = chat(base, messages=history, return_token_ids=True)
        assert (refused.status, refused.error["code"]) == (403, "E-PERM-VISIBILITY")
        rendered = post(base, "/v1/render", messages=history)
    assert rendered.status == 200
    assert b"SECRET" not in rendered.body


def test_ids_of_a_prompt_are_not_those_of_what_the_server_s_tools_said() -> None:
    """A model that does not reason has ids for every client, but not of results that its answer left out."""

    def look(place: str) -> str:
        return f"LOOKED at {place}"

    model = family("mistral list")
    calls = [
        {"role": "assistant", "tool_calls": [{"id": f"call0000{i}", "type": "function", "function": function}]}
        for i, function in enumerate(
            ({"name": "look", "arguments": {"place": "x"}}, {"name": "f", "arguments": {"a": 1}})
        )
    ]
    engine = model.plays(lambda number: model.says(calls[min(number, 1)], FG))
    application = create_app(
        StaticCatalog({"small": model.model("small", engine)}), tools=Toolbox([FunctionToolSet([look])])
    )
    with running(application) as base:
        first = chat(base, messages=[ASKED], tools=FG, server_tools=True).json["choices"][0]["message"]
        history = [ASKED, first, result(first["tool_calls"][0])]
        with_ids = chat(base, messages=history, tools=FG, return_token_ids=True).json["prompt_token_ids"]
        chat(base, messages=history, tools=FG)
    assert "LOOKED" not in model.spelled(with_ids)
    assert "LOOKED" in model.spelled(engine.requests[-1][0])


PROGRAM = f"""
model = "demo"
[models.demo]
engine = "scripted"
format = "harmony"
tokenizer = "o200k_harmony"
reply = '{REPLIES[0].removesuffix("<|call|>")}'
"""


def test_processes_that_share_a_store_share_turns(tmp_path: Path) -> None:
    """The prompt is as long as it is for the process that wrote the turn, and shorter where the turn is not found."""
    (tmp_path / "config.toml").write_text(PROGRAM)

    def answered(base: str, *messages: dict[str, Any]) -> tuple[dict[str, Any], int]:
        got = chat(base, messages=[ASKED, *messages], tools=[CHAT_TOOL])
        assert got.status == 200, got.body
        return got.json["choices"][0]["message"], got.json["usage"]["prompt_tokens"]

    with serving(tmp_path) as (_, one), serving(tmp_path) as (_, two):
        message, _ = answered(one)
        answers = [result(message["tool_calls"][0])]
        lengths = [answered(base, message, *answers)[1] for base in (one, two)]
        _, without = answered(two, {**message, "content": "!"}, *answers)
    assert lengths[0] == lengths[1] > without


def test_a_turn_expires_unless_it_is_gone_on_with() -> None:
    now = 1e9
    limits = SessionLimits(turns=TurnLimits(lifetime=100))
    with served(clock=lambda: now, session_limits=limits) as (base, engine):
        message = asked(base)
        history = [message, result(message["tool_calls"][0])]
        for after, there in ((60, True), (90, True), (110, False)):
            now += after
            asked(base, *history)
            assert (SECRET in spelled(prompts(engine)[-1])) is there


def test_it_can_be_off_and_what_is_large_is_not_stored(caplog: pytest.LogCaptureFixture) -> None:
    for limits, logged in ((TurnLimits(lifetime=0), False), (TurnLimits(bytes=20), True)):
        caplog.clear()
        options: Any = {"store": MemoryStore(), "session_limits": SessionLimits(turns=limits)}
        with caplog.at_level(logging.WARNING), served(**options) as (base, engine):
            message = asked(base)
            asked(base, message, result(message["tool_calls"][0]))
        assert "SECRET" not in spelled(prompts(engine)[1])
        assert ("an unfinished turn is not stored" in caplog.text) is logged


@pytest.mark.one_process("each process stores so many")
def test_of_each_owner_the_latest_are_stored() -> None:
    store = MemoryStore()
    limits, found = SessionLimits(turns=TurnLimits(count=2)), []
    answer = REPLIES[-1]
    with served(*REPLIES[:1] * 4, answer, store=store, session_limits=limits) as (base, engine):
        messages = [asked(base, {"role": "user", "content": str(i)}) for i in range(4)]
        for i, message in enumerate(messages):
            asked(base, {"role": "user", "content": str(i)}, message, result(message["tool_calls"][0]))
            found.append("SECRET" in spelled(prompts(engine)[-1]))
    assert found == [False, False, True, True]


def test_an_answer_without_a_call_stores_nothing() -> None:
    store = MemoryStore()
    with served(*REPLIES[3:], store=store) as (base, _):
        asked(base)
        assert not store._records


class BrokenStore(MemoryStore):
    async def put_all(self, *writes: Write | Delete) -> None:
        raise StoreError("No room.", code="store_full")

    async def get(self, key: Key) -> Record | None:
        raise StoreError("Unreadable.", code="store_corrupt")


def test_without_its_store_a_chat_goes_on_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), served(store=BrokenStore()) as (base, engine):
        message = asked(base)
        asked(base, message, result(message["tool_calls"][0]))
    assert "SECRET" not in spelled(prompts(engine)[1])
    assert "reasoning of an unfinished turn is not stored: store_full" in caplog.text
    assert "reasoning of an unfinished turn is not found: store_corrupt" in caplog.text
