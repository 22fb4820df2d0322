"""Some files of source distributions, which are fetched whole and not kept: nothing is built or installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from kit import source_metadata

BACKENDS = ("hatchling/build.py", "maturin.py", "scikit_build_core/build.py", "setuptools/build_meta.py")
"""The build backends of what is fetched, which must not run."""


def fetch_sources(lock: Path, members: re.Pattern[str], folder: Path) -> None:
    """Puts the files whose names match, of each source that ``lock`` names with its hash, into ``folder``.

    Raises CalledProcessError where pip finds no such source.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as place:
        download_sources(place, "--require-hashes", "-r", str(lock))
        for archive in sorted(Path(place).glob("*.tar.gz")):
            with tarfile.open(archive) as source:
                chosen = [member for member in source if members.fullmatch(member.name.partition("/")[2])]
                source.extractall(folder, chosen, filter="data")


def download_sources(place: str | Path, *requirements: str) -> None:
    """Puts the archives of pip's ``requirements`` into ``place``. Raises CalledProcessError as `fetch_sources` does."""
    with TemporaryDirectory() as backends:
        for backend in BACKENDS:
            file = Path(backends, backend)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.parent.joinpath("__init__.py").touch()
            shutil.copy(source_metadata.__file__, file)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
        options += ["--ignore-requires-python", "--no-binary", ":all:", "--dest", str(place)]
        download = [sys.executable, "-m", "pip", "download", *options, *requirements]
        subprocess.run(download, check=True, env={**os.environ, "PYTHONPATH": backends})


if __name__ == "__main__":
    download_sources(*sys.argv[1:])
