"""Shared by all tests: the default models, fetched when needed."""

from __future__ import annotations

import gc
import os
import socket
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from antiphon.isolation import Isolation
from kit.parallel import Several
from kit.postgres import Postgres, running_postgres
from kit.program import ONE_THREAD
from kit.stored import stored_model
from kit.tiers import SMOKES, TIERS, Measuring, draw_few, is_left_out, left_out, slow_functions, tiers_of
from kit.waiting import PATIENCE

os.environ |= ONE_THREAD
# A machine that is busy is no failure: no example has a time limit of its own. `make fuzz-*` draws thousands.
settings.register_profile("untimed", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What must pass before a change lands draws the same examples at every run, so that a change is judged by what it
# changed; `make test-rest` draws others each time.
settings.register_profile("same", settings.get_profile("untimed"), derandomize=True)
settings.load_profile("untimed")
if (defaults := Isolation.__init__.__kwdefaults__) is not None:
    defaults["seconds"] = PATIENCE  # The processor time of a client's program is limited as ever.
LEFT = pytest.StashKey[Counter[str]]()
"""How many files, functions and tests ``--part quick`` leaves out, by reason."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand collected tests stay: garbage collections need not look at them again and again, nor so often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", choices=("quick", "rest", "measured"), help="what `make test` runs, or leaves out (kit/tiers.py)"
    )
    parser.addoption("--processes", type=int, default=1, help="how many processes run the tests (kit/parallel.py)")
    parser.addoption("--whole-files", action="store_true", help="let one process run all tests of a file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT] = Counter()
    if (processes := config.getoption("processes")) > 1:
        config.pluginmanager.register(Several(processes, whole_files=config.getoption("whole_files")))
    if config.getoption("part") == "measured":
        config.pluginmanager.register(Measuring())
    for tier, why in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: it {why}; set by what a test uses (`kit/tiers.py`)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves files unread of which nothing is quick."""
    if config.getoption("part") != "quick" or not is_left_out(collection_path):
        return None
    config.stash[LEFT]["files that start processes"] += 1
    return True


def pytest_pycollect_makeitem(collector: pytest.Class | pytest.Module, name: str) -> list[pytest.Item] | None:
    """Makes no tests of functions that are slow."""
    function = f"{collector.nodeid}::{name}"
    if collector.config.getoption("part") != "quick" or function in SMOKES or function not in slow_functions():
        return None
    collector.config.stash[LEFT][f"functions, of which a test {TIERS['slow']}"] += 1
    return []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks each test by what it uses, and keeps those of the part that is run."""
    for item in items:
        tiers = set(tiers_of(item))
        for tier in tiers | ({"cheap"} if tiers <= {"property"} else set()):
            item.add_marker(tier)
    part = config.getoption("part")
    left = left_out(items, measured=part == "measured")
    if part in ("quick", "measured"):
        config.stash[LEFT].update(left.values())
        draw_few([item for item in items if item not in left and item.get_closest_marker("property")])
    if part is not None:
        kept = [
            item
            for item in items
            if (item not in left) == (part != "rest") or (part == "rest" and item.get_closest_marker("property"))
        ]
        config.hook.pytest_deselected(items=[*{*items} - {*kept}])
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for why, count in config.stash[LEFT].items():
        terminalreporter.write_line(f"left to `make test-all`: {count} {why}")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The default chat model: the file that ANTIPHON_TEST_MODEL names, else the store's, fetched when needed."""
    named = os.environ.get("ANTIPHON_TEST_MODEL")
    return Path(named) if named else stored_model("smollm2")


@pytest.fixture(scope="session")
def minilm_path() -> Path:
    """The sentence encoder, converted: the store's, fetched when needed."""
    return stored_model("all-minilm-l6-v2")


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port at which nobody listens, nor can meanwhile."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        yield deaf.getsockname()[1]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for all tests of this process."""
    with running_postgres() as server:
        yield server
