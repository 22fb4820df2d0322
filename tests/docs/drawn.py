"""Tables in pages, drawn from what the program reads: the families of replies, and the states of Harmony's parser;
and from what its tests ask: the ways of images.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from antiphon.formats.harmony.controls import CONTROLS, ENDOFTEXT
from antiphon.formats.harmony.machine import TRANSITIONS, UNEXPECTED, HarmonyAction, HarmonyState
from antiphon.formats.replies.describe import family_named
from antiphon.formats.replies.description import spelled_call
from antiphon.tokens import Control
from kit.picture_engines import PLAIN, REAL
from kit.picture_wires import ALONE, UNSEEN, WIRES


def rows() -> list[dict[str, Any]]:
    """The table as it ships."""
    text = files("antiphon.formats.replies").joinpath("families.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def families() -> Iterator[str]:
    yield "| family | a template of it has | reasoning | a call |"
    yield "|---|---|---|---|"
    for row in rows():
        markers = " and ".join(map(code, row["markers"]))
        either = "".join(f", or {code(marker)}" for marker in row.get("or", ()))
        reasoning = row.get("fills", {}).get("reasoning")
        region = code(f"{reasoning.get('open', '')}…{reasoning.get('close', '')}") if reasoning else ""
        calls = family_named(row["name"]).calls
        yield f"| {row['name']} | {markers}{either} | {region} | {code(spelled_call(calls[0])) if calls else ''} |"


def code(text: str) -> str:
    """As code in a cell: ends of lines are written as ⏎."""
    return "`" + text.replace("|", "\\|").replace("\n", "⏎").replace("`", "ˋ") + "`"


def states() -> Iterator[str]:
    columns = [state for state in HarmonyState if UNEXPECTED[state] is not None]
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for control in (*CONTROLS, ENDOFTEXT):
        cells = " | ".join(cell(state, control) for state in columns)
        yield f"| {code(control.spelling)} | {cells} |"
    yield ""
    for action in HarmonyAction:
        yield f"* **{name(action)}**: {action}"


def cell(state: HarmonyState, control: Control) -> str:
    action = TRANSITIONS.get((state, control))
    return f"`{UNEXPECTED[state]}`" if action is None else name(action)


def name(action: HarmonyAction) -> str:
    return action.name.lower().replace("_", " ")


def images() -> Iterator[str]:
    engines = [*PLAIN, *REAL]
    yield f"| by | the images stand | {' | '.join(engines)} | SGLang |"
    yield "|---" * (len(engines) + 3) + "|"
    for wire, (_, place) in WIRES.items():
        stands = "before the text" if place == ALONE else "between the texts"
        seen = " | ".join("✓" for _ in engines)
        yield f"| {wire} | {stands} | {seen} | {'told of' if wire in UNSEEN else '400'} |"
