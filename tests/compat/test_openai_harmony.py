"""The adapter gives what the reference gives: on the corpora, and on the builder calls that its guide shows."""

from __future__ import annotations

import pytest

from antiphon.compat.openai_harmony import (
    Author,
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


@pytest.mark.spec("HAR-23")
def test_the_stream_parser_tells_where_it_stands_after_each_token() -> None:
    parser = StreamableParser(ENCODING, role=Role.ASSISTANT)
    assert (parser.state, parser.current_role) == (StreamState.HEADER, Role.ASSISTANT)
    for token in ENCODING.encode("<|channel|>final<|message|>", allowed_special="all"):
        parser.process(token)
    assert parser.state_data == {
        "state": "Content",
        "header": {"author": {"role": "assistant"}, "recipient": None, "channel": "final", "content_type": None},
        "content_tokens": [],
    }
    (token,) = ENCODING.encode("yes")
    parser.process(token)
    assert (parser.last_content_delta, parser.current_content, parser.current_channel) == ("yes", "yes", "final")
    assert parser.process_eos().messages == [Message.from_role_and_content(Role.ASSISTANT, "yes").with_channel("final")]


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
        ToolNamespaceConfig("x", None, [ToolDescription("f", None)])  # type: ignore[arg-type]  # the mistake under test
