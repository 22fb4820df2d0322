"""`antiphon keys`."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert json.loads(listed.stdout) == [{"name": "alice", "scopes": ["inference", "debug"]}]
    assert secret not in listed.stdout
    assert in_process("keys", "add", "alice", home=tmp_path).returncode == 2
    assert in_process("keys", "rm", "alice", home=tmp_path).returncode == 0
    assert in_process("keys", "rm", "alice", home=tmp_path).returncode == 2


def test_a_server_beyond_this_machine_wants_keys(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('model = "demo"\n[models.demo]\nengine = "scripted"\n')
    done = in_process("serve", "--host", "0.0.0.0", "--port", "0", home=tmp_path)
    assert done.returncode == 2
    assert "antiphon keys add" in done.stderr
