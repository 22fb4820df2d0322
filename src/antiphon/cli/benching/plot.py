"""The ladder as a picture: tokens a second and times to the first token, by concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from antiphon.errors import RequestError
from antiphon.errors.extras import require
from antiphon.writing import write

from .figures import StepFigures

FORMS = (".svg", ".png", ".pdf")


def check_plot(file: Path) -> None:
    """For before the measurement. Raises `RequestError` for an unknown form, `ConfigError` without the extra."""
    if file.suffix not in FORMS:
        raise RequestError(f"{file.name!r} is no picture that can be written", hint=f"Name it {', '.join(FORMS)}.")
    require("matplotlib", "plots", "a plot")


def write_plot(file: Path, steps: Sequence[StepFigures], title: str) -> None:
    """Raises `ConfigError` when the file cannot be written."""
    from matplotlib.figure import Figure  # of an extra, and slow to import

    figure = Figure(figsize=(9, 4), layout="constrained")
    figure.suptitle(title)
    rate, first = figure.subplots(1, 2)
    at = [step.concurrency for step in steps]
    rate.plot(at, [step.tokens_per_second for step in steps], "o-")
    rate.set(xlabel="requests at once", ylabel="output tokens/s", ylim=(0, None))
    timed = [(step.concurrency, step.ttft_ms) for step in steps if step.ttft_ms is not None]
    first.plot([one for one, _ in timed], [spread.p50 for _, spread in timed], "o-", label="p50")
    first.plot([one for one, _ in timed], [spread.p99 for _, spread in timed], "o--", label="p99")
    first.set(xlabel="requests at once", ylabel="time to the first token, ms", ylim=(0, None))
    first.legend()
    picture = BytesIO()
    figure.savefig(picture, format=file.suffix[1:])
    write(file, picture.getvalue())
