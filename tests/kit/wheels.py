"""Some files of a wheel, which is fetched whole and not kept: nothing is installed, and nothing that it depends on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64")
"""Of the wheels, which are only read: the machine that reads them may be another."""


def fetch_files(requirement: str, members: re.Pattern[str], folder: Path, *, python: str = "3.10") -> None:
    """Puts the files whose names match, of the wheel for a version of Python, into ``folder``.

    Raises CalledProcessError where pip finds no such wheel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as place:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", place]
        target = ["--python-version", python, "--abi", f"cp{python.replace('.', '')}"]
        target += [option for platform in PLATFORMS for option in ("--platform", platform)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, *target, requirement], check=True)
        with ZipFile(next(Path(place).glob("*.whl"))) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if members.fullmatch(name)])
