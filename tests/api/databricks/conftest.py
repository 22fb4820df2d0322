"""Servers of Databricks' dialect, as it is and to the letter of its document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.api import app, running, served
from kit.databricks import HELLO, STRICT

base = served(lambda: app(HELLO, clock=lambda: 1_700_000_000.5))


@pytest.fixture(scope="module")
def strict_base() -> Iterator[str]:
    with running(app(HELLO, dialects=[STRICT])) as url:
        yield url
