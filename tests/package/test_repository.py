"""The files that a forge, a package index and people read: valid by their schemas, and true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.cli.conformance import Suite
from antiphon.version import __version__
from package.released import CHANGELOG, objection

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


def test_the_version_is_the_same_everywhere() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == __version__
    for name in ("editors/vscode", "js/openchatml"):
        assert json.loads((ROOT / name / "package.json").read_text("utf-8"))["version"] == __version__
    assert f"antiphon {__version__} serves" in (ROOT / "README.md").read_text("utf-8")
    assert f"\n## {__version__}" in CHANGELOG.read_text("utf-8")


def test_the_changelog_is_short_enough_to_be_read() -> None:
    bullets = re.findall(r"^- (.*(?:\n  .*)*)", CHANGELOG.read_text("utf-8").partition("\n## ")[2], re.MULTILINE)
    assert len(bullets) <= 150
    assert [bullet for bullet in bullets if len(bullet.split()) > 20] == []


def test_a_tag_is_published_with_its_version_and_section_only() -> None:
    changelog = f"# Changelog\n\n## {__version__} (2026-01-31)\n"
    assert objection(f"v{__version__}", changelog) == ""
    assert "the tag is" in objection("v9.9.9", changelog)
    assert "no section" in objection(f"v{__version__}", "# Changelog\n\n## Unreleased\n")


def test_the_image_copies_what_the_wheel_is_built_from() -> None:
    lines = (ROOT / "deploy" / "Containerfile").read_text("utf-8").splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    suites = {f"tests/spec/{suite}" for suite in Suite}
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "docs", *suites} <= copied


def test_the_page_shows_the_files_of_a_service_as_they_are() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    for name, language in (("antiphon.service", "ini"), ("nginx.conf", "nginx")):
        assert f"```{language}\n{(ROOT / 'deploy' / name).read_text('utf-8')}```" in page
