"""Differential tests: the adapter and the package that it stands for, used by the same calls, dialect by dialect.

``HARMONY_FUZZ`` multiplies the number of cases (``make fuzz-harmony``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.compat import openai_harmony, oss_harmony
from kit.harmony_corpora import Dialect
from kit.harmony_oracles import oracle
from kit.harmony_random import Conversations, Streams

BOTH = pytest.mark.parametrize("dialect", ["a", "b"])
CASES = int(os.environ.get("HARMONY_FUZZ", "1"))
ADAPTERS: dict[Dialect, Any] = {"a": openai_harmony, "b": oss_harmony}
SEEDS = st.integers(0, 2**64)


def many(count: int) -> settings:
    unchecked = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=count * CASES, deadline=None, suppress_health_check=unchecked)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vocabulary")


def outcome(call: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What a call returns, or which kind of error it raises with which words."""
    try:
        return call(*values, **named)
    except pydantic.ValidationError as error:
        return "ValidationError", [_fault(**fault) for fault in error.errors()]
    except (RuntimeError, ValueError, OverflowError, TypeError) as error:
        return type(error).__name__, str(error)


def _fault(type: str, loc: tuple[str | int, ...], msg: str, **_: object) -> tuple[object, ...]:
    """What is the same of both: the reference lists the roles in another order, and its classes are no dataclasses."""
    words = sorted(set(re.findall(r"\w+", msg)) - {"valid", "an"})
    return type.replace("dataclass_type", "model_type"), loc, words


PROPERTIES = (
    *("current_content", "current_channel", "current_recipient", "current_content_type", "last_content_delta"),
    *("state_data", "tokens"),
)


def seen(parser: Any) -> dict[str, Any]:
    """All that a parser tells."""
    told = {name: getattr(parser, name) for name in PROPERTIES}
    role = parser.current_role
    messages = [message.to_dict() for message in parser.messages]
    return told | {"state": parser.state.value, "role": role and role.value, "messages": messages}


def ids_of(spelled: str) -> list[int]:
    return openai_harmony.load_harmony_encoding("HarmonyGptOss").encode(spelled, allowed_special="all")


def compare_streams(module: Any, adapter: Any, ids: list[int], role: str | None, strict: bool) -> None:
    theirs = module.StreamableParser(module.encoding, role and module.Role(role), strict=strict)
    encoding = adapter.load_harmony_encoding("HarmonyGptOss")
    ours = adapter.StreamableParser(encoding, role and adapter.Role(role), strict=strict)
    assert seen(ours) == seen(theirs)
    for id in [*ids, None]:
        assert outcome(after, ours, id) == outcome(after, theirs, id), (ids, id)
        assert seen(ours) == seen(theirs), (ids, id)


def after(parser: Any, id: int | None) -> dict[str, Any]:
    """All that a parser tells after one more id, or after the end."""
    return seen(parser.process_eos() if id is None else parser.process(id))


@pytest.mark.spec("HAR-23")
@BOTH
@many(30)
@given(
    seed=SEEDS,
    role=st.sampled_from([None, "assistant", "assistant", "user", "tool"]),
    strict=st.sampled_from([True, True, False]),
)
def test_the_parser_tells_what_the_reference_tells_after_every_token(
    dialect: Dialect, seed: int, role: str | None, strict: bool, vocabulary: Path
) -> None:
    adapter = ADAPTERS[dialect]
    ids = Streams(Random(seed), adapter.load_harmony_encoding("HarmonyGptOss").tokenizer).stream()
    compare_streams(oracle(dialect, vocabulary), adapter, ids, role, strict)


@pytest.mark.spec("HAR-23")
@BOTH
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "spelled",
    [
        "<|channel|>final<|message|>🗼 tower",  # its bytes come in several tokens
        "<|channel|>final<|message|>a<|message|>b<|channel|><|start|>",  # controls that are text
        "<|channel|>commentary to=f\x1c<|message|>x<|end|>",
        "<|channel|>final\x1c<|message|>x<|end|>",
        "<|channel|>final\x1chello<|end|>",
        "<|channel|>final\x85<|message|>x<|end|>",
        "<|channel|>final\u2003hello<|return|>",
        "\x1f<|channel|>final<|message|>x<|end|><|start|>\x1dassistant<|message|>y<|end|>",
    ],
)
def test_partial_characters_spelled_controls_and_separators_are_read_as_by_the_reference(
    dialect: Dialect, strict: bool, spelled: str, vocabulary: Path
) -> None:
    compare_streams(oracle(dialect, vocabulary), ADAPTERS[dialect], ids_of(spelled), "assistant", strict)


@BOTH
@pytest.mark.parametrize("odd", [9552, 125, 250_000, -1, 2**32, 2**70])
def test_ids_that_are_no_text_or_no_ids_raise_the_same_from_every_method(
    dialect: Dialect, odd: int, vocabulary: Path
) -> None:
    module, adapter = oracle(dialect, vocabulary), ADAPTERS[dialect]
    encodings = adapter.load_harmony_encoding("HarmonyGptOss"), module.encoding
    for ids in ([odd], [87, odd], [odd, odd, 87]):
        for read in ("decode", "decode_utf8", "parse_messages_from_completion_tokens"):
            ours, theirs = (outcome(getattr(encoding, read), ids) for encoding in encodings)
            assert _comparable(ours) == _comparable(theirs), (read, ids)


def _comparable(result: Any) -> Any:
    """An OverflowError without its words, which are the binding's."""
    return result[0] if isinstance(result, tuple) and result[0] == "OverflowError" else result


ODD: tuple[Any, ...] = (None, 7, "x", "", "no", [], {}, ["x"], {"x": 1}, True, ("a", "b"), 0.5, [None])
"""What a field may be given: no dictionary in a list, which the reference takes for a content of no kind."""


class Values:
    """Random arguments for the values: mostly what a program gives, now and then what it should not."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.conversations = Conversations(random)

    def fields(self) -> tuple[str, dict[str, Any]]:
        """A class and its arguments."""
        flag = self.random.choice((True, 0, 1, "no"))
        every: dict[str, dict[str, Any]] = {
            "Author": self.author(),
            "TextContent": {"text": "x"},
            "ToolDescription": self.tool(),
            "ChannelConfig": {"valid_channels": ["final", "x"], "channel_required": flag},
            "ToolNamespaceConfig": {"name": "n", "description": "d", "tools": [self.tool(), self.tool()]},
            "SystemContent": self.conversations.system(),
            "DeveloperContent": self.conversations.developer(),
            "Message": self.message(),
            "Conversation": {"messages": [self.message(), self.message()]},
            "RenderOptions": {"conversation_has_function_tools": flag},
            "RenderConversationConfig": {"auto_drop_analysis": flag},
        }
        name = self.random.choice(list(every))
        given = every[name]
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self.spoil(given)
        return name, given

    def author(self) -> dict[str, Any]:
        return {"role": self.random.choice(("user", "tool", "nobody")), "name": self.random.choice((None, "f"))}

    def tool(self) -> dict[str, Any]:
        return {"name": "f", "description": self.random.choice(("", "d")), "parameters": {"type": "object"}}

    def message(self) -> dict[str, Any]:
        header = {"channel": "final", "recipient": None, "content_type": "json"}
        kept = {key: value for key, value in header.items() if self.random.random() < 0.5}
        return {"author": self.author(), "content": [], **kept}

    def spoil(self, given: dict[str, Any]) -> None:
        """Loses a field, adds one that there is not, or gives one what it cannot be."""
        pick = self.random.randint(0, 3)
        key = self.random.choice([*given, "id"])
        if pick == 0:
            given.pop(key, None)
        elif pick == 1:
            given["id"] = 7
        else:
            given[key] = self.random.choice(ODD)


@pytest.mark.spec("HAR-20")
@BOTH
@many(60)
@given(seed=SEEDS)
def test_values_are_made_copied_and_dumped_or_refused_as_by_pydantic(
    dialect: Dialect, seed: int, vocabulary: Path
) -> None:
    module, adapter = oracle(dialect, vocabulary), ADAPTERS[dialect]
    name, given_ = Values(Random(seed)).fields()
    results = []
    for package in (adapter, module):
        kind = getattr(package, name)
        made = outcome(kind, **given_)
        assert outcome(kind.model_validate, given_) == made
        if not isinstance(made, tuple):
            assert made.model_copy(deep=True) == made
            assert kind.model_validate(made) is made
            made = made.model_dump(mode="json"), json.loads(made.model_dump_json(exclude_none=True))
        results.append(made)
    assert results[0] == results[1]


@pytest.mark.spec("HAR-20")
@BOTH
@many(15)
@given(seed=SEEDS)
def test_random_conversations_pass_through_the_values_as_through_the_reference_s(
    dialect: Dialect, seed: int, vocabulary: Path
) -> None:
    packages = ADAPTERS[dialect], oracle(dialect, vocabulary)
    source = json.dumps(Conversations(Random(seed)).conversation())
    ours, theirs = (outcome(round_trip, package, source) for package in packages)
    assert ours == theirs


def round_trip(package: Any, source: str) -> str:
    return str(package.Conversation.from_json(source).to_json())


def request_of(package: Any) -> Any:
    """A model of somebody's, as those of vLLM's Responses requests."""
    fields: dict[str, Any] = {
        "messages": (list[package.Message | dict[str, Any]] | None, None),
        "author": (package.Author | None, None),
        "effort": (package.ReasoningEffort | None, None),
        "tools": (dict[str, package.ToolNamespaceConfig] | None, None),
        "system": (package.SystemContent | None, None),
    }
    return pydantic.create_model("Request", **fields)


@pytest.mark.spec("HAR-20")
@BOTH
@many(30)
@given(seed=SEEDS)
def test_values_in_a_model_of_somebody_s_are_read_and_dumped_as_the_reference_s(
    dialect: Dialect, seed: int, vocabulary: Path
) -> None:
    random = Random(seed)
    values = Values(random)
    raw: dict[str, Any] = {
        "messages": [random.choice((values.message(), {"role": "user", "content": "x"})) for _ in range(2)],
        "author": values.author(),
        "effort": random.choice(("Low", "low", None)),
        "tools": {"n": {"name": "n", "tools": [values.tool()]}},
        "system": values.conversations.system(),
    }
    spoiled = random.choice((raw, raw["author"], raw["tools"]["n"], raw["tools"]["n"]["tools"][0], raw["messages"][0]))
    if random.random() < 0.5:
        values.spoil(spoiled)
    results = []
    for package in (ADAPTERS[dialect], oracle(dialect, vocabulary)):
        model = request_of(package)
        made = outcome(model.model_validate, raw)
        if not isinstance(made, tuple):
            kinds = [type(message).__name__ for message in made.messages or ()]
            assert model.model_validate(made.model_dump()) == made
            made = kinds, made.model_dump(mode="json"), json.loads(made.model_dump_json(exclude_none=True))
        results.append(made)
    assert results[0] == results[1]
