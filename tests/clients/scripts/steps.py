"""What every client's script says: a line a step, and whether all of them passed.

The obedient model does what its user says, so that its answers are known word by word. Any other is held to what the
API promises: there is an answer, and it has the form that was requested.
"""

import asyncio
import json
import os
import sys
import traceback
from functools import partial
from importlib.metadata import version
from typing import Literal

BASE = os.environ["ANTIPHON_URL"]
URL = f"{BASE}/v1"
CHAT, THINKER, EMBEDDER = os.environ["ANTIPHON_MODELS"].split()
OBEDIENT = bool(os.environ["ANTIPHON_OBEDIENT"])
TOKENS = 200 if OBEDIENT else 40
"""How long an answer may be: what a small model says is judged by its form."""
CONNECTION = json.loads(os.environ.get("ANTIPHON_CONNECTION") or '{"environment": {}}')
"""What `antiphon connect` prints for the client: its variables are set here, its file is written."""
os.environ.update(CONNECTION["environment"])
MORNING = "say: Good morning."
WEATHER = 'call: weather {"city": "Bern"}'
CITIES = ("Bern", "Basel")
"""All that a typed answer may name: a model that rambles comes to an end."""
failed: list[str] = []


NOTES = {"sweets": "There is marzipan."}
PLAN = (
    'plan: call read_note {"name": "sweets"} ;; '
    'call edit_note {"name": "sweets", "old": "marzipan", "new": "nougat"} ;; '
    'call read_note {"name": "sweets"} ;; say It is done.'
)
"""An agent's loop: it reads, edits and reads again, and then it speaks."""
done: list[str] = []
awaited = asyncio.Runner().run
"""Runs what is asynchronous, all of it on one loop, to which clients keep their connections."""


def weather(city: Literal["Bern", "Basel"]) -> str:
    """The weather of a city.

    Args:
        city: The city.
    """
    done.append("weather")
    return f"18 degrees in {city}"


def read_note(name: str) -> str:
    """The text of a note.

    Args:
        name: The note's name.
    """
    done.append("read")
    return NOTES[name]


def edit_note(name: str, old: str, new: str) -> str:
    """Changes a note.

    Args:
        name: The note's name.
        old: The text to be replaced.
        new: The text that replaces it.
    """
    done.append("edit")
    NOTES[name] = NOTES[name].replace(old, new)
    return "changed"


def expect_weather(text, result="18 degrees in Bern"):
    """The tool was called, where orders are followed, and then the model told its result."""
    called = [done.pop() for _ in list(done)]
    if OBEDIENT:
        assert called == ["weather"], called
        assert text.strip() == f"it said: {result}", text


def expect_edited(text):
    """The whole plan was done."""
    called, note = [done.pop(0) for _ in list(done)], NOTES["sweets"]
    NOTES["sweets"] = "There is marzipan."
    assert (called, note) == (["read", "edit", "read"], "There is nougat."), (called, note)
    assert text.strip() == "It is done.", text


def step(check, name=""):
    """Runs a step at once and says how it ended; the next one runs all the same."""
    name = name or check.__name__
    try:
        check()
    except Exception:
        traceback.print_exc()
        failed.append(name)
        print("failed", name, flush=True)
    else:
        print("ok", name, flush=True)
    return check


def each(models, *checks):
    """A step of each check with each of the models, whose names begin with the endpoint that they ask."""
    for name, model in models.items():
        for check in checks:
            step(partial(check, model), f"{name}_{check.__name__}")


def expect_text(text, expected):
    """The obedient model's text is just this; another's is any."""
    assert isinstance(text, str), text
    assert text.strip() == expected if OBEDIENT else text, text


def expects(status, path, times=1):
    """Announces answers that are errors, ``*``: any number. Any other is a finding, though the client lives with it."""
    print(f"expects {status} {path} {times}", flush=True)


def finish(package, versions=""):
    """The last line; ``versions`` where there are several, or the package is not installed."""
    print("version", package, versions or version(package), flush=True)
    sys.exit(bool(failed))
