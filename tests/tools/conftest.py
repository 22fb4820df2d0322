"""An interpreter of the sandbox that a file's tests have."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon.tools.python import Bubblewrap, Interpreter


@pytest.fixture
async def interpreter(sandbox: Bubblewrap) -> AsyncIterator[Interpreter]:
    fresh = await sandbox.start()
    yield fresh
    await fresh.aclose()
