"""A walk of names: whatever a client asks for has its effect, is named as ignored, or is refused; never silence.

Thinking under each of its names, to models of each kind; hosted tools; what is paid, shown or hinted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.api import create_app
from antiphon.api.chat.conversation import read_chat
from antiphon.api.chat.schema import ChatRequest
from antiphon.api.completions.schema import CompletionRequest
from antiphon.api.messages.schema import MessagesRequest
from antiphon.api.ollama.schema import OllamaChatRequest, OllamaGenerateRequest
from antiphon.api.responses.schema import ResponsesRequest
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import ReasoningEffort
from antiphon.engines import Sampling
from antiphon.errors import RequestError
from antiphon.formats.template import jinja_format
from antiphon.generation import Model, ModelFacts
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import decode
from antiphon.wire.names.table import KNOWN
from antiphon.wire.names.thinking import EFFORTS, READERS
from kit.api import TOKENIZER, Got, post_in_process
from kit.obliging import ENDS, EVERY, GrammarEngine, ObligingEngine
from kit.responses import CHANNEL, HARMONY, MESSAGE, RETURN, VOCABULARY, harmony_ids
from kit.toolbox import server_toolbox

CHAT, RESPONSES, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"
HI = [{"role": "user", "content": "Hi"}]
WIRES: Mapping[str, dict[str, Any]] = {
    CHAT: {"messages": HI},
    RESPONSES: {"input": "Hi"},
    MESSAGES: {"messages": HI, "max_tokens": 1000},
    OLLAMA: {"messages": HI, "stream": False},
    "/api/generate": {"prompt": "Hi", "stream": False},
    "/v1/completions": {"prompt": "Hi"},
}
REQUESTS = (
    ChatRequest, CompletionRequest, MessagesRequest, OllamaChatRequest, OllamaGenerateRequest, ResponsesRequest,
)  # fmt: skip
THOUGHT = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
ASKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n" + THOUGHT + "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SWITCH = "{{ ('on' if NAME else 'off') if NAME is defined }}|"
EFFORT = "{{ reasoning_effort if reasoning_effort is defined }}|"
FEW = "{{ 'deep' if reasoning_effort == 'high' else raise_exception('no') if reasoning_effort == 'xhigh' }}|"
PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"
TEMPLATES = {
    "switch": SWITCH.replace("NAME", "enable_thinking") + ASKED,
    "another switch": SWITCH.replace("NAME", "thinking") + ASKED,
    "efforts": EFFORT + ASKED,
    "few efforts": FEW + ASKED,
    "always": "|" + ASKED,
    "never": "|" + PLAIN,
}
KINDS = ("switch", "efforts", "Harmony", "always", "never")
"""Of models: what their prompts say of thinking."""
Spelling = dict[str, Any]
SPELLINGS: Mapping[str, list[Spelling]] = {
    "off": [
        {"enable_thinking": False}, {"think": False}, {"thinking": False}, {"thinking": {"type": "disabled"}},
        {"reasoning": {"enabled": False}}, {"reasoning": {"effort": "none"}}, {"reasoning_effort": "none"},
    ],
    "on": [
        {"enable_thinking": True}, {"think": True}, {"thinking": True}, {"thinking": {"type": "enabled"}},
        {"reasoning": {"enabled": True}},
    ],
    "high": [{"think": "high"}, {"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}],
    "max": [{"think": "max"}, {"reasoning": {"effort": "max"}}, {"reasoning_effort": "max"}],
    "budget": [
        {"reasoning": {"max_tokens": 7}}, {"thinking_budget": 7}, {"thinking_token_budget": 7},
        {"thinking_budget_tokens": 7}, {"reasoning_budget_tokens": 7}, {"reasoning_budget": 7},
        {"max_thinking_tokens": 7},
    ],
    "on, with a budget": [{"thinking": {"type": "enabled", "budget_tokens": 7}}],
    "as the model does": [
        {"thinking_budget": -1}, {"reasoning": {"exclude": False}}, {"reasoning_format": "parsed"},
        {"reasoning": {"summary": "auto"}}, {"thinking": None}, {"reasoning": {}},
    ],
    "hidden": [{"reasoning": {"exclude": True}}, {"reasoning_format": "hidden"}, {"reasoning_format": "raw"}],
    "shown otherwise": [{"reasoning": {"summary": "detailed"}}, {"reasoning": {"summary": "novel"}}],
}  # fmt: skip
"""Everybody's words for each wish."""
OUTCOMES: Mapping[str, Mapping[str, str]] = {
    "off":               dict(zip(KINDS, ("off", "none held", "low held", "held", "as it is"), strict=True)),
    "on":                dict(zip(KINDS, ("on", "as it is", "as it is", "as it is", "400"), strict=True)),
    "high":              dict(zip(KINDS, ("on", "high", "high", "told", "told"), strict=True)),
    "max":               dict(zip(KINDS, ("on", "max", "high told", "told", "told"), strict=True)),
    "budget":            dict(zip(KINDS, ("held", "held", "held", "held", "told"), strict=True)),
    "on, with a budget": dict(zip(KINDS, ("on held", "held", "held", "held", "400"), strict=True)),
    "as the model does": dict.fromkeys(KINDS, "as it is"),
    "hidden":            dict.fromkeys(KINDS, "400"),
    "shown otherwise":   dict.fromkeys(KINDS, "told"),
}  # fmt: skip
"""``as it is``: the model does so by itself. ``held``: a grammar bounds the thought. ``told``: x-antiphon-ignored."""
OTHERWISE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    MESSAGES: {  # Without a word of it, there is no thinking there.
        "off": ("as it is",) * 5,
        "on": ("undefined", "undefined", "medium", "as it is", "told"),
        "budget": ("undefined held", "undefined held", "medium held", "held", "told"),
        "on, with a budget": ("undefined held", "undefined held", "medium held", "held", "told"),
    },
    OLLAMA: {  # Ollama refuses thoughts to models that have none, and has no budgets.
        "on": ("on", "medium", "as it is", "as it is", "400"),
        "high": ("on", "high", "high", "told", "400"),
        "max": ("on", "max", "high told", "told", "400"),
        "budget": ("400",) * 5, "on, with a budget": ("400",) * 5,
    },
    "/v1/completions": dict.fromkeys(
        ("off", "on", "high", "max", "budget", "on, with a budget"), ("400",) * 5  # a raw prompt says it itself
    ),
}  # fmt: skip
"""The wires whose outcomes are others, by the same order of models."""


class HarmonyEngine(GrammarEngine):
    """Answers without a thought, as every grammar lets it."""

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        return harmony_ids(CHANNEL, "final", MESSAGE, "Hi.", RETURN)


@cache
def served(kind: str, grammar: bool = True) -> tuple[Any, GrammarEngine, Model]:
    if kind == "Harmony":
        ends = frozenset({VOCABULARY.controls[RETURN]})
        engine: GrammarEngine = HarmonyEngine([], end_ids=ends, honours=EVERY)
        compiler = ReplyCompiler(HARMONY, VOCABULARY, ends) if grammar else None
        model = Model(name="m", engine=engine, tokenizer=VOCABULARY, format=HARMONY, compiler=compiler)
    else:
        engine, format = ObligingEngine(), jinja_format(TEMPLATES[kind], TOKENIZER.controls)
        facts = ModelFacts(task="chat", context=None, vocabulary=TOKENIZER.size, reasoning=kind != "never")
        compiler = ReplyCompiler(format, TOKENIZER, ENDS) if grammar else None
        model = Model(name="m", engine=engine, tokenizer=TOKENIZER, format=format, compiler=compiler, described=facts)
    return create_app(StaticCatalog({"m": model}), expose_reasoning=True), engine, model


async def sent(wire: str, kind: str, fields: Mapping[str, Any], *, grammar: bool = True) -> Got:
    return await post_in_process(served(kind, grammar)[0], wire, model="m", **WIRES[wire], **fields)


async def outcome(wire: str, kind: str, fields: Mapping[str, Any], *, grammar: bool = True) -> str:
    """What becomes of the wish: of the prompt and of the grammar, against those of the request without it."""
    _, engine, model = served(kind, grammar)
    assert (await sent(wire, kind, {}, grammar=grammar)).status == 200
    plain, _, plain_grammar = engine.requests[-1]
    got = await sent(wire, kind, fields, grammar=grammar)
    if got.status == 400:
        assert next(iter(fields)) in got.body.decode() or "does not support thinking" in got.body.decode(), got.body
        return "400"
    assert got.status == 200, got.body
    prompt, _, given_grammar = engine.requests[-1]
    found = []
    if prompt != plain:
        text = decode(model.tokenizer, prompt)
        word = text.partition("Reasoning: ")[2].split()[0] if kind == "Harmony" else text.partition("|")[0]
        found.append(word or "undefined")
    found += ["held"] if given_grammar != plain_grammar else []
    if told := got.headers.get("x-antiphon-ignored"):
        assert told.partition(".")[0] in {*fields, *NAMED.get(wire, ())}, told
        found.append("told")
    return " ".join(found) or "as it is"


NAMED: Mapping[str, Collection[str]] = {OLLAMA: ("think",), "/api/generate": ("think",)}
"""Wires on which an option is named by its own field: the wire's own word for any of them."""


def test_every_name_of_the_table_is_walked() -> None:
    assert {row.name for row in KNOWN.values() if row.use == "thinking"} == READERS.keys()
    walked = {name for fields in chain.from_iterable(SPELLINGS.values()) for name in fields}
    assert walked - {"reasoning_format"} == READERS.keys()
    assert SPELLINGS.keys() == OUTCOMES.keys()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("wish", SPELLINGS)
async def test_each_spelling_of_thinking_has_its_effect_or_is_told_or_refused(wire: str, wish: str) -> None:
    """On every wire, to a model of each kind: never silence, and one meaning under each name."""
    expected = dict(OUTCOMES[wish])
    others = OTHERWISE.get(OLLAMA if wire == "/api/generate" else wire, {})
    if wish in others:
        expected = dict(zip(KINDS, others[wish], strict=True))
    expected["another switch"] = expected["switch"]
    for fields in SPELLINGS[wish]:
        given = fields.get("thinking")  # Messages' own, whose values are objects; its type enabled needs a budget
        refused = wire == MESSAGES and (isinstance(given, bool) or given == {"type": "enabled"})
        found = {kind: await outcome(wire, kind, fields) for kind in expected}
        assert found == (dict.fromkeys(expected, "400") if refused else expected), fields


KWARGS: list[tuple[Spelling, tuple[str, ...]]] = [
    ({"enable_thinking": True}, ("on", "400", "400", "400", "400")),
    ({"enable_thinking": False}, ("off", "told", "told", "told", "told")),
    ({"thinking": True}, ("400",) * 5),
    ({"thinking": False}, ("told",) * 5),
    ({"reasoning_effort": "high"}, ("400", "high", "high", "400", "400")),
    ({"thinking_budget": 7}, ("400",) * 5),
]


@pytest.mark.parametrize("wire", WIRES)
async def test_an_argument_of_the_template_has_its_effect_or_is_told_or_refused(wire: str) -> None:
    for given, expected in KWARGS:
        found = [await outcome(wire, kind, {"chat_template_kwargs": given}) for kind in KINDS]
        assert found == (list(expected) if wire == CHAT else ["400"] * 5), given


@pytest.mark.parametrize("wire", list(WIRES)[:2])
async def test_without_a_grammar_a_model_that_always_thinks_refuses_or_tells(wire: str) -> None:
    assert await outcome(wire, "always", {"enable_thinking": False}, grammar=False) == "400"
    assert b"always thinks" in (await sent(wire, "always", {"enable_thinking": False}, grammar=False)).body
    for kind, expected in (("always", "told"), ("Harmony", "low told"), ("efforts", "none")):
        assert await outcome(wire, kind, {"reasoning_effort": "none"}, grammar=False) == expected
        assert await outcome(wire, kind, {"thinking_budget": 0}, grammar=False) == expected


async def test_an_effort_that_the_template_does_not_know_is_told_and_one_that_it_refuses_is_refused() -> None:
    kept = [effort for effort in EFFORTS if effort != "xhigh"]
    found = {effort: await outcome(CHAT, "few efforts", {"reasoning_effort": effort}) for effort in kept}
    assert found == {**dict.fromkeys(kept, "told"), "none": "held", "high": "deep"}
    refused = await sent(CHAT, "few efforts", {"reasoning_effort": "xhigh"})
    assert (refused.status, refused.json["error"]["code"]) == (400, "template_refused")


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
    got = await sent(CHAT, "switch", fields)
    assert got.status == 400, got.body
    assert got.json["error"]["param"] == path, got.body
    assert got.json["error"]["message"].startswith(path)


@pytest.mark.parametrize("wire", list(WIRES)[:2])
async def test_a_call_is_required_in_the_words_of_others(wire: str) -> None:
    function: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    flat = wire == RESPONSES
    tools = [{"type": "function", **function} if flat else {"type": "function", "function": function}]
    for choice in ("any", "f"):
        got = await sent(wire, "never", {"tools": tools, "tool_choice": choice})
        assert got.status == 200, got.body
        named = got.json["output"][0] if flat else got.json["choices"][0]["message"]["tool_calls"][0]["function"]
        assert named["name"] == "f"
        assert not flat or got.json["tool_choice"] == (
            "required" if choice == "any" else {"type": "function", "name": "f"}
        )
    got = await sent(wire, "never", {"tools": tools, "tool_choice": "g"})
    assert got.status == 400
    assert "no tool is named 'g'" in got.body.decode()


@pytest.mark.parametrize("name", ["enable_thinking", "think"])
def test_a_conversation_without_a_model_has_no_switch(name: str) -> None:
    with pytest.raises(RequestError, match=f"^{name}: a conversation without a model"):
        read_chat({"messages": HI, name: False})
    effort = read_chat({"messages": HI, "reasoning": {"effort": "low"}}).settings.reasoning_effort
    assert effort is ReasoningEffort.LOW


# Tools by their type.

FUNCTION: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {}}}
TOOL: Mapping[str, dict[str, Any]] = {
    CHAT: {"type": "function", "function": FUNCTION},
    RESPONSES: {"type": "function", **FUNCTION},
    MESSAGES: {"name": "f", "input_schema": FUNCTION["parameters"]},
}
HOSTED = (
    "file_search", "image_generation", "computer_use_preview", "computer_use", "computer", "computer_20250124",
    "code_interpreter", "code_execution_20250522", "web_fetch_20250910", "mcp_toolset", "advisor_20260301",
    "tool_search_tool_bm25_20251119", "a_tool_of_next_month", "x" * 200, "",
)  # fmt: skip
SEARCHES = ("web_search", "web_search_preview", "web_search_2025_08_26")


def assert_refused(wire: str, got: Got, path: str, *words: str) -> None:
    """Refused at the client's own path as a parameter that is not supported, with a message that has the words."""
    assert got.status == 400, got.body
    error = got.json["error"]
    message = error["message"] if isinstance(error, dict) else error
    assert message.startswith(path), message
    assert not [word for word in words if word not in message], message
    if wire in (CHAT, RESPONSES):
        assert (error["code"], error["param"]) == ("unsupported_parameter", path)


@pytest.mark.parametrize("wire", TOOL)
@pytest.mark.parametrize("kind", [*HOSTED, *SEARCHES])
async def test_a_hosted_tool_that_is_not_there_is_refused_alike_with_what_is_possible(wire: str, kind: str) -> None:
    """But for the search that Codex lists in each request: it is left out of the tools that a response echoes."""
    fields = {"tools": [TOOL[wire], {"type": kind, "name": "web_search"}]}
    got = await sent(wire, "never", fields)
    if wire == RESPONSES and kind in SEARCHES:
        assert (got.status, got.headers["x-antiphon-ignored"]) == (200, f"tools[1].type={kind}")
        assert [tool["type"] for tool in got.json["tools"]] == ["function"]
        return
    assert_refused(wire, got, "tools[1].type", "Possible: ", "custom" if wire == MESSAGES else "function")


async def test_what_this_server_runs_is_in_the_hint_and_what_its_owner_turns_on_too(tmp_path: Path) -> None:
    catalog = StaticCatalog({"m": served("never")[2]})
    there = {RESPONSES: ("web_search", "code_interpreter"), MESSAGES: ("web_search_…", "code_execution_…")}
    for wire, names in there.items():
        tools = [{"type": "file_search", "name": "x"}]
        application = create_app(catalog, tools=server_toolbox(tmp_path))
        got = await post_in_process(application, wire, model="m", **WIRES[wire], tools=tools)
        assert_refused(wire, got, "tools[0].type", *names)
    for wire, kind in ((RESPONSES, "code_interpreter"), (MESSAGES, "code_execution_20250522")):
        got = await sent(wire, "never", {"tools": [{"type": kind, "name": "code_execution"}]})
        assert_refused(wire, got, "tools[0].type", "antiphon serve --tools python")
    inner = {"type": "namespace", "name": "n", "tools": [{"type": "file_search", "name": "x"}]}
    got = await sent(RESPONSES, "never", {"tools": [inner]})
    assert_refused(RESPONSES, got, "tools[0].tools[0].type", "Possible: function, custom.")


# What is paid, shown or hinted, and what would change what is done.

PHASED = {"type": "message", "role": "assistant", "phase": "hindsight", "content": "Yes."}
EVERY_WIRE = tuple(WIRES)
TAKEN, TOLD, REFUSED = "taken", "told", "refused"
FIELDS: list[tuple[Spelling, str, str, Sequence[str]]] = [
    ({"inference_geo": "eu"}, REFUSED, "inference_geo", EVERY_WIRE),
    ({"inference_geo": "global"}, TAKEN, "", EVERY_WIRE),
    ({"speed": "fast"}, TOLD, "speed", EVERY_WIRE), ({"speed": "standard"}, TAKEN, "", EVERY_WIRE),
    *(({"service_tier": tier}, TOLD, "service_tier", EVERY_WIRE) for tier in ("flex", "priority", "scale", "next")),
    *(({"service_tier": tier}, TAKEN, "", EVERY_WIRE) for tier in ("auto", "default", "standard_only")),
    ({"verbosity": "low"}, TOLD, "verbosity", EVERY_WIRE), ({"verbosity": "medium"}, TAKEN, "", EVERY_WIRE),
    *(({"text": {"verbosity": word}}, TOLD, "text.verbosity", [RESPONSES]) for word in ("low", "epic")),
    ({"prediction": {"type": "content", "content": "x"}}, TOLD, "prediction", EVERY_WIRE),
    ({"fallbacks": [{"model": "n"}]}, TOLD, "fallbacks", EVERY_WIRE),
    *(({"web_search_options": value}, REFUSED, "web_search_options", EVERY_WIRE) for value in ({}, {"x": 1})),
    ({"context_management": [{"type": "clear"}]}, REFUSED, "context_management", [CHAT, OLLAMA]),
    ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, REFUSED, "context_management", [CHAT, OLLAMA]),
    ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, REFUSED, "context_management.edits[0].type",
     [MESSAGES]),
    ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, TOLD, "context_management.edits[0]",
     [MESSAGES]),
    ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}, TAKEN, "", [MESSAGES]),
    ({"num_ctx": 999}, TOLD, "num_ctx", [OLLAMA, "/api/generate"]),
    ({"options": {"num_ctx": 10**6}}, TOLD, "options.num_ctx", [OLLAMA, "/api/generate"]),
    ({"options": {"num_gpu": 99}}, TOLD, "options.num_gpu", [OLLAMA, "/api/generate"]),
    ({"num_ctx": 999}, REFUSED, "num_ctx", [CHAT, RESPONSES, MESSAGES]),
    ({"keep_alive": 0}, TOLD, "keep_alive", [OLLAMA, "/api/generate"]),
    ({"parallel_tool_calls": False}, TOLD, "parallel_tool_calls", [MESSAGES, OLLAMA]),
    ({"tool_choice": "none"}, REFUSED, "tool_choice", [OLLAMA]),
    ({"include": ["everything"]}, TOLD, "include[0]", [RESPONSES]),
    ({"input": [{"role": "user", "content": "Hi"}, PHASED]}, TOLD, "input[1].phase", [RESPONSES]),
    ({"thinking": {"type": "adaptive", "display": "updates"}}, TOLD, "thinking.display", [CHAT, MESSAGES, OLLAMA]),
    ({"thinking": {"type": "between_tools"}}, TOLD, "thinking.type", [MESSAGES]),
    ({"tools": [{**TOOL[MESSAGES], "input_examples": [{}]}]}, TOLD, "tools[0].input_examples", [MESSAGES]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "fate", "name", "wires"), FIELDS, ids=lambda value: str(value)[:50])
async def test_a_field_is_honoured_named_as_ignored_or_refused(
    fields: Spelling, fate: str, name: str, wires: Sequence[str]
) -> None:
    for wire in wires:
        body = {field: value for field, value in WIRES[wire].items() if field not in fields}
        got = await post_in_process(served("always")[0], wire, model="m", **body, **fields)
        if fate == REFUSED:
            assert (got.status, name in got.body.decode()) == (400, True), (wire, got.body)
        else:
            assert got.status == 200, (wire, got.body)
            assert got.headers.get("x-antiphon-ignored") == (name or None), wire


CLOSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("ChatMessage.role", "InputItem.role", "ToolCall.type", "ResponsesRequest.truncation",
         "ChatRequest.error_behavior", "CompletionRequest.error_behavior", "CompletionRequest.use_raw_prompt",
         "ChatRequest.prefix_policy", "ResponsesRequest.prefix_policy", "CompactionSettings.type"),
        "what the model reads",
    ),
    **dict.fromkeys(
        ("ToolChoiceObject.type", "NamedTool.type", "AllowedTools.mode", "MessageToolChoice.type",
         "ResponsesToolChoice.mode", "ResponsesTool.require_approval", "CodeContainer.type"),
        "which tools are called, and where they run",
    ),
    **dict.fromkeys(
        ("ResponseFormatObject.type", "TextFormat.type", "ChatRequest.finish", "CompletionRequest.finish",
         "MessagesRequest.finish", "OllamaChatRequest.finish", "OllamaGenerateRequest.finish",
         "ResponsesRequest.finish"),
        "what the answer is",
    ),
    **dict.fromkeys(
        ("ChatRequest.reasoning_effort", "ReasoningSettings.effort", "OutputConfig.effort", "ThinkingConfig.type"),
        "whether and how much it thinks",
    ),
}  # fmt: skip
"""Fields whose unknown values are refused, with what such a value would change. All others are open texts."""


def closed_fields(kind: type[msgspec.Struct], seen: set[type[msgspec.Struct]]) -> Iterator[str]:
    """The fields of a request, and of the objects in it, that take only some words."""
    seen.add(kind)
    for field in msgspec.structs.fields(kind):
        pending = [msgspec.inspect.type_info(field.type)]
        while pending:
            match pending.pop():
                case msgspec.inspect.LiteralType() | msgspec.inspect.EnumType():
                    yield f"{kind.__name__}.{field.encode_name}"
                case msgspec.inspect.UnionType(types=several):
                    pending += several
                case msgspec.inspect.ListType(item_type=item):
                    pending.append(item)
                case msgspec.inspect.StructType(cls=inner) if inner not in seen:
                    yield from closed_fields(inner, seen)


def test_a_field_is_closed_only_where_an_unknown_value_would_change_what_is_said() -> None:
    seen: set[type[msgspec.Struct]] = set()
    assert {name for kind in REQUESTS for name in closed_fields(kind, seen)} == CLOSED.keys()


async def test_the_answer_says_what_was_in_effect() -> None:
    for tier in ("flex", "auto"):
        whole = (await sent(CHAT, "always", {"service_tier": tier})).json
        assert whole["service_tier"] == "default"
        chunks = (await sent(CHAT, "always", {"service_tier": tier, "stream": True})).events[:-1]
        assert {chunk["service_tier"] for chunk in chunks} == {"default"}
        assert (await sent(RESPONSES, "always", {"service_tier": tier})).json["service_tier"] == "default"
        assert (await sent(MESSAGES, "always", {"service_tier": tier})).json["usage"]["service_tier"] == "standard"
    assert "service_tier" not in (await sent(CHAT, "always", {})).json
    edits = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
    assert (await sent(MESSAGES, "always", edits)).json["context_management"] == {"applied_edits": []}
    streamed = (await sent(MESSAGES, "always", {**edits, "stream": True})).body
    assert streamed.count(b'"context_management":{"applied_edits":[]}') == 2, "as it begins, and as it ends"
    assert "context_management" not in (await sent(MESSAGES, "always", {})).json
    said = (await sent(RESPONSES, "always", {"reasoning": {"summary": "novel"}, "text": {"verbosity": "epic"}})).json
    assert (said["reasoning"]["summary"], said["text"]["verbosity"]) == (None, "medium")
