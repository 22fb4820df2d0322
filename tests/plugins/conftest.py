"""Packages of others, installed where a program can import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = [str(Path(__file__).parent / name) for name in ("engine", "store", "format", "wire")]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages, built and installed as any other is; no index is queried."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--disable-pip-version-check", "--target", str(folder), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
