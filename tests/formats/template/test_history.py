"""Earlier turns in a model's own template: what it is given, what it decides, and what it does not take."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from antiphon.conversation import Channel, Conversation, End, Message, Role
from antiphon.errors import RenderError, TemplateError
from antiphon.formats import HistoryPolicy
from antiphon.formats.format import strictly
from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.formats.template.sandbox import CompiledTemplate
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, Piece, encode_pieces, spell
from kit.plain_jinja import conversation_of, plain_prompt

CONTROLS = [Control(s) for s in ("<|user|>", "<|model|>", "<|end|>", "<think>", "</think>")]
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "Does it.", "parameters": {"type": "object", "properties": {}}},
}
ARGUMENTS: dict[str, Any] = {"a": "é<b> & 'c' \"d\"\n", "n": [1, 2.5, None, True, {}]}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str, reasoning: str = "") -> dict[str, Any]:
    thought = {"reasoning_content": reasoning} if reasoning else {}
    return {"role": "assistant", "content": text, **thought}


def call(*ids: str, arguments: Any = None, reasoning: str = "") -> dict[str, Any]:
    function = {"name": "f", "arguments": ARGUMENTS if arguments is None else arguments}
    return {**answer("", reasoning), "tool_calls": [{"id": id, "type": "function", "function": function} for id in ids]}


def result(id: str, text: str = "21") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "name": "f", "content": text}


CALLED = [user("U"), call("abcdefghi"), result("abcdefghi")]


def load(source: str) -> JinjaFormat:
    return jinja_format(source, CONTROLS)


def rendered(source: str, messages: list[dict[str, Any]], *tools: dict[str, Any]) -> str:
    return spell(list(load(source).render(conversation_of(messages, tools))))


def writing(call: str) -> str:
    """A template that writes contents, and ``call`` for each call."""
    return (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{% for c in m.tool_calls or [] %}" + call + "{% endfor %}<|end|>{% endfor %}"
    )


KEEPING = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|model|>"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }}{{ c.function.arguments|tojson }}]{% endfor %}"
    "{% else %}<|user|>{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|model|>{% endif %}"
)
DROPPING = "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}" + (
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    + KEEPING.replace("{% if m.reasoning_content %}", "{% if m.reasoning_content and loop.index0 > ns.last %}")
)


@pytest.mark.parametrize(
    "written",
    [
        "{{ c.function.arguments|tojson }}",
        "{{ c.function.arguments|tojson(ensure_ascii=True) if c.function.arguments is mapping else 'text' }}",
        "{% for k, v in c.function.arguments|items %}{{ k }}={{ v }};{% endfor %}",
        "{{ c.function.arguments|tojson if c.function.arguments is mapping else '{' + c.function.arguments + '}' }}",
    ],
)
def test_arguments_are_an_object_where_an_object_works(written: str) -> None:
    assert not load(writing(written)).arguments_as_text
    assert rendered(writing(written), CALLED, TOOL) == plain_prompt(writing(written), CALLED, [TOOL])


@pytest.mark.parametrize(
    "written",
    ["{{ 'args: ' + c.function.arguments }}", "{{ c.function.arguments }}", "{{ 'args:' ~ c.function.arguments }}"],
)
def test_arguments_are_text_where_an_object_fails_or_comes_out_as_python(written: str) -> None:
    text = json.dumps(ARGUMENTS, ensure_ascii=False)
    expected = plain_prompt(writing(written), [user("U"), call("abcdefghi", arguments=text), CALLED[2]], [TOOL])
    assert rendered(writing(written), CALLED, TOOL) == expected
    assert text in expected


def test_arguments_stay_as_the_model_spelled_them_where_the_template_takes_both() -> None:
    both = "{{ c.function.arguments if c.function.arguments is string else c.function.arguments|tojson }}"
    spelled = Message(
        role=Role.ASSISTANT, text='{"a":1.0,"a":2}', recipient="functions.f", end=End.CALL, call_id="abcdefghi"
    )
    prompt = spell(list(load(writing(both)).render(Conversation((spelled,)))))
    assert '{"a":1.0,"a":2}' in prompt
    assert rendered(writing(both), CALLED, TOOL) == plain_prompt(writing(both), CALLED, [TOOL])


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking", "thought"])
def test_reasoning_is_offered_under_every_name(name: str) -> None:
    source = "{% for m in messages %}{{ m.content }}{{ m.get('" + name + "', '') }}|{% endfor %}"
    assert rendered(source, [user("U"), answer("A", "R")]) == "U|AR|"


def test_reasoning_that_is_read_as_a_part_of_the_content_is_offered_so() -> None:
    source = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
        "{% if part.type == 'thinking' %}[THINK]{{ part.thinking }}[/THINK]{% else %}{{ part.text }}{% endif %}"
        "{% endfor %}{% endif %}|{% endfor %}"
    )
    assert rendered(source, [user("U"), answer("A", "R"), user("V")]) == "U|[THINK]R[/THINK]A|V|"
    printed = "{% for m in messages %}{{ m.content }}|{% endfor %}"
    assert rendered(printed, [user("U"), answer("A", "R"), user("V")]) == "U|A|V|"


def test_a_template_that_reads_several_names_writes_the_reasoning_once() -> None:
    source = "{% for m in messages %}{{ m.reasoning_content }}{{ m.thinking }}{{ m.content }}|{% endfor %}"
    assert rendered(source, [user("U"), answer("A", "R")]) == "U|RA|"


@pytest.mark.spec("HAR-70")
@pytest.mark.parametrize("policy", [HistoryPolicy.GUIDE, HistoryPolicy.REFERENCE, HistoryPolicy.KEEP_ALL])
@pytest.mark.parametrize("source", [KEEPING, DROPPING], ids=["keeping", "dropping"])
def test_which_earlier_reasoning_is_dropped_is_the_templates_decision(source: str, policy: HistoryPolicy) -> None:
    messages = [user("U"), answer("A", "R1"), user("V"), call("x", reasoning="R2"), result("x")]
    prompt = spell(list(load(source).render(conversation_of(messages, [TOOL]), history=policy)))
    assert prompt == plain_prompt(source, messages, [TOOL])
    assert ("R1" in prompt) == (source == KEEPING)
    assert "R2" in prompt


def test_a_policy_that_drops_all_reasoning_drops_it_before_the_template() -> None:
    conversation = conversation_of([user("U"), answer("A", "R1"), user("V")])
    assert "R1" not in spell(list(load(KEEPING).render(conversation, history=HistoryPolicy.DROP_ALL)))


TURNS = {
    "answers": [[answer("A")], [answer("B")], [answer("C")]],
    "reasoned answers": [[answer("A", "R1")], [answer("B", "R2")], [answer("C", "R3")]],
    "calls": [
        [call("x", reasoning="R1"), result("x"), answer("A", "R2")],
        [call("y", reasoning="R3"), result("y"), call("z", reasoning="R4"), result("z"), answer("B", "R5")],
    ],
}


@pytest.mark.parametrize("shape", TURNS)
@pytest.mark.parametrize("source", [KEEPING, DROPPING], ids=["keeping", "dropping"])
def test_a_turns_prompt_begins_with_as_much_of_the_former_as_in_plain_jinja(source: str, shape: str) -> None:
    """Every step of the loop: each answer, each call's result and each user's message asks the model again."""
    tokenizer, format = ByteTokenizer(CONTROLS), load(source)
    ours: list[list[int]] = []
    plain: list[list[int]] = []
    messages: list[dict[str, Any]] = []
    for turn in TURNS[shape]:
        for message in [user("U"), *turn]:
            messages = [*messages, message]
            ours.append(encode_pieces(format.render(conversation_of(messages, [TOOL])), tokenizer))
            plain.append(encode_pieces(scanned(plain_prompt(source, messages, [TOOL])), tokenizer))
    assert [common(a, b) for a, b in pairwise(ours)] == [common(a, b) for a, b in pairwise(plain)]
    if source == KEEPING:  # all of the former prompt and reply, up to where it asked for the next
        assert all(common(a, b) >= len(a) - 1 for a, b in pairwise(ours))


def scanned(text: str) -> list[Piece]:
    scanner = ControlScanner(CONTROLS)
    return [*scanner.feed(text), *scanner.close()]


def common(first: list[int], second: list[int]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def test_a_text_that_announces_calls_is_one_message_with_them() -> None:
    source = "{% for m in messages %}({{ m.content }}{% for c in m.tool_calls or [] %}!{% endfor %}){% endfor %}"
    text = Message(role=Role.ASSISTANT, text="I look.", channel=Channel.FINAL)
    called = Message(role=Role.ASSISTANT, text="{}", recipient="functions.f", end=End.CALL)
    assert spell(list(load(source).render(Conversation((text, called))))) == "(I look.!)"
    assert spell(list(load(source).render(Conversation((text, text))))) == "(I look.)(I look.)"


def test_a_template_that_loops_over_absent_tools_is_given_an_empty_list() -> None:
    source = "{% for t in tools %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}"
    assert rendered(source, [user("U")]) == "U"
    assert rendered(source, [user("U")], TOOL) == "fU"
    asks = "{{ 'none' if tools is none else tools|length }}{% for m in messages %}{{ m.content }}{% endfor %}"
    assert rendered(asks, [user("U")]) == "noneU"


CONTENTS = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"


def test_a_system_text_goes_before_the_users_where_the_template_has_no_system() -> None:
    for source in (
        "{% if messages[0].role == 'system' %}{{ raise_exception('No system') }}{% endif %}" + CONTENTS,
        "{% for m in messages if m.role != 'system' %}{{ m.role }}:{{ m.content }};{% endfor %}",
    ):
        messages = [{"role": "system", "content": "S"}, user("U"), answer("A"), {"role": "system", "content": "T"}]
        assert rendered(source, messages[:3]) == "user:S\n\nU;assistant:A;"
        assert rendered(source, messages) == "user:S\n\nU;assistant:A;user:T;"


def test_a_later_system_text_joins_the_first_where_the_template_takes_no_other() -> None:
    refusing = "{% if m.role == 'system' and not loop.first %}{{ raise_exception('System first') }}{% endif %}"
    source = CONTENTS.replace("%}{{ m.role", "%}" + refusing + "{{ m.role", 1)
    later = [user("U"), answer("A"), {"role": "system", "content": "T"}, user("V")]
    assert rendered(source, [{"role": "system", "content": "S"}, *later]) == "system:S\n\nT;user:U;assistant:A;user:V;"
    assert rendered(source, later) == "system:T;user:U;assistant:A;user:V;"
    assert rendered(CONTENTS, later) == "user:U;assistant:A;system:T;user:V;"


def test_two_calls_are_written_one_after_the_other_where_a_message_takes_one() -> None:
    source = (
        "{% for m in messages %}{% if m.tool_calls %}"
        "{% if m.tool_calls|length > 1 %}{{ raise_exception('One call!') }}{% endif %}"
        "{% set c = m.tool_calls[0] %}{{ m.reasoning_content }}{{ c.id }}{{ c.function.name }}"
        "{{ c.function.arguments|tojson }}"
        "{% else %}{{ m.content }}{% endif %};{% endfor %}"
    )
    called = call("x", "y", arguments={}, reasoning="R")
    assert rendered(source, [user("U"), called, result("y", "ry"), result("x", "rx")], TOOL) == "U;Rxf{};rx;yf{};ry;"
    assert rendered(source, [user("U"), called, result("x", "rx"), user("V")], TOOL) == "U;Rxf{};rx;yf{};V;"
    several = source.replace("> 1", "> 9").replace("tool_calls[0]", "tool_calls[-1]")
    assert rendered(several, [user("U"), call("x", arguments={})], TOOL) == "U;xf{};"


NINE = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}"
    "{% if c.id is not defined or c.id|length != 9 %}{{ raise_exception('Nine!') }}{% endif %}"
    "call {{ c.id }} {{ c.function.name }}{{ c.function.arguments|tojson }};{% endfor %}"
    "{% if m.role == 'tool' %}{% if m.tool_call_id is not defined or m.tool_call_id|length != 9 %}"
    "{{ raise_exception('Nine!') }}{% endif %}result {{ m.tool_call_id }};{% endif %}{% endfor %}"
)


def test_ids_of_calls_have_the_form_that_the_template_demands() -> None:
    assert rendered(NINE, CALLED, TOOL).count("abcdefghi") == 2
    messages = [user("U"), call("call_1", "call_22", arguments={}), result("call_22"), result("call_1")]
    first, second, *results = [line.split()[1] for line in rendered(NINE, messages, TOOL).split(";")[:-1]]
    assert len({first, second}) == 2
    assert results == [second, first]
    assert rendered(NINE, messages, TOOL) == rendered(NINE, messages, TOOL)
    free = NINE.replace("!= 9", "== 0")
    assert "call call_22 f{}" in rendered(free, messages, TOOL)


def test_ids_have_the_tools_name_where_the_template_writes_it_nowhere_else() -> None:
    source = (
        "{% for m in messages %}{% for c in m.tool_calls or [] %}"
        "{{ c.id }}{{ c.function.arguments|tojson }};{% endfor %}"
        "{% if m.role == 'tool' %}of {{ m.tool_call_id }};{% endif %}{% endfor %}"
    )
    messages = [user("U"), call("call_1", "functions.f:7", arguments={}), result("functions.f:7"), result("call_1")]
    assert rendered(source, messages, TOOL) == "functions.f:0{};functions.f:7{};of functions.f:7;of functions.f:0;"
    named = source.replace("{{ c.id }}", "{{ c.id }}{{ c.function.name }}")
    assert rendered(named, messages, TOOL) == "call_1f{};functions.f:7f{};of functions.f:7;of call_1;"


def test_calls_without_ids_are_given_one_that_their_results_share() -> None:
    called = Message(role=Role.ASSISTANT, text="{}", recipient="functions.f", end=End.CALL)
    answered = Message(role=Role.TOOL, text="21", name="functions.f", recipient="assistant")
    first, second, one, two, _ = spell(
        list(load(NINE).render(Conversation((called, called, answered, answered))))
    ).split(";")
    assert first != second
    assert (one, two) == (f"result {first.split()[1]}", f"result {second.split()[1]}")


def test_contents_are_parts_where_the_template_reads_no_other() -> None:
    source = "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %};{% endfor %}"
    assert rendered(source, [user("U"), answer("A"), user("V")]) == "U;A;V;"
    open_answer = Message(role=Role.ASSISTANT, text="It is ", end=End.NONE)
    opened = Conversation((Message(role=Role.USER, text="U"), open_answer))
    assert spell(list(load(source).render(opened))) == "U;It is "


def test_a_refusal_gives_the_templates_own_words_and_the_line() -> None:
    refusing = "{% if m.role == 'tool' %}\n{{ raise_exception('No tools!') }}\n{% endif %}"
    source = "{% for m in messages %}\n" + refusing + "{% for c in m.tool_calls or [] %}!{% endfor %}{% endfor %}"
    with pytest.raises(RenderError, match=r"No tools! \(line 3 of the template\)") as raised:
        list(strictly(load(source).render(conversation_of(CALLED, [TOOL]))))
    assert raised.value.code == "template_refused"
    assert "chat_template" in str(raised.value.hint)
    with pytest.raises(TemplateError) as failed:
        CompiledTemplate("\n{{ a.b.c }}").render({})
    assert failed.value.code == "template_failed"
    assert failed.value.position is not None
    assert failed.value.position.line == 2


def test_a_template_may_change_lists_and_dictionaries_of_its_own() -> None:
    source = (
        "{% set q = namespace(ids=[]) %}"
        "{% macro add(x) %}{% set _ = q.ids.append(x) %}{% endmacro %}"
        "{{ add('a') }}{{ add('b') }}{{ q.ids.pop(0) }}{{ q.ids|length }}"
        "{% set d = {} %}{% set _ = d.update(k='v') %}{{ d.k }}{% set rest = messages[1:] %}{{ rest.pop() }}"
    )
    assert CompiledTemplate(source).render({"messages": ["x", "y"]}) == "a1vy"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ messages.pop() }}",
        "{{ messages[0].update(role='system') }}",
        "{% set own = [messages] %}{{ own[0].append(1) }}",
        "{% set inner = [] %}{% set outer = [inner] %}{{ inner.append(1) }}",
        "{% set inner = [] %}{% set add = inner.append %}{% set outer = [inner] %}{{ add(1) }}",
        "{% set own = [] %}{{ own.append(own) }}",
    ],
)
def test_values_that_are_not_the_templates_own_or_lie_in_others_stay_as_they_are(source: str) -> None:
    messages: list[dict[str, str]] = [{"role": "user"}]
    with pytest.raises(TemplateError, match="unsafe") as raised:
        CompiledTemplate(source).render({"messages": messages})
    assert raised.value.code == "template_failed"
    assert messages == [{"role": "user"}]


@pytest.mark.parametrize(
    "source",
    [
        "{% set l = [1] %}{% for i in range(99999) %}{% for j in range(99999) %}{% set _ = l.append(1) %}{% endfor %}"
        "{% endfor %}",
        "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set m = [] %}{% set _ = m.append(n.l) %}"
        "{% set _ = m.append(n.l) %}{% set n.l = m %}{% endfor %}",
        "{% set l = [] %}{% for i in range(99999) %}{% set _ = l.extend('x' * 100000) %}{% endfor %}",
    ],
)
def test_growth_of_its_own_values_is_bounded(source: str) -> None:
    with pytest.raises(TemplateError) as raised:
        CompiledTemplate(source).render({})
    assert raised.value.code == "template_limit"


def test_a_loop_may_fill_several_lists_of_its_own() -> None:
    source = "{% for i in range(2) %}{% set l = [] %}{% set k = [] %}{% set _ = l.append(i) %}{% set _ = k.extend(l) %}"
    assert (
        CompiledTemplate(source + "{% set _ = k.insert(0, 'x') %}{{ k }}{% endfor %}").render({}) == "['x', 0]['x', 1]"
    )


def test_a_list_that_grows_in_its_own_loop_is_gone_through_as_it_was() -> None:
    source = "{% set l = [1, 2] %}{% for i in l %}{% set _ = l.append(i) %}{{ i }}{% endfor %}{{ l|length }}"
    assert CompiledTemplate(source).render({}) == "124"


def test_a_trial_may_do_less_work_than_a_request() -> None:
    template = CompiledTemplate("{% for i in range(1000) %}{{ i }}{% endfor %}")
    assert template.render({})
    with pytest.raises(TemplateError) as raised:
        template.render({}, steps=100)
    assert raised.value.code == "template_limit"


@pytest.mark.parametrize("text", ["</think> B", " a </think>\n\nB ", "<think>x</think>  <|end|>", "<|en </think> B"])
def test_a_template_that_cuts_and_trims_a_text_does_so_beside_a_control_that_a_user_spelled(text: str) -> None:
    source = "{% for m in messages %}<|user|>{{ m.content.split('</think>')[-1]|trim }}<|end|>{% endfor %}"
    pieces = list(load(source).render(conversation_of([user(text), user("x")])))
    assert spell(pieces) == plain_prompt(source, [user(text), user("x")])
    assert [str(piece) for piece in pieces if isinstance(piece, Control)] == ["<|user|>", "<|end|>"] * 2
