"""Where the vectors lie that tests compare with."""

from __future__ import annotations

import os
from pathlib import Path

VECTORS = Path(__file__).parents[1] / "vectors"
"""Vectors that ship with the repository."""


def corpora() -> Path | None:
    """The folder with further vectors that ANTIPHON_CORPORA names, if it does (``make acceptance``)."""
    named = os.environ.get("ANTIPHON_CORPORA")
    return Path(named) if named else None


def corpus_file(name: str) -> Path:
    """The vector file ``name``: in the folder of ANTIPHON_CORPORA when it is there, else in the repository's."""
    folders = [folder for folder in (corpora(), VECTORS) if folder is not None]
    return next((folder / name for folder in folders if (folder / name).exists()), VECTORS / name)
