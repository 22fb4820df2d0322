"""What users reach of Antiphon, of an old commit beside this tree: make surface OLD=COMMIT.

Help of every command, `/openapi.json` of a server, the names of `import antiphon` with their signatures, the tables of
parameters and of codes of errors. The program of each side is run; only what differs is printed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRINTED = ("parameters", "names", "errors")
NAMES = """
import inspect, antiphon
for name in sorted(antiphon.__all__):
    thing = getattr(antiphon, name)
    try:
        print(name, inspect.signature(thing) if callable(thing) else type(thing).__name__)
    except ValueError:
        print(name)
"""
COMMAND = re.compile(r"^│ ([a-z][a-z-]*)  ", re.MULTILINE)
LISTENING = re.compile(r"http://[\d.]+:\d+")


class Side:
    """One tree, its package in front of the installed one."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self._environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "100", "NO_COLOR": "1"}

    def surface(self) -> Iterator[str]:
        """All that is compared, line by line."""
        yield from self._help([])
        yield from self._run("-c", NAMES).splitlines()
        yield from self._openapi()
        for part in PRINTED:
            rows = self._run("tests/docs/printed.py", part).splitlines()
            yield from (f"{part}: {row}" for row in rows if row.startswith("|"))

    def _help(self, command: list[str]) -> Iterator[str]:
        text = self._run("-m", "antiphon", *command, "--help")
        yield from (f"{' '.join(command)}: {line.strip()}" for line in text.splitlines())
        listed = text.partition("Commands ─")[2]
        for name in COMMAND.findall(listed):
            yield from self._help([*command, name])

    def _openapi(self) -> Iterator[str]:
        """The routes that a server describes, each with its schemas written out in one line for each of their names."""
        program = [sys.executable, "-m", "antiphon", "serve", "--model", "smollm2", "--port", "0"]
        server = subprocess.Popen(
            program, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert server.stdout is not None
            url = next(found[0] for line in server.stdout if (found := LISTENING.search(line)))
            with urllib.request.urlopen(f"{url}/openapi.json") as answer:
                document = json.load(answer)
        finally:
            server.terminate()
            server.communicate()
        yield from _flat("openapi", document)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=self._environment, cwd=self.tree, capture_output=True, text=True
        )
        return done.stdout + done.stderr


def _flat(path: str, value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name in sorted(value):
            yield from _flat(f"{path}.{name}", value[name])
    else:
        yield f"{path} = {json.dumps(value, sort_keys=True)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a commit")
    old = parser.parse_args().old
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "old")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), old], cwd=ROOT, check=True)
        try:
            before, after = (list(Side(one).surface()) for one in (tree, ROOT))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    for line in difflib.unified_diff(before, after, old, "this tree", n=0, lineterm=""):
        print(line)


if __name__ == "__main__":
    main()
