"""Parts of pages that are printed from the code: each has its place, and says what the program reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.formats.harmony.machine import HarmonyAction
from antiphon.formats.replies.reply_file import load_replies
from docs.blocks import PAGES, ROOT
from docs.drawn import families, images, name, rows, states
from docs.printed import MARKED, PARTS, completed
from kit.picture_wires import WIRES

PLACES = [(page, *found) for page in PAGES for found in MARKED.findall(page.read_text("utf-8"))]


def test_every_part_has_one_place() -> None:
    assert sorted(part for _, part, _ in PLACES) == sorted(PARTS)


@pytest.mark.parametrize(("page", "part", "note"), PLACES, ids=[part for _, part, _ in PLACES])
def test_a_file_says_where_its_part_is_read(page: Path, part: str, note: str) -> None:
    assert f"`.venv/bin/python tests/docs/printed.py {part}`" in note
    assert f"`/docs/{page.relative_to(ROOT / 'docs').with_suffix('.html')}`" in note


@pytest.mark.parametrize("part", ["errors", "families"])
def test_the_site_has_the_part_in_place_of_the_note(part: str) -> None:
    (page,) = (page for page, name, _ in PLACES if name == part)
    text = completed(page.read_text("utf-8"))
    assert PARTS[part]().strip() in text
    assert "printed.py" not in text


def test_the_description_of_the_page_is_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/templates.md").read_text("utf-8"), re.DOTALL)
    found = load_replies(example, "toml")
    assert found.reasoning is not None
    assert found.calls[0].members is not None


def test_every_family_action_and_wire_has_its_row() -> None:
    shown = [line.split(" | ")[0].removeprefix("| ") for line in families()]
    assert shown[2:] == [row["name"] for row in rows()]
    actions = re.findall(r"^\* \*\*(.+)\*\*", "\n".join(states()), re.MULTILINE)
    assert actions == [name(action) for action in HarmonyAction]
    assert [line.split("|")[1].strip() for line in images()][2:] == list(WIRES)
