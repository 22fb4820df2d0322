"""Tests over vectors that a clone does not have: collected only where ANTIPHON_CORPORA names their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.tokens import Tokenizer
from antiphon.tokens.bpe import o200k_harmony
from kit.corpora import corpora


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if corpora() is None else None


@pytest.fixture(scope="session")
def o200k() -> Tokenizer:
    return o200k_harmony()
