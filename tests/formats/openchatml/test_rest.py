"""The header's settings, arguments and replies of tools, what a writer refuses, memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.conversation import (
    Conversation,
    End,
    Message,
    OpaquePart,
    ReasoningEffort,
    ResponseFormat,
    Role,
    Settings,
    ToolNamespace,
    ToolSpec,
)
from antiphon.errors import ParseError, RenderError, RequestError
from antiphon.formats.openchatml import (
    CallArguments,
    DocumentHeader,
    Reader,
    ToolReply,
    Writer,
    envelope_of,
    iter_read,
    iter_write,
    read,
    read_arguments,
    read_tool_reply,
    repair,
    unwritable,
    validate,
    write,
)
from antiphon.formats.openchatml.finding import Problem

HEADER = """version: 2.2
model: gpt-oss-120b
generation_settings: {temperature: 0.7, reasoning_effort: high, builtin_tools: [browser, calc], top_k: 40}
profiles: {harmony: {enabled: true, encoding: o200k_harmony, require_channels: [final], tool_calls_in: commentary}}
x-mine: [1, {a: null}]
"""


@pytest.mark.spec("OCM-01", "OCM-02", "OCM-09", "OCM-10", "OCM-11", "OCM-12", "OCM-13", "OCM-14", "OCM-25", "OCM-26")
def test_the_headers_keys_are_typed_and_unknown_ones_are_kept() -> None:
    conversation = read(HEADER)
    header = envelope_of(conversation).header
    assert header is not None
    assert (header.version, header.model, header.temperature()) == ("2.2", "gpt-oss-120b", 0.7)
    assert conversation.settings.reasoning_effort is ReasoningEffort.HIGH
    assert conversation.builtins == (ToolNamespace("browser"), ToolNamespace("calc"))
    assert header.fields["x-mine"] == [1, {"a": None}]
    assert header.generation_settings["top_k"] == 40


@pytest.mark.spec("OCM-20", "OCM-21", "OCM-22", "OCM-23", "OCM-24", "OCM-117")
def test_the_harmony_profile_is_read() -> None:
    header = envelope_of(read(HEADER)).header
    assert header is not None
    profile = header.harmony
    assert (profile.enabled, profile.encoding, profile.require_channels) == (True, "o200k_harmony", ("final",))
    assert profile.tool_calls_in == ("commentary",)
    assert profile.builtins_in == ("analysis", "commentary")


@pytest.mark.parametrize("value", [-1, 3, True, "hot", [1]])
def test_a_setting_out_of_range_is_an_error_on_use(value: object) -> None:
    with pytest.raises(RequestError, match="temperature"):
        DocumentHeader(fields={"generation_settings": {"temperature": value}}).temperature()


def test_a_changed_setting_is_written_and_unknown_keys_stay() -> None:
    conversation = read(HEADER)
    changed = Conversation(
        builtins=conversation.builtins,
        settings=Settings(reasoning_effort=ReasoningEffort.LOW),
        extra=conversation.extra,
    )
    text = write(changed)
    assert text.startswith('---\nversion: "2.2"\n')
    again = envelope_of(read(text)).header
    assert again is not None
    assert again.reasoning_effort is ReasoningEffort.LOW
    assert again.fields["x-mine"] == [1, {"a": None}]


@pytest.mark.parametrize(
    ("conversation", "what"),
    [
        (Conversation(tools=(ToolSpec("f"),)), "tools"),
        (Conversation(response_format=ResponseFormat("json_object")), "response_format"),
        (Conversation(settings=Settings(identity="me")), "settings"),
        (Conversation(builtins=(ToolNamespace("b", None, (ToolSpec("f"),)),)), "builtins"),
        (Conversation((Message(role=Role.USER, parts=(OpaquePart("image", {}),)),)), "image"),
    ],
)
def test_what_a_transcript_cannot_say_is_refused_by_name(conversation: Conversation, what: str) -> None:
    assert any(what in lost for lost in unwritable(conversation))
    with pytest.raises(RenderError, match=what):
        write(conversation)


@pytest.mark.spec("OCM-115", "OCM-66")
def test_a_header_value_that_no_frame_can_carry_is_refused() -> None:
    for name in ("", "\ud800"):
        with pytest.raises(RenderError):
            write(Conversation((Message(role=Role.USER, name=name),)))
    assert "user name=a%20to%3Dx" not in write(Conversation((Message(role=Role.USER, name="a to=x"),)))
    assert "user name=a%20to=x<|message|>" in write(Conversation((Message(role=Role.USER, name="a to=x"),)))


def test_only_the_last_message_may_be_open() -> None:
    cut = Message(role=Role.ASSISTANT, text="x", end=End.NONE)
    writer = Writer()
    assert writer.write(cut).endswith("<|message|>x")
    for unfinished in (writer.close, lambda: write(Conversation((cut,)))):
        with pytest.raises(RenderError, match="has no end") as raised:
            unfinished()
        assert raised.value.code == "E-STREAM-TRUNCATED"
    with pytest.raises(RenderError, match="not the last"):
        write(Conversation((cut, cut)))


# -- tools


WEATHER = ToolSpec("get", "", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})


def call(text: str) -> Message:
    return Message(role=Role.ASSISTANT, text=text, recipient="functions.get", call_id="wx1", end=End.CALL)


@pytest.mark.spec("OCM-91", "OCM-98", "OCM-99")
def test_a_deadline_is_taken_out_of_the_arguments_before_the_tool_sees_them() -> None:
    assert read_arguments(call('{"city": "Tokyo", "deadline_ms": 500}'), WEATHER) == CallArguments(
        '{"city": "Tokyo"}', {"city": "Tokyo"}, 500
    )
    raw = '{ "city":"Tokyo" }'
    assert read_arguments(call(raw), WEATHER) == CallArguments(raw, {"city": "Tokyo"})
    own = ToolSpec("get", "", {"type": "object", "properties": {"deadline_ms": {"type": "integer"}}})
    assert read_arguments(call('{"deadline_ms": 5}'), own) == CallArguments('{"deadline_ms": 5}', {"deadline_ms": 5})


@pytest.mark.spec("OCM-136")
@pytest.mark.parametrize(
    "text", ["{", "[]", '{"city": 1}', "{}", '{"city": "x", "deadline_ms": 0}', '{"city": "x", "deadline_ms": true}']
)
def test_arguments_that_a_tool_cannot_take_are_a_call_schema_problem(text: str) -> None:
    problem = read_arguments(call(text), WEATHER)
    assert isinstance(problem, Problem)
    assert problem.code == "E-CALL-SCHEMA"


@pytest.mark.spec("OCM-136", "OCM-166")
def test_validating_with_tools_finds_calls_that_their_schema_refuses() -> None:
    frame = "<|start|>assistant to=functions.get call_id=wx1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>"
    [finding] = validate("version: 2.2\n" + frame, tools=[WEATHER])
    assert (finding.code, str(finding.position)) == ("E-CALL-SCHEMA", f"2:{frame.index('{}') + 1}")
    assert "city" in finding.message


@pytest.mark.spec("OCM-94", "OCM-113", "OCM-114", "OCM-95", "OCM-137", "OCM-138")
def test_a_reply_is_an_envelope_or_plain_content() -> None:
    assert read_tool_reply('{"t": NaN}') == ToolReply(True, '{"t": NaN}')
    assert read_tool_reply("sunny") == ToolReply(True, "sunny")
    assert read_tool_reply('{"t": 20}') == ToolReply(True, {"t": 20})
    assert read_tool_reply('{"ok": true, "content": 1, "provenance": {"source": "s"}}') == ToolReply(
        True, 1, None, {"source": "s"}
    )
    failed = read_tool_reply('{"ok": false, "error": {"code": "E-TOOL-TIMEOUT", "message": "slow", "retryable": true}}')
    assert failed.error is not None
    assert (failed.error.code, failed.error.message, failed.error.retryable) == ("E-TOOL-TIMEOUT", "slow", True)
    bare = read_tool_reply('{"ok": false, "error": "no"}')
    assert bare.error is not None
    assert bare.error.message == "no"


# -- strict reading, and size


@pytest.mark.spec("OCM-133", "OCM-28", "OCM-30", "OCM-34")
def test_the_first_error_is_raised_with_code_place_and_hint() -> None:
    with pytest.raises(ParseError) as raised:
        read("version: 2.2\n<|start|>bob<|message|>x<|end|>")
    assert raised.value.code == "E-PARSE-HEADER"
    assert str(raised.value.position) == "2:10"
    assert raised.value.hint
    with pytest.raises(ParseError, match="unknown role"):
        read(["version: 2.2\n<|start|>b", "ob<|message|>"])


def test_a_conversation_of_findings_never_raises_in_the_lenient_mode() -> None:
    for text in ("", "\0", "<|start|>", "<|end|>" * 99, "---\n", "---\n---\n", "\ufeff", "<|start|>" * 999):
        repair(text)


def _long(frames: int) -> Iterator[str]:
    yield 'version: "2.2"\n'
    for i in range(frames):
        yield f"<|start|>user<|message|>{'x' * 1000}<|end|>\n"
        yield f"<|start|>assistant<|channel|>final<|message|>{i}<|return|>\n"


def _peak(work: Iterator[object]) -> int:
    tracemalloc.start()
    try:
        for _ in work:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_transcripts_length() -> None:
    assert _peak(validate(_long(2000))) < _peak(validate(_long(20))) + 100_000
    strict = [_peak(iter_read(_long(n), Reader(strict=True))) for n in (20, 2000)]
    assert strict[1] < strict[0] + 100_000


def test_memory_does_not_grow_with_one_bodys_length() -> None:
    def chunks(n: int) -> Iterator[str]:
        yield "version: 2.2\n<|start|>user<|message|>"
        yield from ("x" * 1000 for _ in range(n))
        yield "<|end|>"

    assert _peak(validate(chunks(3000))) < _peak(validate(chunks(30))) + 100_000


def test_a_transcript_is_written_in_parts() -> None:
    conversation = read("version: 2.2\n<|start|>user<|message|>a<|end|>\n<|start|>user<|message|>b<|end|>\n")
    assert list(iter_write(conversation)) == [
        "version: 2.2\n", "<|start|>user<|message|>a<|end|>", "\n<|start|>user<|message|>b<|end|>", "\n",
    ]  # fmt: skip


JSON_WORDS = ["{", "}", "[", "]", ":", ",", '"a"', '"\\ud800"', '"\\x"', '"\t"', "-0", "01", "1e400", "1.", "2.5e3",
              "true", "NaN", "\ufeff", "\ud800", " ", "\n", "\x0b", "18446744073709551616", "1" * 5000,
              "[" * 1500]  # fmt: skip


def plain_json(text: str) -> object:
    """The value of a reply's body by the standard library; the text itself where it is no JSON."""
    try:
        return json.loads(text, parse_constant=int)
    except (ValueError, RecursionError):
        return text


@given(st.lists(st.sampled_from(JSON_WORDS), max_size=7).map("".join))
@example('{"a": [1, -0, 2.5e3, "\\ud83d\\ude00", null]}')
@example('{"ok": 1, "a": 1e400}')
def test_a_body_is_json_exactly_where_the_standard_library_says_so(text: str) -> None:
    assert repr(read_tool_reply(text).content) == repr(plain_json(text))
