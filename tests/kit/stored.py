"""The default models in this machine's store."""

from __future__ import annotations

import os
from pathlib import Path


def stored_model(name: str) -> Path:
    """A model of the catalog, fetched when it is not here."""
    # Here, so that tests of other rooms do not load the catalog.
    from antiphon.catalog.files.store import ModelStore
    from antiphon.config import load_config, shipped_entries

    where = {name: value for name in ("ANTIPHON_HOME", "ANTIPHON_CONFIG") if (value := os.environ.get(name))}
    store, entry = ModelStore(Path(load_config(where).config.store.folder)), shipped_entries()[name]
    store.pull(name, entry)
    path = store.path(name, entry)
    assert path is not None
    return path
