"""Shared by all tests: where the vectors lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
VECTORS = HERE / "vectors"
"""Vectors that ship with the repository."""

_beside = HERE.parent.parent / "shared" / "corpora"


def corpora() -> Path | None:
    """The folder named by ANTIPHON_CORPORA, else the shared corpora when they lie beside the clone, else None."""
    named = os.environ.get("ANTIPHON_CORPORA")
    if named:
        return Path(named)
    return _beside if _beside.is_dir() else None


def corpus_file(name: str) -> Path:
    """The vector file ``name`` (its path in the corpora): from ANTIPHON_CORPORA when set, else ours, else beside us."""
    named = os.environ.get("ANTIPHON_CORPORA")
    if named and (Path(named) / name).exists():
        return Path(named) / name
    if (VECTORS / name).exists():
        return VECTORS / name
    folder = corpora()
    if folder is None or not (folder / name).exists():
        pytest.skip(f"{name} is not redistributable and no corpora folder is here: set ANTIPHON_CORPORA")
    return folder / name


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The default chat model's file: ANTIPHON_TEST_MODEL names it, or the folder ANTIPHON_MODELS holds it."""
    named = os.environ.get("ANTIPHON_TEST_MODEL")
    folder = os.environ.get("ANTIPHON_MODELS")
    candidates = [Path(named)] if named else sorted(Path(folder).rglob("SmolLM2-135M*.gguf")) if folder else []
    if not candidates:
        pytest.skip("the default model is not here: set ANTIPHON_TEST_MODEL to its file")
    return candidates[0]
