"""Thinking under each of its names, over each wire: its effect on models with a switch, with efforts, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.api.chat.conversation import read_chat
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import ReasoningEffort
from antiphon.errors import RequestError
from antiphon.formats.template import jinja_format
from antiphon.generation import Model, ModelFacts
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import decode
from antiphon.wire.names.table import KNOWN
from antiphon.wire.names.thinking import READERS
from kit.api import TOKENIZER, post_in_process
from kit.obliging import ENDS, ObligingEngine

MESSAGE = [{"role": "user", "content": "Hi"}]
WIRES: Mapping[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGE},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": MESSAGE, "max_tokens": 1000},
    "/api/chat": {"messages": MESSAGE, "stream": False},
}
THOUGHT = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
ASKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n" + THOUGHT + "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SWITCH = "{{ ('on' if NAME else 'off') if NAME is defined }}|"
EFFORT = "{{ reasoning_effort if reasoning_effort is defined }}|"
PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"
TEMPLATES = {
    "switch": SWITCH.replace("NAME", "enable_thinking") + ASKED,
    "another switch": SWITCH.replace("NAME", "thinking") + ASKED,
    "efforts": EFFORT + ASKED,
    "always": "|" + ASKED,
    "never": "|" + PLAIN,
}
OFF: list[dict[str, Any]] = [
    {"enable_thinking": False}, {"think": False}, {"thinking": False}, {"thinking": {"type": "disabled"}},
    {"reasoning": {"enabled": False}}, {"reasoning": {"effort": "none"}}, {"reasoning_effort": "none"},
]  # fmt: skip
ON: list[dict[str, Any]] = [
    {"enable_thinking": True}, {"think": True}, {"thinking": True}, {"thinking": {"type": "enabled"}},
    {"reasoning": {"enabled": True}},
]  # fmt: skip
HIGH: list[dict[str, Any]] = [{"think": "high"}, {"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}]
BUDGETS: list[dict[str, Any]] = [
    {"thinking": {"type": "enabled", "budget_tokens": 7}}, {"reasoning": {"max_tokens": 7}}, {"thinking_budget": 7},
]  # fmt: skip


@cache
def served(kind: str, grammar: bool = True) -> tuple[Any, ObligingEngine]:
    engine, format = ObligingEngine(), jinja_format(TEMPLATES[kind], TOKENIZER.controls)
    facts = ModelFacts(task="chat", context=None, vocabulary=TOKENIZER.size, reasoning=kind != "never")
    compiler = ReplyCompiler(format, TOKENIZER, ENDS) if grammar else None
    model = Model(name="m", engine=engine, tokenizer=TOKENIZER, format=format, compiler=compiler, described=facts)
    return create_app(StaticCatalog({"m": model}), expose_reasoning=True), engine


async def said(wire: str, kind: str, fields: Mapping[str, Any], *, grammar: bool = True) -> str:
    """What the prompt says of thinking; the message of a refusal behind a "!"."""
    application, engine = served(kind, grammar)
    got = await post_in_process(application, wire, model="m", **WIRES[wire], **fields)
    if got.status == 400:
        return f"!{got.body.decode()}"
    assert got.status == 200, got.body
    assert "x-antiphon-ignored" not in got.headers
    return decode(TOKENIZER, engine.requests[-1][0]).partition("|")[0]


def own(wire: str, fields: Mapping[str, Any]) -> bool:
    """Whether the field is the wire's own, with values of its own alone."""
    return wire == "/v1/messages" and not isinstance(fields.get("thinking", {}), dict)


def test_every_name_of_the_table_is_read() -> None:
    assert {row.name for row in KNOWN.values() if row.use == "thinking"} == READERS.keys()
    assert {name for fields in (*OFF, *ON, *HIGH) for name in fields} == {
        name for name in READERS if "budget" not in name and "tokens" not in name
    }


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fields", OFF, ids=str)
async def test_no_thinking_has_one_meaning(wire: str, fields: dict[str, Any]) -> None:
    if own(wire, fields):
        assert "thinking" in (await said(wire, "switch", fields))
        return
    assert await said(wire, "switch", fields) == "off"
    assert await said(wire, "another switch", fields) == "off"
    assert await said(wire, "efforts", fields) == "none"
    assert await said(wire, "never", fields) == ""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fields", ON, ids=str)
async def test_thinking_has_one_meaning_and_a_model_that_cannot_says_so(wire: str, fields: dict[str, Any]) -> None:
    if wire == "/v1/messages" and (own(wire, fields) or "thinking" in fields):
        assert "thinking" in (await said(wire, "switch", fields))  # its own type enabled needs a budget
        return
    turned_on = "" if wire == "/v1/messages" else "on"  # there it may think, as the model does by itself
    assert await said(wire, "switch", fields) == turned_on
    assert await said(wire, "another switch", fields) == turned_on
    if wire != "/v1/messages":
        refused = await said(wire, "never", fields)
        assert "think" in refused
        assert refused.startswith("!")
        assert next(iter(fields)) in refused


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fields", HIGH, ids=str)
async def test_an_effort_has_one_meaning(wire: str, fields: dict[str, Any]) -> None:
    assert await said(wire, "efforts", fields) == "high"
    assert await said(wire, "switch", fields) == "on"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fields", HIGH, ids=str)
async def test_an_effort_that_nothing_hears_is_told_by_the_client_s_own_name(wire: str, fields: dict[str, Any]) -> None:
    """Clients send one to every model, so it is no error; Ollama's API refuses one for a model that never thinks."""
    for kind in ("always", "never"):
        application, _ = served(kind)
        got = await post_in_process(application, wire, model="m", **WIRES[wire], **fields)
        (name,) = fields
        if wire == "/api/chat" and kind == "never":
            assert (got.status, name in got.body.decode()) == (400, True)
            continue
        assert got.status == 200, got.body
        named = {"think": "think", "reasoning_effort": "reasoning_effort", "reasoning": "reasoning.effort"}[name]
        its = {"/api/chat": "think", "/v1/responses": "reasoning.effort", "/v1/messages": "output_config.effort"}
        assert got.headers["x-antiphon-ignored"] in (named, its.get(wire))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fields", BUDGETS, ids=str)
async def test_a_budget_has_one_meaning(wire: str, fields: dict[str, Any]) -> None:
    got = await said(wire, "always", fields)
    if wire == "/api/chat":
        assert got.startswith("!")
        assert next(iter(fields)) in got
    else:
        assert got == ""
        _, engine = served("always", True)
        assert engine.requests[-1][2] is not None, "a grammar holds it"


@pytest.mark.parametrize("wire", list(WIRES)[:2])
async def test_a_model_that_always_thinks_is_held_by_a_grammar_or_refuses(wire: str) -> None:
    assert await said(wire, "always", {"enable_thinking": False}) == ""
    assert served("always", True)[1].requests[-1][2] is not None
    assert "always thinks" in await said(wire, "always", {"enable_thinking": False}, grammar=False)


CONTRARY: list[tuple[dict[str, Any], str]] = [
    ({"think": True, "enable_thinking": False}, "think"),
    ({"enable_thinking": True, "reasoning_effort": "none"}, "enable_thinking"),
    ({"enable_thinking": False, "reasoning_effort": "high"}, "enable_thinking"),
    ({"think": False, "reasoning": {"effort": "low"}}, "think"),
    ({"enable_thinking": True, "thinking_budget": 0}, "enable_thinking"),
    ({"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}}, "enable_thinking"),
    ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, "reasoning.effort"),
]
MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"think": "hard"}, "think"), ({"think": 5}, "think"), ({"thinking": "on"}, "thinking"),
    ({"thinking": {"type": "much"}}, "thinking.type"), ({"thinking": {"depth": 3}}, "thinking.depth"),
    ({"reasoning": {"exclude": True}}, "reasoning.exclude"),
    ({"reasoning": {"max_tokens": "7"}}, "reasoning.max_tokens"),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort"), ({"thinking_budget": True}, "thinking_budget"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "path"), [*CONTRARY, *MALFORMED], ids=str)
async def test_what_is_malformed_or_says_two_things_is_refused_at_the_client_s_field(
    fields: dict[str, Any], path: str
) -> None:
    application, _ = served("switch", True)
    got = await post_in_process(application, "/v1/chat/completions", model="m", messages=MESSAGE, **fields)
    assert got.status == 400, got.body
    assert got.json["error"]["param"] == path, got.body
    assert got.json["error"]["message"].startswith(path)


@pytest.mark.parametrize("wire", list(WIRES)[:2])
async def test_a_call_is_required_in_the_words_of_others(wire: str) -> None:
    application, _ = served("never", True)
    function: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    flat = wire == "/v1/responses"
    tools = [{"type": "function", **function} if flat else {"type": "function", "function": function}]
    for choice in ("any", "f"):
        got = await post_in_process(application, wire, model="m", **WIRES[wire], tools=tools, tool_choice=choice)
        assert got.status == 200, got.body
        named = got.json["output"][0] if flat else got.json["choices"][0]["message"]["tool_calls"][0]["function"]
        assert named["name"] == "f"
        assert not flat or got.json["tool_choice"] == (
            "required" if choice == "any" else {"type": "function", "name": "f"}
        )
    got = await post_in_process(application, wire, model="m", **WIRES[wire], tools=tools, tool_choice="g")
    assert got.status == 400
    assert "no tool is named 'g'" in got.body.decode()


async def test_a_word_for_how_thinking_is_shown_is_told_and_taken() -> None:
    application, _ = served("switch", True)
    fields = {"thinking": {"type": "adaptive", "display": "updates"}}
    got = await post_in_process(application, "/v1/messages", model="m", **WIRES["/v1/messages"], **fields)
    assert got.status == 200, got.body
    assert got.headers["x-antiphon-ignored"] == "thinking.display"


@pytest.mark.parametrize("name", ["enable_thinking", "think"])
def test_a_conversation_without_a_model_has_no_switch(name: str) -> None:
    with pytest.raises(RequestError, match=f"^{name}: a conversation without a model"):
        read_chat({"messages": MESSAGE, name: False})
    effort = read_chat({"messages": MESSAGE, "reasoning": {"effort": "low"}}).settings.reasoning_effort
    assert effort is ReasoningEffort.LOW
