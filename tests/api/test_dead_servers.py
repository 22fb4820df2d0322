"""A server that is killed, or paused for too long: the others go on, and what they took over it does not write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from kit.api import Got, post, request
from kit.batches import CHAT, ENDED, jsonl, line
from kit.responses import events_of
from kit.several_servers import Running, server
from kit.waiting import wait_until

TURN: dict[str, Any] = {"prompt": "Hi", "session_id": "s", "interactive_mode": True}
KEYED: dict[str, Any] = {"model": "small", "input": "Hi", "stream": True}
LINES = 80


@dataclass(frozen=True, slots=True)
class Aftermath:
    """``answers`` are what the other server said once it took over, ``rest`` what the first said when it went on."""

    servers: tuple[Running, ...]
    conversation: str
    batch: str
    answers: Mapping[str, Got]
    rest: Mapping[str, bytes]

    @property
    def other(self) -> str:
        return self.servers[-1].base


def send(server: Running, path: str, fields: Mapping[str, Any], **headers: str) -> Got:
    body = json.dumps(fields).encode()
    return request(server.base, "POST", path, body, content_type="application/json", **headers)


def taken_over(server: Running, path: str, fields: Mapping[str, Any], **headers: str) -> Got:
    """The answer, once the others gave up the server that had it."""
    answers: list[Got] = []

    def answered() -> bool:
        answers.append(send(server, path, fields, **headers))
        return answers[-1].status == 200

    wait_until(answered, lambda: answers[-1].body)
    return answers[-1]


def batch_of(server: Running) -> str:
    """A batch that has begun."""
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key="any") as client:
        data = jsonl(line(str(i), max_tokens=50) for i in range(LINES))
        file = client.files.create(file=("in.jsonl", data), purpose="batch")
        id = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h").id
        wait_until(lambda: completed(client, id) > 4)
        return str(id)


def completed(client: openai.OpenAI, id: str) -> int:
    counts = client.batches.retrieve(id).request_counts
    return counts.completed if counts else 0


@pytest.fixture(scope="module", params=["kill", "pause"])
def after(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    with ExitStack() as stack:
        file = tmp_path_factory.mktemp("store") / "s.db"
        one, other = (stack.enter_context(server(file)) for _ in range(2))
        id = post(one.base, "/v1/conversations").json["id"]
        asked: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
            "session": ("/v1/chat/interactive", {**TURN, "stream": True}, {}),
            "conversation": (
                "/v1/responses",
                {"model": "small", "input": "Hi", "conversation": id, "stream": True},
                {},
            ),
            "key": ("/v1/responses", KEYED, {"idempotency-key": "k"}),
        }
        batch = batch_of(one)
        begun = {
            name: stack.enter_context(one.begun(path, fields, **headers))
            for name, (path, fields, headers) in asked.items()
        }
        one.kill() if request.param == "kill" else one.pause()
        with openai.OpenAI(base_url=f"{other.base}/v1", api_key="any") as client:
            stopped_at = completed(client, batch)
        assert stopped_at < LINES
        answers = {name: send(other, path, fields, **headers) for name, (path, fields, headers) in asked.items()}
        at_once = (
            200 if request.param == "kill" else 409
        )  # A process that is gone holds nothing; a paused one may live.
        assert {name: got.status for name, got in answers.items()} == dict.fromkeys(asked, at_once)
        if request.param == "pause":
            answers = {
                name: taken_over(other, path, fields, **headers) for name, (path, fields, headers) in asked.items()
            }
        with openai.OpenAI(base_url=f"{other.base}/v1", api_key="any") as client:
            wait_until(lambda: completed(client, batch) > stopped_at)
            if request.param == "pause":
                one.resume()
            rest = {name: answer.read() for name, answer in begun.items() if request.param == "pause"}
            wait_until(lambda: client.batches.retrieve(batch).status in ENDED)
        servers = (one, other) if request.param == "pause" else (other,)
        yield Aftermath(servers, id, batch, answers, rest)


def test_the_one_that_went_on_stored_nothing_and_said_so(after: Aftermath) -> None:
    for name, rest in after.rest.items():
        assert b"lease_lost" in rest, name


def test_a_session_goes_on_from_where_it_was_before(after: Aftermath) -> None:
    first = json.loads(after.answers["session"].body.splitlines()[-1])
    assert first["history_tokens"] == 0
    turn = first["input_tokens"] + first["tokens"]
    second = post(after.other, "/v1/chat/interactive", **TURN).json
    assert turn <= second["history_tokens"] < 2 * turn, "the history has one turn"


def test_a_conversation_is_gone_on_with_once(after: Aftermath) -> None:
    for one in after.servers:
        listed = request(one.base, "GET", f"/v1/conversations/{after.conversation}/items").json["data"]
        assert [item["role"] for item in listed] == ["assistant", "user"], one.base


def test_an_idempotency_key_has_one_response(after: Aftermath) -> None:
    made = events_of(after.answers["key"])[0]["response"]["id"]
    for one in after.servers:
        again = send(one, "/v1/responses", KEYED, idempotency_key="k")
        assert events_of(again)[0]["response"]["id"] == made


def test_each_line_of_a_batch_is_answered_once(after: Aftermath) -> None:
    with openai.OpenAI(base_url=f"{after.other}/v1", api_key="any") as client:
        batch = client.batches.retrieve(after.batch)
        assert (batch.status, batch.request_counts and batch.request_counts.to_dict()) == (
            "completed",
            {"total": LINES, "completed": LINES, "failed": 0},
        )
        assert batch.output_file_id is not None
        written = client.files.content(batch.output_file_id).text.splitlines()
    assert sorted(json.loads(one)["custom_id"] for one in written) == sorted(str(i) for i in range(LINES))
