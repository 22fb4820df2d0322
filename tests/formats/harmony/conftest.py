"""The vocabulary of gpt-oss, read once."""

from __future__ import annotations

import pytest

from antiphon.tokens import Tokenizer
from antiphon.tokens.bpe import o200k_harmony


@pytest.fixture(scope="session")
def o200k() -> Tokenizer:
    return o200k_harmony()
