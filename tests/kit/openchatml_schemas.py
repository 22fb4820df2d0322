"""The schemas of OpenChatML as files in docs/schemas. Run as a script it writes them anew."""

from __future__ import annotations

import json
from pathlib import Path

from antiphon.formats.openchatml import SCHEMAS

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


def files() -> dict[str, str]:
    """Each file's name and text."""
    return {f"openchatml-{name}.json": json.dumps(schema, indent=1) + "\n" for name, schema in SCHEMAS.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, "utf-8")
