"""Pictures of what the benches measured, for docs/performance.md: ``python bench/plots.py [RESULTS [FOLDER]]``.

RESULTS holds what ``--json`` of the benches wrote: ``gateway.json`` of `gateway.py`, ``growth.json`` of `growth.py`.
The pictures are SVG files in FOLDER, the same bytes for the same figures.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
COLOURS = {"antiphon": "#3b6fb6", "smg": "#c8553d", "litellm": "#8a8a8a"}
TITLES = {"antiphon": "Antiphon", "smg": "SMG", "litellm": "LiteLLM"}
TOKENS = {
    "paced": "200 streams,\n10 ms a\ntoken",
    "text": "64 streams,\none id a\nmessage",
    "wide": "64 streams,\n16 ids a\nmessage",
    "call": "64 streams\nof a tool\ncall",
}
REQUESTS = {"whole": "an answer of\none token", "whole-call": "a tool call of\n139 tokens"}
LONG = {
    "long-first": "a chat of\n32k tokens",
    "long": "… and one\nmessage more",
    "start": "start to the\nfirst answer",
}
Rows = Mapping[tuple[str, str], Mapping[str, Any]]
Value = Callable[[Mapping[str, Any]], float]


def gateway(found: Mapping[str, Any]) -> Figure:
    """Processor time of each gateway, by load. LiteLLM's of a token would dwarf the others', and is left out."""
    rows = {(row["load"], row["gateway"]): row for row in found["rows"]}
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    tokens, requests, long = figure.subplots(1, 3, width_ratios=(4, 2.5, 3))
    bars(tokens, rows, TOKENS, ("antiphon", "smg"), lambda row: row["cpu_us_per_token"])
    tokens.set_title("µs of processor time a token", fontsize=9)
    bars(requests, rows, REQUESTS, tuple(COLOURS), lambda row: row["cpu_us_per_request"])
    requests.set_title("µs a request, not streamed", fontsize=9)
    bars(long, rows, LONG, tuple(COLOURS), lambda row: row["cpu_us_per_request"] / 1e3)
    long.set_title("ms a request", fontsize=9)
    long.set_yscale("log")
    requests.legend(fontsize=8)
    return figure


def bars(axes: Axes, rows: Rows, loads: Mapping[str, str], names: Sequence[str], value: Value) -> None:
    """A group a load, and a bar for each gateway that was measured under it."""
    names = [name for name in names if any((load, name) in rows for load in loads)]
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        measured = [(at, value(rows[load, name])) for at, load in enumerate(loads) if (load, name) in rows]
        at = [number + (place - (len(names) - 1) / 2) * width for number, _ in measured]
        drawn = axes.bar(at, [one for _, one in measured], width, color=COLOURS[name], label=TITLES[name])
        axes.bar_label(drawn, [f"{one:,.0f}" if one >= 10 else f"{one:.1f}" for _, one in measured], fontsize=7)
    axes.set_xticks(range(len(loads)), list(loads.values()), fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def growth(found: Mapping[str, Any]) -> Figure:
    """Processor time by size, both beside the first: a line as steep as the grey one is linear."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    kinds = ("prompt", "messages", "next turn", "tools", "reply", "streams", "transcript")
    for axes, kind in zip(figure.subplots(1, len(kinds), sharex=True, sharey=True), kinds, strict=True):
        doubled: Sequence[float] = ()
        for name, one in found.items():
            if name.partition(",")[0] == kind:
                doubled = [size / one["sizes"][0] for size in one["sizes"]]
                label = name.partition(", ")[2]
                axes.plot(doubled, [spent / one["seconds"][0] for spent in one["seconds"]], ".-", label=label, lw=1)
        axes.plot(doubled, doubled, color="#bbbbbb", lw=3, zorder=0)
        axes.set(xscale="log", yscale="log")
        axes.set_title(kind, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=6)
    figure.supxlabel("size, in multiples of the smallest", fontsize=8)
    figure.supylabel("processor time, in multiples of the first", fontsize=8)
    return figure


PICTURES: Mapping[str, Callable[[Mapping[str, Any]], Figure]] = {"gateway": gateway, "growth": growth}


def main() -> None:
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "bench" / "results"
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs"
    mpl.rcParams |= {"svg.hashsalt": "antiphon", "svg.fonttype": "none"}
    for name, draw in PICTURES.items():
        file = results / f"{name}.json"
        if file.exists():
            picture = folder / f"performance-{name}.svg"
            draw(json.loads(file.read_text())).savefig(picture, metadata={"Date": None})
            picture.write_text(_numbered(picture.read_text("utf-8")), "utf-8")


def _numbered(svg: str) -> str:
    """Counts the ids of a picture: those of matplotlib are hashes of numbers whose last bit a processor decides."""
    ids = dict.fromkeys(re.findall(r'id="([a-z][0-9a-f]{10})"', svg))
    for number, id in enumerate(ids):
        svg = svg.replace(id, f"id{number}")
    return svg


if __name__ == "__main__":
    main()
