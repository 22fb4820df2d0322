"""The table of families in docs/templates.md, drawn from the rows that the program reads.

python tests/docs/reply_families.py     # writes it into the page
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent.parent / "docs" / "templates.md"
BEGIN, END = "<!-- families: drawn by tests/docs/reply_families.py -->\n", "<!-- end of families -->\n"
_BEFORE = {"name": "NAME", "call_id": "ID", "index": "NUMBER"}


def page(text: str) -> str:
    """The page with its table as the rows have it now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "".join(f"{line}\n" for line in drawn()) + END + after


def rows() -> list[dict[str, Any]]:
    """The table as it ships."""
    text = files("antiphon.formats.replies").joinpath("families.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def drawn() -> Iterator[str]:
    yield ""
    yield "| family | a template of it has | reasoning | a call |"
    yield "|---|---|---|---|"
    for row in rows():
        markers = " and ".join(map(code, row["markers"]))
        either = "".join(f", or {code(marker)}" for marker in row.get("or", ()))
        reasoning = row.get("fills", {}).get("reasoning")
        region = code(f"{reasoning.get('open', '')}…{reasoning.get('close', '')}") if reasoning else ""
        calls = row.get("calls", ())
        yield f"| {row['name']} | {markers}{either} | {region} | {code(call(calls[0])) if calls else ''} |"
    yield ""


def call(form: Mapping[str, Any]) -> str:
    """One call as the family writes it, an argument in it."""
    section = form.get("section", {})
    inside = form.get("open", "") + _head(form) + _arguments(form) + form.get("close", "")
    return str(section.get("open", "") + inside + section.get("close", ""))


def _head(form: Mapping[str, Any]) -> str:
    return "".join(_BEFORE[slot["reads"]] + slot.get("after", "") for slot in form.get("head", ()))


def _arguments(form: Mapping[str, Any]) -> str:
    if (members := form.get("members")) is not None:
        name, arguments = members.get("name", "name"), members.get("arguments", "arguments")
        return f'{{"{name}": "NAME", "{arguments}": {{…}}}}' if name else '{"NAME": {…}}'
    if (pairs := form.get("pairs")) is None:
        return "{…}"
    value = pairs["values"][0]
    return f"{pairs.get('key', '')}KEY{value['before']}VALUE{value.get('after', '')}"


def code(text: str) -> str:
    """As code in a cell: ends of lines are written as ⏎."""
    return "`" + text.replace("|", "\\|").replace("\n", "⏎").replace("`", "ˋ") + "`"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
