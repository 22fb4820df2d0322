"""Shared by all tests: where the vectors lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from antiphon.errors import ModelError

# A machine that is busy is no failure: no example has a time limit of its own.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

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
    """The default chat model: the file that ANTIPHON_TEST_MODEL names, else the store's, fetched when needed."""
    named = os.environ.get("ANTIPHON_TEST_MODEL")
    return Path(named) if named else stored_model("smollm2")


@pytest.fixture(scope="session")
def minilm_path() -> Path:
    """The sentence encoder, converted: the store's, fetched when needed."""
    return stored_model("all-minilm-l6-v2")


def stored_model(name: str) -> Path:
    """A model of the catalogue. Skips the test when it is not here and cannot be fetched."""
    from antiphon.config.config import load_config  # here, so that tests of other rooms do not load the catalogue
    from antiphon.config.entries import builtin_catalogue
    from antiphon.models.store import ModelStore

    where = {name: value for name in ("ANTIPHON_HOME", "ANTIPHON_CONFIG") if (value := os.environ.get(name))}
    store, entry = ModelStore(Path(load_config(where).config.store.folder)), builtin_catalogue()[name]
    try:
        store.pull(name, entry)
    except ModelError as error:
        pytest.skip(f"the model {name} is not here and cannot be fetched: {error}")
    path = store.path(name, entry)
    assert path is not None
    return path
