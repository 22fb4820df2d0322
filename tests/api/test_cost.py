"""What one more token of a stream costs: functions that are called, doors between rooms and generators that are passed.

It counts and does not time, so it says the same on every machine.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import antiphon
from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import in_process, post_in_process
from kit.responses import responses_app

SOURCE = str(Path(antiphon.__file__).parent) + "/"
CALLS, DOORS, GENERATORS = 30, 10, 2
"""At most, for each token after the first; of generators, those over the engine's."""
FEW, MANY = 50, 250


@dataclass
class Counted:
    """``calls`` of our functions, generators counted as they are resumed; ``doors``: calls to another room's.

    ``resumed``: how often an async generator over the engine's was, by its name.
    """

    calls: int = 0
    doors: int = 0
    names: dict[str, int] = field(default_factory=dict)
    resumed: dict[str, int] = field(default_factory=dict)
    _room: str = ""

    def see(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        room = frame.f_code.co_filename.removeprefix(SOURCE).partition("/")[0]
        name = f"{room}: {frame.f_code.co_qualname}"
        self.calls += 1
        self.doors += room != self._room
        self.names[name] = self.names.get(name, 0) + 1
        if room != "engines" and frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR:
            generator = frame.f_code.co_qualname
            self.resumed[generator] = self.resumed.get(generator, 0) + 1
        self._room = room


@contextmanager
def counting() -> Iterator[Counted]:
    counted, before = Counted(), sys.getprofile()
    sys.setprofile(counted.see)
    try:
        yield counted
    finally:
        sys.setprofile(before)


CHATML = ByteTokenizer([Control("<|im_start|>"), Control("<|im_end|>")])
OSS = ByteTokenizer(Harmony().controls)
MODELS: dict[str, tuple[Format, ByteTokenizer, list[int]]] = {
    "chatml": (template_format("chatml", CHATML.controls.keys()), CHATML, []),
    "harmony": (
        Harmony(),
        OSS,
        [OSS.controls[Control("<|channel|>")], *b"final", OSS.controls[Control("<|message|>")]],
    ),
}
"""Format, vocabulary, and what a reply begins with."""


async def streamed(name: str, tokens: int) -> Counted:
    """What a stream of so many tokens took, with all that a server counts of it."""
    format, tokenizer, begun = MODELS[name]
    model = Model(name="m", engine=ScriptedEngine([*begun, *b"a" * 1000]), tokenizer=tokenizer, format=format)
    application = create_app(StaticCatalog({"m": model}))
    await in_process(application, max_tokens=5 + len(begun), stream=True)
    with counting() as counted:
        got = await in_process(application, max_tokens=tokens + len(begun), stream=True)
    assert got.body.count(b'"content":"a"') == tokens
    scrape = application.state.context.metrics.render().decode()
    assert f'antiphon_completion_tokens_total{{model="m"}} {tokens + 5 + 2 * len(begun)}.0' in scrape
    return counted


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.one_process("counts the calls of its process")
async def test_a_token_costs_few_calls_and_passes_few_doors(name: str) -> None:
    few, many = await streamed(name, FEW), await streamed(name, MANY)
    more = MANY - FEW
    each = {name: (count - few.names.get(name, 0)) / more for name, count in many.names.items()}
    paid = "\n".join(f"{count:5.2f} {name}" for name, count in sorted(each.items()) if count > 0.01)
    assert (many.calls - few.calls) / more <= CALLS, paid
    assert (many.doors - few.doors) / more <= DOORS, paid


async def test_what_it_counts_is_what_is_called() -> None:
    """The counter itself: a call into a room is a door, one within it is none."""
    with counting() as counted:
        Control("<a>").__str__()
        ByteTokenizer([]).piece(1)
    assert counted.names["tokens: ByteTokenizer.piece"] == 1
    assert counted.doors == 1


def double(number: int) -> int:
    """Twice a number.

    Args:
        number: any.
    """
    return 2 * number


async def responded(tokens: int, options: dict[str, Any]) -> dict[str, int]:
    """How often each generator was resumed for a streamed response of so many tokens."""
    application = responses_app(small=ScriptedEngine([ord("a")] * 1000), **options)
    fields = {"input": "Hi", "max_output_tokens": tokens, "stream": True, "model": "small"}
    with counting() as counted:
        got = await post_in_process(application, "/v1/responses", **fields)
    assert got.body.count(b"event: response.output_text.delta") == tokens
    return counted.resumed


@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.one_process("counts the calls of its process")
async def test_a_token_passes_few_generators(with_tools: bool) -> None:
    options = {"tools": Toolbox([FunctionToolSet([double])]), "offer_tools": True} if with_tools else {}
    few, many = await responded(FEW, options), await responded(MANY, options)
    each = {name: (count - few[name]) / (MANY - FEW) for name, count in many.items()}
    passed = {name for name, count in each.items() if count > 0.5}
    assert "steps" in passed, each
    assert len(passed) <= GENERATORS, each
