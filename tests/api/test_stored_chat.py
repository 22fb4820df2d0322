"""Chat completions with ``store``: the official client lists, reads, changes and deletes what it was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from antiphon.api.dialects import configured_dialects
from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.http.gate.keys import new_key
from antiphon.store import Key, MemoryStore, Record, SqliteStore
from antiphon.store.archive import DAY
from kit.api import (
    END,
    THINK,
    UNTHINK,
    Got,
    app,
    call,
    chat,
    ids,
    post,
    request,
    running,
    scripted,
    serving,
    wire_bytes,
)
from kit.waiting import until

PATH = "/v1/chat/completions"
SAY: list[Any] = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALLED = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
TALK: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Warm"}, {"type": "text", "text": "?"}], "name": "Ada"},
    {"role": "assistant", "content": None, "tool_calls": [CALLED]},
    {"role": "tool", "content": "21", "tool_call_id": "c1"},
]


def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    """A thought and an answer, another for each choice; a call where there are tools."""
    text = bytes(id for id in prompt if id < 256).decode()
    said = call("weather", "{}") if "parameters" in text else (f"Answer {choice}.",)
    return ids(THINK, "Secret.", UNTHINK, *said, END)


@pytest.fixture
def base() -> Iterator[str]:
    with running(app(scripted(script))) as url:
        yield url


@contextmanager
def client_of(base: str, key: str = "any") -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0) as client:
        yield client


@pytest.fixture
def client(base: str) -> Iterator[openai.OpenAI]:
    with client_of(base) as client:
        yield client


def stored(client: openai.OpenAI, **fields: Any) -> str:
    return str(client.chat.completions.create(**{"model": "small", "messages": SAY, "store": True, **fields}).id)


def get(base: str, path: str = "") -> Got:
    return request(base, "GET", f"{PATH}{path}")


@pytest.mark.parametrize("fields", [{}, {"n": 2, "logprobs": True, "top_logprobs": 1}, {"tools": [TOOL]}], ids=str)
def test_what_was_answered_is_read_again(client: openai.OpenAI, fields: dict[str, Any]) -> None:
    answer = client.chat.completions.create(model="small", messages=SAY, store=True, metadata={"run": "1"}, **fields)
    assert "Secret" not in answer.to_json()
    again = client.chat.completions.retrieve(answer.id)
    assert again.to_dict() == {**answer.to_dict(), "metadata": {"run": "1"}}


@pytest.mark.parametrize("fields", [{}, {"n": 2, "logprobs": True}, {"tools": [TOOL]}], ids=str)
def test_a_stream_is_stored_as_the_whole_answer_that_it_would_have_been(base: str, fields: dict[str, Any]) -> None:
    whole = without_call_ids(chat(base, **fields).json)
    *events, done = chat(base, store=True, stream=True, **fields).events
    assert done == "[DONE]"
    kept = get(base, f"/{events[0]['id']}").json
    assert (kept["created"], kept.pop("metadata")) == (events[0]["created"], {})
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    streamed = [one["id"] for delta in deltas for one in delta.get("tool_calls", ()) if "id" in one]
    assert streamed == [one["id"] for choice in kept["choices"] for one in choice["message"].get("tool_calls", ())]
    own = {"id": kept["id"], "created": kept["created"]}
    assert without_call_ids(kept) == {**whole, **own}


def without_call_ids(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer but for what is drawn anew in each."""
    for choice in answer["choices"]:
        for one in choice["message"].get("tool_calls", ()):
            del one["id"]
    return answer


@pytest.mark.parametrize("expose", [False, True])
def test_reasoning_is_stored_as_it_was_shown(expose: bool) -> None:
    with running(app(scripted(script), expose_reasoning=expose)) as base:
        answer = chat(base, store=True, return_token_ids=expose).json
        assert ("prompt_token_ids" in answer) is expose
        assert ("reasoning" in answer["choices"][0]["message"]) is expose
        assert get(base, f"/{answer['id']}").json["choices"] == answer["choices"]


@pytest.mark.parametrize(
    "fields", [{}, {"store": False}, {"store": None}, {"store": False, "metadata": {"a": 1}}], ids=str
)
def test_nothing_is_stored_that_is_not_to_be(base: str, fields: dict[str, Any]) -> None:
    answer = chat(base, **fields)
    assert answer.status == 200
    assert get(base, f"/{answer.json['id']}").status == 404
    assert get(base).json == {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}


def test_a_list_is_by_model_and_metadata_in_the_order_of_making(client: openai.OpenAI) -> None:
    made = [stored(client, metadata={"of": "a" if i % 2 else "b", "i": str(i)}) for i in range(7)]
    completions = client.chat.completions
    assert [one.id for one in completions.list()] == made
    assert [one.id for one in completions.list(limit=2)] == made  # page by page
    assert [one.id for one in completions.list(limit=3, order="desc")] == made[::-1]
    assert [one.id for one in completions.list(after=made[4])] == made[5:]
    assert [one.id for one in completions.list(after=made[4], order="desc")] == made[3::-1]
    assert [one.id for one in completions.list(metadata={"of": "a"}, limit=2)] == made[1::2]
    assert [one.id for one in completions.list(metadata={"of": "a", "i": "3"})] == [made[3]]
    assert not list(completions.list(metadata={"of": "c"}))
    assert [one.id for one in completions.list(model="small")] == made
    assert not list(completions.list(model="large"))
    page = completions.list(limit=7)
    assert (page.has_more, page.data[0].to_dict()) == (False, completions.retrieve(made[0]).to_dict())


def test_a_list_goes_on_while_its_completions_are_deleted(client: openai.OpenAI) -> None:
    made = [stored(client) for _ in range(5)]
    for one in client.chat.completions.list(limit=2):
        deleted = client.chat.completions.delete(one.id)
        assert (deleted.id, deleted.deleted, deleted.object) == (made.pop(0), True, "chat.completion.deleted")
    assert not made
    assert not list(client.chat.completions.list())


def test_metadata_is_replaced_and_nothing_else(client: openai.OpenAI) -> None:
    id = stored(client, metadata={"a": "1"})
    before = client.chat.completions.retrieve(id).to_dict()
    changed = client.chat.completions.update(id, metadata={"b": "2"})
    assert changed.to_dict() == client.chat.completions.retrieve(id).to_dict() == {**before, "metadata": {"b": "2"}}
    assert [one.id for one in client.chat.completions.list(metadata={"b": "2"})] == [id]
    assert client.chat.completions.update(id, metadata=None).to_dict() == {**before, "metadata": {}}
    assert len(list(client.chat.completions.messages.list(id))) == 1


def test_the_messages_that_it_answers_are_listed(client: openai.OpenAI, base: str) -> None:
    id = stored(client, messages=TALK)
    messages = [one.to_dict() for one in client.chat.completions.messages.list(id)]
    assert [one["id"] for one in messages] == [f"{id}-{i}" for i in range(4)]
    assert messages[1]["content"] == "Warm?"
    assert messages[1]["content_parts"] == TALK[1]["content"]
    assert messages[2]["tool_calls"] == [CALLED]
    for sent, read in zip(TALK, messages, strict=True):
        assert {**sent, "content": read["content"]}.items() <= read.items()
    backwards = client.chat.completions.messages.list(id, order="desc", limit=3)
    assert [one.id for one in backwards] == [f"{id}-{i}" for i in (3, 2, 1, 0)]
    assert chat(base, messages=messages).json["usage"] == chat(base, messages=TALK).json["usage"]


def test_arguments_that_came_as_an_object_are_listed_as_text(client: openai.OpenAI) -> None:
    made = {"name": "weather", "arguments": {"a": [1]}}
    messages = [*TALK[:2], {**TALK[2], "tool_calls": [{**CALLED, "function": made}]}, TALK[3]]
    messages += [{"role": "assistant", "function_call": made}, {"role": "function", "name": "weather", "content": "1"}]
    read = [one.to_dict() for one in client.chat.completions.messages.list(stored(client, messages=messages))]
    calls: Any = read[2]["tool_calls"]
    text = {"name": "weather", "arguments": '{"a":[1]}'}
    assert calls[0]["function"] == read[4]["function_call"] == text


def test_another_key_has_none_of_them() -> None:
    (secret, alice), (other, bob) = new_key("alice"), new_key("bob")
    with running(app(scripted(script), keys=[alice, bob])) as base, client_of(base, secret) as client:
        id = stored(client)
        with client_of(base, other) as theirs:
            assert not list(theirs.chat.completions.list())
            uses: list[Callable[[], object]] = [
                lambda: theirs.chat.completions.retrieve(id),
                lambda: theirs.chat.completions.update(id, metadata={}),
                lambda: theirs.chat.completions.delete(id),
                lambda: theirs.chat.completions.messages.list(id),
            ]
            for use in uses:
                with pytest.raises(openai.NotFoundError) as caught:
                    use()
                assert (caught.value.code, caught.value.param) == ("not_found", "completion_id")
        assert client.chat.completions.retrieve(id).id == id


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("?limit=0", "limit"), ("?limit=101", "limit"), ("?limit=x", "limit"), ("?order=up", "order"),
        ("?after=chatcmpl-1", "after"), ("?after=%00", "after"),
        ("?metadata=a", "metadata"), ("?metadata[a=1", "metadata"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_is_refused_by_name(base: str, query: str, param: str) -> None:
    got = get(base, query)
    assert (got.status, got.error["param"]) == (400, param)


def test_a_filter_that_nobody_knows_is_named() -> None:
    with running(app(scripted(script))) as base:
        assert get(base, "?modle=small&limit=3").headers["x-antiphon-ignored"] == "modle"
        id = chat(base, store=True).json["id"]
        assert get(base, f"/{id}/messages?model=small").headers["x-antiphon-ignored"] == "model"


@pytest.mark.parametrize(
    "metadata", [{"a": 1}, {"a": None}, {"a" * 65: "b"}, {"a": "b" * 513}, {str(i): "" for i in range(17)}], ids=len
)
def test_pairs_that_cannot_be_stored_are_refused(base: str, metadata: dict[str, Any]) -> None:
    refused = chat(base, store=True, metadata=metadata)
    assert (refused.status, refused.error["param"][:8]) == (400, "metadata")
    assert get(base).json["data"] == []
    id = chat(base, store=True).json["id"]
    refused = post(base, f"{PATH}/{id}", metadata=metadata)
    assert (refused.status, refused.error["param"][:8]) == (400, "metadata")
    assert post(base, f"{PATH}/{id}").error["code"] == "missing_required_parameter"


async def test_a_stream_that_its_client_left_is_not_stored() -> None:
    engine, store = scripted(ids("word " * 1500), delay=0.002), MemoryStore()
    async with serving(app(engine, store=store)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wire_bytes("/v1/chat/completions", {"messages": SAY, "stream": True, "store": True}))
        await reader.readuntil(b'"content":"w')
        writer.transport.abort()
        await until(lambda: engine.running == 0)
        assert (await asyncio.to_thread(get, f"http://127.0.0.1:{port}")).json["data"] == []
        assert await store.names("chat_completion", "") == []


def test_an_answer_that_its_limit_cut_is_stored_as_it_is(base: str) -> None:
    answer = chat(base, store=True, max_tokens=12).json
    assert answer["choices"][0]["finish_reason"] == "length"
    assert get(base, f"/{answer['id']}").json == {**answer, "metadata": {}}


def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    with running(app(scripted(script), store=SqliteStore(tmp_path / "store.db"))) as base:
        made = [chat(base, store=True).json for _ in range(3)]
    with running(app(scripted(script), store=SqliteStore(tmp_path / "store.db"))) as base:
        assert get(base).json["data"] == [{**one, "metadata": {}} for one in made]


def test_it_expires_as_a_response_does_whether_it_was_changed_or_not() -> None:
    now, store = 1e9, MemoryStore()
    with running(app(scripted(script), store=store, clock=lambda: now)) as base:
        first = chat(base, store=True).json["id"]
        now += 20 * DAY
        second = chat(base, store=True).json["id"]
        assert post(base, f"{PATH}/{first}", metadata={"a": "b"}).status == 200
        now += 11 * DAY
        assert get(base, f"/{first}").status == 404
        assert [one["id"] for one in get(base).json["data"]] == [second]
        third = chat(base, store=True).json["id"]
        assert {key.name for key in store._records} == {second, third}


def test_a_session_and_the_completion_of_its_turn_are_both_stored(base: str) -> None:
    first = chat(base, store=True, session_id="s").json
    second = chat(base, store=True, session_id="s", stream=True).events[0]["id"]
    assert second != first["id"]
    assert get(base, f"/{second}").json["usage"]["prompt_tokens"] > first["usage"]["prompt_tokens"]
    assert len(get(base, f"/{second}/messages").json["data"]) == 1


@pytest.mark.parametrize("damaged", [b"", b"null", b"[1]"])
def test_a_damaged_completion_can_be_deleted(damaged: bytes) -> None:
    store = MemoryStore()
    store._records[Key("chat_completion", "", "chatcmpl-0")] = (Record(damaged, 0.0), [])
    with running(app(scripted(script), store=store)) as base:
        assert get(base, "/chatcmpl-0").error["code"] == "store_corrupt"
        assert request(base, "DELETE", f"{PATH}/chatcmpl-0").status == 200
        assert get(base, "/chatcmpl-0").status == 404


@pytest.mark.parametrize("name", ["lmdeploy", "mindie", "databricks"])
def test_other_dialects_store_as_the_plain_route_does(name: str) -> None:
    place = configured_dialects()[name].places[0]
    with running(app(scripted(script), dialects=list(configured_dialects().values()))) as base:
        fields = {"messages": SAY, "model": "small", "stream": False, "store": True}
        answer = post(base, f"{place}/chat/completions", **fields)
        assert answer.status == 200, answer.body
        path = f"/chat/completions/{answer.json['id']}"
        for found in (request(base, "GET", place + path), request(base, "GET", f"/v1{path}")):
            assert found.json == {**answer.json, "metadata": {}}
        changed = post(base, place + path, metadata={"a": "b"})
        assert (changed.status, changed.json["metadata"]) == (200, {"a": "b"})
        assert request(base, "DELETE", place + path).status == 200


@pytest.mark.parametrize(("name", "status"), [("mindie", 422), ("databricks", 400)])
def test_a_strict_dialect_refuses_what_its_document_does_not_have(name: str, status: int) -> None:
    with running(app(scripted(script), dialect=configured_dialects(strict=True)[name])) as base:
        assert chat(base, model="small", stream=False).status == 200
        assert chat(base, model="small", stream=False, store=True).status == status
