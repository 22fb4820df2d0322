"""POST /v1/render with ``return_owners``: whose each token of a conversation is, and what the next turn keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.api.native.write import MOST_OWNED
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import Harmony
from antiphon.generation import Model
from antiphon.tokens import o200k_harmony
from antiphon.training import Owner, Part, Renderer
from kit.api import post, running

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "東京"}'}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather? 👋"},
    {"role": "assistant", "reasoning_content": "Call f.", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "clear"},
    {"role": "assistant", "content": "It is clear."},
]
PLACE_OF_FRAME = {-1: None, 0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 5: 4}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    model = Model(name="oss", engine=ScriptedEngine([]), tokenizer=o200k_harmony(), format=Harmony())
    with running(create_app(StaticCatalog({"oss": model}))) as url:
        yield url


def owned(base: str, messages: list[dict[str, Any]], **fields: Any) -> Any:
    got = post(base, "/v1/render", messages=messages, return_owners=True, **fields)
    assert got.status == 200, got.body
    return got.json


def tokens_of(answer: Any) -> list[dict[str, Any]]:
    return [token for piece in answer["pieces"] for token in piece["tokens"]]


def test_each_token_has_its_owner_part_and_message_of_the_request(base: str) -> None:
    answer = owned(base, TALK)
    tokens = tokens_of(answer)
    assert [token["id"] for token in tokens] == answer["ids"]
    said: dict[tuple[Any, ...], bytes] = {}
    for token in tokens:
        key = token["owner"], token["message"], token["part"], token["sampled"]
        said[key] = said.get(key, b"") + bytes.fromhex(token["bytes"])
    template = said.pop(("template", None, None, False))
    assert template.endswith(
        b"<|start|>functions.f to=assistant<|channel|>commentary<|message|><|end|><|start|>assistant"
    )
    markup = said.pop(("assistant", 2, "markup", True)), said.pop(("assistant", 4, "markup", True))
    assert markup[1] == b"<|channel|>final<|message|>"
    assert {key: text.decode() for key, text in said.items()} == {
        ("system", 0, None, False): "Be brief.",
        ("user", 1, None, False): "Weather? 👋",
        ("assistant", 2, "reasoning", True): "Call f.",
        ("assistant", 2, "name", True): "functions.f",
        ("assistant", 2, "arguments", True): '{"city": "東京"}',
        ("assistant", 2, "end", True): "<|call|>",
        ("tool", 3, None, False): "clear",
        ("assistant", 4, "content", True): "It is clear.",
        ("assistant", 4, "end", True): "<|return|>",
    }


def test_texts_and_controls_are_those_of_the_pieces(base: str) -> None:
    answer = owned(base, [*TALK[:2], {"role": "assistant", "content": "<|end|> is a text"}])
    for piece in answer["pieces"]:
        spelled = b"".join(bytes.fromhex(token["bytes"]) for token in piece["tokens"]).decode()
        assert spelled == piece.get("text", piece.get("control"))
    assert "".join(piece.get("text", piece.get("control")) for piece in answer["pieces"]) == answer["text"]
    assert {"text": "<|end|> is a text"}.items() <= answer["pieces"][-2].items()


def test_the_next_turn_begins_with_what_it_is_told_to_keep(base: str) -> None:
    answer = owned(base, TALK)
    kept = answer["next_turn"]["kept"]
    later = post(base, "/v1/render", messages=[*TALK, {"role": "user", "content": "And now?"}]).json["ids"]
    assert later[:kept] == answer["ids"][:kept]
    assert later[kept] != answer["ids"][kept]
    assert answer["next_turn"]["cause"] == "reasoning"
    short = owned(base, [TALK[1], TALK[4]])
    assert short["next_turn"] == {"kept": len(short["ids"]) - 1, "cause": "end"}


def test_what_the_template_drops_is_told_with_the_message_of_the_request(base: str) -> None:
    first = {"role": "assistant", "reasoning_content": "Hm.", "content": "Yes."}
    dropped = owned(base, [TALK[0], TALK[1], first, TALK[1], TALK[4]])["changes"]
    assert {"kind": "reasoning_dropped", "message": 2, "text": "the template leaves out the reasoning"} in dropped
    assert owned(base, TALK)["changes"] == []


def test_a_real_vocabulary_and_template_give_the_masks_that_trainers_get(smollm2_path: Any) -> None:
    renderer = Renderer(smollm2_path)
    model = Model(name="smol", engine=ScriptedEngine([]), tokenizer=renderer.tokenizer, format=renderer.format)
    sample = renderer.render(TALK)
    with running(create_app(StaticCatalog({"smol": model}))) as url:
        answer = owned(url, TALK)
    tokens = tokens_of(answer)
    assert answer["ids"] == list(sample.ids)
    assert [token["sampled"] for token in tokens] == [bool(one) for one in sample.sampled]
    assert [token["owner"] for token in tokens] == [Owner(one).name.lower() for one in sample.owners]
    assert [token["part"] for token in tokens] == [Part(one).name.lower() if one else None for one in sample.parts]
    assert [token["message"] for token in tokens] == [PLACE_OF_FRAME[frame] for frame in sample.messages]
    assert answer["next_turn"] == {"kept": len(sample), "cause": None}


def test_a_conversation_that_ends_with_a_question_is_told_whole_or_not_at_all(base: str) -> None:
    got = post(base, "/v1/render", messages=TALK[:2], return_owners=True)
    assert (got.status, got.error["param"]) == (400, "return_owners")
    assert "add_generation_prompt false" in got.error["message"]
    answer = owned(base, TALK[:2], add_generation_prompt=False)
    assert answer["text"].endswith("<|end|>")
    assert not any(token["sampled"] for token in tokens_of(answer))


def test_a_call_by_a_name_that_no_header_can_have_is_told_as_its_prompt_has_it(base: str) -> None:
    call = {**CALL, "function": {"name": "f\n<|end|>", "arguments": "{}"}}
    asked = [TALK[1], {"role": "assistant", "content": None, "tool_calls": [call]}]
    answer = owned(base, asked)
    assert answer["ids"] == post(base, "/v1/render", messages=asked, add_generation_prompt=False).json["ids"]
    assert tokens_of(answer)[-1]["part"] == "end"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"add_generation_prompt": True}, "return_owners"),
        ({"continue_final_message": True, "add_generation_prompt": False}, "return_owners"),
        ({"return_piece_tokens": False}, "return_piece_tokens"),
        ({"messages": [TALK[1], TALK[4]] * (MOST_OWNED // 2 + 1)}, "messages"),
    ],
)
def test_what_owners_cannot_be_told_of_is_refused_by_name(base: str, fields: dict[str, Any], param: str) -> None:
    got = post(base, "/v1/render", **{"messages": TALK, "return_owners": True, **fields})
    assert (got.status, got.error["param"]) == (400, param), got.body


def test_without_owners_an_answer_is_as_it_was(base: str) -> None:
    got = post(base, "/v1/render", messages=TALK[:2], return_piece_tokens=True)
    assert not {"changes", "next_turn"} & got.json.keys()
    assert {key for token in tokens_of(got.json) for key in token} == {"id", "bytes"}
    assert json.loads(got.body)["text"].endswith("<|start|>assistant")
