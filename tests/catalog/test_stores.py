"""Where sessions are stored, by address."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.catalog import open_store, reasoning_key_file
from antiphon.config import Config, ServerConfig, SessionsConfig, load_config
from antiphon.errors import ConfigError
from antiphon.store import MemoryStore, SqliteStore, Store, store_at, store_name


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


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("memory", None),
        ("/data/x.db", None),
        ("x.db", None),
        ("./postgres:x", None),
        ("C:\\x.db", None),
        ("1a:x", None),
        ("pg:x", "pg"),
        ("Postgres://host/db", "postgres"),
        ("a+b.c-d1:x", "a+b.c-d1"),
    ],
)
def test_a_name_before_a_colon_is_a_store_s_and_one_letter_is_a_drive_s(address: str, name: str | None) -> None:
    assert store_name(address) == name


async def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = store_at("~/deep/sessions.db")
    assert isinstance(store, SqliteStore)
    await store.aclose()
    assert (tmp_path / "deep" / "sessions.db").exists()


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's, installed: its module, and the record that names its entry points."""
    record = tmp_path / "outside_stores-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-stores\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(
        "[antiphon.stores]\ntheirs = outside_stores:opened\nnumber = outside_stores:NUMBER\n"
    )
    (tmp_path / "outside_stores.py").write_text(
        "from antiphon.store import MemoryStore\nNUMBER = 7\n"
        "class Theirs(MemoryStore):\n    address = ''\n"
        "def opened(address):\n    store = Theirs(limit=77)\n    Theirs.address = address\n    return store\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("_package")
def test_a_package_s_store_is_opened_by_its_name_with_its_whole_address() -> None:
    store = store_at("Theirs://host/db")
    assert isinstance(store, MemoryStore)
    assert (store.limit, getattr(store, "address", None)) == (77, "Theirs://host/db")
    own = MemoryStore()
    assert store_at("theirs:x", stores={"theirs": lambda address: own}) is own, "what is handed in counts first"


@pytest.mark.usefixtures("_package")
def test_a_package_that_publishes_no_store_and_a_name_that_nobody_has_are_told_apart() -> None:
    with pytest.raises(ConfigError, match="'number' is no function") as caught:
        store_at("number:x")
    assert caught.value.code == "plugin_unusable"
    with pytest.raises(ConfigError, match="unknown store 'their'") as caught:
        store_at("their:x")
    assert caught.value.code == "store_unknown"
    assert "theirs" in (caught.value.hint or "")
    assert "./their:" in (caught.value.hint or "")
