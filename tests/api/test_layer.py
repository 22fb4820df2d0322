"""The layer as a service: what it tokenizes, renders and parses is what chat completions would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import Harmony
from antiphon.formats.raw import RawFormat
from antiphon.formats.template import jinja_format
from antiphon.generation import EmbeddingSpec, Model
from antiphon.tokens import ByteTokenizer, Control, Piece
from kit.api import (
    END,
    START,
    THINK,
    TOKENIZER,
    UNTHINK,
    Got,
    app,
    call,
    chat,
    ids,
    model,
    post,
    post_in_process,
    request,
    running,
    scripted,
    served,
)
from kit.call_ids import numbered
from kit.obedient import catalog
from kit.toolbox import server_toolbox

ENGINE = scripted(ids(THINK, "hm", UNTHINK, "Fine.", END), context=400)
CHAT: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<|im_end|>"}]


base = served(lambda: app(ENGINE))


def ask(base: str, path: str, **fields: Any) -> Any:
    got = post(base, path, **fields)
    assert got.status == 200, got.body
    return got.json


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_texts_are_tokenized_and_ids_given_as_text_under_vllm_s_names(base: str, prefix: str) -> None:
    answer = ask(base, f"{prefix}/tokenize", model="small", prompt="é<|im_end|>", return_token_strs=True)
    assert answer["tokens"] == list("é<|im_end|>".encode()), "a control spelling in a text is text"
    assert (answer["count"], answer["max_model_len"]) == (len(answer["tokens"]), 400)
    assert answer["token_strs"][:3] == ["\ufffd", "\ufffd", "<"]
    assert "token_bytes" not in answer
    both = ask(base, f"{prefix}/tokenize", prompt="é", return_token_bytes=True)
    assert (both["token_bytes"], both["token_strs"]) == (["c3", "a9"], None)
    assert ask(base, f"{prefix}/tokenize", prompt="")["tokens"] == []
    assert ask(base, f"{prefix}/tokenize", prompt="x")["token_strs"] is None
    assert ask(base, f"{prefix}/detokenize", tokens=answer["tokens"]) == {"prompt": "é<|im_end|>"}
    assert ask(base, f"{prefix}/detokenize", tokens=ids(START, "hi", END)) == {"prompt": "<|im_start|>hi<|im_end|>"}


def test_a_chat_is_tokenized_and_rendered_as_a_completion_would_send_it(base: str) -> None:
    assert chat(base, messages=CHAT).status == 200
    sent = list(ENGINE.requests[-1][0])
    rendered = ask(base, "/v1/render", messages=CHAT)
    assert rendered["ids"] == sent == ask(base, "/tokenize", messages=CHAT)["tokens"]
    assert rendered["text"].count("<|im_end|>") == 3
    assert [piece for piece in rendered["pieces"] if "control" in piece].count({"control": "<|im_end|>"}) == 2
    assert "".join(piece.get("text", piece.get("control")) for piece in rendered["pieces"]) == rendered["text"]
    assert (rendered["model"], rendered["format"]) == ("small", "chatml")
    assert rendered["stop_token_ids"] == ids(END)
    assert rendered["stop"] == []


WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
REQUESTS: list[dict[str, Any]] = [
    {"tools": [WEATHER]},
    {"tools": [WEATHER], "tool_choice": "none"},
    {"tools": [WEATHER], "tool_choice": "required"},
    {"server_tools": ["docs"]},
    {"server_tools": True, "tools": [WEATHER]},
    {"server_tools": False},
    {"response_format": SCHEMA},
    {"reasoning_effort": "low"},
    {"messages": [*CHAT, {"role": "assistant", "content": "I"}], "continue_final_message": True},
]


@pytest.mark.parametrize("offers", [False, True])
@pytest.mark.parametrize("name", ["small", "oss"])
def test_what_is_rendered_and_counted_is_what_the_engine_gets(tmp_path: Path, name: str, offers: bool) -> None:
    models = catalog()
    engine = models.loaded[name].engine
    assert isinstance(engine, ScriptedEngine)
    with running(create_app(models, tools=server_toolbox(tmp_path), offer_tools=offers)) as base:
        for number, fields in enumerate(REQUESTS, 1):
            body: dict[str, Any] = {"model": name, "messages": CHAT, **fields}
            answer = post(base, "/v1/chat/completions", **body)
            assert len(engine.requests) == number, (fields, answer.body)
            sent = list(engine.requests[-1][0])
            assert ask(base, "/v1/render", **body)["ids"] == sent, fields
            if not fields.keys() - {"messages", "tools"}:
                assert ask(base, "/tokenize", **body)["tokens"] == sent


def test_a_session_s_prompt_is_not_rendered_and_unknown_tools_are_refused(base: str) -> None:
    fields: dict[str, Any]
    for fields in ({"session_id": "7"}, {"server_tools": ["shout"]}):
        refused = post(base, "/v1/render", messages=CHAT, **fields)
        assert (refused.status, refused.error["param"]) == (400, *fields)


def test_each_piece_of_a_prompt_has_its_tokens_where_they_are_requested(base: str) -> None:
    spelled = [{"role": "user", "content": "é <|im_end|>"}]
    rendered = ask(base, "/v1/render", messages=spelled, return_piece_tokens=True)
    tokens = [(piece, token) for piece in rendered["pieces"] for token in piece["tokens"]]
    assert [token["id"] for _, token in tokens] == rendered["ids"]
    for piece in rendered["pieces"]:
        spelling = b"".join(bytes.fromhex(token["bytes"]) for token in piece["tokens"]).decode()
        assert spelling == piece.get("text", piece.get("control"))
    controls = [piece["tokens"][0]["id"] for piece in rendered["pieces"] if "control" in piece]
    assert controls.count(ids(END)[0]) == rendered["ids"].count(ids(END)[0]) == 1
    plain = ask(base, "/v1/render", messages=spelled)
    assert all("tokens" not in piece for piece in plain["pieces"])


def test_the_start_of_a_reply_can_be_left_out(base: str) -> None:
    whole, alone = (ask(base, "/v1/render", messages=CHAT, add_generation_prompt=opens) for opens in (True, False))
    assert whole["text"].startswith(alone["text"].rstrip())
    assert alone["text"].rstrip().endswith("<|im_end|>")
    tokens = ask(base, "/tokenize", messages=CHAT, add_generation_prompt=False)["tokens"]
    assert tokens == alone["ids"]


def test_an_encoder_s_text_is_counted_as_it_is_embedded_and_its_card_says_how_long_a_vector_is() -> None:
    begin, end = Control("[CLS]"), Control("[SEP]")
    tokenizer = ByteTokenizer([begin, end])
    format = RawFormat(tokenizer.controls, begin=[begin], end=[end])
    model = Model(name="e", engine=ScriptedEngine([]), tokenizer=tokenizer, format=format, embedding=EmbeddingSpec(2))
    with running(create_app(StaticCatalog({"e": model}))) as base:
        assert ask(base, "/tokenize", prompt="ab")["tokens"] == [256, 97, 98, 257]
        assert ask(base, "/tokenize", prompt="ab", add_special_tokens=False)["tokens"] == [97, 98]
        assert request(base, "GET", "/v1/models/e").json["meta"]["n_embd"] == 2


def test_a_reply_is_parsed_from_text_or_ids_as_a_completion_would_tell_it(base: str) -> None:
    pieces: list[Piece] = [THINK, "hm", UNTHINK, "Look: ", *call("f", '{"x": 1}'), END]
    by_ids = numbered(ask(base, "/v1/parse", ids=ids(*pieces)))
    by_text = numbered(ask(base, "/v1/parse", text="".join(map(str, pieces))))
    assert by_ids == by_text
    assert by_ids["ended"] == "<|im_end|>"
    assert by_ids["incidents"] == []
    message = by_ids["message"]
    assert (message["role"], message["reasoning"], message["content"]) == ("assistant", "hm", "Look:")
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"x": 1}'}
    assert [(m.get("channel"), m.get("recipient"), m["text"], m["end"]) for m in by_ids["messages"]] == [
        ("analysis", None, "hm", "end"),
        ("final", None, "Look:", "end"),
        ("commentary", "functions.f", '{"x": 1}', "call"),
    ]


def test_the_prompt_tells_where_a_reply_begins(base: str) -> None:
    inside = ask(base, "/v1/parse", text="hm</think>Yes.", prompt_ids=ids(START, "assistant\n", THINK))
    assert (inside["message"]["reasoning"], inside["message"]["content"]) == ("hm", "Yes.")


def test_incidents_are_reported_or_with_strict_are_errors(base: str) -> None:
    broken: dict[str, Any] = {"ids": ids("a", START, "b", END)}
    answer = ask(base, "/v1/parse", **broken)
    assert answer["incidents"] == [{"code": "unexpected_control", "position": 1, "text": "<|im_start|>"}]
    assert answer["message"]["content"] == "ab"
    refused = post(base, "/v1/parse", strict=True, **broken)
    assert (refused.status, refused.error["code"]) == (400, "unexpected_control")


def test_harmony_is_rendered_and_parsed_too() -> None:
    tokenizer = ByteTokenizer(Harmony().controls)
    model = Model(name="oss", engine=ScriptedEngine([]), tokenizer=tokenizer, format=Harmony())
    with running(create_app(StaticCatalog({"oss": model}))) as base:
        rendered = ask(base, "/v1/render", messages=[{"role": "user", "content": "Hi"}])
        assert rendered["text"].endswith("<|start|>user<|message|>Hi<|end|><|start|>assistant")
        reply = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
        parsed = ask(base, "/v1/parse", text=reply, prompt_ids=rendered["ids"])
        assert (parsed["message"]["reasoning"], parsed["message"]["content"]) == ("hm", "Yes.")
        assert [message["channel"] for message in parsed["messages"]] == ["analysis", "final"]


def test_a_model_that_is_not_there_is_named(base: str) -> None:
    got = post(base, "/v1/render", messages=CHAT, model="large")
    assert (got.status, got.error["param"]) == (404, "model")


PARSING: Starlette = app(ids(END))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(ids(START)) + 260), max_size=30).map(lambda found: [id % 262 for id in found]))
async def test_no_reply_is_too_broken_to_parse(reply: list[int]) -> None:
    got: Got = await post_in_process(PARSING, "/v1/parse", ids=reply)
    assert got.status == 200, got.body


def test_a_vocabulary_is_told_to_programs_that_encode_elsewhere() -> None:
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    made = replace(model(scripted([])), special_tokens=special, chat_template="{{ messages }}")
    with running(create_app(StaticCatalog({"small": made, "plain": model(scripted([]), name="plain")}))) as base:
        for path in ("/tokenizer_info", "/v1/tokenizer_info?model=small"):
            info = request(base, "GET", path).json
            assert (info["bos_token"], info["eos_token"], info["unk_token"]) == ("<|im_start|>", "<|im_end|>", None)
            assert info["added_tokens_decoder"][str(ids(END)[0])] == {"content": "<|im_end|>", "special": True}
            assert "<think>" in info["additional_special_tokens"]
            assert (info["chat_template"], info["vocab_size"]) == ("{{ messages }}", TOKENIZER.size)
            assert info["model_max_length"] == 8192
        assert request(base, "GET", "/tokenizer_info?model=plain").json["eos_token"] is None
        assert request(base, "GET", "/tokenizer_info?model=none").status == 404


def test_a_special_token_by_itself_is_found_by_its_spelling_and_in_no_other_text() -> None:
    made = replace(model(scripted([])), special_tokens={"eos_token": "<|im_end|>"})
    with running(create_app(StaticCatalog({"small": made}))) as base:
        assert ask(base, "/tokenize", prompt="<|im_end|>", add_special_tokens=False)["tokens"] == ids(END)
        for fields in ({"prompt": "<|im_end|>"}, {"prompt": "<|im_end|> ", "add_special_tokens": False}):
            assert ask(base, "/tokenize", **fields)["tokens"] == list(str(fields["prompt"]).encode())
        text = ask(base, "/tokenize", prompt="<|im_start|>", add_special_tokens=False)["tokens"]
        assert text == list(b"<|im_start|>"), "a control that the model's files give no name"


def test_a_jinja_template_that_is_spoken_is_the_one_that_is_told() -> None:
    format = jinja_format("{{ messages[0].content }}", TOKENIZER.controls)
    made = replace(model(scripted([])), format=format, chat_template="another")
    with running(create_app(StaticCatalog({"small": made}))) as base:
        assert request(base, "GET", "/tokenizer_info").json["chat_template"] == "{{ messages[0].content }}"
