"""The figures of the pages about performance are those that the benches wrote: its plots, and its tables."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.blocks import ROOT

DOCS, RESULTS = ROOT / "docs", ROOT / "bench" / "results"
PAGE = "".join((DOCS / name).read_text("utf-8") for name in ("performance.md", "internals/measured/performance.md"))
TOKEN, REQUEST = ("cpu_us_per_token", 1.0), ("cpu_us_per_request", 1.0)
MILLISECONDS = ("cpu_us_per_request", 1e3)
LOADS = {
    "200 streams of 10 ms a token, a token": ("paced", TOKEN),
    "64 streams flat out, one id a message, a token": ("text", TOKEN),
    "16 streams flat out, one id a message, a token": ("text-16", TOKEN),
    "64 streams, 16 ids a message, a token": ("wide", TOKEN),
    "64 streams of a tool call, a token": ("call", TOKEN),
    "an answer of one token, not streamed": ("whole", REQUEST),
    "a tool call of 139 tokens, not streamed": ("whole-call", REQUEST),
    "a chat of 32k tokens, first": ("long-first", MILLISECONDS),
    "… and another message after it": ("long", MILLISECONDS),
    "start to the first answer": ("start", MILLISECONDS),
    "`antiphon render` of one message": ("render", MILLISECONDS),
}
"""The rows of the table of gateways: the load of the bench, its figure, and what that is divided by."""
GATEWAYS = {"Antiphon": "antiphon", "SMG": "smg", "LiteLLM": "litellm"}
SIZES = {"ChatML": "chatml", "Harmony": "harmony", "a Jinja template": "jinja"}


def table(head: str) -> list[dict[str, str]]:
    """The rows of the table whose head begins so: the cells by the names of their columns."""
    lines = PAGE[PAGE.index(f"\n| {head}") + 1 :].split("\n\n")[0].splitlines()
    names, _, *rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [dict(zip(names, row, strict=True)) for row in rows]


def number(cell: str) -> float | None:
    found = re.match(r"[\d,]+(?:\.\d+)?", cell)
    return float(found[0].replace(",", "")) if found else None


def agree(shown: float | None, measured: float | None) -> bool:
    """Whether the page shows what was measured, in as many digits as it has room for."""
    if shown is None or measured is None:
        return shown is measured
    return math.isclose(shown, measured, rel_tol=0.01, abs_tol=0.051)


def test_the_plots_are_drawn_from_the_results(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "bench" / "plots.py"), str(RESULTS), str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    drawn = {picture.name: picture.read_bytes() for picture in tmp_path.iterdir()}
    assert drawn == {name: (DOCS / name).read_bytes() for name in drawn}, "run: make docs-plots"
    assert [name for name in drawn if f"{name})" not in PAGE] == []


@pytest.mark.parametrize("row", table("processor time of"), ids=lambda row: row["processor time of"])
def test_a_row_of_the_gateways_is_what_the_bench_wrote(row: dict[str, str]) -> None:
    load, (figure, divisor) = LOADS[row["processor time of"]]
    results = {
        one["gateway"]: one for one in json.loads((RESULTS / "gateway.json").read_text())["rows"] if one["load"] == load
    }
    measured = {name: results[key][figure] / divisor for name, key in GATEWAYS.items() if key in results}
    assert [name for name in GATEWAYS if not agree(number(row[name]), measured.get(name))] == [], measured
    if "SMG" in measured:
        assert agree(number(row["ratio"]), measured["Antiphon"] / measured["SMG"])


def exponent(found: dict[str, Any]) -> float:
    """Of time over size, by least squares over the larger half of the sizes."""
    half = len(found["sizes"]) // 2
    xs = [math.log(size) for size in found["sizes"][half:]]
    ys = [math.log(spent) for spent in found["seconds"][half:]]
    mean = sum(xs) / len(xs)
    return sum((x - mean) * y for x, y in zip(xs, ys, strict=True)) / sum((x - mean) ** 2 for x in xs)


@pytest.mark.parametrize("row", table("| from, to"), ids=lambda row: row[""])
def test_a_row_of_growth_is_what_the_bench_wrote(row: dict[str, str]) -> None:
    results = json.loads((RESULTS / "growth.json").read_text())
    for name, key in SIZES.items():
        found = results[f"{row['']}, {key}"]
        power, milliseconds = (float(one.replace(",", "")) for one in re.findall(r"[\d,.]+", row[name]))
        assert row["from, to"] == f"{found['sizes'][0]:,} to {found['sizes'][-1]:,}"
        assert power == pytest.approx(exponent(found), abs=0.006)
        assert milliseconds == pytest.approx(found["seconds"][-1] * 1e3, rel=0.01, abs=0.51)


def test_what_is_said_beside_others_stands_where_it_was_measured() -> None:
    page = (DOCS / "compared.md").read_text("utf-8")
    replies = (DOCS / "internals/measured/replies-beside-others.md").read_text("utf-8")
    suites = (DOCS / "internals/measured/clients.md").read_text("utf-8")
    rows = re.findall(r"^\| \**(Antiphon|vLLM|Ollama)\b.*? \| (\d+) \| (\d+) \| (\d+) \|", replies, re.MULTILINE)
    (_, ours, our_passed, our_blanks), (_, _, passed, blanks), (_, total, their_passed, _) = rows[:3]
    assert f"of {ours} recorded outputs Antiphon passes {our_passed} ({int(our_passed) + int(our_blanks)}" in page
    assert f"figures {passed} ({int(passed) + int(blanks)})" in page
    assert f"{their_passed} of the {total}" in page
    counts = [int(one) for one in re.findall(r"\d+", suites[suites.index("| llama.cpp's server |") :])[:4]]
    assert f"{counts[0]} of the {sum(counts)} tests" in page
