"""Prompts of DeepSeek's models, over random conversations, beside the programs that write them."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from antiphon import read_chat
from antiphon.conversation import Conversation, Settings
from antiphon.errors import AntiphonError
from antiphon.formats.template import program_format
from antiphon.tokens import Control, spell
from nightly.packages import PACKAGES
from nightly.shapes import TOOLS, called

CONTROLS = [
    Control(spelling)
    for spelling in (
        "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        "<｜System｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<think>",
        "</think>",
        "｜DSML｜",
    )
]
GIVEN: tuple[dict[str, Any], ...] = ({}, {"city": "Köln"}, {"text": "x\n y", "tags": [1, {"c": None}], "ratio": 1.5})
Body = dict[str, Any]
Program = Callable[[Body, bool, str | None], str]
"""A chat request, whether it thinks, and its effort → the prompt."""


def differing(name: str, count: int) -> list[str]:
    """The conversations, of so many, that we write otherwise than the program of this model, as JSON."""
    chance, program = random.Random(count), _programs()[name]
    format = program_format(name, CONTROLS)
    found = []
    for _ in range(count):
        body, thinks = _body(chance, late=name != "deepseek-v3.2"), chance.random() < 0.6
        effort = chance.choice((None, "low", "high", "max")) if thinks and name != "deepseek-v3.2" else None
        kwargs = {"thinking": thinks, **({"reasoning_effort": effort} if effort else {})}
        read = read_chat({"model": "m", **body})
        conversation = Conversation(read.messages, tools=read.tools, settings=Settings(template_kwargs=kwargs))
        try:
            written = spell(list(format.render(conversation)))
        except AntiphonError as error:
            written = error.message
        if written != program(body, thinks, effort):
            found.append(json.dumps({"messages": body["messages"], **kwargs}, ensure_ascii=False))
    return found


def _body(chance: random.Random, *, late: bool) -> Body:
    messages: list[Body] = [{"role": "system", "content": "You are brief."}] if chance.random() < 0.5 else []
    for turn in range(chance.randint(1, 3)):
        messages.append({"role": "user", "content": f"Question {turn}, é?"})
        for _ in range(chance.randint(0, 2)):
            calls = [
                called(i, chance.choice(("get_weather", "get_time")), chance.choice(GIVEN))
                for i in range(chance.randint(1, 2))
            ]
            for call in calls:
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            said: Body = {"role": "assistant", "content": chance.choice(("", "Look. ")), "tool_calls": calls}
            messages.append({**said, "reasoning_content": "Because."})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "R"} for call in calls]
        if chance.random() < 0.7:
            messages.append({"role": "assistant", "content": "Well.", "reasoning_content": "Hm."})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": "And?"})
    if late and chance.random() < 0.2:
        messages.append({"role": "system", "content": "Be quick."})
    calls_tools = any("tool_calls" in message for message in messages)
    return {"messages": messages, **({"tools": TOOLS} if calls_tools or chance.random() < 0.5 else {})}


def _programs() -> Mapping[str, Program]:
    import deepseek_recipe as recipe

    def written_by(encoding: Any, model: str) -> Program:
        def write(body: Body, thinks: bool, effort: str | None) -> str:
            request = {"model": model, "thinking": {"type": "enabled" if thinks else "disabled"}, **body}
            if effort:
                request["reasoning_effort"] = effort
            converted = recipe.ChatCompletionRequest(request).convert(recipe.ConversionOptions())
            return str(encoding.render_conversation(converted.conversation).prompt)

        return write

    return {
        "deepseek-v3.2": _v32(),
        "deepseek-v4": written_by(recipe.DeepseekV4Encoding(), "DeepSeek-V4-Pro"),
        "deepseek-v4.1": written_by(recipe.DeepseekV41Encoding(), "DeepSeek-V4.1-Flash"),
    }


def _v32() -> Program:
    """Its program, as `mlx-lm` has it; without a model's library beside it."""
    spec = importlib.util.spec_from_file_location("v32", PACKAGES / "mlx_lm" / "chat_templates" / "deepseek_v32.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def write(body: Body, thinks: bool, effort: str | None) -> str:
        messages = [dict(message) for message in body["messages"]]
        if "tools" in body:
            if messages[0]["role"] != "system":
                messages.insert(0, {"role": "system", "content": ""})
            messages[0]["tools"] = body["tools"]
        return str(module.encode_messages(messages, thinking_mode="thinking" if thinks else "chat"))

    return write
