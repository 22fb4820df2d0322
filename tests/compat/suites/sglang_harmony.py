"""SGLang's `harmony_utils`, which bring no tests: over the module that is on the path as over the reference."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import openai_harmony
import pytest

from antiphon.tokens.bpe import o200k_harmony
from compat.suites.stand_ins import StandIn, StandIns
from kit.harmony_oracles import oracle
from kit.harmony_random import Streams

REAL = re.compile(r"sglang\.srt\.entrypoints\.(harmony_utils|tool)")
NUMBERED = re.compile(r"_uuid-\d+")
ITEMS: tuple[dict[str, Any], ...] = (
    {"role": "user", "content": "x"},
    {"role": "system", "content": [{"type": "input_text", "text": "x"}, {"type": "input_text", "text": "y"}]},
    {"role": "assistant", "content": "x", "phase": "final_answer"},
    {"type": "reasoning", "summary": [{"text": "x"}]},
    {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
)


def loaded(package: Any, root: Path) -> Any:
    """SGLang's module over a package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sglang"]:
        del sys.modules[name]
    finder = StandIns(root, REAL)
    before, sys.modules["openai_harmony"] = sys.modules["openai_harmony"], package
    sys.meta_path.insert(0, finder)
    try:
        return import_module("sglang.srt.entrypoints.harmony_utils")
    finally:
        sys.meta_path.remove(finder)
        sys.modules["openai_harmony"] = before


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    package: Any = openai_harmony
    reference = package if package.__name__ == "openai_harmony" else oracle("a", tmp_path_factory.mktemp("vocabulary"))
    return loaded(package, request.config.rootpath), loaded(reference, request.config.rootpath)


def plain(value: Any) -> Any:
    """A value to compare: ids are random, and stand-ins numbered."""
    match value:
        case StandIn():
            return type(value).__name__
        case list() | tuple():
            return [plain(each) for each in value]
        case _ if hasattr(value, "model_dump") and not hasattr(value, "author"):
            return NUMBERED.sub("", repr(value.model_dump(mode="json")))
        case _ if hasattr(value, "to_dict"):
            return value.to_dict()
        case _:
            return value


def outcome(call: Any, *values: Any) -> Any:
    try:
        return plain(call(*values))
    except (RuntimeError, ValueError) as error:
        return type(error).__name__, str(error)


def read(utils: Any, ids: list[int]) -> Any:
    """A reply's messages, the items that they become, and those of what is open."""
    parser = utils.parse_output_into_messages(ids)
    items = [outcome(utils.parse_output_message, message) for message in parser.messages]
    return [plain(parser.messages), items, outcome(utils.parse_remaining_state, parser)]


@pytest.mark.parametrize("batch", range(20))
def test_replies_become_the_same_items(batch: int, both: tuple[Any, Any]) -> None:
    for seed in range(batch * 100, batch * 100 + 100):
        ids = Streams(Random(seed), o200k_harmony()).stream()
        ours, theirs = (outcome(read, utils, ids) for utils in both)
        assert ours == theirs, ids


def test_requests_become_the_same_messages_and_prompts(both: tuple[Any, Any]) -> None:
    prompts = []
    for utils in both:
        call = [item for item in ITEMS if item.get("type") == "function_call"]
        messages = [utils.get_system_message(reasoning_effort="high", start_date="2026-01-01")]
        messages += [utils.get_developer_message("Be brief."), utils.get_user_message("x")]
        messages += [utils.parse_response_input(item, call) for item in ITEMS]
        prompts.append((plain(messages), utils.render_for_completion(messages)))
    assert prompts[0] == prompts[1]
