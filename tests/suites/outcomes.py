"""The outcome of one test of a suite, and the outcomes of one run of pytest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from kit.client_server import uv

IN_PROCESS = "of the suite's own program"
"""Why a test is skipped that judges no server."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``passed`` None: it is skipped. ``why``: the beginning of what is said of a failure, or why it is skipped."""

    test: str
    passed: bool | None
    why: str


def environment(folder: Path, *packages: str) -> Path:
    """The Python of an environment with these packages, which is made where it is not there."""
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        subprocess.run([uv(), "venv", "--quiet", "--clear", "--python", "3.11", folder], check=True)
        subprocess.run([uv(), "pip", "install", "--quiet", "--python", python, *packages], check=True)
        (folder / ".ready").touch()
    return python


def pytest_outcomes(
    python: Path, source: Path, arguments: Sequence[str], env: Mapping[str, str], limit: int
) -> Iterator[Outcome]:
    """Runs pytest in ``source``; its output is in ``pytest.log`` there. ``limit``: seconds."""
    report = source / "report.xml"
    report.unlink(missing_ok=True)
    options = ["-v", "--junitxml", str(report), "-p", "no:cacheprovider", "--tb=short", "--color=no"]
    command = [str(python), "-m", "pytest", *options, *arguments]
    with (source / "pytest.log").open("w") as log, TemporaryDirectory() as folder:
        environ = {**os.environ, **env, "TMPDIR": folder}
        subprocess.run(command, cwd=source, env=environ, stdout=log, stderr=log, timeout=limit)
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}"
        bad = [*case.iter("failure"), *case.iter("error")]
        skipped = case.find("skipped") is not None and not bad
        said = [*bad, *case.iter("skipped")]
        why = " ".join((said[0].get("message") or "").split())[:300] if said else ""
        yield Outcome(test, None if skipped else not bad, why)
