"""Fetches the files that LMDeploy's templates are made of: ``fetch_lmdeploy.py FOLDER``, what is there is not fetched.

A wheel has a hundred megabytes, of which three small files stay; nothing that it depends on is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

sys.path.insert(0, str(Path(__file__).parents[2]))

from kit.lmdeploy_release import RELEASES, is_whole

MEMBER = re.compile(r"lmdeploy/(model|deepseek_\w+)\.py")
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")
"""Of the wheels, which are only read: the machine that reads them may be another."""


def fetch(version: str, folder: Path) -> None:
    """Raises CalledProcessError where pip finds no such wheel, SystemExit for one with other files."""
    with TemporaryDirectory(dir=folder) as place:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", place]
        target = ["--python-version", "3.10", "--abi", "cp310"]
        target += [option for platform in PLATFORMS for option in ("--platform", platform)]
        command = [sys.executable, "-m", "pip", "download", *options, *target, f"lmdeploy=={version}"]
        subprocess.run(command, check=True)
        with ZipFile(next(Path(place).glob("*.whl"))) as wheel:
            wheel.extractall(folder / version, [name for name in wheel.namelist() if MEMBER.fullmatch(name)])
    if not is_whole(folder, version):
        raise SystemExit(f"lmdeploy {version} has other files than those that were compared with")


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for version in RELEASES:
        if not is_whole(folder, version):
            print(f"lmdeploy {version}", flush=True)
            fetch(version, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
