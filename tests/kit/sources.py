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

BACKENDS = ("maturin.py", "setuptools/build_meta.py")
"""The build backends of what is fetched, which must not run."""


def fetch_sources(lock: Path, members: re.Pattern[str], folder: Path) -> None:
    """Puts the files whose names match, of each source that ``lock`` names with its hash, into ``folder``.

    Raises CalledProcessError where pip finds no such source.
    """
    names = re.findall(r"^([\w-]+)==", lock.read_text(), re.MULTILINE)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as place:
        for backend in BACKENDS:
            file = Path(place, "backends", backend)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.parent.joinpath("__init__.py").touch()
            shutil.copy(source_metadata.__file__, file)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
        options += ["--ignore-requires-python", "--no-binary", ",".join(names), "--require-hashes", "-r", str(lock)]
        environ = {**os.environ, "PYTHONPATH": str(Path(place, "backends"))}
        download = [sys.executable, "-m", "pip", "download", *options, "--dest", place]
        subprocess.run(download, check=True, env=environ)
        for archive in sorted(Path(place).glob("*.tar.gz")):
            with tarfile.open(archive) as source:
                chosen = [member for member in source if members.fullmatch(member.name.partition("/")[2])]
                source.extractall(folder, chosen, filter="data")
