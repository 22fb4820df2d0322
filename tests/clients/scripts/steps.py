"""What every client's script says: a line a step, and whether all of them passed."""

import os
import sys
import traceback
from importlib.metadata import version

BASE = os.environ["ANTIPHON_URL"]
URL = f"{BASE}/v1"
failed: list[str] = []


def step(check):
    """Runs a step at once and says how it ended; the next one runs all the same."""
    try:
        check()
    except Exception:
        traceback.print_exc()
        failed.append(check.__name__)
        print("failed", check.__name__, flush=True)
    else:
        print("ok", check.__name__, flush=True)
    return check


def finish(package):
    print("version", package, version(package), flush=True)
    sys.exit(bool(failed))
