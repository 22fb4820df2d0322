"""The server of the pages: the program, with the default model, at a port of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.blocks import own_tools
from kit.program import serving


@pytest.fixture(scope="session")
def home(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose configuration gives the default model no more room than the pages need."""
    home = tmp_path_factory.mktemp("home")
    model = f'[models.smollm2]\nsource = "{smollm2_path}"\ncontext = 2048\nslots = 2\n'
    (home / "config.toml").write_text(f'{model}[tools]\nnames = "{home / "mytools.py"}"\n')
    (home / "mytools.py").write_text(own_tools())
    return home


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[str]:
    with serving(home) as (_, url):
        yield url
