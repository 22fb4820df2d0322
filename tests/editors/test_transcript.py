"""What an editor is told of a transcript, whatever state it is in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import SymbolKind

from antiphon.conversation import Channel, Role
from antiphon.formats.openchatml import SCHEMAS
from antiphon.formats.openchatml.head import ATTRIBUTES, INTENTS
from antiphon.formats.openchatml.lint.rule import LintedText
from antiphon.formats.openchatml.spelling import CONTROLS
from antiphon.integrations.editors import transcript as meanings
from antiphon.integrations.editors.transcript import Completion, Meaning, Part, Span
from kit.openchatml import TRICKY

HALF_WRITTEN = st.lists(
    st.sampled_from(
        [*TRICKY, "user", "assistant", " to=functions.f", "final", "json", 'version: "2.2"\n', "model: m\n"]
    )
).map("".join)

TALK = """version: "2.2"
model: m
<|start|>user name=Ann<|message|>Hi <<|end|> there<|end|>
<|start|>assistant to=functions.f call_id=1 intent=status<|channel|>commentary<|constrain|>json<|message|>{}<|call|>
<|start|>functions.f call_id=1<|message|>{"ok": true}<|end|>
<|start|>assistant<|channel|>analysis<|message|><|start_reason|>So.
"""


def parts(text: str) -> list[Part]:
    return list(meanings.parts(LintedText(text)))


def meaning(text: str, offset: int) -> Meaning | None:
    return meanings.meaning(LintedText(text), offset)


def at(text: str, word: str) -> int:
    return text.index(word) + 1


def test_the_outline_has_the_header_and_each_frame() -> None:
    assert [(part.name, part.detail, part.kind) for part in parts(TALK)] == [
        ("header", "", SymbolKind.Namespace),
        ("user", "Hi <|end|> there", SymbolKind.String),
        ("assistant → functions.f (commentary)", "{}", SymbolKind.Function),
        ("functions.f", '{"ok": true}', SymbolKind.String),
        ("assistant (analysis)", "<|start_reason|>So.", SymbolKind.String),
    ]
    assert [TALK[part.span.start :][:9] for part in parts(TALK)][1:] == ["<|start|>"] * 4
    assert [TALK[part.title.end - 11 : part.title.end] for part in parts(TALK)][1:] == ["<|message|>"] * 4


@pytest.mark.parametrize(
    ("word", "explained"),
    [
        ("version", meanings.KEYS["version"]),
        ("model", meanings.KEYS["model"]),
        ("<|start|>", meanings.CONTROLS["<|start|>"]),
        ("user", meanings.ROLES["user"]),
        ("name=", meanings.ATTRIBUTES["name"]),
        ("<<|end|>", meanings.ESCAPE),
        ("to=", meanings.ATTRIBUTES["to"]),
        ("commentary", meanings.CHANNELS["commentary"]),
        ("json", meanings.CONSTRAINT),
        ("<|call|>", meanings.CONTROLS["<|call|>"]),
    ],
)
def test_a_word_has_its_meaning(word: str, explained: str) -> None:
    found = meaning(TALK, at(TALK, word))
    assert found
    assert found.text == explained
    assert TALK[found.span.start :].startswith(word)


def test_the_value_of_an_intent_is_explained_too() -> None:
    found = meaning(TALK, at(TALK, "intent="))
    assert found
    assert found.text.endswith(f"`status`: {meanings.INTENTS['status']}.")


def test_a_reflection_marker_and_a_tool_as_author_are_explained() -> None:
    marker, author = (
        meaning(TALK, at(TALK, "<|start_reason|>")),
        meaning(TALK, at(TALK, "functions.f call_id=1<|message")),
    )
    assert marker
    assert author
    assert "steps of reasoning" in marker.text
    assert "tool name=functions.f" in author.text


def test_words_of_a_body_have_no_meaning() -> None:
    assert meaning(TALK, at(TALK, "there")) is None
    assert meaning(TALK.replace("there", "user"), at(TALK, "there")) is None


def test_everything_that_the_format_names_is_explained() -> None:
    header = SCHEMAS["header"]["properties"]
    known = {"version", *header, *header["capabilities"]["properties"], *header["profiles"]["properties"]}
    known |= set(header["profiles"]["properties"]["harmony"]["properties"])
    assert known <= set(meanings.KEYS)
    assert set(meanings.CONTROLS) == {control.spelling for control in CONTROLS}
    assert set(meanings.ROLES) == set(Role)
    assert set(meanings.CHANNELS) == set(Channel)
    assert set(meanings.ATTRIBUTES) == set(ATTRIBUTES)
    assert set(meanings.INTENTS) == set(INTENTS)


@given(HALF_WRITTEN, st.integers(0, 80))
def test_no_text_is_too_broken(text: str, offset: int) -> None:
    assert all(0 <= part.span.start < part.span.end <= len(text) for part in parts(text))
    found = meaning(text, min(offset, len(text)))
    assert found is None or offset in found.span
    assert all(one.span.start <= one.span.end <= len(text) for one in words(text[:offset] + "‸" + text[offset:]))


# -- completion: ``‸`` is where the cursor is -------------------------------------------------------------------------

DECLARED = """---
version: "2.2"
generation_settings: {builtin_tools: [browser]}
---
<|start|>developer<|message|># Tools

## functions

// The weather of a city.
type weather = (_: {city: string}) => any;
<|end|>
"""


TOP = ["version: ", "model: ", "generation_settings:", "capabilities:", "profiles:"]


def words(text: str) -> list[Completion]:
    before, _, behind = text.partition("‸")
    return meanings.completions(LintedText(before + behind), len(before))


def completed(text: str) -> list[str]:
    return [one.word for one in words(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|start|>‸", [*map(str, Role)]),
        ("<|start|>assis‸ to=x<|message|>Hi<|end|>", [*map(str, Role)]),
        ("<|start|>assistant<|channel|>fi‸\n<|start|>user<|message|>Hi<|end|>", [*map(str, Channel)]),
        ("<|start|>assistant ‸", [f"{key}=" for key in ATTRIBUTES]),
        ("<|start|>assistant call_id=c1 in‸", [f"{key}=" for key in ATTRIBUTES]),
        ("<|start|>assistant intent=‸", [*INTENTS]),
        ("<|start|>assistant<|channel|>commentary to=‸", ["assistant"]),
        (f"{DECLARED}<|start|>assistant to=fun‸", ["assistant", "functions.weather", "browser"]),
        (f"<|start|>assistant to=‸<|message|>x<|end|>{DECLARED}", ["assistant"]),
        (f"{DECLARED}<|start|>tool call_id=1 name=‸", ["functions.weather", "browser"]),
        ("<|start|>assistant<|constrain|>‸", ["json"]),
        ("<|start|>user call_id=‸", []),
        ("<|start|>user<|message|>to=‸<|end|>", []),
        ("<|start|>user<|message|><<|start|>‸<|end|>", []),
        ("<|start|>user<|message|><|literal|><|start|>‸<|endliteral|><|end|>", []),
        ("<|start|>user<|message|>Hi<|end|> ‸", []),
        ("‸", TOP),
        ('---\nversion: "2.2"\ncap‸\n---\n', TOP),
        ('version: "2.2"\ncapabilities:\n  roles: [user]\n  ‸', ["roles: ", "channels: ", "tokens: ", "streaming: "]),
        ('version: "2.2"\nprofiles:\n  harmony:\n    enabled: t‸', ["true", "false"]),
        ('version: "2.2"\nprofiles:\n  harmony:\n    tool_calls_in: [analysis, ‸]', [*map(str, Channel)]),
        ('version: "2.2"\nmodel:\n  ‸', []),
        ('version: "2.2"\nmodel: ‸', []),
        ('version: "2.2"\nother:\n  deeper:\n    ‸', []),
    ],
)  # fmt: skip
def test_the_words_that_may_be_written_at_a_place(text: str, expected: list[str]) -> None:
    assert completed(text) == expected


def test_a_completed_word_replaces_what_is_typed_of_it_and_has_its_meaning() -> None:
    [final] = [one for one in words("<|start|>assistant<|channel|>fi‸") if one.word == "final"]
    assert final.span == Span(29, 31)
    assert final.meaning == meanings.CHANNELS["final"]
    [weather] = [one for one in words(f"{DECLARED}<|start|>assistant to=functions.w‸") if "weather" in one.word]
    assert weather.meaning == "The weather of a city."


def test_every_setting_of_the_header_can_be_completed() -> None:
    settings = SCHEMAS["header"]["properties"]["generation_settings"]["properties"]
    found = completed('---\nversion: "2.2"\ngeneration_settings:\n  ‸\n---\n')
    assert [word.removesuffix(": ") for word in found] == list(settings)
