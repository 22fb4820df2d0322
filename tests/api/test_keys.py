"""Who may come in, that a wrong key teaches nothing, and that one key does not have what another keeps."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import socket
import stat
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from antiphon.api import Scope, Wire, serve
from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.errors import ConfigError, NotFoundError
from antiphon.http.gate.keys import Key, KeyFile, Keyring, new_key
from antiphon.playground.site import PLAYGROUND, site_wire
from antiphon.tokens import decode
from kit.api import (
    CALL,
    END,
    THINK,
    TOKENIZER,
    UNTHINK,
    Got,
    app,
    call,
    ids,
    request,
    running,
    scripted,
    served,
    serving,
)
from kit.waiting import PATIENCE, until

SECRET, ALICE = new_key("alice")
ADMIN_SECRET, ADMIN = new_key("admin", [Scope.ADMIN])
DEBUG_SECRET, DEBUG = new_key("debug", [Scope.INFERENCE, Scope.DEBUG])
REPLY = ids(THINK, "Hm.", UNTHINK, "ok", END)


def application(**options: Any) -> Starlette:
    return app(REPLY, keys=[ALICE, ADMIN, DEBUG], **options)


base = served(lambda: application())


def ask(base: str, **headers: str) -> Got:
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()
    return request(base, "POST", "/v1/chat/completions", body, content_type="application/json", **headers)


def raw(base: str, *lines: bytes) -> bytes:
    """What the server says to these very lines, until it closes."""
    address = urlsplit(base)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=PATIENCE) as client:
        client.sendall(b"\r\n".join((*lines, b"connection: close", b"", b"")))
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {SECRET}"},
        {"authorization": f"bearer  {SECRET} "},
        {"x-api-key": SECRET},
        {"x-api-key": SECRET, "authorization": f"Bearer {SECRET}"},
        {"x-api-key": SECRET, "authorization": "Bearer another-service-s"},
        {"x-api-key": "another-service-s", "authorization": f"Bearer {SECRET}"},
        {"x-api-key": SECRET, "authorization": "Basic YTpi"},
    ],
)
def test_a_key_opens_by_either_header(base: str, headers: dict[str, str]) -> None:
    assert ask(base, **headers).status == 200


WRONG = {
    "none": {},
    "empty": {"authorization": "Bearer "},
    "unknown": {"authorization": "Bearer ak-" + "x" * 43},
    "prefix": {"authorization": f"Bearer {SECRET[:-1]}"},
    "longer": {"authorization": f"Bearer {SECRET}x"},
    "another case": {"authorization": f"Bearer {SECRET.swapcase()}"},
    "Latin-1": {"authorization": f"Bearer {SECRET}é"},
    "digest": {"authorization": f"Bearer {ALICE.digest}"},
    "another kind": {"authorization": f"Basic {SECRET}"},
    "two that are wrong": {"authorization": "Bearer other", "x-api-key": "another"},
    "two that are right": {"authorization": f"Bearer {SECRET}", "x-api-key": DEBUG_SECRET},
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG.keys())
def test_whatever_is_wrong_with_a_key_the_answer_is_one(base: str, headers: dict[str, str]) -> None:
    got = ask(base, **headers)
    assert (got.status, got.error["code"], got.error["type"]) == (401, "invalid_api_key", "authentication_error")
    assert got.body == ask(base).body
    assert got.headers["www-authenticate"] == "Bearer"


def test_of_two_keys_in_two_headers_the_known_one_counts_and_its_scopes_alone(base: str) -> None:
    known = ask(base, x_api_key=DEBUG_SECRET, authorization="Bearer other")
    assert known.json["choices"][0]["message"]["reasoning"] == "Hm."
    assert ask(base, x_api_key=SECRET, authorization="Bearer other").status == 200
    assert ask(base, x_api_key=ADMIN_SECRET, authorization="Bearer other").status == 403


def test_two_authorization_headers_are_no_key_even_when_one_is_right(base: str) -> None:
    lines = [b"GET /v1/models HTTP/1.1", b"host: x", b"authorization: Bearer wrong"]
    assert b" 401 " in raw(base, *lines, b"authorization: Bearer " + SECRET.encode()).splitlines()[0]


def test_every_route_needs_a_key_but_those_that_are_named() -> None:
    every = application()
    routes = [route for route in every.routes if isinstance(route, Route)]
    assert len(routes) > 30
    with running(every) as base:
        open_ = set()
        for route in routes:
            path = route.path.replace("{id:path}", "x").replace("{id}", "x").replace("{item}", "x")
            for method in route.methods or ():
                if request(base, method, path).status != 401:
                    open_.add(path)
    public = ("/health", "/livez", "/ping", "/readyz", "/version")
    assert open_ == {*public, "/", "/api/version"}


def test_every_route_says_which_scope_it_takes() -> None:
    assert all("scope" in vars(route) for route in app([], wires=[PLAYGROUND, site_wire()]).routes)


def test_a_route_that_names_no_scope_is_for_administrators() -> None:
    wire = Wire(name="x", routes=lambda context: [Route("/x", lambda request: Response("here"))])
    with running(application(wires=[wire])) as base:
        statuses = [request(base, "GET", path, authorization=f"Bearer {secret}").status
                    for path in ("/x", "//x/") for secret in (SECRET, DEBUG_SECRET, ADMIN_SECRET)]  # fmt: skip
    assert statuses == [403, 403, 200] * 2


def test_what_does_not_exist_needs_a_key_too(base: str) -> None:
    paths = ("/nothing", "/health/x", "/v1/models/../health", "/HEALTH", "/health%2f..%2fv1%2fmodels", "//v1//models/")
    for path in (*paths, "/metrics/", "//v1/metrics", "/playground/api/stored/", "/playground//api/stored"):
        assert request(base, "GET", path).status == 401, path


@pytest.mark.parametrize("host", ["foo?", "foo/", "foo#", "a@b", "x/health?", "x/health#", ""])
def test_the_host_header_opens_nothing(base: str, host: str) -> None:
    answer = raw(base, b"GET /v1/models HTTP/1.1", b"host: " + host.encode())
    assert answer.splitlines()[0].split()[1] in (b"401", b"400")


@pytest.mark.parametrize("lines", [[b"GET /v1/models HTTP/1.1"], [b"GET /v1/models HTTP/1.1", b"host: a", b"host: b"]])
def test_no_host_and_two_hosts_open_nothing(base: str, lines: list[bytes]) -> None:
    assert raw(base, *lines).splitlines()[0].split()[1] in (b"401", b"400")


def test_an_absolute_target_opens_nothing(base: str) -> None:
    answer = raw(base, b"GET http://x/health?/v1/models HTTP/1.1", b"host: x")
    assert b"object" not in answer


def test_a_key_may_only_what_its_scopes_say(base: str) -> None:
    got = ask(base, x_api_key=ADMIN_SECRET)
    assert (got.status, got.error["code"], got.error["type"]) == (403, "permission_denied", "permission_error")


def test_reasoning_is_for_keys_that_may_debug(base: str) -> None:
    assert "reasoning" not in ask(base, x_api_key=SECRET).json["choices"][0]["message"]
    assert ask(base, x_api_key=DEBUG_SECRET).json["choices"][0]["message"]["reasoning"] == "Hm."


def test_a_server_without_keys_takes_any_token_and_shows_no_reasoning() -> None:
    with running(app(REPLY)) as base:
        got = ask(base, authorization="Bearer whatever")
        assert got.status == 200
        assert "reasoning" not in got.json["choices"][0]["message"]


def test_a_ring_without_any_key_lets_nobody_in() -> None:
    with running(app(REPLY, keys=[])) as base:
        assert ask(base, authorization="Bearer whatever").status == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.test", ""])
def test_without_keys_nothing_listens_beyond_this_machine(host: str) -> None:
    with pytest.raises(ConfigError) as refused:
        serve(app(REPLY), host=host)
    assert refused.value.code == "keys_missing"


def test_every_digest_is_compared_whatever_comes_first() -> None:
    ring = Keyring([ALICE, ADMIN])
    assert [p.name for secret in (SECRET, ADMIN_SECRET) if (p := ring.principal(secret.encode()))] == ["alice", "admin"]
    assert ring.principal(b"") is None
    assert ring.principal(b"\x00\xff" + SECRET.encode()) is None


SECRETS = [SECRET, ADMIN_SECRET, DEBUG_SECRET, SECRET[:-1], "", "ak-wrong", "x" * 10_000]


@pytest.mark.parametrize("secret", SECRETS, ids=["first", "second", "last", "prefix", "empty", "wrong", "long"])
def test_comparing_takes_the_same_steps_whatever_was_sent(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timed test would measure the machine: here it is the steps that are counted, and that each takes one time."""
    ring = Keyring([ALICE, ADMIN, DEBUG])
    compared: list[tuple[str, str]] = []

    def counted(known: str, digest: str) -> bool:
        compared.append((known, digest))
        return compare_digest(known, digest)

    monkeypatch.setattr("hmac.compare_digest", counted)
    ring.principal(secret.encode())
    digest = sha256(secret.encode()).hexdigest()
    assert compared == [(key.digest, digest) for key in (ALICE, ADMIN, DEBUG)]
    assert {len(known) for known, _ in compared} == {len(digest)}


def test_the_file_holds_no_secret_and_is_its_owner_s_alone(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "deep" / "keys.json")
    assert file.read() is None
    file.add(ALICE)
    file.add(ADMIN)
    assert file.read() == [ALICE, ADMIN]
    assert SECRET not in file.path.read_text()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == ["keys.json"]
    with pytest.raises(ConfigError) as refused:
        file.add(Key(name="alice", digest="0"))
    assert refused.value.code == "key_exists"
    file.remove("alice")
    file.remove("admin")
    assert file.read() == []
    with pytest.raises(NotFoundError):
        file.remove("alice")


@pytest.mark.parametrize("text", ["", "{}", '[{"name": "a"}]', '[{"name": "a", "digest": "0", "scope": []}]'])
def test_a_file_that_is_no_list_of_keys_lets_no_server_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(ConfigError) as refused:
        KeyFile(tmp_path / "keys.json").read()
    assert refused.value.code == "key_file"


def test_a_file_in_which_two_keys_have_one_name_lets_no_server_start(tmp_path: Path) -> None:
    """The name owns what is stored: two people would share it."""
    twice = msgspec.json.encode([ALICE, DEBUG, new_key("alice")[1]])
    (tmp_path / "keys.json").write_bytes(twice)
    with pytest.raises(ConfigError, match="one name") as refused:
        KeyFile(tmp_path / "keys.json").read()
    assert refused.value.code == "key_file"


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "-a", "a\n", "ä"])
def test_a_key_s_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(ConfigError):
        new_key(name)


def test_a_secret_is_256_random_bits_and_the_file_has_their_hash(tmp_path: Path) -> None:
    secret, key = new_key("x" * 64, [Scope.DEBUG, Scope.INFERENCE, Scope.DEBUG], concurrent=3)
    assert secret.startswith("ak-")
    assert len(urlsafe_b64decode(secret.removeprefix("ak-") + "=")) == 32
    assert key == Key(
        name="x" * 64, digest=sha256(secret.encode()).hexdigest(), scopes=(Scope.DEBUG, Scope.INFERENCE), concurrent=3
    )
    assert new_key("a")[1].scopes == (Scope.INFERENCE,)
    assert len({new_key("a")[0] for _ in range(100)}) == 100


def test_a_changed_file_is_on_the_disk_before_it_takes_the_old_one_s_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the system is told, and when: no test can cut the power."""
    file = KeyFile(tmp_path / "keys.json")
    file.add(ALICE)
    before = file.path.read_bytes()
    synced: list[bytes] = []
    sync = os.fsync

    def seen(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").read_bytes())
        assert file.path.read_bytes() == before
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    file.add(ADMIN)
    assert synced == [file.path.read_bytes()]
    assert before != synced[0]


def test_a_new_file_never_takes_the_place_of_one_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who can write to the folder cannot have the keys go through a link of theirs."""
    file = KeyFile(tmp_path / "keys.json")
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / f"keys.json.{'0' * 8}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        file.add(ALICE)
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert file.read() is None


def test_a_full_disk_leaves_the_keys_as_they_were_and_is_told_with_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.add(ALICE)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=f"cannot write {re.escape(str(file.path))}: No space left"):
        file.add(ADMIN)
    assert [key.name for key in file.read() or []] == [ALICE.name]
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]


def test_a_key_that_is_not_there_has_those_that_are_near(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.add(ALICE)
    with pytest.raises(NotFoundError) as refused:
        file.remove("alise")
    assert refused.value.code == "key_not_found"
    assert "alice" in (refused.value.hint or "")
    assert file.read() == [ALICE]


def test_a_ring_that_is_replaced_has_the_new_keys_and_is_closed() -> None:
    ring = Keyring()
    was_open = ring.open
    assert ring.named("alice") is None
    ring.replace([ALICE, DEBUG])
    assert (was_open, ring.open) == (True, False)
    assert (ring.named("alice"), ring.named("debug"), ring.named("admin")) == (ALICE, DEBUG, None)
    found = ring.principal(DEBUG_SECRET.encode())
    assert found is not None
    assert (found.name, found.scopes) == ("debug", frozenset({Scope.INFERENCE, Scope.DEBUG}))
    assert ring.principal(ADMIN_SECRET.encode()) is None
    ring.replace([])
    assert ring.principal(SECRET.encode()) is None


ALICE_SECRET, ANN = new_key("alice")
BOB_SECRET, BOB = new_key("bob")
KEYS = [ANN, BOB]


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
    engine = scripted(ids(*call("f", "{}"), END))
    with running(app(engine, keys=KEYS)) as base:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool], "session_id": "s"}
        made = post(base, "/v1/chat/completions", ALICE_SECRET, **body).json
        (requested,) = made["choices"][0]["message"]["tool_calls"]
        result = [{"role": "tool", "tool_call_id": requested["id"], "content": "1"}]
        for secret, session in ((BOB_SECRET, "s"), (ALICE_SECRET, "t")):
            assert post(base, "/v1/chat/completions", secret, messages=result, session_id=session).status == 200
            assert TOKENIZER.controls[CALL] not in engine.requests[-1][0]
        assert post(base, "/v1/chat/completions", ALICE_SECRET, messages=result, session_id="s").status == 200
        assert TOKENIZER.controls[CALL] in engine.requests[-1][0]
