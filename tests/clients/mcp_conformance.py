"""The public MCP conformance suite against Antiphon as a client: ``mcp_conformance.py [SCENARIO…]``.

The suite and the Node that it needs are fetched by name where they are not there. A line a scenario; the exit code
tells whether all passed that are expected to.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from kit.client_server import ENVIRONMENTS  # noqa: E402  (the path must be there first)

SUITE = "@modelcontextprotocol/conformance@0.1.16"
FOLDER = ENVIRONMENTS / "mcp-conformance"
NODE = FOLDER / "node_modules" / "node" / "bin" / "node"
PROGRAM = FOLDER / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NOT_OFFERED = {"auth/cross-app-access-complete-flow"}
"""An extension for companies whose identity provider vouches for their users: it needs that provider's tokens."""
SCENARIO = re.compile(r"^  - (\S+) \[", re.MULTILINE)
CHECKS = re.compile(r"Passed: (\d+)/(\d+)")
LIMIT = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scenario, how it went, and what the suite printed."""

    name: str
    ok: bool
    checks: str
    output: str


def fetch() -> None:
    """The suite, beside the Node that it was written for (22)."""
    if not (PROGRAM.exists() and NODE.exists()):
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "package.json").write_text("{}")
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", SUITE, "node@22"]
        subprocess.run(command, cwd=FOLDER, check=True)


def suite(*arguments: str) -> str:
    done = subprocess.run(
        [str(NODE), str(PROGRAM), *arguments], capture_output=True, text=True, timeout=LIMIT, check=False, cwd=FOLDER
    )
    return done.stdout + done.stderr


def scenarios() -> list[str]:
    """The suite's scenarios for clients, in its order."""
    return SCENARIO.findall(suite("list").partition("Client scenarios")[2])


def ran(name: str) -> Outcome:
    client = f"{sys.executable} {HERE / 'mcp_client.py'}"
    output = suite("client", "--command", client, "--scenario", name, "--timeout", "120000", "--verbose")
    found = CHECKS.search(output)
    return Outcome(name, "OVERALL: PASSED" in output, f"{found[1]}/{found[2]}" if found else "-", output)


def main(names: list[str]) -> int:
    fetch()
    outcomes = []
    for name in names or [name for name in scenarios() if name not in NOT_OFFERED]:
        outcomes.append(ran(name))
        print(f"{'ok' if outcomes[-1].ok else 'failed':7}{outcomes[-1].checks:>7}  {name}", flush=True)
    failed = [outcome for outcome in outcomes if not outcome.ok]
    for outcome in failed:
        print(f"\n{outcome.name}\n{outcome.output[-4000:]}")
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} scenarios pass; not offered: {', '.join(NOT_OFFERED)}")
    return int(bool(failed) or not outcomes)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
