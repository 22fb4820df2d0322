"""The tables of the reader's states in docs/internals/openchatml.md."""

from __future__ import annotations

from antiphon.formats.openchatml.machine import REPLY, TRANSCRIPT, FrameState, Input, Table
from antiphon.formats.openchatml.spelling import CONTROLS


def drawn(table: Table) -> str:
    """A row for each input, a column for each state; a cell is the action, and the next state where it changes."""
    states = list(table)
    keys = [
        key for key in (*Input, *(control.spelling for control in CONTROLS)) if any(key in table[s] for s in states)
    ]
    head = "| input | " + " | ".join(states) + " |\n" + "|---" * (len(states) + 1) + "|\n"
    return head + "".join(f"| {_named(key)} | {' | '.join(_cell(table, s, key) for s in states)} |\n" for key in keys)


def _named(key: str) -> str:
    return f"`{key}`".replace("|", "\\|") if key.endswith("|>") else key.replace("|", "\\|")


def _cell(table: Table, state: FrameState, key: str) -> str:
    if key not in table[state]:
        return ""
    action, then = table[state][key]
    words = action.replace("|", "\\|")
    return words if then is state else f"{words} → **{then}**"


def tables() -> str:
    return f"A transcript:\n\n{drawn(TRANSCRIPT)}\nA model's reply:\n\n{drawn(REPLY)}"
