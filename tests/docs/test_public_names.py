"""The public names of each room: one list, from which nothing vanishes by accident."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import antiphon
from docs.reference_python import about_name, public_methods
from docs.rooms import ROOMS, ROOT, module_of

LIST = Path(__file__).with_name("public_names.txt")
"""``room: name name …``. `PYTHONPATH=tests python tests/docs/test_public_names.py` adds new names; one that goes is a
decision, written in the changelog."""


def public_names(room: str) -> list[str]:
    return sorted(module_of(room).__all__)


def listed() -> dict[str, list[str]]:
    return {room: names.split() for room, _, names in (line.partition(":") for line in LIST.read_text().splitlines())}


@pytest.mark.parametrize("room", ROOMS)
def test_no_public_name_vanishes(room: str) -> None:
    assert [name for name in listed()[room] if name not in public_names(room)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_exists_and_stands_once(room: str) -> None:
    module = module_of(room)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_says_what_it_is(room: str) -> None:
    module = module_of(room)
    assert [name for name in module.__all__ if not about_name(name, getattr(module, name), module.__name__)] == []


def test_every_method_of_the_first_names_says_what_it_does() -> None:
    kinds = {name: kind for name in antiphon.__all__ if inspect.isclass(kind := getattr(antiphon, name))}
    methods = {f"{name}.{one}": member for name, kind in kinds.items() for one, member in public_methods(kind)}
    assert [name for name, member in methods.items() if not about_name(name, member, "antiphon")] == []


def test_every_package_that_lists_its_names_is_a_room() -> None:
    folder = Path(antiphon.__file__).parent
    texts = {file.parent: file.read_text("utf-8") for file in folder.rglob("__init__.py")}
    listing = [package for package, text in texts.items() if "__all__ = [" in text or "exports(" in text]
    assert {".".join(package.relative_to(folder).parts) or ROOT for package in listing} == set(ROOMS)


if __name__ == "__main__":
    LIST.write_text("".join(f"{room}: {' '.join(public_names(room))}\n" for room in ROOMS))
