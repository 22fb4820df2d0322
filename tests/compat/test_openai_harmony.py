"""The adapter gives what the reference gives: on the corpora, and on the builder calls that its guide shows."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pydantic
import pytest

from antiphon.compat import openai_harmony, oss_harmony
from antiphon.compat.openai_harmony import (
    Author,
    Content,
    Conversation,
    DeveloperContent,
    HarmonyEncodingName,
    HarmonyError,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    RenderOptions,
    Role,
    StreamableParser,
    StreamState,
    SystemContent,
    TextContent,
    ToolDescription,
    ToolNamespaceConfig,
    load_harmony_encoding,
)
from kit.harmony_corpora import DIALECTS, Dialect, Row, rows

ENCODING = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
ERRORS = {"HarmonyError": HarmonyError, "RuntimeError": RuntimeError, "ValueError": ValueError}


def rendered(row: Row, dialect: Dialect) -> list[int]:
    encoding = load_harmony_encoding("HarmonyGptOss", dialect=dialect)
    given = row["conversation"]
    conversation = Conversation.from_messages([Message.from_dict(message) for message in given["messages"]])
    drop = row["options"].get("auto_drop_analysis")
    config = None if drop is None else RenderConversationConfig(auto_drop_analysis=drop)
    match row["op"]:
        case "render_conversation_for_completion":
            role = Role(row["options"]["next_turn_role"])
            return encoding.render_conversation_for_completion(conversation, role, config)
        case "render_conversation":
            return encoding.render_conversation(conversation, config)
        case _:
            return encoding.render_conversation_for_training(conversation, config)


@pytest.mark.corpus
@pytest.mark.parametrize("dialect", ["a", "b"])
def test_conversations_of_the_corpus_render_as_through_the_reference_s_own_values(dialect: Dialect) -> None:
    for row in rows(f"harmony_corpus{DIALECTS[dialect]}"):
        if "error" in row:
            # What the values themselves refuse (an unknown role, a missing field), the reference's refuse too.
            with pytest.raises((ERRORS[row["error"]["type"]], KeyError, ValueError, TypeError)):
                rendered(row, dialect)
            continue
        assert rendered(row, dialect) == row.get("python_path", row)["tokens"], row["name"]


@pytest.mark.corpus
def test_completions_of_the_corpus_parse_as_through_the_reference() -> None:
    for row in rows("harmony_parse_corpus"):
        role = Role(row["role"]) if row["role"] else None
        if row.get("error"):
            with pytest.raises(HarmonyError) as raised:
                ENCODING.parse_messages_from_completion_tokens(row["tokens"], role, strict=row["strict"])
            assert str(raised.value) == row["error"]["message"], row["name"]
            continue
        parsed = ENCODING.parse_messages_from_completion_tokens(row["tokens"], role, strict=row["strict"])
        assert parsed == [Message.from_dict(message) for message in row["messages"]], row["name"]


@pytest.mark.spec("HAR-20", "HAR-81")
def test_the_builders_of_the_guide_give_its_prompt() -> None:
    system = SystemContent.new().with_reasoning_effort(ReasoningEffort.HIGH).with_conversation_start_date("2025-06-28")
    weather = ToolDescription.new("get_location", "Gets the location of the user.")
    developer = DeveloperContent.new().with_instructions("Use a friendly tone.").with_function_tools([weather])
    conversation = Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, system),
            Message.from_role_and_content(Role.DEVELOPER, developer),
            Message.from_role_and_content(Role.USER, "Where am I?"),
            Message.from_role_and_content(Role.ASSISTANT, "Ask the tool.").with_channel("analysis"),
            Message.from_role_and_content(Role.ASSISTANT, "{}")
            .with_channel("commentary")
            .with_recipient("functions.get_location")
            .with_content_type("<|constrain|> json"),
            Message.from_author_and_content(Author.new(Role.TOOL, "functions.get_location"), '"Bern"').with_channel(
                "commentary"
            ),
        ]
    )
    text = ENCODING.decode(ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT))
    assert text == (
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
        "Knowledge cutoff: 2024-06\nCurrent date: 2025-06-28\n\nReasoning: high\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.\n"
        "Calls to these tools must go to the commentary channel: 'functions'.<|end|>"
        "<|start|>developer<|message|># Instructions\n\nUse a friendly tone.\n\n# Tools\n\n## functions\n\n"
        "namespace functions {\n\n// Gets the location of the user.\ntype get_location = () => any;\n\n"
        "} // namespace functions<|end|>"
        "<|start|>user<|message|>Where am I?<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>Ask the tool.<|end|>"
        "<|start|>assistant to=functions.get_location<|channel|>commentary <|constrain|> json<|message|>{}<|call|>"
        '<|start|>functions.get_location<|channel|>commentary<|message|>"Bern"<|end|>'
        "<|start|>assistant"
    )


def test_values_survive_json_as_the_reference_s_do() -> None:
    content = SystemContent.new().with_browser_tool().with_python_tool().with_required_channels(["final"])
    conversation = Conversation.from_messages(
        [Message.from_role_and_content(Role.SYSTEM, content).adding_content("and this")]
    )
    assert Conversation.from_json(conversation.to_json()) == conversation
    assert list(conversation) == conversation.messages


@pytest.mark.spec("HAR-20")
def test_a_value_takes_no_list_of_the_caller_s_and_no_keyword_that_it_has_not() -> None:
    contents: list[Content] = [TextContent("x")]
    messages = [Message(Author(Role.USER), contents)]
    conversation = Conversation(messages)
    contents.append(TextContent("y"))
    messages.clear()
    assert [message.content for message in conversation] == [[TextContent("x")]]
    none: list[Content] = []
    made = Message(Author(Role.USER), none)
    none.append(TextContent("y"))
    assert made.content == []
    keywords: dict[str, Any] = {
        "author": {"role": "user", "id": 1},
        "content": [{"type": "text", "text": "x"}],
        "id": "m",
    }
    assert Message(**keywords) == conversation.messages[0]
    assert Message.from_dict({"role": "user", "content": "x", "id": "m"}) == conversation.messages[0]
    assert pickle.loads(pickle.dumps(conversation)) == conversation


class Request(pydantic.BaseModel):
    """A model of somebody's, as vLLM's of a Responses request."""

    previous: list[Message | dict[str, Any]] | None = None
    system: SystemContent | None = None
    content: Content | None = None


@pytest.mark.spec("HAR-20")
def test_a_value_stands_in_a_model_of_somebody_s() -> None:
    system = SystemContent.new().with_browser_tool().with_reasoning_effort(ReasoningEffort.LOW)
    message = Message.from_role_and_content(Role.SYSTEM, system).adding_content("and text").with_channel("final")
    request = Request(previous=[message, {"role": "user"}], system=system, content=TextContent("x"))
    assert request.previous is not None
    assert request.previous[0] is message
    for read in (Request.model_validate(request.model_dump()), Request.model_validate_json(request.model_dump_json())):
        assert read.previous is not None
        # As with the reference a dictionary stays one where the field may be one.
        assert [Message.model_validate(read.previous[0]), read.previous[1]] == request.previous
        assert (read.system, read.content) == (system, TextContent("x"))
    schema = Request.model_json_schema()
    jsonschema_rs.validate(schema, request.model_dump(mode="json"))
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"content": {"type": "image", "url": "x"}})


@pytest.mark.spec("HAR-20")
@pytest.mark.parametrize(
    ("raw", "places"),
    [
        ({"system": {"model_identity": 5}}, ["system.model_identity"]),
        ({"system": {"tools": {"n": {"name": "n", "tools": [{"name": "f"}]}}}}, ["system.tools.n.tools.0.description"]),
        (
            {"system": {"reasoning_effort": "most", "channel_config": {}}},
            [
                "system.reasoning_effort",
                "system.channel_config.valid_channels",
                "system.channel_config.channel_required",
            ],
        ),
        ({"content": {"type": "image"}}, ["content"]),
        (
            {"previous": [{"author": {"role": "user"}, "content": [{}]}, 7]},
            ["previous.1.Message", "previous.1.dict[str,any]"],
        ),
        ({"content": {"text": "x"}}, ["content"]),
    ],
)
def test_what_no_value_can_be_made_of_is_refused_by_its_place(raw: dict[str, Any], places: list[str]) -> None:
    with pytest.raises(pydantic.ValidationError) as raised:
        Request.model_validate(raw)
    assert [".".join(map(str, fault["loc"])) for fault in raised.value.errors()] == places


@pytest.mark.spec("HAR-20")
def test_pydantic_s_methods_are_there() -> None:
    message = Message.from_author_and_content(Author.new(Role.TOOL, "functions.f"), "x").with_channel("commentary")
    dumped = message.model_dump(mode="json", exclude_none=True)
    author = {"role": "tool", "name": "functions.f"}
    assert dumped == {"author": author, "content": [{"type": "text", "text": "x"}], "channel": "commentary"}
    assert json.loads(message.model_dump_json(include={"author"})) == {"author": author}
    assert Message.model_validate(dumped) == Message.model_validate_json(json.dumps(dumped)) == message
    assert message.model_copy(update={"channel": "final"}) == Message.model_validate({**dumped, "channel": "final"})
    copied = message.model_copy(deep=True)
    copied.content.clear()
    assert message.content == [TextContent("x")]
    jsonschema_rs.validate(Message.model_json_schema(), dumped)
    assert Message.model_construct(author=Author(Role.USER)) == Message(Author(Role.USER))
    with pytest.raises(pydantic.ValidationError, match="json"):
        Message.model_validate_json("{")
    with pytest.raises(pydantic.ValidationError, match="valid dictionary or instance of Message"):
        Conversation.from_messages([SystemContent.new()])  # type: ignore[list-item]  # the mistake under test


def test_values_need_no_pydantic() -> None:
    program = """
import sys
from antiphon.compat.openai_harmony import *
conversation = Conversation.from_messages([Message.from_role_and_content(Role.USER, "x")])
encoding = load_harmony_encoding("HarmonyGptOss")
assert encoding.decode(encoding.render_conversation(conversation)) == "<|start|>user<|message|>x<|end|>"
try:
    TextContent(text=None)
except ValueError as error:
    print(error)
print("pydantic" in sys.modules or "pydantic_core" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "no TextContent can be made of this: text: string_type (None)\nFalse\n"


@pytest.mark.spec("HAR-23")
def test_the_stream_parser_tells_where_it_stands_after_each_token() -> None:
    parser = StreamableParser(ENCODING, role=Role.ASSISTANT)
    assert (parser.state, parser.current_role) == (StreamState.HEADER, Role.ASSISTANT)
    for token in ENCODING.encode("<|channel|>final<|message|>", allowed_special="all"):
        parser.process(token)
    header = {"author": {"role": "assistant"}, "recipient": None, "channel": "final", "content_type": None}
    assert parser.state_data == {"state": "Content", "header": header, "content_tokens": []}
    tower = ENCODING.encode("🗼")
    assert len(tower) > 1
    for token in tower[:-1]:
        parser.process(token)
        assert (parser.last_content_delta, parser.current_content) == (None, "")
        assert parser.state_data["content_tokens"] == []
    parser.process(tower[-1])
    assert (parser.last_content_delta, parser.current_content, parser.current_channel) == ("🗼", "🗼", "final")
    assert parser.state_data["content_tokens"] == tower
    (spelled,) = ENCODING.encode("<|channel|>", allowed_special="all")
    parser.process(spelled)
    assert parser.state_data["content_tokens"] == [*tower, *ENCODING.encode("<|channel|>", disallowed_special=())]
    expected = Message.from_role_and_content(Role.ASSISTANT, "🗼<|channel|>").with_channel("final")
    assert parser.process_eos().messages == [expected]
    assert parser.state_data == {"state": "ExpectStart"}


@pytest.mark.spec("HAR-23")
def test_what_the_parser_tells_is_the_caller_s_own() -> None:
    parser = StreamableParser(ENCODING, role=Role.ASSISTANT)
    first, second = (
        ENCODING.encode(text, allowed_special="all")
        for text in ("<|channel|>final<|message|>a<|end|>", "<|start|>assistant<|channel|>final<|message|>b<|return|>")
    )
    for token in first:
        parser.process(token)
    found = parser.messages
    found[0].recipient = "functions.f"
    found[0].content.clear()
    found.append(Message.from_role_and_content(Role.TOOL, "mine"))
    parser.tokens.append(7)
    for token in second:
        parser.process(token)
    assert [message.content[0] for message in parser.messages] == [TextContent("a"), TextContent("b")]
    assert parser.messages[0].recipient is None
    assert parser.tokens == [*first, *second]


def test_the_fork_has_the_same_names_and_its_own_dialect() -> None:
    assert sorted(oss_harmony.__all__) == sorted(openai_harmony.__all__)
    call = Message.from_role_and_content(Role.ASSISTANT, "{}").with_channel("commentary").with_recipient("functions.f")
    texts = []
    for package in (openai_harmony, oss_harmony):
        encoding = package.load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
        texts.append(encoding.decode(encoding.render(call)))
    assert texts == [
        "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|>",
        "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>",
    ]


def test_text_that_spells_a_control_is_refused_unless_allowed() -> None:
    with pytest.raises(HarmonyError, match="disallowed"):
        ENCODING.encode("<|start|>")
    assert ENCODING.encode("<|start|>x", allowed_special="all") == [200006, 87]
    assert ENCODING.decode(ENCODING.encode("<|start|>x", disallowed_special=())) == "<|start|>x"
    assert ENCODING.is_special_token(200006)
    assert set(ENCODING.stop_tokens()) == {200002, 200007, 200012}
    assert set(ENCODING.stop_tokens_for_assistant_actions()) == {200002, 200012}
    assert len(ENCODING.special_tokens_set) == 1091


def test_what_cannot_be_decoded_or_rendered_raises_as_in_the_reference() -> None:
    nameless = Message.from_author_and_content(Author(Role.TOOL), "x")
    with pytest.raises(HarmonyError, match="Tools should have a name!"):
        ENCODING.render_conversation_for_completion(Conversation([nameless]), Role.ASSISTANT)
    with pytest.raises(RuntimeError, match="Tools should have a name!") as raised:
        ENCODING.render(nameless, RenderOptions())
    assert not isinstance(raised.value, HarmonyError)
    with pytest.raises(HarmonyError, match="Invalid token"):
        ENCODING.decode([250_000])
    with pytest.raises(HarmonyError, match="utf-8"):
        ENCODING.decode_utf8([125])
    with pytest.raises(ValueError, match="Invalid HarmonyEncodingName"):
        load_harmony_encoding("nope")
    with pytest.raises(ValueError, match="description"):
        ToolNamespaceConfig("x", tools=[ToolDescription("f", None)])  # type: ignore[arg-type]  # the mistake under test
