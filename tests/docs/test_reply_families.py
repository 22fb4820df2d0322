"""The page of templates shows the families that the program knows."""

from __future__ import annotations

import re

from antiphon.formats.template import load_replies
from docs.reply_families import BEGIN, END, PAGE, page, rows


def test_the_table_of_families_is_current() -> None:
    text = PAGE.read_text("utf-8")
    assert BEGIN in text
    assert END in text
    assert text == page(text), "run: python tests/docs/reply_families.py"


def test_the_description_of_the_page_is_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    found = load_replies(example, "toml")
    assert found.reasoning is not None
    assert found.calls[0].members is not None


def test_every_family_has_its_row() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert [row["name"] for row in rows() if f"| {row['name']} |" not in shown] == []
