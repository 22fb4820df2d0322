"""Fetches the files that LMDeploy's templates are made of: ``fetch_lmdeploy.py FOLDER``, what is there is not fetched.

A wheel has a hundred megabytes, of which three small files stay; nothing that it depends on is installed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from kit.lmdeploy_release import RELEASES, is_whole
from kit.wheels import fetch_files

MEMBER = re.compile(r"lmdeploy/(model|deepseek_\w+)\.py")


def fetch(version: str, folder: Path) -> None:
    """Raises CalledProcessError where pip finds no such wheel, SystemExit for one with other files."""
    fetch_files(f"lmdeploy=={version}", MEMBER, folder / version)
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
