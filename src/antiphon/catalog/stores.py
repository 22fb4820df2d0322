"""Opens what a configuration says about the storage of sessions, responses, conversations and chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from antiphon.config import Config, SessionsConfig
from antiphon.store import MEMORY, RunLimits, SessionLimits, Store, StoreFactory, TurnLimits, store_at, store_name
from antiphon.store.opening import NO_STORES


def open_store(
    sessions: SessionsConfig, *, stores: Mapping[str, StoreFactory] = NO_STORES
) -> tuple[Store, SessionLimits]:
    """The store that ``[sessions]`` names, open, and the limits of what is in it. Whoever opened it closes it.

    ``stores`` are factories by name beside those of installed packages. Errors are those of `store_at`.
    """
    turns = TurnLimits(sessions.turn_lifetime, sessions.turn_bytes, sessions.turns_per_key)
    runs = RunLimits(sessions.events, sessions.event_lifetime)
    limits = SessionLimits(lifetime=sessions.lifetime, lease=sessions.lease, turns=turns, runs=runs)
    return store_at(sessions.store, stores=stores), limits


def reasoning_key_file(config: Config) -> Path | None:
    """Where the key is that encrypts reasoning which clients store: it must live as long as the store.

    It is beside a store that is a file, and beside the server's API keys for a store that is elsewhere. None for
    ``memory``: the key then ends with the process, as the store does.
    """
    address = config.sessions.store
    if address == MEMORY:
        return None
    beside = config.server.keys if store_name(address) else address
    return Path(beside).expanduser().with_name("seal.key") if beside else None
