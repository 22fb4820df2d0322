"""What is in the wheel and in the sdist: all that the program reads, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path, PurePosixPath

import pytest

from antiphon.playground.routes import MEDIA_TYPES
from antiphon.version import __version__

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "antiphon"
INFO = f"antiphon-{__version__}.dist-info"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built by the environment's own hatchling."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(built / f"antiphon-{__version__}-py3-none-any.whl")


def tracked(folder: str) -> set[str]:
    """The files under a folder of the repository that are to be published: no compiled ones."""
    return {
        path.relative_to(ROOT / folder).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_the_package_its_pages_and_its_suite(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.startswith(INFO)}
    expected = {f"antiphon/{name}" for name in tracked("src/antiphon")}
    expected |= {f"antiphon/pages/{name}" for name in tracked("docs")}
    suites = ("openchatml", "harmony", "replies")
    expected |= {f"antiphon/conformance/{suite}/{name}" for suite in suites for name in tracked(f"tests/spec/{suite}")}
    assert names == expected


def test_the_wheel_has_every_file_that_is_read_while_it_runs(wheel: zipfile.ZipFile) -> None:
    read = {
        "config/shipped.toml", "formats/template/templates.json", "formats/replies/families.json",
        "tokens/ranks/o200k_base.gz", "tokens/ranks/NOTICE.md", "py.typed", "playground/static/index.html",
    }  # fmt: skip
    assert {f"antiphon/{name}" for name in read} <= set(wheel.namelist())


def test_the_wheel_has_no_tests_benchmarks_or_settings_of_ours(wheel: zipfile.ZipFile) -> None:
    page = "antiphon/playground/static/"
    kinds = {PurePosixPath(name).suffix for name in wheel.namelist() if not name.startswith((INFO, page))}
    kinds -= {".zip"}  # the documentation's site, where it was built
    assert kinds == {".py", ".typed", ".toml", ".json", ".gz", ".md", ".txt", ".abnf", ".jinja", ".webp", ".svg"}
    assert {PurePosixPath(name).suffix for name in wheel.namelist() if name.startswith(page)} <= MEDIA_TYPES.keys()
    roots = {name.split("/")[0] for name in wheel.namelist()}
    assert roots == {"antiphon", INFO}
    assert not [name for name in wheel.namelist() if "test" in PurePosixPath(name).name and name.endswith(".py")]


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    metadata = Parser().parsestr(wheel.read(f"{INFO}/METADATA").decode())
    assert (metadata["Name"], metadata["Version"]) == ("antiphon", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert wheel.read(f"{INFO}/licenses/LICENSE").decode() == (ROOT / "LICENSE").read_text("utf-8")
    assert "antiphon = antiphon.cli:main" in wheel.read(f"{INFO}/entry_points.txt").decode()


def test_the_sdist_can_be_built_and_tested(built: Path) -> None:
    with tarfile.open(built / f"antiphon-{__version__}.tar.gz") as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "requirements/runtime.lock"} <= names
    assert {f"src/antiphon/{name}" for name in tracked("src/antiphon")} <= names
    assert {f"tests/spec/openchatml/{name}" for name in tracked("tests/spec/openchatml")} <= names
    assert not [name for name in names if name.startswith((".venv", "dist", ".oracles"))]
