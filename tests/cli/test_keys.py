"""`antiphon keys`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.serve import places
from antiphon.config import Config
from antiphon.http.gate.keys import KeyFile, Keyring
from kit.program import in_process


def test_a_key_is_shown_once_listed_by_name_and_removed(tmp_path: Path) -> None:
    added = in_process("keys", "add", "alice", "--scope", "inference", "--scope", "debug", home=tmp_path)
    secret = added.stdout.strip()
    ring = Keyring(KeyFile(tmp_path / "keys.json").read())
    principal = ring.principal(secret.encode())
    assert principal is not None
    assert (principal.name, sorted(principal.scopes)) == ("alice", ["debug", "inference"])
    listed = in_process("keys", "list", "--json", home=tmp_path)
    unlimited = {"requests_per_minute": None, "tokens_per_minute": None, "concurrent": None}
    assert json.loads(listed.stdout) == [{"name": "alice", "scopes": ["inference", "debug"], **unlimited}]
    assert secret not in listed.stdout
    assert in_process("keys", "add", "alice", home=tmp_path).returncode == 2
    assert in_process("keys", "rm", "alice", home=tmp_path).returncode == 0
    assert in_process("keys", "rm", "alice", home=tmp_path).returncode == 2


def test_limits_change_and_the_secret_stays(tmp_path: Path) -> None:
    secret = in_process("keys", "add", "bob", "--tokens-per-minute", "100", home=tmp_path).stdout.strip()
    changed = in_process("keys", "set", "bob", "--concurrent", "0", "--scope", "admin", "--json", home=tmp_path)
    expected = {"requests_per_minute": None, "tokens_per_minute": 100, "concurrent": 0}
    assert json.loads(changed.stdout) == {"name": "bob", "scopes": ["admin"], **expected}
    principal = Keyring(KeyFile(tmp_path / "keys.json").read()).principal(secret.encode())
    assert principal is not None
    assert principal.name == "bob"
    assert in_process("keys", "list", home=tmp_path).stdout == "bob\tadmin\t\t100\tnone\n"
    again = in_process("keys", "set", "bob", "--server-limits", "--requests-per-minute", "5", "--json", home=tmp_path)
    expected = {"requests_per_minute": 5, "tokens_per_minute": None, "concurrent": None}
    assert json.loads(again.stdout) == {"name": "bob", "scopes": ["admin"], **expected}


@pytest.mark.parametrize(("words", "said"), [("bob", "nothing"), ("bobb --concurrent 1", "Did you mean bob")])
def test_a_change_of_nothing_or_nobody_is_refused(words: str, said: str, tmp_path: Path) -> None:
    in_process("keys", "add", "bob", home=tmp_path)
    done = in_process("keys", "set", *words.split(), home=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("command", ["keys", "tools"])
def test_an_empty_list_says_so_beside_its_output(tmp_path: Path, command: str) -> None:
    listed = in_process(command, "list", home=tmp_path)
    assert (listed.returncode, listed.stdout) == (0, "")
    assert listed.stderr.startswith("There is no ")
    assert json.loads(in_process(command, "list", "--json", home=tmp_path).stdout) == []


def test_the_last_key_that_is_removed_opens_nothing_and_each_place_says_so(tmp_path: Path) -> None:
    in_process("keys", "add", "ada", home=tmp_path)
    removed = in_process("keys", "rm", "ada", home=tmp_path)
    listed = in_process("keys", "list", home=tmp_path)
    assert all("no key any more, so nobody may ask" in done.stderr for done in (removed, listed))
    closed = places(Config(), "http://x", None, keys=[])
    assert any(line.startswith("keys        no key any more, so nobody may ask") for line in closed)
    open_places = places(Config(), "http://x", None, keys=None)
    assert any(line == "keys        none: open to this machine" for line in open_places)
