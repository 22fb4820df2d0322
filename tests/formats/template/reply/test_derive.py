"""How a model writes replies is derived from its template, and proven: for families, and for markers nobody has."""

from __future__ import annotations

import re

import pytest

from antiphon.formats.replies import CallForm, Members, Pairs, Region, ReplyDescription, Slot, Value
from antiphon.formats.replies.describe import DescriptionCache, Found, describe
from antiphon.formats.replies.proof import Cuts
from antiphon.formats.template.jinja import JinjaCache, jinja_format
from antiphon.formats.template.trials import TemplateProbe
from antiphon.tokens import Control
from kit.family_templates import FAMILIES
from kit.reply_templates import ARGUMENTS, REFUSED, TEMPLATES, each, pairs, template

CONTROL = re.compile(r"<\|[^|<>\n']+\|>|<\|\w+>|<\w+\|>|</s>|<\|\"\|>|<｜[^｜<>]+｜>")
SPOKEN = {"answer", "call", "no_arguments", "kinds", "nested", "empty", "number_like", "code", "edge_blanks", "unicode"}


def found_in(source: str, *, cuts: Cuts = "sampled", as_text: bool = False) -> Found:
    """``as_text``: the vocabulary has the end as a control, and everything else is spelled in text."""
    template = JinjaCache().compile(source)
    controls = {"<|e|>"} if as_text else set(CONTROL.findall(source))
    return describe(
        TemplateProbe(template, {}),
        source,
        controls=[Control(spelling) for spelling in sorted(controls)],
        variables=template.variables,
        cuts=cuts,
    )


@pytest.mark.parametrize("as_text", [False, True], ids=["controls", "text"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that_nobody_knows_is_read_back_at_many_cuts(name: str, as_text: bool) -> None:
    found = found_in(TEMPLATES[name], cuts="sampled" if as_text else "many", as_text=as_text)
    assert found.proof.failed == ()
    assert found.origin == "derived"
    assert SPOKEN | {"text_call", "two_calls"} | thought(TEMPLATES[name]) <= set(found.proof.proven)
    assert found.families == found.warnings == ()


@pytest.mark.parametrize("as_text", [False, True], ids=["controls", "text"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_familys_syntax_is_derived_and_read_back(name: str, as_text: bool) -> None:
    """At some cuts: `test_reader_fuzz` cuts replies of each family everywhere."""
    found = found_in(FAMILIES[name], as_text=as_text)
    assert found.proof.failed == ()
    assert found.origin == "derived"
    assert set(found.proof.proven) >= SPOKEN | thought(FAMILIES[name])


def thought(source: str) -> set[str]:
    """The shapes with reasoning, where a template writes any."""
    return {"reasoning_answer", "reasoning_call"} if "reasoning_content" in source else set()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (
            "objects with names of their own",
            CallForm(open="<job>", close="</job>", separator="\n", members=Members(name="fn", arguments="with")),
        ),
        (
            "a list with the id first",
            CallForm(
                section=Region(open="<|jobs|>[", close="]<|done|>"),
                separator=", ",
                members=Members(name="tool", arguments="input", call_id="ref", id_first=True),
            ),
        ),
        (
            "an id before the name",
            CallForm(
                section=Region(open="<|jobs|>", close="<|/jobs|>"),
                open="<|job|>",
                close="<|/job|>",
                head=(Slot(reads="call_id", after="<|does|>"), Slot(reads="name", after="<|using|>")),
            ),
        ),
        (
            "an id behind the name, a close of several tags",
            CallForm(
                open="<|do|>",
                close="\n<|fin|><|od|>",
                separator="\n",
                head=(Slot(reads="name", after="<|as|>"), Slot(reads="call_id", after="<|of|>\n")),
            ),
        ),
        (
            "a place in the name",
            CallForm(
                section=Region(open="<|t|>", close="<|/t|>"),
                open="<|one|>",
                close="<|/one|>",
                head=(Slot(reads="call_id", after="<|in|>", pattern="tools/{name}#{index}"),),
            ),
        ),
        (
            "attributes that count calls",
            CallForm(
                section=Region(open="<jobs>", close="</jobs>"),
                open='<job n="',
                close="</job>",
                head=(Slot(reads="index", after='" of="'), Slot(reads="name", after='">')),
            ),
        ),
        (
            "arguments in tags",
            CallForm(
                section=Region(open="<acts>\n", close="\n</acts>"),
                separator="\n",
                open='<act of="',
                close="</act>",
                head=(Slot(reads="name", after='">\n'),),
                pairs=Pairs(key='<with k="', values=(Value(before='">', after="</with>\n"),)),
            ),
        ),
        (
            "arguments in tags with a line break between them",
            CallForm(
                separator="\n",
                open='<act of="',
                close="\n</act>",
                head=(Slot(reads="name", after='">\n'),),
                pairs=Pairs(key='<with k="', values=(Value(before='">', after="</with>"),), separator="\n"),
            ),
        ),
        (
            "arguments in tags that say the kind",
            CallForm(
                open="<|act|>",
                close="<|/act|>",
                head=(Slot(reads="name", after="<|in|>"),),
                pairs=Pairs(
                    key='<v k="',
                    values=(
                        Value(before='" is="text">', after="</v>", reads="text"),
                        Value(before='" is="json">', after="</v>", reads="json"),
                    ),
                ),
            ),
        ),
        (
            "strings between quotes of the template's",
            CallForm(
                open="<|go|>",
                close="}<|og|>",
                head=(Slot(reads="name", after="{"),),
                pairs=Pairs(values=(Value(before=":", reads="literal"),), separator=",", quote="<|q|>"),
            ),
        ),
    ],
)
def test_calls_are_described_as_the_template_writes_them(name: str, form: CallForm) -> None:
    assert found_in(TEMPLATES[name]).description.calls == (form,)


def test_regions_that_are_messages_have_a_header_between_them() -> None:
    found = found_in(TEMPLATES["regions that are messages"]).description
    assert found.anchor == "<|m|>bot"
    assert found.reasoning == Region(open="<|ponder|>", close="<|x|>")
    assert found.content == Region(open="<|say|>", close="<|x|>")
    assert found.layout == ("<|m|>bot",)
    assert found.ends == ("<|x|>",)


def test_a_control_within_a_reply_is_no_end() -> None:
    source = template(
        header="<|role|>bot<|is|>\n",
        end="<|part|>",
        reply=each(
            '{{ \'<|part|>\nrole: tool<|is|>\n{"name": "\' + f.name + \'", "arguments": \' }}' + ARGUMENTS + "}"
        ),
    )
    found = found_in(source, cuts="many")
    assert found.proof.failed == ()
    assert {"text_call", "call"} <= set(found.proof.proven)


def test_reasoning_that_only_the_prompt_opens_is_found() -> None:
    source = template(prompt="{{ '<muse>\n' }}", text="{{ m.content.split('</muse>') | last }}", reply="")
    assert found_in(source).description.reasoning == Region(open="<muse>\n", close="</muse>")


def test_reasoning_that_the_prompt_opens_and_closes_is_found() -> None:
    prompt = "{% if enable_thinking %}{{ '<muse>' }}{% else %}{{ '<muse>\n\n</muse>' }}{% endif %}"
    assert found_in(template(prompt=prompt, reply="")).description.reasoning == Region(open="<muse>", close="</muse>")


def test_ends_are_those_behind_an_answer_and_behind_calls() -> None:
    source = template(end="", reply=each("{{ '<job>' + f.name + '>' }}" + ARGUMENTS + "{{ '</job>' }}")).replace(
        "<|e|>", ""
    )
    found = found_in(source)
    assert found.description.ends == ("<|u|>", "<|r|>")
    assert found.proof.failed == ()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_and_said(name: str) -> None:
    found = found_in(REFUSED[name])
    assert found.description.calls == ()
    assert "call" in found.proof.failures
    assert "calls are not understood, so none are read" in found.warnings


def test_a_shape_that_does_not_come_back_is_named_with_what_was_read() -> None:
    """Quotes that nothing escapes: a string with code cannot be told from its end."""
    argument = "{{ k + '=' }}{%- if v is string %}{{ '\"' + v + '\"' }}{%- else %}{{ v }}{%- endif %}"
    reply = "{{ '<run>' }}" + each("{{ f.name + '(' }}" + pairs(argument, ", ") + "{{ ')' }}", "\n") + "{{ '</run>' }}"
    found = found_in(template(reply=reply))
    assert found.proof.failures == ("code", "backslashes")
    assert found.proof.failed[0].expected != found.proof.failed[0].read
    assert found.warnings == ("code and backslashes are not read back as they are written",)
    assert found.description.calls


def test_calls_that_the_template_never_writes_are_known_by_its_markers() -> None:
    source = "{{ 'Call tools as <|tool_call|>[…].<|start_of_role|>' }}" + template(reply="")
    found = found_in(source)
    assert found.families == ("Granite 3",)
    assert found.description.calls == (
        CallForm(section=Region(open="<|tool_call|>[", close="]"), separator=", ", members=Members()),
    )
    assert "call" in found.proof.unwritten
    assert found.warnings == ("calls are known by the family (Granite 3) and not proven: the template writes none",)


def test_other_ways_that_a_family_writes_calls_are_read_too() -> None:
    forms = found_in(FAMILIES["mistral list"]).description.calls
    assert [form.members is not None for form in forms] == [True, False]


def test_what_is_configured_is_taken_and_proven() -> None:
    template_text = FAMILIES["hermes"]
    wrong = ReplyDescription(anchor="<|a|>\n", ends=("<|e|>",))
    compiled = JinjaCache().compile(template_text)
    found = describe(TemplateProbe(compiled, {}), template_text, controls=[Control("<|e|>")], configured=wrong)
    assert found.origin == "configured"
    assert found.description == wrong
    assert "reasoning_answer" in found.proof.failures


@pytest.mark.parametrize(
    "source",
    [
        "",
        "{{ raise_exception('no') }}",
        "{% for i in range(100000000) %}{% endfor %}",
        "{{ messages[0].content * 3 }}",
        "always the same",
    ],
)
def test_a_template_that_says_nothing_gives_raw_text_and_a_warning(source: str) -> None:
    found = found_in(source)
    assert found.origin == "raw"
    assert found.description == ReplyDescription()
    assert found.warnings


def test_what_was_found_is_found_once_for_a_vocabulary() -> None:
    cache, asked = DescriptionCache(capacity=1), list[str]()

    def find() -> Found:
        asked.append("once")
        return found_in(FAMILIES["hermes"])

    for controls in ([Control("<a>")], [Control("<a>")], [Control("<b>")], [Control("<a>")]):
        cache.get("source", controls, find)
    assert len(asked) == 3


_LISTED = "{{ f.name + '(' }}" + pairs("{{ k + '=' + (v | tojson) }}", ", ") + "{{ ')' }}"


@pytest.mark.parametrize(
    "calls",
    ['{"name": {{ f.name | tojson }}, "arguments": ' + ARGUMENTS + "}", _LISTED],
    ids=["objects", "the way Python calls"],
)
@pytest.mark.parametrize("as_text", [False, True], ids=["controls", "text"])
def test_a_list_of_calls_that_only_brackets_mark_is_read(calls: str, as_text: bool) -> None:
    source = template(
        reply="{{ '[' }}" + each(calls, ", ") + "{{ ']' }}", text="{{ '' if m.tool_calls else m.content }}"
    )
    found = found_in(source, cuts="sampled" if as_text else "many", as_text=as_text)
    assert found.proof.failed == ()
    assert {*SPOKEN, "two_calls"} <= {*found.proof.proven}
    assert found.description.calls[0].bare


def test_one_argument_is_enough_to_show_how_calls_are_written() -> None:
    """A template that forgets what parts arguments is no reason to show calls as the answer."""
    call = "{{ f.name + '(' }}" + pairs("{{ k + '=' + (v | tojson) }}") + "{{ ')' }}"
    found = found_in(template(reply="{{ '[' }}" + each(call, ", ") + "{{ ']' }}"))
    assert "call" in found.proof.failures
    assert "one_argument" in found.proof.proven
    assert found.description.calls[0].pairs is not None
    assert found.description.calls[0].pairs.separator == ", "


_HERMES_CALLS = each(
    "{{ '<tool_call>' }}" + '{"name": {{ f.name | tojson }}, "arguments": ' + ARGUMENTS + "}{{ '</tool_call>' }}"
)


@pytest.mark.parametrize(
    ("source", "anchor"),
    [
        (template(reply=_HERMES_CALLS).replace("{%- if add_gen", "{{ '\n' }}{%- if add_gen"), "<|a|>\n"),
        (template(reply=_HERMES_CALLS, prompt="{{ '    </t>' }}", text="{{ '</t>  ' + m.content }}"), "<|a|>\n"),
        (
            template(reply=_HERMES_CALLS, header="  <|a|>").replace(
                "add_generation_prompt %}{{ '  ", "add_generation_prompt %}{{ '"
            ),
            "<|a|>",
        ),
    ],
    ids=["a line before the prompt", "blanks round a tag", "blanks before the header"],
)
def test_blanks_that_differ_hide_no_reply(source: str, anchor: str) -> None:
    found = found_in(source, cuts="many")
    assert found.proof.failed == ()
    assert found.description.anchor.strip() == anchor.strip()
    assert {"answer", "call", "two_calls"} <= {*found.proof.proven}


@pytest.mark.parametrize("opened", ["", "<muse>\n"])
def test_the_prompt_may_leave_out_the_first_tag_of_a_replys_header(opened: str) -> None:
    thought = "{{ '<muse>\n' + m.reasoning_content + '\n</muse>\n' }}"
    source = template(reply=_HERMES_CALLS, header="<|b|><|a|>", thought=thought, prompt="{{ " + repr(opened) + " }}")
    found = found_in(source.replace("prompt %}{{ '<|b|>", "prompt %}{{ '"), cuts="many")
    assert found.proof.failed == ()
    assert (found.description.anchor, found.description.reasoning) == (
        "<|a|>",
        Region(open="<muse>\n", close="\n</muse>\n"),
    )


def test_an_end_that_calls_begin_with_is_left_to_the_reader() -> None:
    call = "{{ '<|e|>call<|b|>' }}" + '{"name": {{ f.name | tojson }}, "arguments": ' + ARGUMENTS + "}"
    controls = [Control("<|e|>"), Control("</s>")]
    format = jinja_format(template(reply=each(call)), controls, {"eos_token": "</s>"})
    assert {"answer", "call", "text_call"} <= {*format.found.proof.proven}
    assert format.stops == (Control("</s>"),)
    ended = jinja_format(template(reply=each(call)), controls, {"eos_token": "<|e|>"})
    assert ended.stops == (Control("<|e|>"),)


def test_a_thought_that_the_template_opens_and_does_not_close_is_told() -> None:
    opens = "{{ '<muse>\n' if loop.last else '' }}{# </muse> #}"
    source = template(reply=_HERMES_CALLS, text=opens + "{{ m.content }}", prompt="{{ '<muse>\n' }}")
    found = found_in(source)
    assert found.description.reasoning == Region(open="<muse>\n", close="</muse>")
    assert found.warnings == (
        "a thought is opened before an answer without one and not closed: both are written alike",
    )


@pytest.mark.parametrize("end", ["[e~[", "[|end|]", "~!~"])
def test_an_end_that_is_no_tag_is_the_end(end: str) -> None:
    found = found_in(template(reply=_HERMES_CALLS, end=end), as_text=True)
    assert found.proof.failed == ()
    assert found.description.ends == (end,)


_WORDS = ["'/think' if enable_thinking else '/no_think'", "'' if enable_thinking else 'Be brief.'"]


@pytest.mark.parametrize("answer", ["{{ m.content }}", "{{ '<answer>\n' + m.content + '\n</answer>' }}"])
@pytest.mark.parametrize("words", _WORDS)
def test_words_on_reasoning_before_a_replys_header_are_no_part_of_it(words: str, answer: str) -> None:
    asked = "{{ '<|u|>' + m.content + (" + words + ") + '<|e|>\n' }}"
    source = template(
        reply=each("{{ '<tool_call>' + f.name + '\n```json\n' }}" + ARGUMENTS + "{{ '\n```</tool_call>' }}", "\n"),
        text="{%- if m.tool_calls %}{{ m.content }}{%- else %}" + answer + "{%- endif %}",
        thought="{%- if enable_thinking %}{{ '<think>\n' + m.reasoning_content + '\n</think>\n' }}{%- endif %}",
        prompt="{{ '<think>\n' if enable_thinking else '<think>\n\n</think>\n' }}",
    ).replace("{{ '<|u|>' + m.content + '<|e|>\n' }}", asked)
    found = found_in(source)
    assert found.proof.failed == ()
    assert found.description.anchor.endswith("<|a|>\n")
    assert not found.description.anchor.startswith("/")
    assert {"reasoning_answer", "text_call", "two_calls"} <= set(found.proof.proven)


def test_calls_alone_that_are_written_without_a_replys_header_are_read() -> None:
    call = '{"id": {{ c.id | tojson }}, "type": "function", "function": {{ f | tojson }}}'
    source = template(reply="{{ '<tool_call>\n[' }}" + each(call, ",") + "{{ ']\n</tool_call>' }}")
    header = "{{ " + repr("<|a|>\n") + " }}"
    found = found_in(source.replace(header, f"{{%- if m.content %}}{header}{{%- endif %}}", 1))
    assert found.proof.failed == ()
    assert {*SPOKEN, "text_call", "two_calls"} <= set(found.proof.proven)
    assert found.description.calls[0].members == Members(
        name="function.name", arguments="function.arguments", call_id="id", id_first=True
    )
