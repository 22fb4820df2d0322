"""Tables in pages, drawn from what the program reads: the families of replies, and the states of Harmony's parser;
and from what its tests ask: the ways of images.

PYTHONPATH=tests python tests/docs/drawn.py     # writes them into their pages
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from antiphon.formats.harmony.controls import CONTROLS, ENDOFTEXT
from antiphon.formats.harmony.machine import TRANSITIONS, UNEXPECTED, HarmonyAction, HarmonyState
from antiphon.formats.replies.describe import family_named
from antiphon.formats.replies.description import spelled_call
from antiphon.tokens import Control
from kit.picture_engines import PLAIN, REAL
from kit.picture_wires import ALONE, UNSEEN, WIRES

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page, by the ``name`` that its marks have there."""

    name: str
    page: Path
    lines: Callable[[], Iterator[str]]

    def marks(self) -> tuple[str, str]:
        return f"<!-- {self.name}: drawn by tests/docs/drawn.py -->\n", f"<!-- end of {self.name} -->\n"

    def parts(self) -> tuple[str, str, str]:
        """The page before the table, the table as it stands there, and the rest. Raises `ValueError` without marks."""
        text, (begin, end) = self.page.read_text("utf-8"), self.marks()
        first, last = text.index(begin) + len(begin), text.index(end)
        return text[:first], text[first:last], text[last:]

    def drawn(self) -> str:
        """The table as the code has it now."""
        return "".join(f"{line}\n" for line in self.lines())


def rows() -> list[dict[str, Any]]:
    """The table as it ships."""
    text = files("antiphon.formats.replies").joinpath("families.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def families() -> Iterator[str]:
    yield ""
    yield "| family | a template of it has | reasoning | a call |"
    yield "|---|---|---|---|"
    for row in rows():
        markers = " and ".join(map(code, row["markers"]))
        either = "".join(f", or {code(marker)}" for marker in row.get("or", ()))
        reasoning = row.get("fills", {}).get("reasoning")
        region = code(f"{reasoning.get('open', '')}…{reasoning.get('close', '')}") if reasoning else ""
        calls = family_named(row["name"]).calls
        yield f"| {row['name']} | {markers}{either} | {region} | {code(spelled_call(calls[0])) if calls else ''} |"
    yield ""


def code(text: str) -> str:
    """As code in a cell: ends of lines are written as ⏎."""
    return "`" + text.replace("|", "\\|").replace("\n", "⏎").replace("`", "ˋ") + "`"


def states() -> Iterator[str]:
    columns = [state for state in HarmonyState if UNEXPECTED[state] is not None]
    yield ""
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for control in (*CONTROLS, ENDOFTEXT):
        cells = " | ".join(cell(state, control) for state in columns)
        yield f"| {code(control.spelling)} | {cells} |"
    yield ""
    for action in HarmonyAction:
        yield f"* **{name(action)}**: {action}"
    yield ""


def cell(state: HarmonyState, control: Control) -> str:
    action = TRANSITIONS.get((state, control))
    return f"`{UNEXPECTED[state]}`" if action is None else name(action)


def name(action: HarmonyAction) -> str:
    return action.name.lower().replace("_", " ")


def images() -> Iterator[str]:
    engines = [*PLAIN, *REAL]
    yield ""
    yield f"| by | the images stand | {' | '.join(engines)} | SGLang |"
    yield "|---" * (len(engines) + 3) + "|"
    for wire, (_, place) in WIRES.items():
        stands = "before the text" if place == ALONE else "between the texts"
        seen = " | ".join("✓" for _ in engines)
        yield f"| {wire} | {stands} | {seen} | {'told of' if wire in UNSEEN else '400'} |"
    yield ""


TABLES = (
    Table("families", DOCS / "templates.md", families), Table("states", DOCS / "harmony.md", states),
    Table("images", DOCS / "engines.md", images),
)  # fmt: skip

if __name__ == "__main__":
    for table in TABLES:
        before, _, after = table.parts()
        table.page.write_text(before + table.drawn() + after, "utf-8")
