"""The figures of the source that must hold, printed by ``make house``: what is measured, what it is, what it should be.

``python tests/house/figures.py`` prints the table, and under it what each figure that misses its aim is made of.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "antiphon"
MOST_FILES = 599
MOST_LONE_FILES, MOST_LONE_HELPERS = 35, 517
"""As many as there were when they were first counted: there are only ever fewer."""
sys.path.insert(0, str(ROOT / "tests"))

from house import road  # noqa: E402  (as a script, the tests' folder is no import path yet)
from house.imports import circles, imports_of, rooms  # noqa: E402
from house.message_codecs import message_codecs  # noqa: E402
from house.statements import modules, statements  # noqa: E402
from spec.citations import dead_citations  # noqa: E402

MODULE_LINES, FUNCTION_LINES, BRANCHES = 400, 60, 10
LONE_FILE_LINES, LONE_HELPER_LINES = 150, 8
"""A file has as many lines or two importers, a private function as many or two callers."""
_NO_VERB = re.compile(r' *r?"""(?:What|Whatever|Who|Whom|Whose|Whoever|Those|Of|None|Where)\b')


@dataclass(frozen=True, slots=True)
class Figure:
    """``value`` holds when it is at most ``aim``, and where ``exactly`` is set, equal to it.

    No aim: it is printed to be known. ``parts`` are what was counted, for whoever has to mend it.
    """

    name: str
    value: int
    aim: int | None = None
    exactly: bool = False
    parts: tuple[str, ...] = ()
    unit: str = ""

    @property
    def holds(self) -> bool:
        if self.aim is None:
            return True
        return self.value == self.aim if self.exactly else self.value <= self.aim


def figures(source: Path = SOURCE, root: Path = ROOT) -> Iterator[Figure]:
    """All of them, in the order in which they are printed."""
    imports = imports_of(source)
    both = {name: imports.runtime[name] | imports.typing[name] for name in imports.runtime}
    yield _counted("import circles of files", 0, map(" ⇄ ".join, circles(imports.runtime)))
    yield _counted("… of files with imports for types", 0, map(" ⇄ ".join, circles(both)))
    yield _counted("import circles of rooms", 0, map(" ⇄ ".join, circles(rooms(imports.runtime))))
    yield _counted("… of rooms with imports for types", 0, map(" ⇄ ".join, circles(rooms(both))))
    yield _counted("rooms", 24, rooms_of(source))
    yield _counted("files", MOST_FILES, [path for path, _ in _modules(source)])
    yield Figure("lines", sum(_lines(path) for path in source.rglob("*.py")))
    yield _counted(
        f"files of under {LONE_FILE_LINES} lines with one importer", MOST_LONE_FILES, lone_files(source, both)
    )
    yield _counted(
        f"private functions of under {LONE_HELPER_LINES} lines with one caller", MOST_LONE_HELPERS, lone_helpers(source)
    )
    yield _counted("loose files in api", 12, loose(source / "api"))
    yield _counted("classes with one name twice in a room", 0, twins(source))
    yield _counted(f"functions over C901 {BRANCHES}", 0, tangled(source))
    yield _counted("dead citations", 0, map(str, dead_citations(root)))
    yield _counted("codecs of a Message", 1, message_codecs(source), exactly=True)
    yield _counted(f"modules over {MODULE_LINES} lines", 0, long_modules(source))
    yield _counted(f"functions over {FUNCTION_LINES} lines", 0, long_functions(source))
    yield _counted("docstrings without verb or noun", 0, unworded(source))
    for name, most in road.MOST_FUNCTIONS.items():
        yield Figure(f"functions that a streamed answer of {name} passes", road.measured(name).functions, most)
    yield Figure("public names with a docstring", docstring_share(source), unit=" %")


def _counted(name: str, aim: int | None, parts: Iterator[str] | list[str], *, exactly: bool = False) -> Figure:
    found = tuple(parts)
    return Figure(name, len(found), aim, exactly, found)


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def _modules(source: Path) -> Iterator[tuple[str, ast.Module]]:
    for path, tree in modules(source).items():
        yield path.relative_to(source).as_posix(), tree


def rooms_of(source: Path) -> list[str]:
    """The folders of the package itself."""
    return sorted(path.parent.name for path in source.glob("*/__init__.py"))


def loose(folder: Path) -> list[str]:
    """The modules that lie in the room itself and in no folder of it."""
    return sorted(path.name for path in folder.glob("*.py") if path.name != "__init__.py")


def lone_files(source: Path, imports: Mapping[str, set[str]]) -> list[str]:
    """Short modules that one other module imports, and so could be a part of it."""
    importers = Counter(imported for name in imports for imported in imports[name])
    found = []
    for path in sorted(source.rglob("*.py")):
        name = ".".join((source.name, *path.relative_to(source).with_suffix("").parts))
        if path.name != "__init__.py" and _lines(path) < LONE_FILE_LINES and importers[name] == 1:
            found.append(f"{path.relative_to(source)}: {_lines(path)}")
    return found


def lone_helpers(source: Path) -> list[str]:
    """Short private functions whose names stand in their modules once besides, and in none of the same folder."""
    found = []
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        texts = {path: path.read_text("utf-8") for path in sorted(folder.glob("*.py"))}
        words = {path: Counter(re.findall(r"\w+", text)) for path, text in texts.items()}
        for path in texts:
            for node in statements(modules(source)[path]):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not re.match("_[^_]", node.name):
                    continue
                lines = (node.end_lineno or node.lineno) - node.lineno + 1 + len(node.decorator_list)
                if lines < LONE_HELPER_LINES and sum(counted[node.name] for counted in words.values()) == 2:
                    found.append(f"{path.relative_to(source)}:{node.lineno}: {node.name}")
    return found


def twins(source: Path) -> list[str]:
    """Names that two classes of one room have, or of one API."""
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, tree in _modules(source):
        room = name.rpartition("/")[0] if name.startswith("api/") else name.partition("/")[0]
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[room, node.name].append(name)
    return [f"{name}: {', '.join(files)}" for (_, name), files in sorted(homes.items()) if len(files) > 1]


def tangled(source: Path, most: int = BRANCHES) -> list[str]:
    """Functions with more ways through them than ``most``, as ruff counts; no comment excuses one."""
    limit = f"lint.mccabe.max-complexity={most}"
    command = ["-m", "ruff", "check", "--isolated", "--ignore-noqa", "--select", "C901", "--config", limit]
    done = subprocess.run(
        [sys.executable, *command, "--output-format", "json", "--no-cache", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    places = [(Path(found["filename"]).relative_to(source.resolve()), found) for found in json.loads(done.stdout)]
    return [f"{path.as_posix()}:{found['location']['row']}: {found['message']}" for path, found in places]


def long_modules(source: Path, most: int = MODULE_LINES) -> list[str]:
    """Modules of more lines than ``most``."""
    return [
        f"{path.relative_to(source)}: {_lines(path)}" for path in sorted(source.rglob("*.py")) if _lines(path) > most
    ]


def long_functions(source: Path, most: int = FUNCTION_LINES) -> list[str]:
    """Functions of more lines than ``most``, from ``def`` to their last."""
    found = []
    for name, tree in _modules(source):
        for node in statements(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                found += [f"{name}:{node.lineno}: {node.name}, {lines}"] if lines > most else []
    return found


def unworded(source: Path) -> list[str]:
    """Docstrings, those of values too, that begin with What, Who, Those, Of, None or Where."""
    return [
        f"{path.relative_to(source).as_posix()}:{number}"
        for path in sorted(source.rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if _NO_VERB.match(line)
    ]


def docstring_share(source: Path) -> int:
    """Of a hundred public modules, classes and functions (methods too), how many have a docstring."""
    documented = [ast.get_docstring(node) is not None for _, tree in _modules(source) for node in _public(tree)]
    return round(100 * sum(documented) / max(1, len(documented)))


def _public(
    node: ast.Module | ast.ClassDef,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The node, and what is public in it."""
    yield node
    for inner in node.body:
        if isinstance(inner, ast.ClassDef) and inner.name[0] != "_":
            yield from _public(inner)
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name[0] != "_":
            yield inner


def table(shown: list[Figure]) -> Iterator[str]:
    """The lines of the table, then what the figures that miss their aim are made of."""
    width = max(len(figure.name) for figure in shown)
    yield f"{'figure':{width}}  {'value':>7}  aim"
    for figure in shown:
        aim = "" if figure.aim is None else str(figure.aim) if figure.exactly or not figure.aim else f"≤ {figure.aim}"
        value = f"{figure.value:,}{figure.unit}"
        yield f"{figure.name:{width}}  {value:>7}  {aim}{'' if figure.holds else '   missed'}"
    for figure in shown:
        if not figure.holds and figure.parts:
            yield ""
            yield f"{figure.name}:"
            yield from (f"  {part}" for part in figure.parts)


def main() -> int:
    shown = list(figures())
    print(*table(shown), "", *road.lines(), sep="\n")
    return 0 if all(figure.holds for figure in shown) else 1


if __name__ == "__main__":
    sys.exit(main())
