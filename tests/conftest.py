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
