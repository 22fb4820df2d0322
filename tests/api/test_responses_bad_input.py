"""What cannot be answered is refused with the name of the field, and another's things are not there."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from antiphon.conversation import Channel, Message, Role
from antiphon.errors import RequestError
from antiphon.http.gate.keys import Key
from antiphon.wire.encrypted import ReasoningCipher
from kit.api import END as CHATML_END
from kit.api import Got, ids, post, request, running, scripted, served
from kit.responses import FINAL, THOUGHT, harmony_ids, oss_app, respond, responses_app

HELLO = ids("Hello there.", CHATML_END)
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "1"}


base = served(lambda: responses_app(small=scripted(HELLO)))


def test_a_prompt_that_is_too_long_is_refused_or_loses_its_oldest_turns() -> None:
    engine = scripted(HELLO, context=300)
    history = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"turn {i} " + "x" * 40} for i in range(9)]
    with running(responses_app(small=engine)) as base:
        refused = respond(base, {"input": history, "instructions": "Stay."})
        cut = respond(base, {"input": history, "instructions": "Stay.", "truncation": "auto"})
        hopeless = respond(base, {"input": "x" * 400, "truncation": "auto"})
    assert (refused.status, refused.error["code"], refused.error["param"]) == (400, "context_length_exceeded", "input")
    assert cut.status == 200
    prompt = bytes(id for id in engine.requests[0][0] if id < 256).decode()
    assert "Stay." in prompt
    assert "turn 0" not in prompt
    assert "turn 8" in prompt
    assert (hopeless.status, hopeless.error["code"]) == (400, "context_length_exceeded")


def test_a_result_of_no_call_of_a_conversation_is_refused_and_one_that_its_client_brought_is_taken(base: str) -> None:
    conversation = post(base, "/v1/conversations").json["id"]
    for body in ({"input": [OUTPUT]}, {"input": [CALL, {**OUTPUT, "call_id": "c2"}]}):
        refused = respond(base, {**body, "conversation": conversation})
        assert (refused.status, refused.error["code"]) == (400, "item_not_found")
        assert str(refused.error["param"]).endswith("call_id")
    assert respond(base, {"input": [CALL, OUTPUT], "conversation": conversation}).status == 200
    assert respond(base, {"input": [OUTPUT], "conversation": conversation}).status == 200
    assert respond(base, {"input": [OUTPUT]}).status == 200


def test_a_body_of_ten_megabytes_is_refused(base: str) -> None:
    assert respond(base, {"input": "x" * 10_000_000}).status == 413
    assert respond(base).status == 200


@pytest.mark.parametrize(
    ("method", "path", "param"),
    [
        ("GET", "/v1/responses/resp_0", "response_id"),
        ("DELETE", "/v1/responses/resp_0", "response_id"),
        ("POST", "/v1/responses/resp_0/cancel", "response_id"),
        ("GET", "/v1/responses/resp_0/input_items", "response_id"),
        ("GET", "/v1/conversations/conv_0", "conversation"),
        ("DELETE", "/v1/conversations/conv_0", "conversation"),
        ("GET", "/v1/conversations/conv_0/items", "conversation"),
        ("GET", "/v1/conversations/conv_0/items/msg_0", "conversation"),
        ("DELETE", "/v1/conversations/conv_0/items/msg_0", "conversation"),
        ("GET", "/v1/responses/..%2f..%2fetc%2fpasswd", None),
        ("GET", "/v1/responses/%00", "response_id"),
        ("PUT", "/v1/responses/resp_0", None),
    ],
)
def test_what_is_not_there_is_404(base: str, method: str, path: str, param: str | None) -> None:
    got = request(base, method, path)
    assert got.status in (404, 405)
    assert got.error["param"] == param


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "limit=1e3", "limit=%C2%B2", "order=up", "after=x"]
)
def test_a_page_that_cannot_be_is_refused(base: str, query: str) -> None:
    made = respond(base).json["id"]
    got = request(base, "GET", f"/v1/responses/{made}/input_items?{query}")
    assert (got.status, got.error["param"]) == (400, query.partition("=")[0])


def key(name: str) -> Key:
    """A key whose secret is its name."""
    return Key(name=name, digest=hashlib.sha256(name.encode()).hexdigest())


def as_(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


def send(base: str, method: str, path: str, who: str, body: Any = None) -> Got:
    data = None if body is None else json.dumps(body).encode()
    return request(base, method, path, data, content_type="application/json", **as_(who))


def test_another_keys_responses_and_conversations_do_not_exist() -> None:
    keys = [key("alice"), key("bob")]
    with running(responses_app(small=scripted(HELLO), keys=keys)) as base:
        mine = respond(base, {}, **as_("alice")).json["id"]
        talk = send(base, "POST", "/v1/conversations", "alice", {}).json["id"]
        assert send(base, "GET", f"/v1/responses/{mine}", "alice").status == 200
        for method, path in [
            ("GET", f"/v1/responses/{mine}"),
            ("GET", f"/v1/responses/{mine}?stream=true"),
            ("DELETE", f"/v1/responses/{mine}"),
            ("POST", f"/v1/responses/{mine}/cancel"),
            ("GET", f"/v1/responses/{mine}/input_items"),
            ("GET", f"/v1/conversations/{talk}"),
            ("POST", f"/v1/conversations/{talk}"),
            ("DELETE", f"/v1/conversations/{talk}"),
            ("GET", f"/v1/conversations/{talk}/items"),
        ]:
            body: Any = {"metadata": {}} if method == "POST" else None
            assert send(base, method, path, "bob", body).status == 404, path
        assert respond(base, {"previous_response_id": mine}, **as_("bob")).status == 400
        assert respond(base, {"conversation": talk}, **as_("bob")).status == 404
        item = send(base, "GET", f"/v1/responses/{mine}/input_items", "alice").json["data"][0]["id"]
        reference = [{"type": "item_reference", "id": item}]
        assert respond(base, {"input": reference}, **as_("alice")).status == 200
        assert respond(base, {"input": reference}, **as_("bob")).status == 400


def test_encrypted_reasoning_is_readable_for_its_owner_and_server_alone() -> None:
    thought = Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS, text="secret")
    cipher = ReasoningCipher(b"k" * 32)
    encrypted = cipher.encrypt(thought, "alice")
    assert "secret" not in encrypted
    assert ReasoningCipher(b"k" * 32).decrypt(encrypted, "alice", "p") == thought
    flipped = encrypted[:20] + ("A" if encrypted[20] != "A" else "B") + encrypted[21:]
    for other, owner, text in [
        (cipher, "bob", encrypted),
        (ReasoningCipher(b"j" * 32), "alice", encrypted),
        (cipher, "alice", flipped),
        (cipher, "alice", ""),
        (cipher, "alice", "not base64!"),
        (cipher, "alice", "é"),
    ]:
        with pytest.raises(RequestError) as caught:
            other.decrypt(text, owner, "p")
        assert (caught.value.code, caught.value.param) == ("invalid_encrypted_content", "p")


def test_encrypted_reasoning_goes_back_to_the_model_as_it_was() -> None:
    engine = scripted(harmony_ids(*THOUGHT, *FINAL))
    with running(responses_app(oss=engine)) as base:
        first = respond(base, {"include": ["reasoning.encrypted_content"], "store": False}).json
        encrypted = first["output"][0]
        assert encrypted["content"] == []
        history = [{"role": "user", "content": "Hi"}, encrypted, CALL, OUTPUT]
        assert respond(base, {"input": history, "store": False}).status == 200
    assert "The user wants the weather." in bytes(id for id in engine.requests[-1][0] if id < 256).decode()


def test_a_request_that_nobody_stores_leaves_nothing() -> None:
    with running(oss_app(harmony_ids(*FINAL))) as base:
        made = respond(base, {"store": False}).json
        assert made["store"] is False
        assert request(base, "GET", f"/v1/responses/{made['id']}").status == 404
