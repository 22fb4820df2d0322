"""Every request of ``tests/kit/bad_requests.py`` against the default model behind ``antiphon serve``: what came back.

The exit code tells whether each was refused, at once, with an error body, and a good request is answered afterwards.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from kit.api import Got, chat, post, request  # noqa: E402
from kit.bad_messages import bad_messages  # noqa: E402
from kit.bad_requests import Bad, bad_requests  # noqa: E402
from kit.client_server import REAL, running  # noqa: E402

SHAPES = ({"error"}, {"error_code", "message"}, {"type", "error", "request_id"})
"""An error body's keys: OpenAI's, Databricks' on its own route, and those of Messages."""


def verdict(bad: Bad, got: Got | None) -> str:
    """What became of a bad request; a request without an answer for a minute hangs."""
    if got is None:
        return "no answer"
    if got.status >= 500:
        return "5xx"
    if got.status < 400:
        return "accepted"
    return "refused" if set(got.json) in SHAPES else "refused in other words"


def answer_to(base: str, bad: Bad) -> Got | None:
    try:
        return request(base, bad.method, bad.path, bad.body, **bad.headers)
    except OSError:
        return None


def main() -> int:
    counts: Counter[str] = Counter()
    slowest = 0.0
    with running(REAL) as base:
        warm = chat(base, max_tokens=1), post(base, "/v1/embeddings", model="minilm", input="Hi")  # both are loaded now
        assert all(got.status == 200 for got in warm)
        for bad in chain(bad_requests(), bad_messages()):
            begun = time.perf_counter()
            found = verdict(bad, answer_to(base, bad))
            slowest = max(slowest, time.perf_counter() - begun)
            counts[found] += 1
            if found != "refused":
                print(f"{found}: {bad.method} {bad.path} {bad.what}")
        answer = chat(base, max_tokens=20)
    print(f"{counts.total()} bad requests: {', '.join(f'{count} {found}' for found, count in counts.most_common())}")
    print(f"the slowest answer took {slowest:.2f} s")
    print(f"a good one afterwards: {answer.status}")
    return int(counts.keys() != {"refused"} or answer.status != 200)


if __name__ == "__main__":
    sys.exit(main())
