"""Where sessions are stored, by address."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.catalog import open_store, reasoning_key_file
from antiphon.config import Config, ServerConfig, SessionsConfig, load_config
from antiphon.errors import ConfigError
from antiphon.store import MemoryStore, SqliteStore, Store


async def test_an_address_is_memory_or_a_file(tmp_path: Path) -> None:
    memory, limits = open_store(SessionsConfig(store="memory", lifetime=5))
    assert isinstance(memory, MemoryStore)
    assert limits.lifetime == 5
    file, _ = open_store(SessionsConfig(store=str(tmp_path / "sessions.db")))
    assert isinstance(file, SqliteStore)
    await file.aclose()


def test_a_store_that_is_handed_in_gets_its_whole_address() -> None:
    opened: list[str] = []

    def open_mine(address: str) -> Store:
        opened.append(address)
        return MemoryStore()

    store, _ = open_store(SessionsConfig(store="mine://host/db"), stores={"mine": open_mine})
    assert isinstance(store, MemoryStore)
    assert opened == ["mine://host/db"]


def test_an_unknown_store_is_reported_with_the_near_names() -> None:
    with pytest.raises(ConfigError, match=r"unknown store 'postgers'.*postgres") as caught:
        open_store(SessionsConfig(store="postgers://x"), stores={"postgres": lambda address: MemoryStore()})
    assert caught.value.code == "store_unknown"


@pytest.mark.parametrize(
    ("store", "path"),
    [("memory", None), ("/data/sessions.db", "/data/seal.key"), ("mine://host/db", "/settings/seal.key")],
)
def test_the_key_that_encrypts_reasoning_lives_as_long_as_the_store(store: str, path: str | None) -> None:
    config = Config(sessions=SessionsConfig(store=store), server=ServerConfig(keys="/settings/keys.json"))
    assert reasoning_key_file(config) == (Path(path) if path else None)


@pytest.mark.parametrize("address", ["mine://host/db", "memory", "/abs/x.db"])
def test_only_a_relative_path_is_relative_to_the_configuration(tmp_path: Path, address: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[sessions]\nstore = "{address}"')
    assert load_config({"ANTIPHON_CONFIG": str(file)}).config.sessions.store == address
    file.write_text('[sessions]\nstore = "x.db"')
    assert load_config({"ANTIPHON_CONFIG": str(file)}).config.sessions.store == str(tmp_path / "x.db")
