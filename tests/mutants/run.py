"""Tries small faults of the source, and says which of them no test finds.

Each is made in a copy of the repository in a temporary folder, where the tests of its file are run; the repository
itself is only read. Exit code 1: more than 5 % survive, or one that `argued.txt` does not argue.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.rooms import ROOMS, ROOT
from mutants.sample import Entries, Known, Mutant, argued, sample
from mutants.trial import ended, passed, started

MOST = 0.05
"""The share that may survive."""
PATIENCE = 45.0
"""Seconds that the tests of a mutant may take in any case, beside three times what they take without it."""
SHORT_PATIENCE = 10.0
"""The same for the quick tests that come first, of which is known what they take."""
LONGEST = 1800.0
"""Seconds that tests may take without a fault."""
TRIES = 3
"""How often a mutant is tried until two looks in a row give the same."""


class Laboratory:
    """Copies of the repository, one for each worker, in which tests run with one fault."""

    def __init__(self, folder: Path, workers: int, entries: Entries) -> None:
        self._entries = entries
        self._running: set[ForkServerProcess] = set()
        self._closed = False
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._seconds: dict[tuple[str, ...], float] = {}
        for number in range(workers):
            self._free.put(_copy(folder / str(number)))

    def record(self, test: str) -> None:
        """What the tests of a file enter, where that is not known."""
        copy = self._free.get()
        try:
            entered = copy.with_suffix(".entered")
            entered.unlink(missing_ok=True)
            if self._passes(copy, [test], LONGEST, entered) is not None:
                self._entries.add(test, entered.read_text().splitlines() if entered.exists() else ())
        finally:
            self._free.put(copy)

    def outcome(self, mutant: Mutant) -> str:
        """``killed``, ``timeout`` or ``survived``; the last too where no test finds it each time.

        Raises `RuntimeError` where that is because its tests fail without it.
        """
        copy = self._free.get()
        try:
            for _ in range(TRIES):
                if (outcome := self._looked_at(copy, mutant)) is not None:
                    return outcome
            for tests, _ in self._entries.tests(mutant):
                self._measured(copy, tests)
            return "survived"
        finally:
            self._free.put(copy)

    def _looked_at(self, copy: Path, mutant: Mutant) -> str | None:
        """What became of the mutant; None where a second look gave something else than the first.

        A test that failed has to fail again, and to pass without the fault. Tests that took too long must take much
        less without it, now. So neither a test that fails now and then nor a busy machine finds a fault.
        """
        for tests, seconds in self._entries.tests(mutant):
            least = PATIENCE if seconds is None else SHORT_PATIENCE
            patience = least + 3 * self._seconds.setdefault(tests, seconds or 0.0)
            failed = ("--last-failed", *dict.fromkeys(test.partition("::")[0] for test in tests))
            try:
                _put(copy / mutant.path, mutant.source())
                fine = self._passes(copy, tests, patience)
                again = fine is False and self._passes(copy, failed, patience)
            finally:
                _put(copy / mutant.path, mutant.original)
            if fine is False:
                return None if again or not self._passes(copy, failed, LONGEST) else "killed"
            if fine is None:
                return "timeout" if least + self._measured(copy, tests) < patience else None
        return "survived"

    def _measured(self, copy: Path, tests: tuple[str, ...]) -> float:
        """How many seconds these tests take now, without a fault."""
        begun = time.monotonic()
        if not self._passes(copy, tests, LONGEST) and not self._closed:
            raise RuntimeError(f"without any mutation these tests fail: {' '.join(tests)}")
        self._seconds[tests] = time.monotonic() - begun
        return self._seconds[tests]

    def _passes(self, copy: Path, tests: Iterable[str], patience: float, entered: Path | None = None) -> bool | None:
        """Whether the tests pass in this copy; None when they do not come to an end."""
        if self._closed:
            return None
        process = started(copy, tests, entered)
        self._running.add(process)
        try:
            process.join(patience)
            return passed(process)
        finally:
            ended(process)  # With the servers that its tests left.
            self._running.discard(process)

    def close(self) -> None:
        """Ends what runs; nothing is begun any more."""
        self._closed = True
        for process in tuple(self._running):
            ended(process)


def _copy(to: Path) -> Path:
    to.mkdir()
    for path in ROOT.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            shutil.copytree(path, to / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.is_file():
            shutil.copy(path, to)
    return to


def _put(path: Path, source: bytes) -> None:
    """Without the compiled file, which goes by seconds and size and may not see the difference."""
    path.write_bytes(source)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def main() -> int:
    asked = _arguments()
    mutants = sample([room for room in ROOMS if room.name in asked.rooms], asked.count, asked.seed)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="antiphon-mutants-") as folder, ThreadPoolExecutor(asked.workers) as pool:
        entries = Entries(Path(asked.entered))
        laboratory = Laboratory(Path(folder), asked.workers, entries)
        for _ in pool.map(laboratory.record, entries.missing()):
            pass
        known, tests = Known(Path(asked.known)), {mutant: entries.all_tests(mutant) for mutant in mutants}
        outcomes = {mutant: outcome for mutant in mutants if (outcome := known.get(mutant, tests[mutant]))}
        left = [mutant for mutant in mutants if mutant not in outcomes]
        print(
            f"{len(mutants)} mutants, seed {asked.seed}: {len(outcomes)} are known, {len(left)} are tried", flush=True
        )
        tried = {pool.submit(laboratory.outcome, mutant): mutant for mutant in left}
        try:
            for each in as_completed(tried):
                mutant, outcome = tried[each], each.result()
                known.add(mutant, outcome, tests[mutant])
                outcomes[mutant] = outcome
                print(f"{outcome:8}  {mutant.path}:{mutant.mutation.line}  {mutant.mutation.kind}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            laboratory.close()
            raise
    return report(mutants, outcomes)


def report(mutants: Sequence[Mutant], outcomes: dict[Mutant, str]) -> int:
    """Prints the table and every survivor; the exit code."""
    reasons = argued()
    survivors = [mutant for mutant in mutants if outcomes[mutant] == "survived"]
    for mutant in survivors:
        print(f"\n{mutant.path}:{mutant.mutation.line}: {mutant.mutation.kind}", *mutant.diff(), sep="\n  ")
        print(f"  {reasons.get(mutant.said, 'NOT ARGUED')}")
    print(f"\n{'room':10}{'mutants':>9}{'killed':>9}{'timeout':>9}{'survived':>9}{'argued':>9}")
    for room in [*dict.fromkeys(mutant.room.name for mutant in mutants), "all"]:
        here = [mutant for mutant in mutants if room in (mutant.room.name, "all")]
        count = Counter(outcomes[mutant] for mutant in here)
        of_argued = sum(mutant in survivors and mutant.said in reasons for mutant in here)
        numbers = (len(here), count["killed"], count["timeout"], count["survived"], of_argued)
        print(f"{room:10}" + "".join(f"{number:9}" for number in numbers))
    share = len(survivors) / max(len(mutants), 1)
    print(f"{share:.1%} survive")
    return int(share > MOST or any(mutant.said not in reasons for mutant in survivors))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutants in all")
    parser.add_argument("--seed", type=int, default=1, help="draws the sample")
    parser.add_argument("--workers", type=int, default=2, help="test runs at once")
    parser.add_argument("--rooms", nargs="+", choices=[room.name for room in ROOMS], default=[r.name for r in ROOMS])
    parser.add_argument("--known", default=str(ROOT / ".mutants.jsonl"), help="what became of mutants before")
    parser.add_argument("--entered", default=str(ROOT / ".mutants.entered.jsonl"), help="what each test enters")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
