"""The server's key: made once, kept for its owner alone, and no other key opens what it sealed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from antiphon.conversation import Message, Role
from antiphon.errors import ConfigError, RequestError
from antiphon.wire.sealed import Seal, kept_key

THOUGHT = Message(role=Role.ASSISTANT, text="secret", channel="analysis")


def test_a_server_that_starts_again_opens_what_it_sealed(tmp_path: Path) -> None:
    sealed = Seal(kept_key(tmp_path / "new" / "seal.key")).close(THOUGHT, "ann")
    again = Seal(kept_key(tmp_path / "new" / "seal.key"))
    assert again.open(sealed, "ann", "input[0]") == THOUGHT
    assert stat.S_IMODE((tmp_path / "new" / "seal.key").stat().st_mode) == 0o600
    for stranger, owner in ((again, "bob"), (Seal(kept_key(tmp_path / "other.key")), "ann")):
        with pytest.raises(RequestError) as caught:
            stranger.open(sealed, owner, "input[0]")
        assert caught.value.param == "input[0]"


def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "seal.key").write_bytes(b"short")
    with pytest.raises(ConfigError, match="must hold 32 bytes"):
        kept_key(tmp_path / "seal.key")
    with pytest.raises(ConfigError, match="cannot be kept"):
        kept_key(tmp_path / "seal.key" / "inside")
