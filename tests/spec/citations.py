"""Which ids the repository cites, and which of them nobody can look up.

An id is a decision's (``X-18``: a heading of docs/internals/decisions.md), a section's of OpenChatML (``§9``: listed on
that page), or a requirement's (``HAR-02``: in tests/spec/requirements). Run as a script it prints the dead citations.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from spec.manifest import requirements  # noqa: E402  (as a script, the tests' folder is no import path yet)

PAGE = "docs/internals/decisions.md"
FOLDERS = ("src", "tests", "docs", "examples", "bench", "js")
FILES = ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
SUFFIXES = frozenset({".py", ".md", ".toml", ".txt", ".json", ".js", ".mjs", ".ts"})
OTHERS = re.compile(r"^tests/vectors/|(?:^|/)node_modules/|/playground/static/vendor/")
"""Texts of others, which cite nothing."""

_DECISION = r"(?:A-[A-Z]\d{1,2}|[A-Z]-\d{1,2})"
_REQUIREMENT = rf"(?:{'|'.join(sorted({id.partition('-')[0] for id in requirements()}))})-\d+"
_ID = rf"(?<![\w-])(?:{_DECISION}|{_REQUIREMENT}|HIP-1\.\d+)(?![\w-])"
_SECTION = r"(?<!RFC )(?<!RFC \d{4} )§\s?(?P<section>\d+)"
_CITED = re.compile(rf"(?P<first>{_ID})\s*…\s*(?P<last>{_ID})|(?P<one>{_ID})|{_SECTION}")
_SPOKEN_OF = re.compile(r"\b(?:[Rr]esolution|[Dd]ecision|[Rr]equirement)s? (?P<one>[A-Z][\w.-]*\d)")
_VAGUE = re.compile(r"(?i)\breference §|\bmistakes? \d|\bsecurity cases? \d|(?<![\w-])[\w-]++\.md §")
"""A place in a document that a reader does not have."""
_MAYBE = re.compile(r"-[A-Z]?\d|§|esolution|ecision|equirement|istake|ecurity case")
"""What every citation has, and few lines: looking for it first makes the scan ten times as fast."""
_ENTRY = re.compile(rf"^### <a id=[^>]+></a>(?P<id>{_DECISION}): |^\* (?P<section>§\d+|HIP-1\.\d+): ", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Citation:
    """``id`` is cited in line ``line`` of ``path``, which is relative to the root."""

    path: str
    line: int
    id: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.id}"


def dead_citations(root: Path = ROOT) -> list[Citation]:
    """What is cited and defined nowhere, and what is cited by a place in a document that the repository lacks."""
    known = defined(root) | set(requirements())
    return sorted({citation for citation in citations(root) if citation.id not in known})


def uncited(root: Path = ROOT) -> list[str]:
    """Decisions that nothing cites any more. OpenChatML's sections are listed whole and need no citation."""
    cited = {citation.id for citation in citations(root) if citation.path != PAGE}
    return sorted(id for id in defined(root) - cited if re.fullmatch(_DECISION, id))


def defined(root: Path = ROOT) -> set[str]:
    """The decisions and sections that the page has an entry for. Raises `ValueError` if it has two for one."""
    entries = [found["id"] or found["section"] for found in _ENTRY.finditer((root / PAGE).read_text("utf-8"))]
    if twice := sorted({id for id in entries if entries.count(id) > 1}):
        raise ValueError(f"{PAGE} defines twice: {', '.join(twice)}")
    return set(entries)


def citations(root: Path = ROOT) -> Iterator[Citation]:
    """Every citation in the repository; a range such as ``X-10 … X-13`` cites each id in it."""
    for path in files(root):
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            for id in cited_in(line):
                yield Citation(name, number, id)


def files(root: Path) -> Iterator[Path]:
    """The texts that may cite: sources, tests, pages, examples, benchmarks."""
    yield from (path for name in FILES if (path := root / name).is_file())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and not OTHERS.search(path.relative_to(root).as_posix()) and path.is_file():
                yield path


def cited_in(line: str) -> Iterator[str]:
    """The ids in one line. What is no known id but looks like one, or is too vague, is given unchanged."""
    if not _MAYBE.search(line):
        return
    for found in _CITED.finditer(line):
        if found["section"]:
            yield f"§{found['section']}"
        elif found["one"]:
            yield found["one"]
        else:
            yield from _range(found["first"], found["last"])
    yield from (found["one"].rstrip(".") for found in _SPOKEN_OF.finditer(line))
    yield from (found.group() for found in _VAGUE.finditer(line))


def _range(first: str, last: str) -> Iterator[str]:
    """``X-10``, ``X-13`` → the four ids; a range between families, or one that runs backwards, as it stands."""
    stem, last_stem = first.rstrip("0123456789"), last.rstrip("0123456789")
    low, high = first.removeprefix(stem), last.removeprefix(last_stem)
    if stem != last_stem or int(low) > int(high):
        yield f"{first} … {last}"
    else:
        yield from (f"{stem}{number:0{len(low)}}" for number in range(int(low), int(high) + 1))


def main() -> None:
    dead = dead_citations()
    print(*dead, sep="\n", end="\n" * bool(dead))
    print(f"dead citations: {len(dead)}")


if __name__ == "__main__":
    main()
