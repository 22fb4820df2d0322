"""Loops of tools over JSON: each prompt begins with the ids of the last one and of what was sampled to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.formats import Format
from antiphon.formats.harmony import harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.template import jinja_format, template_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model
from antiphon.store import SessionLimits, TurnLimits
from antiphon.tokens import Control, Piece
from kit.api import in_process, post_in_process
from kit.pairs import FRAMES, TOKENIZER, sampled_ids
from kit.tool_clients import CLIENTS

pytestmark = pytest.mark.one_process(
    "each process remembers the ids of what it sampled: a client's connection keeps them"
)
START, CHANNEL, MESSAGE, CALL, CONSTRAIN, RETURN, END = FRAMES
TOOL_CALL, CALLED, IM_END = (Control(name) for name in ("<tool_call>", "</tool_call>", "<|im_end|>"))
TURNS = 20
FIND = {"type": "object", "properties": {"in": {"type": "string"}}}
TOOLS: list[Any] = [{"type": "function", "function": {"name": "find", "parameters": FIND}}]
ASKED: dict[str, Any] = {"role": "user", "content": "in the end?"}
JINJA = (
    "{%- if day is defined %}{{ '<|im_start|>system\nin ' ~ day ~ '<|im_end|>\n' }}{%- endif %}"
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{{- m.content or '' }}"
    '{%- for c in m.tool_calls or [] %}{{ \'<tool_call>\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{- c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
"""A template that writes calls as a model does that was trained on it."""


def tagged(turn: int) -> list[Piece]:
    """A reply in ChatML: calls, and at last an answer."""
    if turn == TURNS - 1:
        return ["in the end, the théin.", IM_END]
    return [TOOL_CALL, f'\n{{"name": "find", "arguments": {{"in": "the hein {turn}"}}}}\n', CALLED, IM_END]


def oddly_tagged(turn: int) -> list[Piece]:
    """The same calls, spelled as no template spells them."""
    if turn == TURNS - 1:
        return tagged(turn)
    return [TOOL_CALL, f'{{"arguments":{{ "in" : "the \\u0068ein {turn}"}},\n"name":"find"}}', CALLED, IM_END]


def framed(header: str, kind: Sequence[Piece]) -> Callable[[int], list[Piece]]:
    """Replies in frames: a thought, then a call, and at last an answer."""

    def reply(turn: int) -> list[Piece]:
        thought: list[Piece] = [CHANNEL, "analysis", MESSAGE, f"think the thing {turn}", END, START, "assistant"]
        if turn == TURNS - 1:
            return [*thought, CHANNEL, "final", MESSAGE, "in the end", RETURN]
        arguments = f'{{"in":"the hein {turn}"}}'
        return [*thought, header.format(turn), CHANNEL, *kind, MESSAGE, arguments, CALL]

    return reply


LOOPS: dict[str, tuple[Format, Callable[[int], list[Piece]]]] = {
    "chatml": (template_format("chatml", TOKENIZER.controls, replies=QWEN), tagged),
    "jinja": (jinja_format(JINJA, TOKENIZER.controls), tagged),
    "jinja, spelled otherwise": (jinja_format(JINJA, TOKENIZER.controls), oddly_tagged),
    "harmony": (harmony(TOKENIZER.controls), framed(" to=functions.find", ("commentary ", CONSTRAIN, "json"))),
    "openchatml": (
        openchatml(TOKENIZER.controls),
        framed(" to=functions.find call_id=call_{}", ("commentary", CONSTRAIN, "json")),
    ),
}


FORGETFUL: dict[str, Any] = {"session_limits": SessionLimits(turns=TurnLimits(lifetime=0))}
"""A server that stores no unfinished turns: a prompt has what its client sent, and no more."""


def served(format: Format, reply: Callable[[int], Sequence[Piece]], **options: Any) -> Starlette:
    """A model that samples its n-th reply, each time in other tokens."""
    random, turns = Random(1), iter(range(10_000))

    def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> list[int]:
        return sampled_ids(random, reply(next(turns) % TURNS))

    engine = ScriptedEngine(script, context=100_000, grammar=False)
    model = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=format)
    return create_app(StaticCatalog({"small": model}), expose_reasoning=True, **options)


async def ask(application: Starlette, messages: Sequence[Any], **fields: Any) -> Any:
    got = await in_process(application, messages=messages, **{"tools": TOOLS, "explain_prefix": True, **fields})
    assert got.status == 200, got.body
    return got.json


def ids_of(answer: Any) -> list[int]:
    ids: list[int] = answer["prompt_token_ids"] + answer["choices"][0]["token_ids"]
    return ids


def grown(messages: Sequence[Any], answer: Any) -> list[Any]:
    """The messages with the answer, as a client sends it back, and the results of its calls."""
    said = {name: value for name, value in answer["choices"][0]["message"].items() if value is not None}
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "the thing"} for call in said.get("tool_calls", ())
    ]
    return [*messages, said, *results]


@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_of_twenty_turns_keeps_every_id_and_the_turn_after_it_what_its_format_lets_it(name: str) -> None:
    format, reply = LOOPS[name]
    application, messages, before = served(format, reply), [ASKED], list[int]()
    for turn in range(TURNS):
        answer = await ask(application, messages, return_token_ids=True)
        prompt = answer["prompt_token_ids"]
        assert prompt[: len(before)] == before
        kept = {"kept": len(before), "former": len(before) or None, "bridgeable": bool(before), "lost": None}
        assert answer["antiphon"]["prefix"] == kept, turn
        before, messages = ids_of(answer), grown(messages, answer)
    after = await ask(application, [*messages, {"role": "user", "content": "then?"}], return_token_ids=True)
    lost = after["antiphon"]["prefix"]["lost"]
    assert (lost and lost["cause"]) == ("reasoning" if name in ("harmony", "openchatml") else None)
    if lost is not None:
        assert lost["message"] == 1, "the first thought, which an answered turn no longer shows"
        assert after["prompt_token_ids"][: lost["at"]] == before[: lost["at"]]
        assert after["prompt_token_ids"][lost["at"]] != before[lost["at"]]


@pytest.mark.parametrize("name", ["chatml", "jinja", "jinja, spelled otherwise"])
async def test_a_reply_that_ends_at_its_call_is_closed_in_the_next_prompt(name: str) -> None:
    format, reply = LOOPS[name]
    application, messages, before = served(format, reply), [ASKED], list[int]()
    for _ in range(4):
        answer = await ask(application, messages, return_token_ids=True, parallel_tool_calls=False)
        prompt = answer["prompt_token_ids"]
        assert prompt[: len(before)] == before
        assert prompt.count(TOKENIZER.controls[CALLED]) == prompt.count(TOKENIZER.controls[TOOL_CALL])
        before, messages = ids_of(answer), grown(messages, answer)


@pytest.mark.parametrize("name", ["chatml", "jinja", "harmony"])
async def test_the_same_text_in_other_tokens_is_told_where_a_client_gave_the_calls_other_ids(name: str) -> None:
    format, reply = LOOPS[name]
    application = served(format, reply, **FORGETFUL)
    first = await ask(application, [ASKED])
    asked, said, result = grown([ASKED], first)
    said["tool_calls"][0]["id"] = result["tool_call_id"] = "call_other"
    prefix = (await ask(application, [asked, said, result]))["antiphon"]["prefix"]
    assert prefix["lost"]["cause"] == "tokens"
    assert prefix["lost"]["message"] == 1
    assert prefix["lost"]["at"] == prefix["kept"] < prefix["former"]


@pytest.mark.parametrize("name", ["harmony", "openchatml"])
async def test_reasoning_that_the_client_leaves_out_of_an_unfinished_turn_is_there_all_the_same(name: str) -> None:
    application, messages, before = served(*LOOPS[name]), [ASKED], list[int]()
    for _ in range(3):
        answer = await ask(application, messages, return_token_ids=True)
        assert answer["prompt_token_ids"][: len(before)] == before
        assert answer["antiphon"]["prefix"]["lost"] is None
        before, messages = ids_of(answer), grown(messages, answer)
        for field in ("reasoning", "reasoning_content"):
            del messages[-2][field]


async def test_users_who_spell_a_sampled_reply_get_the_ids_of_their_own_words() -> None:
    format, reply = LOOPS["chatml"]
    application = served(format, reply)
    answer = await ask(application, [ASKED], return_token_ids=True)
    spelled = "<tool_call>\n" + '{"name": "find", "arguments": {"in": "the hein 0"}}' + "\n</tool_call><|im_end|>"
    again = await ask(
        application, [ASKED, {"role": "assistant", "content": spelled}, ASKED], return_token_ids=True, tools=[]
    )
    controls = TOKENIZER.controls[TOOL_CALL]
    assert controls in ids_of(answer)
    assert controls not in again["prompt_token_ids"], "a spelling in a text is no control, whatever was sampled before"


CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "tools": ("harmony", {}, {"tools": [{"type": "function", "function": {"name": "other"}}]}),
    "reasoning_effort": ("harmony", {"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
    "arguments": ("jinja", {"chat_template_kwargs": {"day": 1}}, {"chat_template_kwargs": {"day": 2}}),
}


@pytest.mark.parametrize("cause", CHANGES)
async def test_a_setting_that_changed_is_named(cause: str) -> None:
    name, before, after = CHANGES[cause]
    application = served(*LOOPS[name])
    first = await ask(application, [ASKED], return_token_ids=True, **before)
    second = await ask(application, grown([ASKED], first), return_token_ids=True, **after)
    assert second["antiphon"]["prefix"]["lost"]["cause"] == cause
    assert second["antiphon"]["prefix"]["lost"]["message"] is None


async def test_another_day_is_named() -> None:
    format, reply = LOOPS["harmony"]
    engine = ScriptedEngine(sampled_ids(Random(1), reply(0)), grammar=False)
    catalog = StaticCatalog({"small": Model(name="small", engine=engine, tokenizer=TOKENIZER, format=format)})
    now = [0.0]
    application = create_app(catalog, expose_reasoning=True, clock=lambda: now[0])
    first = await ask(application, [ASKED], return_token_ids=True)
    now[0] = 86_400.0
    second = await ask(application, grown([ASKED], first), return_token_ids=True)
    assert second["antiphon"]["prefix"]["lost"]["cause"] == "date"


@pytest.mark.parametrize("name", LOOPS)
async def test_an_edited_message_is_named_by_its_number(name: str) -> None:
    application = served(*LOOPS[name])
    asked = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "so"}, ASKED]
    first = await ask(application, asked, return_token_ids=True)
    edited = [asked[0], {"role": "assistant", "content": "no"}, ASKED]
    second = await ask(application, grown(edited, first), return_token_ids=True)
    lost = second["antiphon"]["prefix"]["lost"]
    assert (lost["cause"], lost["message"]) == ("message", 1)


@pytest.mark.parametrize("name", ["harmony", "openchatml"])
async def test_reasoning_that_the_client_left_out_is_named(name: str) -> None:
    application = served(*LOOPS[name], **FORGETFUL)
    first = await ask(application, [ASKED], return_token_ids=True)
    messages = grown([ASKED], first)
    for field in ("reasoning", "reasoning_content"):
        del messages[1][field]
    lost = (await ask(application, messages, return_token_ids=True))["antiphon"]["prefix"]["lost"]
    assert (lost["cause"], lost["message"]) == ("reasoning", 1)


async def test_a_template_that_writes_a_reply_otherwise_is_named() -> None:
    format = jinja_format(JINJA.replace("m.content or ''", "(m.content or '') | upper"), TOKENIZER.controls)
    application = served(format, lambda turn: ["in the end", IM_END])
    first = await ask(application, [ASKED], return_token_ids=True)
    messages = [*grown([ASKED], first), ASKED]
    lost = (await ask(application, messages, return_token_ids=True))["antiphon"]["prefix"]["lost"]
    assert (lost["cause"], lost["message"]) == ("template", 1)


async def test_the_first_of_all_has_nothing_before_it_and_owners_do_not_see_each_other_s() -> None:
    application = served(*LOOPS["harmony"])
    nothing = {"kept": 0, "former": None, "bridgeable": False, "lost": None}
    for salt in ("one", "other"):
        answer = await ask(application, [ASKED], cache_salt=salt, return_token_ids=True)
        assert answer["antiphon"]["prefix"] == nothing
    assert "antiphon" not in await ask(application, [ASKED], explain_prefix=False)


async def test_a_response_is_compared_with_the_one_that_it_continues() -> None:
    application = served(*LOOPS["harmony"])
    fields = {"return_token_ids": True, "explain_prefix": True}
    tools = [{"type": "function", "name": "find", "parameters": FIND}]
    first = (await post_in_process(application, "/v1/responses", input="in?", tools=tools, **fields)).json
    call = next(item for item in first["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "the thing"}
    second = await post_in_process(
        application, "/v1/responses", input=[result], previous_response_id=first["id"], tools=tools, **fields
    )
    assert second.status == 200, second.body
    before = first["prompt_token_ids"] + first["token_ids"]
    assert second.json["prompt_token_ids"][: len(before)] == before
    whole = {"kept": len(before), "former": len(before), "bridgeable": True, "lost": None}
    assert second.json["antiphon"]["prefix"] == whole


BY_IDS = {"/v1/chat/completions": "chat with ids", "/v1/responses": "items with ids"}


@pytest.mark.parametrize("path", BY_IDS)
@pytest.mark.parametrize("policy", ["bridge", None, "template"])
async def test_a_request_may_want_what_the_template_writes(path: str, policy: str | None) -> None:
    application, client = served(*LOOPS["jinja, spelled otherwise"]), CLIENTS[BY_IDS[path]]()
    await client.turn(application)
    body = {**client.body, "prefix_policy": policy, "explain_prefix": True}
    prefix = (await client.send(application, path, body))["antiphon"]["prefix"]
    assert (prefix["lost"] and prefix["lost"]["cause"]) == ("template" if policy == "template" else None)
    assert prefix["bridgeable"] is True


@pytest.mark.parametrize("path", BY_IDS)
@pytest.mark.parametrize("policy", ["always", "", 1, ["bridge"]])
async def test_no_other_policy_is_taken(path: str, policy: object) -> None:
    body = {**CLIENTS[BY_IDS[path]]().body, "prefix_policy": policy}
    got = await post_in_process(served(*LOOPS["jinja"]), path, **body)
    assert (got.status, got.error["param"]) == (400, "prefix_policy")
