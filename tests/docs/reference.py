"""Writes the pages of docs/ whose names begin with ``reference-``, each from the code that it is about.

``python tests/docs/reference.py`` writes them into docs/.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from docs.reference_cli import cli_page
from docs.reference_configuration import configuration_page
from docs.reference_python import packages_page, python_page
from docs.reference_routes import routes_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES: Mapping[str, Callable[[], str]] = {
    "reference-cli.md": cli_page,
    "reference-configuration.md": configuration_page,
    "reference-packages.md": packages_page,
    "reference-python.md": python_page,
    "reference-routes.md": routes_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")
