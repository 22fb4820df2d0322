"""Applications of Ray Serve: all in one deployment, or one in front and one for each model's engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray import serve

from antiphon.config import Config
from antiphon.config.load import read_config
from antiphon.observe.logs import set_up_log

from .engine import EngineReplica
from .replica import (
    ReplicaApp,
    check_keys,
    deployed_models,
    engine_options,
    front_config,
    ingress_options,
    replica_config,
)


def app(arguments: Mapping[str, Any]) -> serve.Application:
    """``serve run antiphon.ray:app``: each replica is what `antiphon serve` runs, engines and all.

    ``arguments`` are dotted keys of the configuration, whose file and environment are those of the process that
    deploys. Raises `ConfigError`.
    """
    config = read_config(None, dict(arguments))
    check_keys(config)
    return ingress(replica_config(config), ingress_options(config)).bind()


def two_tier(arguments: Mapping[str, Any]) -> serve.Application:
    """``serve run antiphon.ray:two_tier``: conversations in one deployment, and each model's engine in one of its own.

    A prompt goes to the replica of its engine that has the most of it in its cache. ``arguments`` as in `app`.
    """
    config = read_config(None, dict(arguments))
    check_keys(config)
    engines = [
        serve.deployment(EngineReplica).options(**engine_options(config, name)).bind(config, name)
        for name in deployed_models(config)
    ]
    return ingress(front_config(replica_config(config)), ingress_options(config)).bind(*engines)


def ingress(config: Config, options: Mapping[str, Any]) -> serve.Deployment:
    """The deployment that answers requests. Replicas get the configuration, and open what it names where they are."""

    def build() -> ReplicaApp:
        log = config.log
        set_up_log(form=log.form, level=log.level, access=log.access, file=log.file)
        return ReplicaApp(config)

    class Antiphon:
        """A replica. ``engines`` are bound so that Ray deploys them with it."""

        def __init__(self, *engines: object) -> None:
            self.engines = engines

        async def check_health(self) -> None:
            self.app.check_ready()  # type: ignore[attr-defined]  # `serve.ingress` adds it

    return serve.deployment(serve.ingress(build)(Antiphon)).options(**options)
