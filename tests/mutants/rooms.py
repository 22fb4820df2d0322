"""Where mutants are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = "src/antiphon"
LEFT_OUT = frozenset(
    {
        "acceptance",
        "browser",
        "clients",
        "docs",
        "house",
        "mutants",
        "nightly",
        "package",
        "real_models",
        "vocabularies",
    }
)
"""Folders of tests that find no mutant: they look at pages, packages and other programs, or take minutes."""


@dataclass(frozen=True, slots=True)
class Room:
    """``patterns`` of files below `SOURCE`. ``elsewhere``: of files with tests, for what other processes run and for
    what is in no function."""

    name: str
    patterns: str
    elsewhere: str = ""

    def files(self) -> Iterator[str]:
        """The files of the room, paths below the repository's root."""
        return (path for path in self._found(SOURCE, self.patterns) if not path.endswith("__init__.py"))

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(self._found("tests", self.elsewhere))

    @staticmethod
    def _found(folder: str, patterns: str) -> Iterator[str]:
        found = (path for pattern in patterns.split() for path in sorted((ROOT / folder).glob(pattern)))
        return iter(dict.fromkeys(str(path.relative_to(ROOT)) for path in found))


ROOMS = (
    Room(
        "gate",
        "http/gate/rates.py http/gate/access.py http/gate/browsers.py http/gate/keys.py "
        "http/gate/admission.py http/gate/large.py http/gate/idempotency.py",
    ),
    Room("store", "store/*.py"),
    Room("http", "http/server/*.py api/responses/request.py api/batches/upload.py http/*.py"),
    Room("batches", "api/batches/*.py"),
    Room(
        "workers",
        "workers/*.py",
        "workers/test_*.py cli/test_workers.py",
    ),
    Room("router", "tools/mcp/*.py tools/*.py"),
    Room(
        "sandbox",
        "tools/python/*.py",
        "tools/test_sandbox_*.py tools/test_python.py tools/test_system_calls.py",
    ),
    Room("tenancy", "tenancy.py"),
    Room(
        "limits",
        "config/limits.py tokens/*.py generation/constraint.py generation/normalize.py http/client.py "
        "http/server/connection.py http/sse.py formats/template/budget.py formats/template/operators.py "
        "formats/template/methods.py formats/template/filters.py formats/template/sandbox.py",
        "docs/test_settings.py",
    ),
    Room("grammar", "grammar/source/*.py grammar/schema/*.py grammar/*.py"),
    Room("harmony", "formats/harmony/*.py"),
    Room("openchatml", "formats/openchatml/lint/*.py formats/conformance.py formats/openchatml/*.py"),
    Room("replies", "formats/replies/*.py"),
    Room("template", "formats/template/*.py"),
    Room("generation", "generation/*.py"),
    Room("conversion", "conversion/*.py"),
)
