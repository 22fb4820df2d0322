"""Pages show the tables that the program reads."""

from __future__ import annotations

import re

import pytest

from antiphon.formats.template import load_replies
from docs.drawn import DOCS, TABLES, Table, rows


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_drawn_table_is_current(table: Table) -> None:
    assert table.parts()[1] == table.drawn(), "run: PYTHONPATH=tests python tests/docs/drawn.py"


def test_the_description_of_the_page_is_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (DOCS / "templates.md").read_text("utf-8"), re.DOTALL)
    found = load_replies(example, "toml")
    assert found.reasoning is not None
    assert found.calls[0].members is not None


def test_every_family_has_its_row() -> None:
    shown = TABLES[0].parts()[1]
    assert [row["name"] for row in rows() if f"| {row['name']} |" not in shown] == []
