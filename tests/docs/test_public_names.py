"""The public names of each room: one list, from which nothing vanishes by accident."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("public_names.txt")
"""``room: name name …``. New names are added by `python tests/docs/test_public_names.py`; one that goes is a decision,
told in the changelog."""

ROOMS = (
    "api", "catalog", "config", "conversation", "engines", "formats", "formats.harmony", "formats.openchatml",
    "formats.template", "generation", "grammar", "models", "store", "tokens", "tools",
)  # fmt: skip


def public_names(room: str) -> list[str]:
    return sorted(import_module(f"antiphon.{room}").__all__)


def listed() -> dict[str, list[str]]:
    return {room: names.split() for room, _, names in (line.partition(":") for line in LIST.read_text().splitlines())}


@pytest.mark.parametrize("room", ROOMS)
def test_no_public_name_vanishes(room: str) -> None:
    assert [name for name in listed()[room] if name not in public_names(room)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_exists_and_stands_once(room: str) -> None:
    module = import_module(f"antiphon.{room}")
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


if __name__ == "__main__":
    LIST.write_text("".join(f"{room}: {' '.join(public_names(room))}\n" for room in ROOMS))
