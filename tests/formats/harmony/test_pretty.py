"""The pretty view tells control, envelope and text apart."""

from __future__ import annotations

from antiphon.conversation import Conversation, Message, Role
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CHANNEL, END, MESSAGE
from antiphon.formats.harmony.render import Span, spans
from antiphon.tokens import Tokenizer


def test_a_prompt_is_controls_with_their_ids_envelopes_and_texts(o200k: Tokenizer) -> None:
    conversation = Conversation((Message(role=Role.USER, text="<|end|>"),), verbatim=True)
    assert list(spans(Harmony().render(conversation), o200k)) == [
        Span("control", "<|start|>", 200006),
        Span("envelope", "user"),
        Span("control", "<|message|>", 200008),
        Span("text", "<|end|>"),
        Span("control", "<|end|>", 200007),
        Span("control", "<|start|>", 200006),
        Span("envelope", "assistant"),
    ]


def test_a_reply_begins_inside_an_envelope() -> None:
    got = spans([CHANNEL, "final", MESSAGE, "yes", END, " stray"], in_reply=True)
    assert [(span.kind, span.text) for span in got if span.kind != "control"] == [
        ("envelope", "final"),
        ("text", "yes"),
        ("text", " stray"),
    ]
