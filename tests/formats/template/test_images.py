"""Templates with places for images: each image's place is what the template itself writes, and texts stay texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Message, OpaquePart, Part, Role, TextPart
from antiphon.errors import RenderError
from antiphon.formats.template import jinja_format
from antiphon.tokens import Control, spell

CONTROLS = [
    Control(spelling)
    for spelling in (
        "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|image|>", "<|eot_id|>",
        "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "[IMG]",
        "[INST]", "[/INST]", "<image>", "<end_of_utterance>",
    )
]  # fmt: skip
_QWEN = """{%- set count = namespace(value=0) %}{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content -%}
{% if part.type == 'image' or 'image' in part or 'image_url' in part %}{% set count.value = count.value + 1 -%}
{% if numbered %}Picture {{ count.value }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>
{%- elif 'text' in part %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
_LLAMA = """{%- for message in messages %}{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
{%- if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}
{%- if part.type == 'image' %}{{ '<|image|>' }}{% elif part.type == 'text' %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}{{ '<|eot_id|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
_GEMMA = """{%- for message in messages %}{%- set role = 'model' if message.role == 'assistant' else message.role %}
{{- '<start_of_turn>' + role + '\\n' }}
{%- if message.content is string %}{{ message.content | trim }}{% else %}{% for part in message.content %}
{%- if part.type == 'image' %}{{ '<start_of_image>' }}{% elif part.type == 'text' %}{{ part.text | trim }}{% endif %}
{%- endfor %}{% endif %}{{ '<end_of_turn>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
_PIXTRAL = """{%- for message in messages %}{%- if message.role == 'user' %}[INST]
{%- if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}
{%- if part.type == 'image_url' %}[IMG]{% elif part.type == 'text' %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}[/INST]{% else %}{{ message.content }}{% endif %}{% endfor %}"""
_SMOL = """{%- for message in messages %}<|im_start|>{{ message.role | capitalize }}
{%- if message.content[0].type == 'image' %}:{% else %}: {% endif %}{% for part in message.content %}
{%- if part.type == 'text' %}{{ part.text }}
{%- elif part.type == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>
{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""
FAMILIES: dict[str, tuple[str, str, str]] = {
    "Qwen-VL": (
        _QWEN,
        "<|im_start|>user\nlook: <|vision_start|><|image_pad|><|vision_end|> and "
        "<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    ),
    "Llama vision": (
        _LLAMA,
        "<|start_header_id|>user<|end_header_id|>\n\nlook: <|image|> and <|image|><|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "Gemma": (
        _GEMMA,
        "<start_of_turn>user\nlook:<start_of_image>and<start_of_image><end_of_turn>\n<start_of_turn>model\n",
        "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n",
    ),
    "Pixtral": (_PIXTRAL, "[INST]look: [IMG] and [IMG][/INST]", "[INST]hi[/INST]"),
    "SmolVLM": (
        _SMOL,
        "<|im_start|>User: look: <image> and <image><end_of_utterance>\nAssistant:",
        "<|im_start|>User: hi<end_of_utterance>\nAssistant:",
    ),
}


def image(kind: str = "image_url") -> OpaquePart:
    return OpaquePart(kind, {"type": kind, kind: {"url": "data:image/png;base64,AAAA"}})


def asked(*parts: Part) -> Conversation:
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    return Conversation((Message(role=Role.USER, text=text, parts=parts),))


def rendered(source: str, conversation: Conversation) -> list[Any]:
    return list(jinja_format(source, CONTROLS).render(conversation))


@pytest.mark.parametrize("family", FAMILIES)
def test_each_image_has_the_place_that_its_template_gives_it(family: str) -> None:
    source, seen, text = FAMILIES[family]
    for kind in ("image", "image_url", "input_image"):
        parts = (TextPart("look: "), image(kind), TextPart(" and "), image(kind))
        pieces = rendered(source, asked(*parts))
        assert spell(pieces) == seen
        assert "base64" not in spell(pieces)
    assert spell(rendered(source, Conversation((Message(role=Role.USER, text="hi"),)))) == text


@pytest.mark.parametrize("family", FAMILIES)
def test_places_of_images_are_controls_and_a_text_that_spells_one_is_text(family: str) -> None:
    source, _, _ = FAMILIES[family]
    spellings = [control.spelling for control in CONTROLS]
    one = rendered(source, asked(TextPart("x"), image()))
    spelled = rendered(source, asked(TextPart(f"x{''.join(spellings)}"), image(), TextPart(spellings[2])))
    controls = [piece for piece in spelled if isinstance(piece, Control)]
    assert controls == [piece for piece in one if isinstance(piece, Control)]
    assert len(controls) > len([p for p in rendered(source, asked(TextPart("x"))) if isinstance(p, Control)])


@pytest.mark.parametrize("family", FAMILIES)
@given(texts=st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8), min_size=1, max_size=4))
@settings(max_examples=10, deadline=None)
def test_texts_and_images_stay_in_their_order(family: str, texts: list[str]) -> None:
    source, _, _ = FAMILIES[family]
    format = jinja_format(source, CONTROLS)
    place = {"Qwen-VL": "<|image_pad|>", "Llama vision": "<|image|>", "Gemma": "<start_of_image>", "Pixtral": "[IMG]"}
    parts = [part for text in texts for part in (TextPart(text), image())]
    prompt = spell(list(format.render(asked(*parts))))
    assert prompt.count(place.get(family, "<image>")) == len(texts)
    at = 0
    for text in texts:
        at = prompt.index(text, at)
        at = prompt.index(place.get(family, "<image>"), at)


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
        "{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}",
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{{ m.content | tojson }}"
        "{% endif %}{% endfor %}",
    ],
    ids=["text", "parts without images", "prints what it gets"],
)
def test_a_template_without_a_place_for_images_refuses_them_at_their_message(source: str) -> None:
    with pytest.raises(RenderError) as caught:
        rendered(source, asked(TextPart("x"), image()))
    assert caught.value.code == "unsupported_content"
    assert caught.value.position is not None
    assert caught.value.position.path == "messages[0].content"


@pytest.mark.parametrize(("role", "kind"), [(Role.USER, "input_audio"), (Role.USER, "file"), (Role.SYSTEM, "image")])
def test_what_is_no_image_of_a_user_is_refused_where_images_are_taken(role: Role, kind: str) -> None:
    message = Message(role=role, text="x", parts=(TextPart("x"), OpaquePart(kind, {})))
    with pytest.raises(RenderError) as caught:
        rendered(_LLAMA, Conversation((message, Message(role=Role.USER, text="y"))))
    assert caught.value.code == "unsupported_content"


def test_a_system_text_that_goes_before_the_user_s_stands_before_its_parts() -> None:
    source = _LLAMA.replace(
        "{%- for message in messages %}",
        "{%- for message in messages %}{% if message.role == 'system' %}{{ raise_exception('no') }}{% endif %}",
    )
    conversation = Conversation((Message(role=Role.SYSTEM, text="Be brief."), *asked(image(), TextPart("x")).messages))
    assert "Be brief.<|image|>x<|eot_id|>" in spell(rendered(source, conversation)).replace("\n", "")
