"""`antiphon store`: from one store to another, with nothing lost, and damage found."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.config import explained
from antiphon.config import load_config
from antiphon.store import Key, Record, Store, store_at
from kit.postgres import Postgres
from kit.program import antiphon, in_process

WRITTEN = {
    Key("session", "ann", "s"): (Record(b"", 1.5, 9e9), [b"one", b"", bytes(range(256))]),
    Key("response", "", "nul\0and \N{GREEK SMALL LETTER OMEGA}"): (Record(b"{}", 2.0), []),
    Key("file_part", "bob", "f/000001"): (Record(b"x" * 70_000, 3.0, 1.0), [b"y" * 70_000]),
}


async def fill(address: str) -> None:
    store = store_at(address)
    for key, (record, entries) in WRITTEN.items():
        await store.put(key, record, *entries)
    await store.aclose()


async def content(address: str) -> dict[Key, tuple[Record | None, list[bytes]]]:
    store: Store = store_at(address)
    found = {key: (await store.get(key), await store.entries(key)) for key in WRITTEN}
    await store.aclose()
    return found


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    address = str(tmp_path / "store.db")
    asyncio.run(fill(address))
    return address


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as name:
        yield postgres.address(name)


def test_a_store_moves_to_postgresql_and_back(tmp_path: Path, sqlite: str, database: str) -> None:
    """Through a pipe and through a file, with the address from the environment."""
    exported = antiphon("store", "export", "--store", sqlite, home=tmp_path)
    assert exported.returncode == 0, exported.stderr
    imported = antiphon(
        "store", "import", "--json", home=tmp_path, stdin=exported.stdout, ANTIPHON_SESSIONS_STORE=database
    )
    assert imported.returncode == 0, imported.stderr
    assert json.loads(imported.stdout) == {"added": 3, "same": 0, "kept": [], "damaged_at_export": 0}
    assert asyncio.run(content(database)) == WRITTEN
    file = tmp_path / "moved.jsonl"
    back = in_process("store", "export", str(file), home=tmp_path, ANTIPHON_SESSIONS_STORE=database)
    assert (back.returncode, back.stdout) == (0, "3 records, 4 entries, 140,261 bytes\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = str(tmp_path / "again.db")
    assert in_process("store", "import", str(file), "--store", again, home=tmp_path).returncode == 0
    assert asyncio.run(content(again)) == WRITTEN
    for address in (database, again):
        checked = in_process("store", "check", "--json", "--store", address, home=tmp_path)
        assert json.loads(checked.stdout) == {"records": 3, "entries": 4, "bytes": 140_261, "damaged": []}


def test_what_is_there_already_stays_and_is_named(tmp_path: Path, sqlite: str) -> None:
    file, other, changed = tmp_path / "x.jsonl", str(tmp_path / "other.db"), next(iter(WRITTEN))
    in_process("store", "export", str(file), "--store", sqlite, home=tmp_path)

    async def change() -> None:
        store = store_at(other)
        await store.put(changed, Record(b"theirs", 1.5))
        await store.aclose()

    asyncio.run(change())
    refused = in_process("store", "import", str(file), "--store", other, home=tmp_path)
    assert (refused.returncode, "[store_not_empty]" in refused.stderr) == (2, True)
    for added in (2, 0):
        merged = in_process("store", "import", "--merge", str(file), "--store", other, "--json", home=tmp_path)
        assert merged.returncode == 1
        report = json.loads(merged.stdout)
        assert (report["added"], report["same"], report["kept"]) == (added, 2 - added, ["session s"])
    assert asyncio.run(content(other)) == {**WRITTEN, changed: (Record(b"theirs", 1.5), [])}


def test_damage_is_named_and_the_rest_is_exported(tmp_path: Path, sqlite: str) -> None:
    other = sqlite3.connect(sqlite)
    with other:
        other.execute("UPDATE entry SET value = CAST('two' AS BLOB) WHERE value = CAST('one' AS BLOB)")
        other.execute("UPDATE record SET name = CAST(x'ff' AS TEXT) WHERE kind = 'response'")
    other.close()
    checked = in_process("store", "check", "--store", sqlite, "--json", home=tmp_path)
    assert checked.returncode == 1
    assert json.loads(checked.stdout)["damaged"] == ["session s", None]
    words = in_process("store", "check", "--store", sqlite, home=tmp_path).stdout
    assert words == "1 records, 1 entries, 140,000 bytes; damaged: session s, (without a name)\n"
    file, copy = tmp_path / "x.jsonl", str(tmp_path / "copy.db")
    assert in_process("store", "export", str(file), "--store", sqlite, home=tmp_path).returncode == 1
    imported = in_process("store", "import", str(file), "--store", copy, "--json", home=tmp_path)
    assert imported.returncode == 1
    assert json.loads(imported.stdout) == {"added": 1, "same": 0, "kept": [], "damaged_at_export": 2}


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([], 1),
        (["{}"], 1),
        (['{"type": "antiphon_store", "format": 2}'], 1),
        (['{"type": "antiphon_store", "format": 1}'], 2),
        (['{"type": "antiphon_store", "format": 1}', '{"type": "end", "records": 1, "damaged": 0}'], 2),
        (['{"type": "antiphon_store", "format": 1}', '{"type": "antiphon_store", "format": 1}'], 2),
        (['{"type": "antiphon_store", "format": 1}', '{"type": "record", "kind": "k"}'], 2),
        (['{"type": "end", "records": 0, "damaged": 0}'], 1),
        (["[" * 100_000], 1),
    ],
)
def test_a_file_that_is_no_whole_export_is_refused(tmp_path: Path, lines: list[str], line: int) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("".join(f"{one}\n" for one in lines))
    done = in_process("store", "import", str(file), "--store", str(tmp_path / "x.db"), home=tmp_path)
    assert done.returncode == 2
    assert f"error: line {line} is not" in done.stderr


def test_a_file_is_never_written_over_and_a_store_is_not_made_to_be_read(tmp_path: Path, sqlite: str) -> None:
    (tmp_path / "x.jsonl").write_text("mine")
    done = in_process("store", "export", str(tmp_path / "x.jsonl"), "--store", sqlite, home=tmp_path)
    assert (done.returncode, "[export_file]" in done.stderr) == (2, True)
    assert (tmp_path / "x.jsonl").read_text() == "mine"
    for action in ("check", "export"):
        done = in_process("store", action, "--store", str(tmp_path / "typo.db"), home=tmp_path)
        assert (done.returncode, "[store_unusable]" in done.stderr) == (2, True)
    assert not (tmp_path / "typo.db").exists()
    done = in_process("store", "import", str(tmp_path / "none.jsonl"), "--store", sqlite, home=tmp_path)
    assert (done.returncode, "[import_unreadable]" in done.stderr) == (2, True)
    done = in_process("store", "check", "--store", "memory", home=tmp_path)
    assert (done.returncode, "cannot be listed" in done.stderr) == (2, True)


def test_migrate_says_which_version_there_was(tmp_path: Path, database: str) -> None:
    for address, version in ((str(tmp_path / "new.db"), 3), (database, 1)):
        for before in (0, version):
            done = in_process("store", "migrate", "--store", address, "--json", home=tmp_path)
            assert json.loads(done.stdout) == {"before": before, "after": version}
    assert in_process("store", "migrate", "--store", "memory", home=tmp_path).returncode == 2


def test_a_password_is_in_no_configuration_that_is_shown(tmp_path: Path) -> None:
    address = "postgresql://ann:very%2Fsecret@127.0.0.1:1/db?sslpassword=very%2Fsecret"
    (tmp_path / "config.toml").write_text(f'[sessions]\nstore = "{address}"')
    loaded = load_config({"ANTIPHON_HOME": str(tmp_path)}, {"sessions.store": f"{address}&x=1"})
    assert "secret" not in f"{loaded.rows()} {explained(loaded, 'sessions.store')}"
    shown = "postgresql://ann:***@127.0.0.1:1/db?sslpassword=***&x=1"
    assert ("sessions.store", shown, "flag --store") in loaded.rows()
    done = in_process("store", "check", home=tmp_path)
    assert done.returncode == 2
    assert "postgresql://ann:***@127.0.0.1:1/db" in done.stderr
    assert "secret" not in done.stderr
