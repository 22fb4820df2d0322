"""Turns that a store has: found by another process with the same model, by nobody else, and not waited for long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from antiphon.conversation import Conversation, Message, Role, ToolSpec
from antiphon.conversation.calls import make_answer
from antiphon.engines import ScriptedEngine
from antiphon.errors import StoreError
from antiphon.formats.template import jinja_format
from antiphon.generation import Model, TurnRequest, collect, constrain, recall, run_turn
from antiphon.generation.plan import Draft
from antiphon.generation.recall import draft_turn
from antiphon.store import Key, MemoryStore, Record, TurnLimits, UnfinishedTurns
from antiphon.store.store import Delete, Write
from antiphon.tenancy import Tenant
from kit.pairs import CHATML, TOKENIZER, TOOLS, PairTokenizer, ids

CALL, CALLED = TOOLS
ASKED = Message(role=Role.USER, text="in the end?")
TEMPLATE = (
    "{%- for t in tools or [] %}{{ t.function.name }}{%- endfor %}"
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{{- m.content or '' }}"
    '{%- for c in m.tool_calls or [] %}{{ \'<tool_call>{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{- c.function.arguments | tojson }}{{ '}</tool_call>' }}{%- endfor %}"
    "{{ '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
CALLING = ids(CALL, '{"arguments": {"in":"the \\u0065nd"}, "name": "find"}', CALLED, CHATML[1])
"""The call, as no template writes it."""
FIND = ToolSpec("find", "", None)


class OtherTokenizer(PairTokenizer):
    @property
    def name(self) -> str:
        return "other pairs"


def process(store: MemoryStore, *, bytes: int = 1 << 20, reply: Sequence[int] = CALLING, **options: Any) -> Model:
    """The model as one process of those that share the store has it."""
    options = {"name": "small", "tokenizer": TOKENIZER, "template": TEMPLATE, **options}
    format = jinja_format(options.pop("template"), TOKENIZER.controls)
    model = Model(engine=ScriptedEngine(reply, context=10_000, grammar=False), format=format, **options)
    model.sequences.stored = UnfinishedTurns(store, lambda: 1e9, TurnLimits(bytes=bytes), kind="ids")
    return model


def request(*messages: Message, tools: Sequence[ToolSpec] = (FIND,), **fields: Any) -> TurnRequest:
    return TurnRequest(conversation=Conversation((ASKED, *messages), tools=tuple(tools)), **fields)


async def here(work: Callable[[], Any]) -> Any:
    return work()


async def drafted(model: Model, turn: TurnRequest) -> Draft:
    return await draft_turn(model, lambda: turn, here)


async def answered(model: Model, turn: TurnRequest) -> tuple[list[int], tuple[Message, ...]]:
    """The ids of the turn, and the messages that a next one has behind it."""
    draft = await drafted(model, turn)
    (reply,) = await collect(run_turn(await constrain(draft)))
    (call,) = reply.messages
    answer = make_answer("functions.find", call.call_id or "")
    return [*draft.prompt_ids, *CALLING], (call, replace(answer, text="the thing"))


async def keeps(model: Model, before: Sequence[int], turn: TurnRequest) -> bool:
    return list((await drafted(model, turn)).prompt_ids[: len(before)]) == list(before)


ANN, BOB = Tenant(owner="ann"), Tenant(owner="bob")


@pytest.mark.parametrize("length", [1, recall.SHORT, 4 * recall.SHORT])
async def test_another_process_goes_on_with_the_turn_however_long_it_is(length: int) -> None:
    store, asked = MemoryStore(), Message(role=Role.USER, text="x" * length)
    before, more = await answered(process(store), request(asked, tenant=ANN))
    assert await keeps(process(store), before, request(asked, *more, tenant=ANN))


ELSEWHERE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another model": ({"name": "other"}, {}),
    "another vocabulary": ({"tokenizer": OtherTokenizer()}, {}),
    "another template": ({"template": TEMPLATE.replace("m.role + '\n'", "m.role + '\n\n'")}, {}),
    "another owner": ({}, {"tenant": BOB}),
    "another part of the owner's": ({}, {"tenant": Tenant(owner="ann", salt="x")}),
    "other tools": ({}, {"tools": (replace(FIND, name="search"),)}),
    "no bridge": ({}, {"prefix_policy": "template"}),
}


@pytest.mark.parametrize("where", ELSEWHERE)
async def test_it_is_not_gone_on_with(where: str) -> None:
    store = MemoryStore()
    before, more = await answered(process(store), request(tenant=ANN))
    of_model, of_request = ELSEWHERE[where]
    assert not await keeps(process(store, **of_model), before, request(*more, **{"tenant": ANN, **of_request}))


async def test_what_others_answered_is_reported_on_and_its_request_is_forgotten() -> None:
    store = MemoryStore()
    before, more = await answered(process(store), request())
    same = await drafted(process(store), request(*more, explain_prefix=True))
    assert same.prefix is not None
    assert (same.prefix.kept, same.prefix.former, same.prefix.lost) == (len(before), len(before), None)
    other = await drafted(process(store), request(*more, explain_prefix=True, tools=(FIND, replace(FIND, name="g"))))
    assert other.prefix is not None
    assert other.prefix.lost is not None
    assert (other.prefix.lost.cause, other.prefix.bridgeable) == ("forgotten", False)
    written = await drafted(process(store), request(*more, explain_prefix=True, prefix_policy="template"))
    assert written.prefix is not None
    assert written.prefix.lost is not None
    assert (written.prefix.lost.cause, written.prefix.bridgeable) == ("template", True)


class Counting(MemoryStore):
    """A store that counts what is looked for."""

    looked = 0

    async def get(self, key: Key) -> Record | None:
        type(self).looked += 1
        return await super().get(key)


async def test_who_remembers_the_turn_asks_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "looked", 0)
    model = process(Counting())
    turn = request()
    for _ in range(3):
        _, more = await answered(model, turn)
        turn = replace(turn, conversation=turn.conversation.add(*more))
    assert Counting.looked == 0


@pytest.mark.parametrize("answers", [0, 1, 2, 7, 100])
async def test_few_turns_are_looked_for_however_long_the_history_is(
    answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "looked", 0)
    said = (Message(role=Role.ASSISTANT, text="the end"), ASKED) * answers
    await drafted(process(Counting()), request(*said))
    assert Counting.looked <= 1 + answers.bit_length()
    assert bool(Counting.looked) is bool(answers)


async def test_of_a_conversation_that_was_edited_the_turn_before_is_found() -> None:
    store, turn, whole = MemoryStore(), request(), list[list[int]]()
    for _ in range(9):
        before, more = await answered(process(store), turn)
        whole.append(before)
        turn = replace(turn, conversation=turn.conversation.add(*more))
    for edited in range(1, 9):
        messages = list(turn.conversation.messages)
        messages[2 * edited] = replace(messages[2 * edited], text="another thing")
        changed = replace(turn, conversation=replace(turn.conversation, messages=tuple(messages)))
        draft = await drafted(process(store), changed)
        assert list(draft.prompt_ids[: len(whole[edited - 1])]) == whole[edited - 1]
        assert list(draft.prompt_ids[: len(whole[edited])]) != whole[edited]


class Broken(MemoryStore):
    async def put_all(self, *writes: Write | Delete) -> None:
        raise StoreError("No room.", code="store_full")

    async def get(self, key: Key) -> Record | None:
        raise StoreError("Unreadable.", code="store_corrupt")


class Silent(MemoryStore):
    async def put_all(self, *writes: Write | Delete) -> None:
        await asyncio.Event().wait()

    async def get(self, key: Key) -> Record | None:
        await asyncio.Event().wait()
        return None


class Damaged(MemoryStore):
    async def get(self, key: Key) -> Record | None:
        found = await super().get(key)
        return found and replace(found, value=b"\x91\xc4\x02\xff\xff")


@pytest.mark.parametrize("kind", [Broken, Silent, Damaged])
async def test_a_store_that_fails_costs_the_ids_and_nothing_else(
    kind: Callable[[], MemoryStore], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recall, "PATIENCE", 0.01)
    store = kind()
    with caplog.at_level(logging.WARNING):
        before, more = await answered(process(store), request())
        assert not await keeps(process(store), before, request(*more))
    assert "the ids of earlier turns are not looked for" in caplog.text


async def test_a_turn_that_is_too_large_is_remembered_here_alone(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    model = process(store, bytes=50)
    with caplog.at_level(logging.WARNING):
        before, more = await answered(model, request())
    assert "more than 50 bytes" in caplog.text
    assert await keeps(model, before, request(*more))
    assert not await keeps(process(store), before, request(*more))


async def test_a_turn_that_says_nothing_a_template_may_write_otherwise_is_not_stored() -> None:
    store = MemoryStore()
    await collect(run_turn(await constrain(await drafted(process(store), request(tools=())))))
    assert not store._records


async def test_a_text_that_was_sampled_otherwise_than_it_is_encoded_is_remembered_here_alone() -> None:
    reply = [*map(ord, "in the end"), *ids(CHATML[1])]
    assert reply != ids("in the end", CHATML[1])
    store = MemoryStore()
    model = process(store, reply=reply)
    draft = await drafted(model, request(tools=()))
    await collect(run_turn(await constrain(draft)))
    later = request(Message(role=Role.ASSISTANT, text="in the end"), ASKED, tools=())
    assert await keeps(model, [*draft.prompt_ids, *reply], later)
    assert not store._records


async def test_a_turn_that_may_not_be_stored_is_remembered_here_alone() -> None:
    store = MemoryStore()
    model = process(store)
    before, more = await answered(model, request(storable=False))
    assert await keeps(model, before, request(*more))
    assert not store._records
