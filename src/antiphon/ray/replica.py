"""The application as a replica of Ray Serve runs it, and the options of deployments there. None of it needs Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from antiphon.config import Config, find_entry
from antiphon.errors import AntiphonError, ConfigError
from antiphon.http.gate.keys import KeyFile
from antiphon.library.app import Additions, App

from .engine import Ray, RayFile

# Options on Ray Serve for a configuration: its limits there, and the options of its deployments. Values only.

INGRESS = "antiphon"
"""The deployment that answers requests."""
MARGIN = 10.0
"""Seconds in which a replica that leaves may still say that a turn has met its limit."""
SPARE = 64
"""Requests beside those that wait for a turn: lists of models, health, metrics."""
ROUTER = "antiphon.ray.router.PrefixRouter"


def longest_turn(config: Config) -> float:
    """Seconds that a turn may take."""
    return config.limits.turn_timeout or config.ray.longest_turn


def replica_config(config: Config) -> Config:
    """The configuration for a replica: a turn always has a limit, so that we end it, in form, before Ray does."""
    limits = msgspec.structs.replace(config.limits, turn_timeout=longest_turn(config))
    return msgspec.structs.replace(config, limits=limits)


def ingress_options(config: Config) -> dict[str, Any]:
    """Ray options of the ingress deployment.

    Ray's own limit of requests lies above ours: its refusal has no body that a client of ours could read.
    """
    ray, limits = config.ray, config.limits
    return {
        "name": INGRESS,
        "max_ongoing_requests": limits.concurrent + limits.max_queue + SPARE,
        "max_queued_requests": -1,
        "graceful_shutdown_timeout_s": limits.queue_timeout + longest_turn(config) + MARGIN,
        "ray_actor_options": {"num_cpus": ray.cpus},
        "logging_config": {"enable_access_log": False},
        **_scale(config, ray.replicas, ray.max_replicas, ray.ongoing),
    }


def engine_options(config: Config, model: str) -> dict[str, Any]:
    """Ray options of a model's engine: its requests are routed by the ids of their prompts."""
    ray, limits = config.ray, config.limits
    _, entry = find_entry(model, config.entries)
    return {
        "name": engine_name(model),
        "max_ongoing_requests": max(entry.slots or 0, limits.concurrent + limits.max_queue),
        "max_queued_requests": -1,
        "graceful_shutdown_timeout_s": longest_turn(config) + MARGIN,
        "ray_actor_options": {"num_cpus": ray.engine_cpus, "num_gpus": ray.engine_gpus},
        "request_router_config": {"request_router_class": ROUTER},
        "logging_config": {"enable_access_log": False},
        **_scale(config, ray.engine_replicas, ray.engine_max_replicas, ray.engine_ongoing),
    }


def _scale(config: Config, replicas: int, most: int, ongoing: float) -> dict[str, Any]:
    if most <= replicas:
        return {"num_replicas": replicas}
    return {
        "autoscaling_config": {
            "min_replicas": replicas,
            "max_replicas": most,
            "target_ongoing_requests": ongoing,
            "upscale_delay_s": config.ray.scale_out_after,
            "downscale_delay_s": config.ray.scale_in_after,
        }
    }


def engine_name(model: str) -> str:
    """The name of the deployment of a model's engine."""
    return "engine-" + "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in model)


def deployed_models(config: Config) -> tuple[str, ...]:
    """The models whose engines have deployments of their own: the default, and those of the file."""
    return tuple(dict.fromkeys((find_entry(config.model, config.entries)[0], *config.models)))


def front_config(config: Config) -> Config:
    """The configuration of the tier in front: the engines of those models are elsewhere."""
    default, entry = find_entry(config.model, config.entries)
    entries: Mapping[str, Any] = {default: entry, **config.models}
    models = {
        name: msgspec.structs.replace(
            entry, engine=(RayFile if entry.engine.needs_file else Ray)(deployment=engine_name(name))
        )
        for name, entry in entries.items()
    }
    return msgspec.structs.replace(config, model=default, models=models)


REQUEST_ID, OWN_ID = "x-request-id", "x-client-request-id"


def check_keys(config: Config) -> None:
    """Raises `ConfigError` where there are no keys and the configuration does not say that none are needed.

    Unlike `antiphon serve`, loopback is no excuse: where Ray listens is not ours to say, nor who reaches its replicas.
    """
    if not config.server.without_keys and KeyFile(Path(config.server.keys)).read() is None:
        raise ConfigError(
            "Ray may be reached from other machines, and there are no API keys",
            code="keys_missing",
            hint="Make one with antiphon keys add NAME, or say server.without_keys = true.",
        )


class ReplicaApp(App):
    """Ready when its default model is: a replica whose model cannot be loaded fails, and does not get requests.

    Ray adds ``x-request-id`` to every request and answer, so ours is that one, and not written again. What a client
    says in ``x-client-request-id`` comes back under that name.
    """

    def __init__(self, config: Config, **additions: Unpack[Additions]) -> None:
        super().__init__(config, preload=True, **additions)

    async def __aenter__(self) -> ReplicaApp:
        await super().__aenter__()
        loaded: asyncio.Future[AntiphonError | None] = asyncio.get_running_loop().create_future()
        self.context.lifecycle.on_first_load(loaded.set_result)
        error = await loaded
        if error is not None:
            await self.__aexit__(None, None, None)
            raise error
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        own = Headers(scope=scope).get(OWN_ID)
        scope = {**scope, "headers": [field for field in scope["headers"] if field[0] != OWN_ID.encode()]}

        async def send_once(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                del headers[REQUEST_ID]
                if own is not None:
                    headers[OWN_ID] = own
            await send(message)

        await super().__call__(scope, receive, send_once)

    def check_ready(self) -> None:
        """Raises `OverloadedError` when the replica takes no requests."""
        self.context.lifecycle.check_ready()
