"""What the page lists and opens of what the server stores."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from antiphon.http.gate.keys import new_key
from antiphon.playground.now import KINDS
from antiphon.playground.routes import STORED as PATH
from antiphon.playground.site import PLAYGROUND
from kit.api import END, THINK, UNTHINK, Got, app, ids, request, running

REPLY = ids(THINK, "hidden thought", UNTHINK, "ok", END)
HIDDEN = {"x_antiphon_reasoning": "hidden"}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(app(REPLY, wires=[PLAYGROUND], expose_reasoning=True)) as url:
        yield url


def send(base: str, path: str, body: dict[str, object], **headers: str) -> Got:
    return request(base, "POST", path, json.dumps(body).encode(), content_type="application/json", **headers)


def listed(base: str, kind: str, **headers: str) -> list[str]:
    got = request(base, "GET", PATH, None, **headers)
    assert got.status == 200, got.body
    assert set(got.json) == set(KINDS)
    return [record["id"] for record in got.json[kind]["data"]]


def test_each_kind_is_listed_until_it_is_deleted(base: str) -> None:
    response = send(base, "/v1/responses", {"input": "Hi"}).json["id"]
    conversation = send(base, "/v1/conversations", {}).json["id"]
    chat = {"messages": [{"role": "user", "content": "Hi"}], "store": True}
    completion = send(base, "/v1/chat/completions", chat).json["id"]
    send(base, "/v1/chat/completions", {**chat, "store": False, "session_id": "ann-7"})
    made = {
        "responses": response, "conversations": conversation, "chat/completions": completion,
    }  # fmt: skip
    assert listed(base, "sessions") == ["ann-7"]
    for path, id in made.items():
        kind = path.rpartition("/")[2]
        assert id in listed(base, kind)
        assert request(base, "GET", f"{PATH}/{kind}/{id}", None).json["id"] == id
        assert request(base, "DELETE", f"/v1/{path}/{id}", None).status == 200
        assert id not in listed(base, kind)
        assert request(base, "GET", f"{PATH}/{kind}/{id}", None).status == 404
    ending = {"prompt": "", "request_output_len": 0, "session_id": "ann-7", "interactive_mode": False}
    assert send(base, "/v1/chat/interactive", ending).status == 200
    assert listed(base, "sessions") == []


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
@pytest.mark.parametrize("ids_too", [False, True])
def test_what_the_model_thought_is_shown_to_those_who_do_not_decline_it(base: str, path: str, ids_too: bool) -> None:
    body: dict[str, object] = (
        {"input": "Hi"} if "responses" in path else {"messages": [{"role": "user", "content": "Hi"}]}
    )
    id = send(base, path, {**body, "store": True, "return_token_ids": ids_too}).json["id"]
    kind = path.rpartition("/")[2]
    shown = request(base, "GET", f"{PATH}/{kind}/{id}", None)
    hidden = request(base, "GET", f"{PATH}/{kind}/{id}", None, **HIDDEN)
    assert b"hidden thought" in shown.body
    assert b"hidden thought" not in hidden.body
    assert b"token_ids" not in hidden.body
    assert b"ok" in hidden.body


def test_what_a_client_sent_of_a_thought_is_hidden_too(base: str) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hmm"}]}
    conversation = send(base, "/v1/conversations", {"items": [{"role": "user", "content": "Hi"}, thought]})
    path = f"{PATH}/conversations/{conversation.json['id']}"
    assert b"hmm" not in request(base, "GET", path, None, **HIDDEN).body


@pytest.mark.parametrize("path", ["sessions/a", "files/a", "nothing/a", "responses/resp_none", "responses/a/b"])
def test_there_is_nothing_else(base: str, path: str) -> None:
    assert request(base, "GET", f"{PATH}/{path}", None).status == 404


def test_it_needs_a_key_and_shows_no_other_key_s() -> None:
    made = [new_key("alice"), new_key("bob")]
    with running(app(REPLY, wires=[PLAYGROUND], keys=[key for _, key in made])) as base:
        alice, bob = ({"authorization": f"Bearer {secret}"} for secret, _ in made)
        assert request(base, "GET", PATH, None).error["code"] == "invalid_api_key"
        assert request(base, "GET", f"{PATH}/responses/a", None).error["code"] == "invalid_api_key"
        id = send(base, "/v1/responses", {"input": "Hi"}, **alice).json["id"]
        assert listed(base, "responses", **alice) == [id]
        assert listed(base, "responses", **bob) == []
        assert request(base, "GET", f"{PATH}/responses/{id}", None, **bob).status == 404
