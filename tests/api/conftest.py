"""With ``TEST_WORKERS``, the applications of these tests are several workers each (`kit.forked`)."""

from __future__ import annotations

import os

import hypothesis
import pytest

import antiphon.api
import antiphon.library.app  # It has what it needs of the former before that is changed.

EXAMPLES = 4
"""Of a property, where each has processes of its own; `make test` tries all that it says."""
_SETTINGS = "_hypothesis_internal_use_settings"

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
