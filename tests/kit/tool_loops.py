"""A gpt-oss that thinks before each of three calls, and what its prompts must then be."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import harmony
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.generation import Model
from antiphon.tokens import ControlScanner, decode, encode_pieces, o200k_harmony

TOKENIZER = o200k_harmony()
HARMONY = harmony(TOKENIZER.controls)
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
TOOL: Any = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}
CITIES = ("Bern", "Genf", "Chur")
QUESTION, THANKS, ANSWER = "Where does it rain?", "And tomorrow?", "Nowhere, 雨."


def thought(number: int) -> str:
    return f"SECRET {number}."


HEADERS = (
    "<|channel|>commentary to=functions.{} <|constrain|>json",
    " to=functions.{}<|channel|>analysis code",
    "<|channel|>commentary to=functions.{}<|constrain|>json",
)
"""The usual way of gpt-oss to write a call's header, and two more."""


def call(city: str, name: str = "weather", header: str = HEADERS[0]) -> str:
    """A call, behind the reply's ``<|start|>assistant``."""
    return f"{header.format(name)}<|message|>{json.dumps({'city': city})}<|call|>"


def thinking(text: str) -> str:
    return f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant"


def announcing(text: str) -> str:
    return f"<|channel|>commentary<|message|>{text}<|end|><|start|>assistant"


REPLIES = (
    thinking(thought(0)) + call(CITIES[0]),
    thinking(thought(1)) + call(CITIES[1], header=HEADERS[1]),
    thinking(thought(2)) + announcing("One more.") + call(CITIES[2], header=HEADERS[2]),
    thinking("SECRET 3.") + f"<|channel|>final<|message|>{ANSWER}<|return|>",
    "<|channel|>final<|message|>Sun.<|return|>",
)
"""Three calls, the answer, and the answer to `THANKS`."""


def ids(text: str) -> list[int]:
    """What the model samples to say this, its controls as controls."""
    scanner = ControlScanner(CONTROLS)
    return encode_pieces([*scanner.feed(text), *scanner.close()], TOKENIZER)


def spelled(prompt: Sequence[int]) -> str:
    return decode(TOKENIZER, prompt)


def plays(*replies: str, context: int = 8192) -> ScriptedEngine:
    """An engine that says one after the other, the last for ever."""
    numbers = itertools.count()

    def say(prompt: object, sampling: object, choice: int) -> list[int]:
        return ids(replies[min(next(numbers), len(replies) - 1)])

    return ScriptedEngine(say, context=context)


def oss(engine: ScriptedEngine) -> Model:
    return Model(name="oss", engine=engine, tokenizer=TOKENIZER, format=HARMONY)


def oss_app(engine: ScriptedEngine, **options: Any) -> Starlette:
    return create_app(StaticCatalog({"oss": oss(engine)}), **options)


def prompts(engine: ScriptedEngine) -> list[list[int]]:
    return [list(prompt) for prompt, _, _ in engine.requests]


def check_goes_on(engine: ScriptedEngine, replies: Sequence[str] = REPLIES[:3]) -> None:
    """Each prompt of the turn begins with the one before and all that was sampled then."""
    sent = prompts(engine)
    assert len(sent) > len(replies)
    for before, reply, after in zip(sent, replies, sent[1:], strict=False):
        assert spelled(after).startswith(spelled(before) + reply)
        begun = [*before, *ids(reply)]
        assert after[: len(begun)] == begun


def check_loop(engine: ScriptedEngine) -> None:
    """The reasoning stands in the prompts until the answer, id for id, and not after it."""
    check_goes_on(engine)
    *turn, afterwards = map(spelled, prompts(engine))
    assert len(turn) == 4
    assert [prompt.count("SECRET") for prompt in turn] == [0, 1, 2, 3]
    assert ANSWER in afterwards
    assert "SECRET" not in afterwards
