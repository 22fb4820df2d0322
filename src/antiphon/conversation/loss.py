"""What one form of a conversation has and another cannot express: every translation reports it with this value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LossKind = Literal["semantic", "derivable", "spelling"]
"""``semantic``: its meaning is gone. ``derivable``: a rule restores it. ``spelling``: only how it was written."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that is not in the output: its ``path`` in the conversation, ``what`` it is there, what it becomes.

    ``becomes`` None: nothing stands for it.
    """

    path: str
    what: str
    becomes: str | None = None
    kind: LossKind = "semantic"

    def __str__(self) -> str:
        arrow = f" becomes {self.becomes}" if self.becomes is not None else ""
        return f"{self.path}: {self.what}{arrow}" + ("" if self.kind == "semantic" else f"  ({self.kind})")
