"""The application as Ray runs it, and what its configuration means there. No Ray: only what we hand to it."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.config import Config, load_config
from antiphon.engines import EngineInfo, Sampling
from antiphon.errors import AntiphonError, ConfigError, OverloadedError
from antiphon.http.gate.keys import KeyFile, new_key
from antiphon.ray.engine import Batch, EngineReplica, GenerateCall, Ray, RayFile, decode, encode
from antiphon.ray.replica import (
    ReplicaApp,
    check_keys,
    deployed_models,
    engine_options,
    front_config,
    ingress_options,
    replica_config,
)

FILE = """
model = "fox"
embedding_model = ""
[server]
keys = "keys.json"
[limits]
max_concurrent = 10
max_queue = 20
[models.fox]
format = "chatml"
slots = 40
engine = { kind = "scripted", reply = "The fox jumps." }
"""


def read(folder: Path, flags: Mapping[str, object] | None = None) -> Config:
    (folder / "config.toml").write_text(FILE)
    return load_config({"ANTIPHON_HOME": str(folder)}, flags).config


Message = MutableMapping[str, Any]


async def answer(app: ReplicaApp, **headers: str) -> tuple[list[tuple[str, str]], bytes]:
    """The headers and the body of a chat completion, asked as Ray asks."""
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()
    incoming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions", "query_string": b"", "root_path": "",
        "headers": [(b"content-type", b"application/json"), *raw], "server": ("x", 1), "client": ("x", 2),
    }  # fmt: skip

    async def receive() -> Message:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    fields = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
    return fields, b"".join(message.get("body", b"") for message in sent[1:])


async def test_the_request_id_is_ray_s_and_ray_writes_it(tmp_path: Path) -> None:
    async with ReplicaApp(read(tmp_path)) as app:
        headers, body = await answer(app, x_request_id="from-ray", x_client_request_id="own-1")
    assert "The fox jumps." in json.loads(body)["choices"][0]["message"]["content"]
    assert [value for name, value in headers if name == "x-request-id"] == []
    assert [value for name, value in headers if name == "x-client-request-id"] == ["own-1"]


async def test_an_id_that_the_client_did_not_give_is_not_answered(tmp_path: Path) -> None:
    async with ReplicaApp(read(tmp_path)) as app:
        headers, _ = await answer(app, x_request_id="from-ray")
    assert "x-client-request-id" not in dict(headers)


async def test_a_replica_is_ready_when_its_model_is(tmp_path: Path) -> None:
    async with ReplicaApp(read(tmp_path)) as app:
        app.check_ready()
        assert list(app.context.source.loaded) == ["fox"]
        app.context.lifecycle.drain()
        with pytest.raises(OverloadedError):
            app.check_ready()


async def test_a_replica_whose_model_is_not_there_does_not_start(tmp_path: Path) -> None:
    config = load_config({"ANTIPHON_HOME": str(tmp_path)}).config  # smollm2, which nobody fetched to there
    app, told = ReplicaApp(config), list[Message]()
    incoming: list[Message] = [{"type": "lifespan.startup"}]

    async def receive() -> Message:
        return incoming.pop()

    async def send(message: Message) -> None:
        told.append(message)

    with pytest.raises(AntiphonError, match="not on this machine"):
        await app({"type": "lifespan"}, receive, send)
    assert told[0]["type"] == "lifespan.startup.failed"
    assert "antiphon pull smollm2" in told[0]["message"]


def test_without_keys_nothing_is_deployed_unless_the_operator_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no API keys"):
        check_keys(read(tmp_path))
    check_keys(read(tmp_path, {"server.without_keys": True}))
    KeyFile(tmp_path / "keys.json").add(new_key("ann")[1])
    check_keys(read(tmp_path))


@pytest.mark.parametrize("turn_timeout", [None, 45.0])
def test_a_turn_ends_before_ray_ends_its_replica(tmp_path: Path, turn_timeout: float | None) -> None:
    config = read(tmp_path, {"limits.turn_timeout": turn_timeout, "ray.longest_turn": 90.0})
    limits = replica_config(config).limits
    assert limits.turn_timeout == (turn_timeout or 90.0)
    assert ingress_options(config)["graceful_shutdown_timeout_s"] > limits.turn_timeout + limits.queue_timeout
    assert engine_options(config, "fox")["graceful_shutdown_timeout_s"] > limits.turn_timeout


def test_our_limits_speak_before_ray_s(tmp_path: Path) -> None:
    config = read(tmp_path)
    for options in (ingress_options(config), engine_options(config, "fox")):
        assert options["max_ongoing_requests"] >= config.limits.max_concurrent + config.limits.max_queue
        assert options["max_queued_requests"] == -1


def test_replicas_are_a_number_or_between_two(tmp_path: Path) -> None:
    config = read(tmp_path, {"ray.replicas": 2, "ray.engine_replicas": 1, "ray.engine_max_replicas": 4})
    fixed, scaled = ingress_options(config), engine_options(config, "fox")
    assert (fixed["num_replicas"], "autoscaling_config" in fixed) == (2, False)
    scaling = scaled["autoscaling_config"]
    assert ("num_replicas" in scaled, scaling["min_replicas"], scaling["max_replicas"]) == (False, 1, 4)
    assert scaling["target_ongoing_requests"] == config.ray.engine_ongoing


def test_the_tier_in_front_has_the_engines_elsewhere_and_all_else_as_it_was(tmp_path: Path) -> None:
    config = read(tmp_path, {"model": "smollm2"})
    front = front_config(config)
    assert deployed_models(config) == ("smollm2", "fox")
    assert front.models["fox"].engine == Ray(deployment="engine-fox")
    assert front.models["smollm2"].engine == RayFile(deployment="engine-smollm2")
    for name, entry in front.models.items():
        given = config.entries[name]
        assert replace(entry, engine=given.engine) == given


def test_a_configuration_arrives_at_a_replica_as_it_was(tmp_path: Path) -> None:
    for config in (read(tmp_path), front_config(read(tmp_path))):
        assert pickle.loads(pickle.dumps(config)) == config


async def test_an_engine_s_replica_is_healthy_once_its_model_is_there_and_answers(tmp_path: Path) -> None:
    replica = EngineReplica(read(tmp_path), "fox")
    await replica.check_health()
    info = decode(await replica.describe(), EngineInfo)
    call = encode(GenerateCall(sampling=Sampling(max_tokens=5)))
    steps = [step async for message in replica.generate("", [1, 2], call) for step in decode(message, Batch).steps]
    assert info.name == "scripted"
    assert len([id for step in steps for id in step.ids]) == 5
    with pytest.raises(AntiphonError, match="not on this machine"):
        await EngineReplica(load_config({"ANTIPHON_HOME": str(tmp_path / "x")}).config, "smollm2").check_health()
