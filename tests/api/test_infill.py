"""A completion between two texts: prefix, suffix, then the middle, by the tokens that the model was trained with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.api.dialects import configured_dialects
from antiphon.catalog import StaticCatalog
from antiphon.catalog.files.text import gguf_text
from antiphon.engines.gguf_file import GgufValue
from antiphon.formats.raw import FillInMiddle
from antiphon.tokens import ByteTokenizer, Control
from kit.api import model as model_of
from kit.api import post, running, scripted

MARKS = tuple(Control(f"<|fim_{name}|>") for name in ("prefix", "suffix", "middle", "pad"))
END = Control("<|im_end|>")
VOCABULARY = ByteTokenizer((*MARKS, END))
PRE, SUF, MID, PAD = (VOCABULARY.controls[mark] for mark in MARKS)


def served(*reply: int, infill: bool = True, **options: Any) -> Any:
    engine = scripted(list(reply) or [*b"middle", PAD, *b"lost"])
    marks = FillInMiddle(MARKS[0], MARKS[1], MARKS[2], MARKS[3:])
    model = replace(model_of(engine), tokenizer=VOCABULARY, infill=marks if infill else None)
    return engine, running(create_app(StaticCatalog({"small": model}), **options))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("before", ["a <|fim_suffix|> b", "", "é"])
def test_the_prompt_is_prefix_suffix_and_middle_and_the_answer_ends_at_a_mark(before: str, stream: bool) -> None:
    engine, server = served()
    with server as base:
        got = post(base, "/v1/completions", prompt=before, suffix="after<|fim_middle|>", stream=stream)
        if stream:
            text = "".join(event["choices"][0]["text"] for event in got.events[:-1])
            reason = got.events[-2]["choices"][0]["finish_reason"]
        else:
            (choice,) = got.json["choices"]
            text, reason = choice["text"], choice["finish_reason"]
        assert (text, reason) == ("middle", "stop")
        ((prompt, _, _),) = engine.requests
        # What the user typed is text, also where it spells a mark.
        assert prompt == (PRE, *before.encode(), SUF, *b"after<|fim_middle|>", MID)


def test_several_prompts_each_stand_before_the_suffix_and_are_echoed_without_marks() -> None:
    engine, server = served()
    with server as base:
        got = post(base, "/v1/completions", prompt=["a", "b"], suffix="z", echo=True)
        assert [choice["text"] for choice in got.json["choices"]] == ["amiddle", "bmiddle"]
        assert {prompt for prompt, _, _ in engine.requests} == {(PRE, *text, SUF, *b"z", MID) for text in (b"a", b"b")}
        ids = post(base, "/v1/completions", prompt=list(b"ids"), suffix="z")
        assert ids.json["choices"][0]["text"] == "middle"


@pytest.mark.parametrize(
    ("fields", "infill", "param"),
    [
        ({"prompt": "a"}, False, "suffix"),
        ({"prompt": "a", "use_raw_prompt": False}, True, "suffix"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, True, "echo"),
        ({"prompt": "a", "skip_special_tokens": False, "use_raw_prompt": True}, True, "skip_special_tokens"),
    ],
)
def test_what_cannot_stand_before_a_suffix_is_refused(fields: dict[str, Any], infill: bool, param: str) -> None:
    engine, server = served(infill=infill)
    with server as base:
        got = post(base, "/v1/completions", suffix="z", **fields)
        assert (got.status, got.error["param"], engine.requests) == (400, param, [])
        assert post(base, "/v1/completions", prompt="", suffix="").error["param"] == "prompt"


@pytest.mark.spec("DBX-94")
def test_databricks_suffix_is_still_appended() -> None:
    engine, server = served(*b"middle", dialect=configured_dialects()["databricks"])
    with server as base:
        got = post(base, "/v1/completions", prompt="a", suffix="z", stream=False, use_raw_prompt=True)
        assert got.json["choices"][0]["text"].endswith("z")
        assert MID not in engine.requests[0][0]


@pytest.mark.parametrize("type", [3, 4, 1])
def test_a_gguf_file_names_the_marks(type: int) -> None:
    """Whatever type the file gives them: ordinary text never becomes one."""
    metadata: dict[str, GgufValue] = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "<PRE>", "<SUF>", "<MID>", "<PAD>"],
        "tokenizer.ggml.token_type": [1, type, type, type, type], "tokenizer.ggml.merges": [],
        "tokenizer.ggml.fim_pre_token_id": 1, "tokenizer.ggml.fim_suf_token_id": 2,
        "tokenizer.ggml.fim_mid_token_id": 3, "tokenizer.ggml.fim_pad_token_id": 4,
    }  # fmt: skip
    text = gguf_text(metadata)
    marks = [Control(f"<{name}>") for name in ("PRE", "SUF", "MID", "PAD")]
    assert text.infill == FillInMiddle(marks[0], marks[1], marks[2], (marks[3],))
    del metadata["tokenizer.ggml.fim_mid_token_id"]
    assert gguf_text(metadata).infill is None
    assert gguf_text({**metadata, "tokenizer.ggml.fim_mid_token_id": 99}).infill is None
