"""Servers of Databricks' dialect, as it is and to the letter of its document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.api import app, running
from kit.databricks import HELLO, STRICT


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(app(HELLO, clock=lambda: 1_700_000_000.5)) as url:
        yield url


@pytest.fixture(scope="module")
def strict_base() -> Iterator[str]:
    with running(app(HELLO, dialects=[STRICT])) as url:
        yield url
