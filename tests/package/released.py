"""`make released TAG=v0.2.0`: exit code 1 where the tag or the changelog is not of this version."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from antiphon.version import __version__

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def objection(tag: str, changelog: str, version: str = __version__) -> str:
    """Why a tag is not to be published; empty where it may."""
    if tag != f"v{version}":
        return f"the tag is {tag!r}, and the version {version}"
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        return f"CHANGELOG.md has no section '## {version} (YYYY-MM-DD)'"
    return ""


if __name__ == "__main__":
    sys.exit(objection(sys.argv[1], CHANGELOG.read_text("utf-8")))
