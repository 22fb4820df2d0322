"""What one key keeps, another does not have: sessions and what runs in them, calls, idempotency keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.http.gate.keys import new_key
from antiphon.tokens import decode
from kit.api import END, TOKENIZER, Got, app, call, ids, request, running, scripted, serving
from kit.waiting import until

ALICE_SECRET, ALICE = new_key("alice")
BOB_SECRET, BOB = new_key("bob")
KEYS = [ALICE, BOB]


def users(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    """Says how many users spoke."""
    return ids(f"answer {decode(TOKENIZER, prompt).count('<|im_start|>user')}", END)


def post(base: str, path: str, secret: str, headers: dict[str, str] | None = None, **fields: Any) -> Got:
    body = json.dumps(fields).encode()
    sent = {"content_type": "application/json", "authorization": f"Bearer {secret}", **(headers or {})}
    return request(base, "POST", path, body, **sent)


def turn(base: str, secret: str, **fields: Any) -> Got:
    body = {"prompt": "Hi", "session_id": 7, "interactive_mode": True, **fields}
    return post(base, "/v1/chat/interactive", secret, **body)


def test_a_session_of_another_key_is_another_session() -> None:
    with running(app(users, keys=KEYS)) as base:
        assert turn(base, ALICE_SECRET).json["text"] == "answer 1"
        assert turn(base, ALICE_SECRET).json["text"] == "answer 2"
        assert turn(base, BOB_SECRET).json["text"] == "answer 1"
        ended = turn(base, BOB_SECRET, prompt="", request_output_len=0, interactive_mode=False)
        assert ended.status == 200
        assert turn(base, ALICE_SECRET).json["text"] == "answer 3"
        chat: dict[str, Any] = {
            "messages": [{"role": "user", "content": "Hi"}],
            "session_id": "7",
            "sequence_start": False,
        }
        assert post(base, "/v1/chat/completions", ALICE_SECRET, **chat).status == 200
        theirs = post(base, "/v1/chat/completions", BOB_SECRET, **chat)
        assert (theirs.status, theirs.error["code"]) == (404, "session_not_found")


async def test_what_runs_for_another_key_cannot_be_cancelled() -> None:
    engine = scripted(ids("word " * 2000), delay=0.002)
    async with serving(app(engine, keys=KEYS)) as port:
        base = f"http://127.0.0.1:{port}"
        running_turn = asyncio.ensure_future(asyncio.to_thread(turn, base, ALICE_SECRET))
        await until(lambda: engine.running == 1)
        theirs = await asyncio.to_thread(turn, base, BOB_SECRET, prompt="", cancel=True)
        assert theirs.status == 200  # where nothing of one's own runs, there is nothing to cancel
        assert engine.running == 1
        await asyncio.to_thread(turn, base, ALICE_SECRET, prompt="", cancel=True)
        assert (await running_turn).error["code"] == "session_cancelled"


async def test_a_background_response_of_another_key_is_not_there() -> None:
    engine = scripted(ids("word " * 2000), delay=0.002)
    async with serving(app(engine, keys=KEYS)) as port:
        base = f"http://127.0.0.1:{port}"
        made = await asyncio.to_thread(post, base, "/v1/responses", ALICE_SECRET, input="Hi", background=True)
        path = f"/v1/responses/{made.json['id']}/cancel"
        assert (await asyncio.to_thread(post, base, path, BOB_SECRET)).status == 404
        await until(lambda: engine.running == 1)
        cancelled = await asyncio.to_thread(post, base, path, ALICE_SECRET)
        assert cancelled.json["status"] == "cancelled"


def test_an_idempotency_key_is_its_owner_s() -> None:
    once = {"idempotency_key": "the-same"}
    with running(app(users, keys=KEYS)) as base:
        mine = post(base, "/v1/responses", ALICE_SECRET, once, input="Hi").json
        again = post(base, "/v1/responses", ALICE_SECRET, once, input="Hi").json
        theirs = post(base, "/v1/responses", BOB_SECRET, once, input="Hi").json
        other = post(base, "/v1/responses", BOB_SECRET, once, input="Ho")
    assert mine["id"] == again["id"] != theirs["id"]
    assert (other.status, other.error["code"]) == (400, "idempotency_key_reused")


def test_a_call_is_answered_in_its_own_session_only() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    with running(app(ids(*call("f", "{}"), END), keys=KEYS)) as base:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool], "session_id": "s"}
        made = post(base, "/v1/chat/completions", ALICE_SECRET, **body).json
        (requested,) = made["choices"][0]["message"]["tool_calls"]
        result = [{"role": "tool", "tool_call_id": requested["id"], "content": "1"}]
        for secret, session in ((BOB_SECRET, "s"), (ALICE_SECRET, "t")):
            got = post(base, "/v1/chat/completions", secret, messages=result, session_id=session)
            assert (got.status, got.error["param"]) == (400, "messages[0].tool_call_id")
        assert post(base, "/v1/chat/completions", ALICE_SECRET, messages=result, session_id="s").status == 200
