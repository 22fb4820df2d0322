"""What is remembered of turns: which ids a prompt goes on with, whose, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Message, Role, ToolSpec
from antiphon.conversation.calls import make_answer, make_call
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import harmony
from antiphon.formats.template import jinja_format
from antiphon.generation import Model, PrefixReport, TurnRequest, plan_turn
from antiphon.generation.sequences import Sequences, common
from antiphon.tenancy import Tenant
from antiphon.tokens import Piece, SampledText
from kit.pairs import CHATML, FRAMES, TOKENIZER, TOOLS, ids, sampled_ids

START, END = CHATML[:2]
CALL, CALLED = TOOLS
ASKED = Message(role=Role.USER, text="in the end?")
FIND = make_call("functions.find", '{"in": "the end"}', "call_1")
FOUND = make_answer("functions.find", "call_1")
TEMPLATE = (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{%- if m.reasoning_content and loop.last %}{{ '<think>' + m.reasoning_content + '</think>' }}{%- endif %}"
    "{{- m.content or '' }}{%- for c in m.tool_calls or [] %}{{ '<tool_call>{\"name\": \"' + c.function.name + "
    "'\", \"arguments\": ' }}{{- c.function.arguments | tojson }}{{ '}</tool_call>' }}{%- endfor %}"
    "{{ '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
"""It writes the thought of the last message only."""
CALLING: tuple[Piece, ...] = (CALL, '{"arguments": {"in":"the \\u0065nd"}, "name": "find"}', CALLED, END)
"""The call, as no template writes it."""


def small(**options: Any) -> Model:
    engine = ScriptedEngine(lambda *_: [], context=10_000, grammar=False)
    format = jinja_format(TEMPLATE, TOKENIZER.controls)
    return Model(**{"name": "small", "engine": engine, "tokenizer": TOKENIZER, "format": format, **options})


def request(*messages: Message, owner: str = "", affinity: str | None = None) -> TurnRequest:
    tenant = Tenant(owner=owner, affinity=affinity)
    conversation = Conversation(messages, tools=(ToolSpec("find", "", None),))
    return TurnRequest(conversation=conversation, return_token_ids=True, tenant=tenant)


def prompt(model: Model, *messages: Message, owner: str = "") -> list[int]:
    return list(plan_turn(model, request(*messages, owner=owner)).prompt_ids)


def answered(
    model: Model, reply: Sequence[Message], sampled: Sequence[int], *asked: Message, owner: str = ""
) -> list[int]:
    """The ids of a turn that ``model`` remembers."""
    draft = plan_turn(model, request(*asked, owner=owner))
    model.sequences.add(draft.request, draft.prompt, draft.prompt_ids, reply, sampled)
    return [*draft.prompt_ids, *sampled]


@given(st.randoms(use_true_random=False))
def test_a_call_that_was_spelled_otherwise_keeps_its_ids_and_those_before_it(random: Random) -> None:
    model, messages = small(), [ASKED]
    for number in range(3):
        call, found = replace(FIND, call_id=f"call_{number}"), replace(FOUND, call_id=f"call_{number}")
        whole = answered(model, [call], sampled_ids(random, CALLING), *messages)
        messages += [call, found]
        assert prompt(model, *messages) == whole + ids("\n", START, "tool\n", END, "\n", START, "assistant\n")


@pytest.mark.parametrize("sampled", [CALLING[:-1], (*CALLING[:-1], CHATML[3])], ids=["no end", "no end of the format"])
def test_the_template_writes_the_end_that_was_not_sampled(sampled: Sequence[Piece]) -> None:
    model = small()
    whole = answered(model, [FIND], ids(*sampled), ASKED)
    assert prompt(model, ASKED, FIND, FOUND)[: len(whole) + 1] == [*whole, *ids(END)]


def test_harmony_ends_an_earlier_answer_as_its_history_does() -> None:
    start, channel, message, _, _, returned, end = FRAMES
    model = small(format=harmony(TOKENIZER.controls))
    said = Message(role=Role.ASSISTANT, channel="final", text="in the end")
    random = Random(3)
    whole = answered(model, [said], sampled_ids(random, (channel, "final", message, "in the end", returned)), ASKED)
    after = prompt(model, ASKED, said, ASKED)
    assert after[: len(whole)] == [*whole[:-1], *ids(end)]
    assert after[len(whole)] == ids(start)[0]


@pytest.mark.parametrize(
    "said",
    [
        [replace(FIND, text='{"in": "the beginning"}')],
        [replace(FIND, recipient="functions.find_all")],
        [replace(FIND, call_id="call_2")],
        [Message(role=Role.ASSISTANT, text="in the end"), FIND],
        [],
    ],
)
def test_what_the_client_changed_is_the_clients(said: list[Message]) -> None:
    model = small()
    answered(model, [FIND], ids(*CALLING), ASKED)
    found = [replace(FOUND, call_id=said[-1].call_id)] if said else []
    assert prompt(model, ASKED, *said, *found) == prompt(small(), ASKED, *said, *found)


def test_a_thought_that_the_template_drops_is_dropped() -> None:
    model = small()
    thought = Message(role=Role.ASSISTANT, channel="analysis", text="the thing")
    sampled = ids(CHATML[2], "the thing", CHATML[3], *CALLING)
    answered(model, [thought, FIND], sampled, ASKED)
    messages = (ASKED, thought, FIND, FOUND)
    assert prompt(model, *messages) == prompt(small(), *messages)


def test_owners_keep_their_own_ids() -> None:
    model = small()
    whole = answered(model, [FIND], ids(*CALLING), ASKED, owner="ann")
    messages = (ASKED, FIND, FOUND)
    assert prompt(model, *messages, owner="ann")[: len(whole)] == whole
    assert prompt(model, *messages, owner="bob") == prompt(small(), *messages)


@pytest.mark.parametrize("bounds", [{"capacity": 300}, {"turns": 3}])
def test_the_oldest_is_forgotten_first(bounds: dict[str, int]) -> None:
    model, asked = small(sequences=Sequences(**bounds)), [replace(ASKED, text=f"in {i}?") for i in range(10)]
    turns = [answered(model, [FIND], ids(*CALLING), one) for one in asked]
    kept = [prompt(model, one, FIND, FOUND)[: len(turn)] == turn for one, turn in zip(asked, turns, strict=True)]
    assert kept == sorted(kept), "those that came last"
    assert 0 < sum(kept) < 5


@pytest.mark.parametrize("bounds", [{"capacity": 1200}, {"turns": 8}])
def test_an_owner_of_many_turns_forgets_their_own_and_nobody_else_s(bounds: dict[str, int]) -> None:
    model, messages = small(sequences=Sequences(**bounds)), (ASKED, FIND, FOUND)
    whole = answered(model, [FIND], ids(*CALLING), ASKED, owner="ann")
    for i in range(30):
        last = answered(model, [FIND], ids(*CALLING), replace(ASKED, text=f"in {i}?"), owner="bob")
    assert prompt(model, *messages, owner="ann")[: len(whole)] == whole
    assert prompt(model, replace(ASKED, text="in 29?"), FIND, FOUND, owner="bob")[: len(last)] == last


def explained(model: Model, *messages: Message) -> PrefixReport:
    report = plan_turn(model, replace(request(*messages), explain_prefix=True)).prefix
    assert report is not None
    return report


def test_a_turn_that_was_forgotten_is_said_to_be_until_it_is_remembered_again() -> None:
    model = small(sequences=Sequences(turns=1))
    messages = (ASKED, FIND, FOUND)
    assert explained(model, *messages).lost is None, "nothing was remembered"
    answered(model, [FIND], ids(*CALLING), ASKED)
    answered(model, [FIND], ids(*CALLING), replace(ASKED, text="in?"))
    lost = explained(model, *messages).lost
    assert lost is not None
    assert lost.cause == "forgotten"
    answered(model, [FIND], ids(*CALLING), ASKED)
    again = explained(model, *messages)
    assert (again.kept, again.lost) == (again.former, None)


def test_a_later_turn_that_is_remembered_says_more_than_an_earlier_one_that_is_not() -> None:
    model = small(sequences=Sequences(turns=1))
    answered(model, [FIND], ids(*CALLING), ASKED)
    again, found = replace(FIND, call_id="call_2"), replace(FOUND, call_id="call_2")
    answered(model, [again], ids(*CALLING), ASKED, FIND, FOUND)
    assert explained(model, ASKED, FIND, FOUND, again, found).lost is None


def test_the_template_s_policy_writes_all_anew_and_says_what_could_be_kept() -> None:
    model = small()
    whole = answered(model, [FIND], ids(*CALLING), ASKED)
    draft = plan_turn(model, replace(request(ASKED, FIND, FOUND), explain_prefix=True, prefix_policy="template"))
    assert list(draft.prompt_ids) == prompt(small(), ASKED, FIND, FOUND)
    assert draft.prefix is not None
    assert draft.prefix.former == len(whole)
    assert draft.prefix.kept < len(whole)
    assert draft.prefix.bridgeable


def test_the_template_s_policy_takes_no_ids_of_sampled_texts() -> None:
    model = small(format=harmony(TOKENIZER.controls))
    said = Message(role=Role.ASSISTANT, channel="final", text=SampledText("the", tuple(b"the"), TOKENIZER.name))
    asked = replace(request(ASKED, said, ASKED), prefix_policy="template")
    assert list(plan_turn(model, asked).prompt_ids) == prompt(model, ASKED, replace(said, text="the"), ASKED)
    assert prompt(model, ASKED, said, ASKED) != prompt(model, ASKED, replace(said, text="the"), ASKED)


def test_a_session_is_compared_with_its_own_last_and_others_with_the_most_alike() -> None:
    known = Sequences()
    known.add(request(affinity="s"), (), ids(FRAMES[0], "abcd"), (), [])
    known.add(request(affinity="s"), (), ids(FRAMES[0], "abxx"), (), [])
    known.add(request(), (), ids(FRAMES[0], "abcde"), (), [])
    looked = ids(FRAMES[0], "abcdef")
    of_session = known.nearest(request(affinity="s"), looked)
    alike = known.nearest(request(affinity="other"), looked)
    assert of_session is not None
    assert alike is not None
    assert list(of_session.ids) == ids(FRAMES[0], "abxx")
    assert list(alike.ids) == ids(FRAMES[0], "abcde")
    assert known.nearest(request(owner="bob"), looked) is None


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_what_is_common_is_the_longest_beginning(one: list[int], other: list[int]) -> None:
    length = common(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]
