"""Runs clients of others, each in an environment of its own, against one server: ``run.py [--real] [NAME…]``.

The server's model does what its user says, or, with ``--real``, is the one that ``antiphon serve`` has by default.
Every script in ``scripts`` names its packages as PEP 723 has it; ``uv`` makes the environments. They are stored under
``.clients``, or where ``CLIENT_ENVIRONMENTS`` says, for other clones, too. A line a step goes to the screen, then a
table of clients and endpoints; the exit code tells whether all passed.

A proxy between records the answers. One that is an error must be announced by the script, by a line ``expects STATUS
PATH [TIMES]`` (``*``: any number): clients try again, fall back and go on without a word; what they swallow is a fault.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from kit.client_server import ENVIRONMENTS, OBEDIENT, REAL, Served, running, uv  # noqa: E402  (the path must be there first)
from kit.logging_proxy import Answer, logging_proxy  # noqa: E402
from kit.wheels import fetch_files  # noqa: E402

SCRIPTS = ENVIRONMENTS / "scripts"
NO_CLIENTS = ("ray_cluster", "steps")
"""Scripts of other targets, and what all share."""
"""Copies, so that an environment, which belongs to a path, serves every clone."""
LMDEPLOY = {version: ENVIRONMENTS / "lmdeploy" / version for version in (
    "0.0.14", "0.2.6", "0.5.0", "0.5.3", "0.7.3", "0.9.2.post1", "0.14.0", "0.17.0",
)}  # fmt: skip
"""Where the client of each release is: of the month of LMDeploy's article, and from 0.5 to the last that has one."""
API_CLIENT = re.compile(r"lmdeploy/serve/openai/api_client\.py")
LIMIT = 900
"""Seconds that a client may take, its environment included."""
NODE = ENVIRONMENTS / "node" / "node_modules" / "node" / "bin"
"""Where the Node of its clients is, which npm has, too: many want one newer than a distribution's."""
PACKAGES = re.compile(r"^// packages: (.+)$", re.MULTILINE)
"""The packages of a script of Node stand in its head."""
PLACES = (
    "models", "chat", "completions", "embeddings", "rerank", "responses", "conversations", "files", "batches",
    "interactive", "encode", "invocations", "endpoints", "messages", "errors",
)  # fmt: skip
"""A step's name begins with the endpoint that it asks."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client did: its ``version``, its steps by whether they passed, and the errors that it did not announce."""

    client: str
    version: str
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    swallowed: tuple[str, ...]

    @property
    def row(self) -> list[str]:
        cells = []
        for place in PLACES:
            passed, failed = (
                sum(step.partition("_")[0] == place for step in steps) for steps in (self.passed, self.failed)
            )
            cells.append(f"{passed}/{passed + failed}" if passed + failed else "-")
        return [self.client, self.version, *cells, *(", ".join(ones) or "-" for ones in (self.failed, self.swallowed))]


def nothing() -> None:
    """Most need no more than their environment."""


def python_command(script: Path) -> list[str]:
    """How to run a script in its own environment."""
    return [uv(), "run", "--quiet", "--no-project", "--python", sys.executable, "--script", str(script)]


def installed(folder: Path, *packages: str) -> Path:
    """The folder with packages of npm, which are fetched when they are not there."""
    if not (folder / "package-lock.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        # The newest release for this Node: npm passes over those that the Node it runs on is too old for.
        environ = {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(["npm", "install", "--silent", *packages], cwd=folder, env=environ, check=True)
    return folder


def node_command(script: Path) -> list[str]:
    """The same for Node, which finds packages from a script's folder up: so the script is copied to them."""
    installed(ENVIRONMENTS / "node", "node@24")
    packages = "".join(PACKAGES.findall(script.read_text()))
    folder = installed(ENVIRONMENTS / "npm" / packages.replace("/", "+"), *packages.split())
    shutil.copy(script.with_name("steps.mjs"), folder)
    return [str(NODE / "node"), str(shutil.copy(str(script), folder))]


def fetch_lmdeploy() -> None:
    """LMDeploy's clients: one file of each wheel, for what a release depends on has gigabytes and is not used."""
    for version, folder in LMDEPLOY.items():
        if not any(folder.rglob("api_client.py")):
            fetch_files(f"lmdeploy=={version}", API_CLIENT, folder)


PREPARED: dict[str, Callable[[], None]] = {"lmdeploy_api_client": fetch_lmdeploy}
"""What a script needs beside its environment."""
CONNECTED = {
    "aider": "aider", "anthropic_node": "anthropic", "anthropic_python": "anthropic", "claude_code": "claude-code",
    "codex": "codex", "continue_cli": "continue", "langchain_client": "langchain", "litellm_python": "litellm",
    "llm_client": "llm", "ollama_python": "ollama", "openai_node": "openai", "openai_python": "openai",
    "opencode": "opencode",
}  # fmt: skip
"""Scripts whose client is configured by what `antiphon connect` prints or writes, and its name there."""


def connection(client: str, url: str, served: Served, home: Path) -> str:
    """What `antiphon connect` prints for a client; where that has a settings file, it is written below ``home``."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "HOME": str(home)}
    words = ["connect", client, "--url", url, "--model", served.models.split()[0], "--context", "65536", "--json"]
    command = [sys.executable, "-m", "antiphon", *words]

    def printed(*more: str) -> str:
        run = subprocess.run([*command, *more], env=environ, cwd=home, check=True, capture_output=True, text=True)
        return run.stdout

    return printed("--write") if "file" in json.loads(printed()) else printed()


def unannounced(answers: Iterable[Answer], announced: Iterable[str]) -> tuple[str, ...]:
    """The errors among the answers beyond those that the script announced, and what it announced in vain."""
    seen, expected = Counter(f"{one.status} {one.path}" for one in answers if one.is_error), Counter[str]()
    for line in announced:
        status, path, times = (*line.split(), "1")[:3]
        error = f"{status} {path}"
        expected[error] += seen[error] if times == "*" else int(times)
    return (*(seen - expected).elements(), *(f"no {one}" for one in (expected - seen).elements()))


def ran(script: Path, server: str, served: Served) -> Outcome:
    """One client's steps."""
    with logging_proxy(server) as (url, answers):
        outcome, announced = steps_of(script, url, served)
    for answer in answers:
        if answer.is_error:
            print(answer.status, answer.method, answer.path, answer.body[:500], flush=True)
    return replace(outcome, swallowed=unannounced(answers, announced))


def steps_of(script: Path, url: str, served: Served) -> tuple[Outcome, tuple[str, ...]]:
    """How a client's steps went, and the errors that it announced."""
    print(f"\n{script.stem}", flush=True)
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    settings = {"ANTIPHON_URL": url, "ANTIPHON_MODELS": served.models, "ANTIPHON_OBEDIENT": "yes" * served.obedient}
    settings["LMDEPLOY_CLIENTS"] = str(ENVIRONMENTS / "lmdeploy")
    home = tempfile.TemporaryDirectory()
    try:
        PREPARED.get(script.stem, nothing)()
        client = CONNECTED.get(script.stem)
        settings["ANTIPHON_CONNECTION"] = connection(client, url, served, Path(home.name)) if client else ""
        done = subprocess.run(
            node_command(script) if script.suffix == ".mjs" else python_command(script),
            env={**inherited, **settings, "UV_CACHE_DIR": str(ENVIRONMENTS / "cache"), "NO_PROXY": "127.0.0.1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
        output, ended = done.stdout, f"ended with {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as error:
        output, ended = (error.stdout or b"").decode(), f"ran for more than {LIMIT} seconds"
    except (OSError, subprocess.CalledProcessError) as error:
        output, ended = "", f"has no environment: {error}"
    finally:
        home.cleanup()
    print(output, flush=True)
    lines = [line.split(" ", 1) for line in output.splitlines()]
    kinds = ("ok", "failed", "version", "expects")
    passed, failed, version, announced = (
        tuple(line[1] for line in lines if line[0] == kind and line[1:]) for kind in kinds
    )
    if not failed and (ended or not passed or not version):
        failed = (ended or "reported nothing",)
    return Outcome(script.stem, version[0] if version else "?", passed, failed, ()), announced


def table(outcomes: Sequence[Outcome]) -> str:
    """A row a client: of each endpoint's steps how many passed, which failed, and the errors that were swallowed."""
    rows = [["client", "version", *PLACES, "failed", "swallowed"], *(outcome.row for outcome in outcomes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows)


def main(arguments: list[str]) -> int:
    served = REAL if "--real" in arguments else OBEDIENT
    names = {name for name in arguments if name != "--real"}
    shutil.copytree(HERE / "scripts", SCRIPTS, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    known = {path.stem: SCRIPTS / path.name for path in (HERE / "scripts").iterdir() if path.is_file()}
    for other in NO_CLIENTS:
        del known[other]
    if lost := names - known.keys():
        raise SystemExit(f"there is no {', '.join(sorted(lost))}; there are {', '.join(sorted(known))}")
    with running(served) as url:
        outcomes = [ran(known[name], url, served) for name in sorted(names or known)]
    print(table(outcomes))
    return int(any(outcome.failed or outcome.swallowed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
