"""The table of families: what each row knows, and by what it is known."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from antiphon.formats.replies import CompiledDescription, ReplyDescription
from antiphon.formats.replies.describe import Family, completed, families_of, whole

ROWS = json.loads(files("antiphon.formats.replies").joinpath("families.json").read_text("utf-8"))


def family(name: str, source: str) -> Family:
    return next(family for family in families_of(source) if family.name == name)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_a_row_is_found_by_its_markers_and_describes_replies(row: dict[str, list[str]]) -> None:
    found = family(str(row["name"]), " ".join(row["markers"]))
    description = completed(ReplyDescription(), found)
    assert description != ReplyDescription()
    assert len(description.calls) == len(row.get("calls", ()))
    CompiledDescription(whole(description, found), (), ())


def test_names_are_said_once() -> None:
    assert len({row["name"] for row in ROWS}) == len(ROWS)


def test_a_template_without_markers_is_of_no_family() -> None:
    assert list(families_of("{{ messages }}")) == []


def test_what_was_derived_stays_and_is_completed() -> None:
    mistral = family("Mistral", "[TOOL_CALLS]")
    derived = ReplyDescription(calls=mistral.calls[1:], ends=("</s>",))
    assert completed(derived, mistral).calls == (mistral.calls[1], mistral.calls[0])
    assert completed(derived, mistral).ends == ("</s>",)
