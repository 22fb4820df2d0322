"""The server's key: made once, readable by its owner alone, and no other key decrypts what it encrypted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from antiphon.conversation import Message, Role
from antiphon.errors import ConfigError, RequestError
from antiphon.store.key_file import stored_key
from antiphon.wire.encrypted import ReasoningCipher

THOUGHT = Message(role=Role.ASSISTANT, text="secret", channel="analysis")


def test_a_server_that_starts_again_decrypts_what_it_encrypted(tmp_path: Path) -> None:
    encrypted = ReasoningCipher(stored_key(tmp_path / "new" / "seal.key")).encrypt(THOUGHT, "ann")
    again = ReasoningCipher(stored_key(tmp_path / "new" / "seal.key"))
    assert again.decrypt(encrypted, "ann", "input[0]") == THOUGHT
    assert stat.S_IMODE((tmp_path / "new" / "seal.key").stat().st_mode) == 0o600
    for stranger, owner in ((again, "bob"), (ReasoningCipher(stored_key(tmp_path / "other.key")), "ann")):
        with pytest.raises(RequestError) as caught:
            stranger.decrypt(encrypted, owner, "input[0]")
        assert caught.value.param == "input[0]"


def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    for size, path, says in (
        (31, "seal.key", "must hold 32 bytes, and holds 31"),
        (33, "seal.key", "must hold 32 bytes, and holds 33"),
        (32, "seal.key/inside", "cannot be kept"),
    ):
        (tmp_path / "seal.key").write_bytes(b"x" * size)
        with pytest.raises(ConfigError, match=says) as caught:
            stored_key(tmp_path / path)
        assert caught.value.code == "encryption_key"
    assert stored_key(tmp_path / "seal.key") == b"x" * 32


def test_two_keys_are_two(tmp_path: Path) -> None:
    assert len(stored_key(tmp_path / "a")) == 32
    assert stored_key(tmp_path / "a") != stored_key(tmp_path / "b")


def test_processes_that_begin_at_once_have_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each link is made when another process has made its own."""
    path, link, others = tmp_path / "seal.key", os.link, list[bytes]()

    def late(new: Path, made: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        others.append(stored_key(path))
        link(new, made)

    monkeypatch.setattr(os, "link", late)
    assert [stored_key(path)] == others
    assert [file.name for file in tmp_path.iterdir()] == ["seal.key"]


@pytest.mark.parametrize("size", [0, 15, 31, 33])
def test_a_key_of_another_size_is_refused_at_once(size: int) -> None:
    with pytest.raises(ValueError, match=f"this one {size}"):
        ReasoningCipher(bytes(size))
