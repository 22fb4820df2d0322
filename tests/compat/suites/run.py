"""Tests of others that import `openai_harmony`, over the package itself and over Antiphon: ``run.py FOLDER``.

The sources of openai-harmony, gpt-oss and vLLM and the wheel of SGLang are fetched once; what gpt-oss's server needs is
installed into the folder. vLLM's files are its own, and what it needs of torch and its engine is stood in for
(`stand_ins.py`). A line a suite goes to the screen: how many tests pass over the package, and over Antiphon. The exit
code is 1 where one fails over Antiphon. Left out are vLLM's tests of a running server and those that compile grammars
(`AdjustRequest`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from kit.harmony_oracles import FOLDER as ORACLES  # noqa: E402 - the folder of tests comes first
from kit.harmony_oracles import oracle  # noqa: E402
from kit.sources import fetch_sources  # noqa: E402
from kit.wheels import fetch_files  # noqa: E402

LOCK = ROOT / "requirements" / "compat-suites.lock"
HERE = Path(__file__).parent
PACKAGES = (
    "fastapi==0.165.0 httpx==0.28.1 docker==7.2.0 chz==0.4.0 tenacity==9.2.1 html2text==2025.4.15 lxml==6.1.3 "
    "structlog==26.1.0 jupyter_client==8.10.0 termcolor==3.3.0"
).split()
MEMBERS = re.compile(
    r"tests/test_\w+\.py|test-data/.*|gpt_oss/.*\.py"
    r"|vllm/(entrypoints|logging_utils|parser|reasoning|tool_parsers)/.*\.py|vllm/(envs|exceptions|logger)\.py"
    r"|tests/(__init__|parser/test_\w+|entrypoints/(__init__|openai/(__init__|utils|(parser|responses)/test_\w+)))\.py"
)
OF_SGLANG = re.compile(r"sglang/srt/entrypoints/(harmony_utils|tool)\.py")


@dataclass(frozen=True, slots=True)
class Suite:
    """Test files of one source, and the dialect of the package that it installs."""

    source: str
    tests: tuple[str, ...]
    dialect: str
    options: tuple[str, ...] = ()


STAND_INS = ("-p", "compat.suites.stand_ins")
OF_VLLM = "tests/entrypoints/openai"
SUITES = {
    "openai-harmony": Suite("openai_harmony-0.0.8", ("tests/test_harmony.py",), "a"),
    "gpt-oss": Suite("gpt_oss-0.0.9", ("tests",), "a", ("-p", "compat.suites.gpt_oss_fixtures")),
    "vllm harmony_utils": Suite(
        "vllm-0.33.0",
        (f"{OF_VLLM}/parser/test_harmony_utils.py", f"{OF_VLLM}/parser/test_harmony_render_parity.py"),
        "b",
        STAND_INS,
    ),
    "vllm parser": Suite(
        "vllm-0.33.0", ("tests/parser/test_harmony.py",), "b", (*STAND_INS, "-k", "not AdjustRequest")
    ),
    "vllm responses": Suite(
        "vllm-0.33.0",
        (
            f"{OF_VLLM}/responses/test_harmony_utils.py",
            f"{OF_VLLM}/responses/test_response_input_to_harmony.py",
            f"{OF_VLLM}/responses/test_protocol.py",
        ),
        "b",
        STAND_INS,
    ),
    "sglang harmony_utils": Suite("sglang-0.5.23", (str(HERE / "sglang_harmony.py"),), "a"),
}


def prepare(folder: Path) -> None:
    """Fetches and installs what is not there."""
    done = folder / ".ready"
    if done.exists():
        return
    print("fetching three sources and a wheel, and installing what gpt-oss needs", flush=True)
    fetch_sources(LOCK, MEMBERS, folder)
    fetch_files("sglang==0.5.23", OF_SGLANG, folder / "sglang-0.5.23", python="3.12")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--target", folder / "packages", *PACKAGES], check=True)
    oracle("a", folder)
    done.touch()


def passed(suite: Suite, folder: Path, package: Path) -> tuple[set[str], set[str]]:
    """The tests that pass, and those that do not, with this folder's module `openai_harmony`."""
    source, report = folder / suite.source, folder / "report.xml"
    report.unlink(missing_ok=True)
    paths = (package, ROOT / "src", ROOT / "tests", folder / "packages", source)
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "HARMONY_DIALECT": suite.dialect,
        "TIKTOKEN_ENCODINGS_BASE": str(folder),
    }
    quiet = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--tb=short")
    options = (*quiet, "--rootdir", str(source), "-c", os.devnull, "--junitxml", str(report), *suite.options)
    command = [sys.executable, "-m", "pytest", *options, *suite.tests]
    with (folder / "pytest.log").open("a") as log:
        subprocess.run(command, cwd=source, env=environ, stdout=log, stderr=log, timeout=600)
    cases = list(ElementTree.parse(report).iter("testcase"))
    names = {case: f"{case.get('classname')}::{case.get('name')}" for case in cases}
    good = {name for case, name in names.items() if not len(case)}
    return good, set(names.values()) - good


def main() -> int:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(exist_ok=True)
    prepare(folder)
    (folder / "pytest.log").unlink(missing_ok=True)
    faults = 0
    for name, suite in SUITES.items():
        theirs, _ = passed(suite, folder, ORACLES / suite.dialect)
        ours, failed = passed(suite, folder, HERE / "over")
        faults += len(failed) + (not ours)
        print(f"{name:<20} {len(theirs):>4} pass over the package, {len(ours):>4} over Antiphon", flush=True)
        for test in sorted(failed):
            also = "" if test in theirs else ", over the package too"
            print(f"  fails{also}: {test}", flush=True)
    print(f"{faults} failed" + (f", see {folder / 'pytest.log'}" if faults else ""))
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
