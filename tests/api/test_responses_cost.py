"""What one more token of a streamed response costs: the generators that it passes, with a server's tools and without.

It counts and does not time, so it says the same on every machine.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import antiphon
from antiphon.engines import ScriptedEngine
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import post_in_process
from kit.responses import responses_app

SOURCE = str(Path(antiphon.__file__).parent) + "/"
ENGINES = SOURCE + "engines/"
GENERATORS = 2
"""At most, over the engine's."""
FEW, MANY = 50, 250


def double(number: int) -> int:
    """Twice a number.

    Args:
        number: any.
    """
    return 2 * number


def generators(resumed: dict[str, int]) -> Callable[[FrameType, str, Any], None]:
    """A profile hook that counts by name how often an async generator over the engine's is resumed."""

    def see(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        counted = code.co_filename.startswith(SOURCE) and not code.co_filename.startswith(ENGINES)
        if event == "call" and counted and code.co_flags & inspect.CO_ASYNC_GENERATOR:
            resumed[code.co_qualname] = resumed.get(code.co_qualname, 0) + 1

    return see


async def streamed(tokens: int, options: dict[str, Any]) -> dict[str, int]:
    """How often each generator was resumed for a stream of so many tokens."""
    application = responses_app(small=ScriptedEngine([ord("a")] * 1000), **options)
    resumed: dict[str, int] = {}
    before = sys.getprofile()
    sys.setprofile(generators(resumed))
    try:
        got = await post_in_process(
            application, "/v1/responses", input="Hi", max_output_tokens=tokens, stream=True, model="small"
        )
    finally:
        sys.setprofile(before)
    assert got.body.count(b"event: response.output_text.delta") == tokens
    return resumed


@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.one_process("counts the calls of its process")
async def test_a_token_passes_few_generators(with_tools: bool) -> None:
    options = {"tools": Toolbox([FunctionToolSet([double])]), "offer_tools": True} if with_tools else {}
    few, many = await streamed(FEW, options), await streamed(MANY, options)
    each = {name: (count - few[name]) / (MANY - FEW) for name, count in many.items()}
    passed = {name for name, count in each.items() if count > 0.5}
    assert "steps" in passed, each
    assert len(passed) <= GENERATORS, each
