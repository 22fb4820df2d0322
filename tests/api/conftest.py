"""With ``TEST_WORKERS``, the applications of these tests are several workers each (`kit.forked`)."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import hypothesis
import pytest
import pytest_asyncio

import antiphon.api
import antiphon.library.app  # It has what it needs of the former before that is changed.
from antiphon.config import EngineConfig, shipped_entries
from antiphon.generation import Model

EXAMPLES = 4
"""Of a property, where each has processes of its own; `make test` tries all that it says."""
_SETTINGS = "_hypothesis_internal_use_settings"


@cache
def _trusting(named: str | None, **options: Any) -> ssl.SSLContext:
    return httpx2.create_ssl_context(**options)


def trusting(**options: Any) -> ssl.SSLContext:
    """The authorities that a client trusts. Hundreds of them trust the same, and to read these takes each 25 ms."""
    return _trusting(os.environ.get("SSL_CERT_FILE"), **options)


setattr(httpx2._transports.default, "create_ssl_context", trusting)  # noqa: B010

if "TEST_WORKERS" in os.environ:
    from kit.forked import Several

    vars(antiphon.api)["create_app"] = Several


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "TEST_WORKERS" not in os.environ:
        return
    left_out = [item for item in items if item.get_closest_marker("one_process")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("one_process")]
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, _SETTINGS, None)
        if own is not None:
            setattr(test, _SETTINGS, hypothesis.settings(own, max_examples=min(EXAMPLES, own.max_examples)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def minilm(minilm_path: Path) -> AsyncIterator[Model]:
    """The sentence encoder, of one thread."""
    from antiphon.catalog.describe import describe
    from antiphon.catalog.known_formats import known_formats
    from antiphon.catalog.loading import open_model

    entry, config = shipped_entries()["all-minilm-l6-v2"], EngineConfig(threads=1)
    described = await describe("minilm", entry, minilm_path, config=config, formats=known_formats())
    model = await open_model(described, config=config)
    yield model
    await model.engine.aclose()
