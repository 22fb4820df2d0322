"""Middles by the routes of other servers: llama.cpp's /infill, and Mistral's /v1/fim/completions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_in
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.api.dialects import configured_dialects
from antiphon.catalog.static import StaticCatalog
from antiphon.config import Limits
from antiphon.engines import ScriptedEngine
from antiphon.formats.raw import FillInMiddle
from antiphon.tokens import ByteTokenizer, Control
from kit.api import END, post_in_process, scripted
from kit.api import model as model_of

NAMES = Control("<|repo_name|>"), Control("<|file_sep|>")
PLAIN = FillInMiddle(Control("<|fim_prefix|>"), Control("<|fim_suffix|>"), Control("<|fim_middle|>"))
BEGIN = Control("<|begin|>")
CONTROLS = (PLAIN.prefix, PLAIN.suffix, PLAIN.middle, *NAMES, BEGIN)
VOCABULARY = ByteTokenizer((*CONTROLS, END))
PREFIX, SUFFIX, MIDDLE, REPOSITORY, FILE, BEGINNING = (VOCABULARY.controls[control] for control in CONTROLS)
MIDDLE_OF = {"input_prefix": "def f():\n    ", "input_suffix": "\n"}
"""The fields that the route wants."""
EDITORS: dict[str, Any] = {
    "input_prefix": "def f():\n", "input_suffix": "\n\nf()\n", "prompt": "    ret", "n_predict": 128, "n_indent": 4,
    "input_extra": [{"text": "a = 1\n", "filename": "a.py", "time": [1, 2]}, {"text": "b = 2\n", "filename": "b.py"}],
    "top_k": 40, "top_p": 0.99, "stream": False, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True,
    "t_max_prompt_ms": 500, "t_max_predict_ms": 1000, "id_slot": 0, "stop": [],
    "response_fields": ["content", "timings/prompt_n", "truncated", "tokens_cached"],
}  # fmt: skip
"""What llama.vim and llama.vscode send."""


def infilling(
    *reply: int, marks: bool = True, files: bool = True, context: int = 4096, **options: Any
) -> tuple[ScriptedEngine, Starlette]:
    engine = scripted(list(reply) or [*b"urn 1\n", VOCABULARY.controls[END], *b"lost"], context=context)
    infill = replace_in(PLAIN, ends=NAMES, repository=NAMES[0], file=NAMES[1]) if files else PLAIN
    model = replace(model_of(engine), tokenizer=VOCABULARY, infill=infill if marks else None)
    return engine, create_app(StaticCatalog({"small": model}), **options)


async def test_an_editors_request_is_answered_and_what_has_no_effect_is_named() -> None:
    engine, application = infilling()
    got = await post_in_process(application, "/infill", **EDITORS)
    assert (got.status, got.json) == (200, {"content": "urn 1\n", "truncated": False, "tokens_cached": 0})
    ignored = {*got.headers["x-antiphon-ignored"].split(", ")}
    assert ignored == {"samplers", "n_indent", "t_max_prompt_ms", "t_max_predict_ms", "input_extra[0].time"}
    ((prompt, sampling, _),) = engine.requests
    before = (REPOSITORY, *b"repository\n", FILE, *b"a.py\na = 1\n", FILE, *b"b.py\nb = 2\n", FILE, *b"file\n")
    assert prompt == (*before, PREFIX, *b"def f():\n    ret", SUFFIX, *b"\n\nf()\n", MIDDLE)
    assert (sampling.max_tokens, sampling.top_k, sampling.top_p) == (128, 40, 0.99)


async def test_files_are_named_in_text_where_the_vocabulary_has_no_mark_for_them() -> None:
    engine, application = infilling(files=False)
    files = [{"text": "x<|fim_prefix|>"}, {"text": "y", "filename": "y.c"}]
    await post_in_process(application, "/infill", **MIDDLE_OF, input_extra=files)
    before = b"\n\n--- file ---\n\nx<|fim_prefix|>\n\n--- y.c ---\n\ny"
    assert engine.requests[0][0] == (*before, PREFIX, *b"def f():\n    ", SUFFIX, *b"\n", MIDDLE)


async def test_a_prompt_begins_as_the_models_prompts_do() -> None:
    engine = scripted([VOCABULARY.controls[END]])
    model = replace(model_of(engine), tokenizer=VOCABULARY, infill=PLAIN, begin=BEGIN)
    await post_in_process(create_app(StaticCatalog({"small": model})), "/infill", **MIDDLE_OF)
    assert engine.requests[0][0][:2] == (BEGINNING, PREFIX)


async def test_files_that_do_not_fit_are_left_out_the_first_ones_first() -> None:
    engine, application = infilling(context=200)
    files = [{"text": letter * 45, "filename": letter} for letter in "abcd"]
    got = await post_in_process(application, "/infill", **MIDDLE_OF, input_extra=files, n_predict=20)
    assert (got.json["truncated"], got.json["content"]) == (True, "urn 1\n")
    prompt = bytes(id for id in engine.requests[0][0] if id < 256)
    assert [letter for letter in b"abcd" if bytes([letter]) * 45 in prompt] == [*b"bcd"]
    await post_in_process(application, "/infill", **MIDDLE_OF, input_extra=files)
    assert len(engine.requests[0][0]) > 150 >= len(engine.requests[1][0]), "room for the middle"
    long = await post_in_process(application, "/infill", input_prefix="x" * 300, input_suffix="", input_extra=files)
    assert (long.status, long.error["code"], long.error["param"]) == (400, "context_length_exceeded", "input_prefix")


async def test_a_stream_has_the_middle_bit_by_bit_and_then_what_ended_it() -> None:
    _, application = infilling()
    whole = (await post_in_process(application, "/infill", **MIDDLE_OF)).json
    got = await post_in_process(application, "/infill", **MIDDLE_OF, stream=True)
    *more, last = got.events
    assert "".join(event["content"] for event in more) == whole["content"]
    assert {event["stop"] for event in more} == {False}
    assert last == {**whole, "content": ""}
    assert last["stop"], last["stop_type"]
    fields = await post_in_process(application, "/infill", **MIDDLE_OF, stream=True, response_fields=["stop_type"])
    assert fields.events[-1] == {"stop_type": "eos"}


@pytest.mark.parametrize(
    ("fields", "content", "ended"),
    [
        ({}, "urn 1\n", ("eos", "")),
        ({"n_predict": 3}, "urn", ("limit", "")),
        ({"stop": ["1", "2"]}, "urn ", ("word", "1")),
        ({"n_predict": 0}, "", ("limit", "")),
        ({"n_predict": -1, "input_suffix": ""}, "urn 1\n", ("eos", "")),
    ],
)
async def test_the_answer_says_what_ended_the_middle(
    fields: dict[str, Any], content: str, ended: tuple[str, str]
) -> None:
    _, application = infilling()
    got = (await post_in_process(application, "/infill", **{**MIDDLE_OF, **fields})).json
    assert (got["content"], (got["stop_type"], got["stopping_word"])) == (content, ended)
    assert (got["tokens_predicted"] > 0, got["has_new_line"], got["model"]) == (bool(content), "\n" in content, "small")


@pytest.mark.parametrize("stream", [False, True])
async def test_mistrals_route_answers_as_a_chat(stream: bool) -> None:
    engine, application = infilling(dialect=configured_dialects()["databricks"])
    fields: dict[str, Any] = {"prompt": "a", "suffix": "z", "max_tokens": 9, "random_seed": 7, "metadata": {"k": 1}}
    got = await post_in_process(application, "/v1/fim/completions", stream=stream, **fields)
    assert engine.requests[0][0] == (PREFIX, *b"a", SUFFIX, *b"z", MIDDLE)
    assert engine.requests[0][1].seed == 7
    if not stream:
        (choice,), usage = got.json["choices"], got.json["usage"]
        text, finish = choice["message"]["content"], choice["finish_reason"]
    else:
        *chunks, done = got.events
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
        finish, usage = chunks[-1]["choices"][0]["finish_reason"], chunks[-1]["usage"]
        assert done == "[DONE]"
    assert (text, finish, usage["prompt_tokens"]) == ("urn 1\n", "stop", 5)


async def test_without_a_suffix_mistrals_route_goes_on_with_the_text() -> None:
    engine, application = infilling(marks=False)
    got = await post_in_process(application, "/v1/fim/completions", prompt="a", suffix="")
    assert (got.status, engine.requests[0][0]) == (200, (*b"a",))


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/infill", MIDDLE_OF, "input_suffix"),
        ("/v1/fim/completions", {"prompt": "a", "suffix": "z"}, "suffix"),
        ("/v1/completions", {"prompt": "a", "suffix": "z"}, "suffix"),
    ],
)
async def test_a_model_without_the_marks_refuses_by_the_fields_name(
    path: str, fields: dict[str, Any], param: str
) -> None:
    _, application = infilling(marks=False)
    got = await post_in_process(application, path, **fields)
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_parameter", param)
    assert got.error["message"].startswith(f"{param} cannot be honoured")


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/infill", {"input_suffix": None}, "input_suffix"),
        ("/infill", {"prompt": [1, 2]}, "prompt"),
        ("/infill", {"input_extra": [{"filename": "a"}]}, "input_extra[0].text"),
        ("/infill", {"input_extra": [{"text": ""}] * 9}, "input_extra"),
        ("/infill", {"n_predict": -7}, "n_predict"),
        ("/infill", {"mirostat": 1}, "mirostat"),
        ("/infill", {"n_probs": 3}, "n_probs"),
        ("/infill", {"min_tokens": 3}, "min_tokens"),
        ("/infill", {"lora": [{"id": 0, "scale": 0.5}]}, "lora"),
        ("/v1/fim/completions", {"prompt": ""}, "prompt"),
        ("/v1/fim/completions", {"prompt": ["a"]}, "prompt"),
        ("/v1/fim/completions", {"n": 2}, "n"),
        ("/v1/fim/completions", {"min_tokens": 3}, "min_tokens"),
        ("/v1/fim/completions", {"prompt": "x" * 9000}, "prompt"),
    ],
)
async def test_what_the_routes_cannot_do_is_refused_by_its_name(path: str, fields: dict[str, Any], param: str) -> None:
    _, application = infilling(limits=Limits(max_messages=8))
    good = MIDDLE_OF if path == "/infill" else {"prompt": "a"}
    got = await post_in_process(application, path, **{**good, **fields})
    assert (got.status, got.error["param"]) == (400, param), got.body


async def test_a_model_that_hides_its_reasoning_fills_in_nothing() -> None:
    from antiphon.formats.harmony import Harmony

    engine, _ = infilling()
    model = replace(model_of(engine), tokenizer=VOCABULARY, infill=PLAIN, format=Harmony())
    application = create_app(StaticCatalog({"oss": model}))
    got = await post_in_process(application, "/infill", **MIDDLE_OF)
    assert (got.status, engine.requests) == (400, [])
