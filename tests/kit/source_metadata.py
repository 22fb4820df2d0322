"""Stands in for the build backends of sources that are only read: their metadata is what they bring along.

Pip asks the backend of a source for its metadata even where it only downloads it, and some of those compile.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path


def prepare_metadata_for_build_wheel(folder: str, settings: object = None) -> str:
    """Lays the PKG-INFO of the source in the working folder into ``folder``, as pip wants it."""
    text = Path("PKG-INFO").read_text("utf-8")
    name, version = (re.search(rf"^{key}: (.+)$", text, re.MULTILINE) for key in ("Name", "Version"))
    assert name
    assert version
    made = Path(folder, f"{name[1].replace('-', '_')}-{version[1]}.dist-info")
    made.mkdir()
    shutil.copy("PKG-INFO", made / "METADATA")
    return made.name


def build_wheel(*_: object) -> str:
    raise NotImplementedError("these sources are only read")
