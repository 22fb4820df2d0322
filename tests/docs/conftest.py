"""The server of the pages: the program, with the default model, at a port of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.blocks import own_tools
from kit.program import serving


@pytest.fixture(scope="session")
def server(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("home")
    tools = home / "mytools.py"
    tools.write_text(own_tools())
    (home / "config.toml").write_text(f'[models.smollm2]\nsource = "{smollm2_path}"\n[tools]\nnames = "{tools}"\n')
    with serving(home) as (_, url):
        yield url
