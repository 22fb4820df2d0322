"""The tests of what changed since a commit, by imports: the nearest first, dear ones too, for as long as is given.

``python tests/house/changed.py COMMIT SECONDS [arguments of pytest]``: what there was no time for is said.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from house.statements import statements  # noqa: E402  (as a script, the tests' folder is no import path yet)

Names = Mapping[str, tuple[str, str]]
"""The module and the name there of each name that a front door has from elsewhere."""
_SPELLED = re.compile(r"""f["'](?P<each>\w+\.(?:\w+\.)*)\{|["'](?P<module>\w+(?:\.\w+)+)(?::(?P<name>\w+))?["']""")
"""Texts by which modules are imported when they are first used: one of a package's, or the one that is named."""
FOR, UNTIL = "TESTS_FOR", "TESTS_UNTIL"
SECONDS_A_FILE = 2.0
"""More than most files take: those that take less leave time to what takes more."""


class Tree:
    """The modules below some folders that are import paths, and which imports which.

    A name that a package only hands on is imported from where it is defined: whoever imports a front door does not
    depend on all that is behind it.
    """

    def __init__(self, *folders: Path) -> None:
        files = ((path.relative_to(folder), path) for folder in folders for path in sorted(folder.rglob("*.py")))
        self.paths = {_dotted(relative): path for relative, path in files}

    def nearest(self, changed: Iterable[Path]) -> dict[Path, int]:
        """How many imports lie between each file and the nearest that changed; none for what imports none of them."""
        distances: dict[Path, int] = {}
        level, distance = set(changed), 0
        while level:
            distances |= dict.fromkeys(level, distance)
            level, distance = {user for path in level for user in self._users(path)} - distances.keys(), distance + 1
        return distances

    def _users(self, path: Path) -> Iterable[Path]:
        """The files that import one, or that name it, where none does."""
        if path in self._importers or path.name.startswith(("__init__", "test_")):
            return self._importers.get(path, ())
        return [one for one, text in self._texts.items() if path.name in text]

    @cached_property
    def _texts(self) -> dict[Path, str]:
        return {path: path.read_text("utf-8") for path in self.paths.values()}

    @cached_property
    def _importers(self) -> dict[Path, set[Path]]:
        found: dict[Path, set[Path]] = {}
        named = {name: list(self._named(name)) for name in self.paths}
        doors = {
            name: {own: (module, there) for module, there, own in named[name]}
            for name, path in self.paths.items()
            if path.name == "__init__.py"
        }
        for name, path in self.paths.items():
            for module, there, _ in named[name]:
                home = self._home(module, there, doors)
                if home is not None and home != path:
                    found.setdefault(home, set()).add(path)
            if path.name == "conftest.py":
                found.setdefault(path, set()).update(path.parent.rglob("test_*.py"))
        return found

    def _home(self, module: str, name: str, doors: Mapping[str, Names]) -> Path | None:
        """The file where a module's name is defined."""
        if f"{module}.{name}" in self.paths:
            return self.paths[f"{module}.{name}"]
        if name in doors.get(module, {}) and doors[module][name] != (module, name):
            return self._home(*doors[module][name], doors)
        return self.paths.get(module)

    def _named(self, importer: str) -> Iterator[tuple[str, str, str]]:
        """The module, the name there and the name here of all that a module imports, by a text that names it too."""
        path = self.paths[importer]
        package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
        for spelled in _SPELLED.finditer(self._texts[path]):
            if spelled["each"]:
                yield from ((name, "", "") for name in self.paths if name.startswith(spelled["each"]))
            elif spelled["module"] in self.paths:
                yield spelled["module"], spelled["name"] or "", ""
        for node in statements(ast.parse(self._texts[path])):
            match node:
                case ast.Import(names):
                    yield from ((alias.name, "", "") for alias in names)
                case ast.ImportFrom(module, names, level):
                    above = package.split(".")[: len(package.split(".")) - (level or 0) + 1] if level else []
                    base = ".".join([*above, *([module] if module else [])])
                    yield from ((base, alias.name, alias.asname or alias.name) for alias in names)


def _dotted(relative: Path) -> str:
    parts = relative.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def nearest_first(tree: Tree, changed: Iterable[Path]) -> list[Path]:
    """Files with tests that changed or import what changed: the ones named like it, then the nearest."""
    distances = tree.nearest(changed)
    stems = {path.stem for path, distance in distances.items() if distance == 0}

    def order(path: Path) -> tuple[bool, int, int, Path]:
        return path.stem.removeprefix("test_") not in stems, distances[path], path.stat().st_size, path

    return sorted((path for path in distances if path.name.startswith("test_") and path.suffix == ".py"), key=order)


def changed_since(commit: str) -> list[Path]:
    """The files that differ from a commit, or that git does not know; none that are gone."""
    ways = (["diff", "--name-only", "-z", commit], ["ls-files", "--others", "--exclude-standard", "-z"])
    lines = [subprocess.run(["git", *way], cwd=ROOT, capture_output=True, text=True, check=True).stdout for way in ways]
    return [path for name in "".join(lines).split("\0") if name and (path := ROOT / name).is_file()]


def pytest_collection_finish() -> None:
    """Starts the clock: on a busy machine imports alone could take the time that is for tests."""
    os.environ[UNTIL] = str(time.time() + float(os.environ[FOR]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Leaves out what is further away when time is over."""
    if time.time() > float(os.environ[UNTIL]):
        pytest.skip("time is over: `make test-changed SECONDS=…` gives more, `make test-all` runs everything")


def main(commit: str, seconds: str, *arguments: str) -> int:
    os.environ[FOR] = seconds
    changed = changed_since(commit)
    tests = nearest_first(Tree(ROOT / "src", ROOT / "tests"), changed)
    near = tests[: int(float(seconds) / SECONDS_A_FILE)]
    print(f"{len(changed)} files changed since {commit}; {len(tests)} files of tests import them, of which the nearest")
    print(
        f"{len(near)} are run; left to `make test-changed SECONDS=…` and to `make test-all`: {len(tests) - len(near)}"
    )
    if not near:
        return 0
    ours = ("-p", "house.changed", "--whole-files", "--randomly-dont-reorganize", "-m", "not corpus")
    command = [sys.executable, "-m", "pytest", *ours, *arguments, *map(str, near)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
