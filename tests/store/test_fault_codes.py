"""What SQLite and the system say, as codes that name the cause; nothing of their own words reaches a client."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.store.faults import HINTS, MEANINGS, damaged, store_fault

CODES = {
    sqlite3.SQLITE_BUSY: "store_busy",
    sqlite3.SQLITE_BUSY_SNAPSHOT: "store_busy",
    sqlite3.SQLITE_LOCKED: "store_busy",
    sqlite3.SQLITE_LOCKED_SHAREDCACHE: "store_busy",
    sqlite3.SQLITE_READONLY: "store_readonly",
    sqlite3.SQLITE_READONLY_DBMOVED: "store_readonly",
    sqlite3.SQLITE_FULL: "store_full",
    sqlite3.SQLITE_IOERR_WRITE: "store_full",
    sqlite3.SQLITE_IOERR_SHMSIZE: "store_full",
    sqlite3.SQLITE_IOERR_SHORT_READ: "store_corrupt",
    sqlite3.SQLITE_IOERR_READ: "store_failed",
    sqlite3.SQLITE_IOERR_FSYNC: "store_failed",
    sqlite3.SQLITE_CORRUPT: "store_corrupt",
    sqlite3.SQLITE_CORRUPT_INDEX: "store_corrupt",
    sqlite3.SQLITE_NOTADB: "store_corrupt",
    sqlite3.SQLITE_CONSTRAINT: "store_corrupt",
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: "store_corrupt",
    sqlite3.SQLITE_MISMATCH: "store_corrupt",
    sqlite3.SQLITE_ERROR: "store_failed",
    sqlite3.SQLITE_INTERNAL: "store_failed",
    sqlite3.SQLITE_NOMEM: "store_failed",
}


@pytest.mark.parametrize("result", CODES)
def test_each_result_has_its_code_and_its_words_stay_in_the_log(
    result: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    error = sqlite3.OperationalError("near /secret/place")
    error.sqlite_errorcode, error.sqlite_errorname = result, "SQLITE_X"
    fault = store_fault(error, tmp_path)
    assert fault.code == CODES[result]
    assert (fault.message, fault.hint) == (MEANINGS[fault.code], HINTS[fault.code])
    assert "/secret" not in str(fault)
    assert caplog.messages == [f"{fault.code}: near /secret/place (SQLITE_X)"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "store_full"),
        (errno.EDQUOT, "store_full"),
        (errno.EFBIG, "store_full"),
        (errno.EROFS, "store_readonly"),
        (errno.EACCES, "store_readonly"),
        (errno.EPERM, "store_readonly"),
    ],
)
def test_errors_of_the_system_have_the_codes_of_sqlites(number: int, code: str, tmp_path: Path) -> None:
    assert store_fault(OSError(number, "a disk"), tmp_path).code == code


@pytest.mark.parametrize("error", [OSError(errno.EIO, "a disk"), sqlite3.ProgrammingError("none of SQLite's results")])
def test_what_has_no_result_is_a_fault_all_the_same(
    error: OSError | sqlite3.Error, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert store_fault(error, tmp_path).code == "store_failed"
    assert type(error).__name__ in caplog.text


def test_damage_says_what_to_do() -> None:
    fault = damaged()
    assert (fault.code, fault.message, fault.hint) == (
        "store_corrupt",
        MEANINGS["store_corrupt"],
        HINTS["store_corrupt"],
    )


FAILED_WRITE = """
import sqlite3, sys
from pathlib import Path
from antiphon.store.faults import store_fault

error = sqlite3.OperationalError("disk I/O error")
error.sqlite_errorcode = int(sys.argv[2])
print(store_fault(error, Path(sys.argv[1])).code)
"""


@pytest.mark.parametrize(
    ("options", "result", "code"),
    [
        ("rw", sqlite3.SQLITE_IOERR_WRITE, "store_full"),
        ("ro", sqlite3.SQLITE_IOERR_WRITE, "store_readonly"),
        ("ro", sqlite3.SQLITE_IOERR_FSYNC, "store_readonly"),
        ("ro", sqlite3.SQLITE_CANTOPEN, "store_readonly"),
        ("ro", sqlite3.SQLITE_CORRUPT, "store_corrupt"),
        ("ro", sqlite3.SQLITE_ERROR, "store_failed"),
    ],
)
def test_a_file_system_that_takes_no_writes_any_more_is_not_full(
    options: str, result: int, code: str, tmp_path: Path
) -> None:
    """As ext4 becomes after an error of its disk: SQLite tells of a failed write alone."""
    inside = f'mount -t tmpfs -o {options} none "{tmp_path}" && exec "$0" -c "$1" "{tmp_path}/sessions.db" {result}'
    namespace = ["unshare", "-Urm"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system lets no user mount a file system of their own")
    command = [*namespace, "sh", "-c", inside, sys.executable, FAILED_WRITE]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == code
