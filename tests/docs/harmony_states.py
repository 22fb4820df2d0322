"""The table of states and controls in docs/harmony.md, drawn from the table that the parser runs on.

python tests/docs/harmony_states.py     # writes it into the page
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from antiphon.formats.harmony.controls import CONTROLS, ENDOFTEXT
from antiphon.formats.harmony.machine import TRANSITIONS, UNEXPECTED, HarmonyAction, HarmonyState
from antiphon.tokens import Control

PAGE = Path(__file__).parent.parent.parent / "docs" / "harmony.md"
BEGIN, END = "<!-- states: drawn by tests/docs/harmony_states.py -->\n", "<!-- end of states -->\n"


def page(text: str) -> str:
    """The page with its table as the code has it now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "".join(f"{line}\n" for line in drawn()) + END + after


def drawn() -> Iterator[str]:
    states = [state for state in HarmonyState if UNEXPECTED[state] is not None]
    yield ""
    yield f"| | {' | '.join(states)} |"
    yield "|---" * (len(states) + 1) + "|"
    for control in (*CONTROLS, ENDOFTEXT):
        cells = " | ".join(cell(state, control) for state in states)
        yield f"| `{escaped(control.spelling)}` | {cells} |"
    yield ""
    for action in HarmonyAction:
        yield f"* **{name(action)}**: {action}"
    yield ""


def cell(state: HarmonyState, control: Control) -> str:
    action = TRANSITIONS.get((state, control))
    return f"`{UNEXPECTED[state]}`" if action is None else name(action)


def escaped(text: str) -> str:
    """Without bars that would end a cell."""
    return text.replace("|", "\\|")


def name(action: HarmonyAction) -> str:
    return action.name.lower().replace("_", " ")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
