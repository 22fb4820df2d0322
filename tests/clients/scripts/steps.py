"""What every client's script says: a line a step, and whether all of them passed.

The obedient model does what its user says, so that its answers are known word by word. Any other is held to what the
API promises: there is an answer, and it has the form that was requested.
"""

import json
import os
import sys
import traceback
from importlib.metadata import version

BASE = os.environ["ANTIPHON_URL"]
URL = f"{BASE}/v1"
CHAT, THINKER, EMBEDDER = os.environ["ANTIPHON_MODELS"].split()
OBEDIENT = bool(os.environ["ANTIPHON_OBEDIENT"])
CONNECTION = json.loads(os.environ.get("ANTIPHON_CONNECTION") or '{"environment": {}}')
"""What `antiphon connect` prints for the client: its variables are set here, its file is written."""
os.environ.update(CONNECTION["environment"])
MORNING = "say: Good morning."
WEATHER = 'call: weather {"city": "Bern"}'
CITIES = ("Bern", "Basel")
"""All that a typed answer may name: a model that rambles comes to an end."""
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


def expect_text(text, expected):
    """The obedient model's text is just this; another's is any."""
    assert isinstance(text, str), text
    assert text.strip() == expected if OBEDIENT else text, text


def expects(status, path, times=1):
    """Announces answers that are errors; any other is a finding, though the client lives with it."""
    print(f"expects {status} {path}\n" * times, end="", flush=True)


def finish(package, versions=""):
    """The last line; ``versions`` where there are several, or the package is not installed."""
    print("version", package, versions or version(package), flush=True)
    sys.exit(bool(failed))
