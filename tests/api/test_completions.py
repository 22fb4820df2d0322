"""Text completions: prompts of every kind, raw, in the model's format or between two texts, streamed and whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.api import create_app
from antiphon.api.dialects import configured_dialects
from antiphon.api.dialects.tables import databricks
from antiphon.catalog.files.text import folder_text, gguf_text
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine, Step
from antiphon.engines.gguf_file import GgufValue
from antiphon.errors import EngineLostError
from antiphon.formats.harmony import Harmony
from antiphon.formats.raw import FillInMiddle
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control
from kit.api import (
    END,
    START,
    THINK,
    UNTHINK,
    Got,
    app,
    ids,
    post,
    post_in_process,
    running,
    scripted,
    served,
    serving,
    wire_bytes,
)
from kit.api import model as model_of
from kit.waiting import until

DATABRICKS = databricks()


def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> list[int]:
    """Says how long the prompt was, with another answer for each seed and each choice."""
    return ids(f"{len(prompt)} ids, seed {sampling.seed}, choice {choice}.", END)


ENGINE = scripted(script, context=200, slots=6)


base = served(lambda: app(ENGINE))


@pytest.fixture
def client(base: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        yield client


def complete(base: str, prompt: Any = "Once", **fields: Any) -> Got:
    return post(base, "/v1/completions", prompt=prompt, **fields)


def texts(got: Got) -> list[str]:
    assert got.status == 200, got.body
    return [choice["text"] for choice in got.json["choices"]]


@pytest.mark.spec("DBX-83", "DBX-84", "DBX-97", "DBX-99", "DBX-100", "DBX-101", "DBX-103", "DBX-104")
@pytest.mark.parametrize(
    ("prompt", "lengths"),
    [("Once", [4]), (["Once", "upon a time"], [4, 11]), ([79, 110], [2]), ([[79], [110, 99, 101]], [1, 3])],
)
def test_the_official_client_completes_every_kind_of_prompt(
    client: openai.OpenAI, prompt: Any, lengths: list[int]
) -> None:
    whole = client.completions.create(model="small", prompt=prompt, seed=3)
    assert whole.object == "text_completion"
    assert [choice.text for choice in whole.choices] == [f"{length} ids, seed 3, choice 0." for length in lengths]
    assert {choice.finish_reason for choice in whole.choices} == {"stop"}
    assert [choice.index for choice in whole.choices] == list(range(len(lengths)))
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == sum(lengths)
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    texts_by_index = [""] * len(lengths)
    for chunk in client.completions.create(
        model="small", prompt=prompt, seed=3, stream=True, stream_options={"include_usage": True}
    ):
        for choice in chunk.choices:
            texts_by_index[choice.index] += choice.text
    assert texts_by_index == [choice.text for choice in whole.choices]
    assert chunk.usage == whole.usage


@pytest.mark.spec("DBX-96")
def test_a_raw_prompt_is_the_text_as_it_stands_and_one_in_the_format_is_a_user_s_message(base: str) -> None:
    complete(base, "a<|im_end|>")
    assert list(ENGINE.requests[-1][0]) == ids("a<|im_end|>"), "a control spelling in a raw prompt is text"
    complete(base, "a", use_raw_prompt=False)
    assert ENGINE.requests[-1][0][0] == ids(START)[0]
    assert list(ENGINE.requests[-1][0])[: len(ids(START, "user\na", END))] == ids(START, "user\na", END)


def test_ids_may_hold_controls(base: str) -> None:
    complete(base, ids(START, "user\nHi", END))
    assert list(ENGINE.requests[-1][0]) == ids(START, "user\nHi", END)


@pytest.mark.spec("DBX-95")
def test_echo_begins_with_the_prompt_and_needs_no_answer(base: str) -> None:
    assert texts(complete(base, ["Once", "upon"], echo=True, seed=1)) == [
        f"{prompt}4 ids, seed 1, choice 0." for prompt in ("Once", "upon")
    ]
    requests_before = len(ENGINE.requests)
    only = complete(base, [79, 110], echo=True, max_tokens=0)
    assert texts(only) == ["On"]
    assert only.json["choices"][0]["finish_reason"] == "length"
    assert only.json["usage"]["completion_tokens"] == 0
    assert len(ENGINE.requests) == requests_before


@pytest.mark.spec("DBX-92", "DBX-98")
def test_every_prompt_has_n_choices_whose_index_runs_on(base: str) -> None:
    choices = complete(base, ["Once", "upon"], n=2).json["choices"]
    assert [(c["index"], c["prompt_index"], c["sample_index"]) for c in choices] == [
        (0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)
    ]  # fmt: skip
    assert [c["text"][-2] for c in choices] == ["0", "1", "0", "1"]


@pytest.mark.spec("DBX-93")
def test_it_stops_at_stop_strings_and_is_cut_at_the_limit(base: str) -> None:
    stopped = complete(base, stop=[", cho", "never"], seed=1).json["choices"][0]
    assert (stopped["text"], stopped["finish_reason"]) == ("4 ids, seed 1", "stop")
    cut = complete(base, max_tokens=5).json["choices"][0]
    assert (cut["text"], cut["finish_reason"]) == ("4 ids", "length")


def test_logprobs_have_the_older_shape(client: openai.OpenAI) -> None:
    with running(app(ids("né漢", END))) as base, openai.OpenAI(base_url=base, api_key="any") as client:
        choice = client.completions.create(model="small", prompt="x", logprobs=2).choices[0]
        logprobs = choice.logprobs
        assert logprobs is not None
        assert logprobs.tokens is not None
        assert logprobs.tokens == ["n", "bytes:\\xc3", "bytes:\\xa9", "bytes:\\xe6", "bytes:\\xbc", "bytes:\\xa2"]
        assert logprobs.text_offset == [0, 1, 1, 2, 2, 2]
        assert logprobs.token_logprobs == [0.0] * 6
        assert logprobs.top_logprobs is not None
        assert logprobs.top_logprobs[0] == {"n": 0.0, "o": -1.0}
        streamed: list[int] = []
        for chunk in client.completions.create(model="small", prompt="x", logprobs=0, stream=True):
            found = chunk.choices[0].logprobs
            streamed += (found.text_offset or []) if found else []
        assert streamed == logprobs.text_offset


class Doubtful(ScriptedEngine):
    """Is the surer of a choice the higher its number."""

    async def generate(self, *args: Any, **options: Any) -> AsyncGenerator[Step, None]:
        async for step in super().generate(*args, **options):
            yield msgspec.structs.replace(
                step, logprobs=tuple(msgspec.structs.replace(one, logprob=step.choice - 10.0) for one in step.logprobs)
            )


def test_best_of_tells_the_likeliest_and_counts_all() -> None:
    with running(app(Doubtful(script))) as base:
        best = complete(base, best_of=4, n=2)
        assert texts(best) == ["4 ids, seed None, choice 3.", "4 ids, seed None, choice 2."]
        assert best.json["choices"][0]["logprobs"] is None
        assert best.json["usage"]["completion_tokens"] == 4 * len(ids("4 ids, seed None, choice 3.", END))
        assert complete(base, best_of=2, stream=True).error["param"] == "best_of"


def test_other_controls_are_left_out_or_spelled(base: str) -> None:
    with running(app(ids(THINK, "hm", UNTHINK, "Yes.", END))) as base:
        assert texts(complete(base)) == ["hmYes."]
        assert texts(complete(base, skip_special_tokens=False)) == ["<think>hm</think>Yes."]
        assert texts(complete(base, use_raw_prompt=False)) == ["Yes."], "reasoning is hidden in the model's format"


def test_continuous_usage_is_on_every_event(base: str) -> None:
    events = complete(base, stream=True, stream_options={"continuous_usage_stats": True}, max_tokens=3).events
    assert events[-1] == "[DONE]"
    assert [event["usage"]["completion_tokens"] for event in events[:-1]] == [1, 2, 3, 3]


@pytest.mark.spec("DBX-90")
def test_a_prompt_without_room_is_an_error_or_gets_an_empty_answer(base: str) -> None:
    refused = complete(base, ["x", "y" * 200])
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    assert refused.error["param"] == "prompt[1]"
    assert "200" in refused.error["message"]
    cut = complete(base, "y" * 300, error_behavior="truncate").json["choices"][0]
    assert (cut["text"], cut["finish_reason"]) == ("", "length")
    assert complete(base, "y" * 199, max_tokens=9).json["choices"][0]["finish_reason"] == "length"


@pytest.mark.spec("DBX-94", "DBX-102", "DBX-86")
def test_a_stream_of_the_databricks_dialect_appends_and_counts_prompts() -> None:
    with running(app(scripted(ids("b", END)), dialect=DATABRICKS)) as base:
        events = complete(base, ["a", "c"], stream=True, echo=True, suffix="!", n=2).events
        assert events.pop() == "[DONE]"
        assert "usage" not in events[0]
        assert events[-1]["usage"]["completion_tokens"] == 4 * len(ids("b", END))
        for prompt, text in enumerate("ac"):
            for sample in range(2):
                mine = [
                    choice
                    for event in events
                    for choice in event["choices"]
                    if (choice["index"], choice["sample_index"]) == (prompt, sample)
                ]
                assert [choice["text"] for choice in mine] == [text, "b", "!", ""]
                assert [choice["finish_reason"] for choice in mine] == [None, None, None, "stop"]
        assert texts(complete(base, "a", stream=False, suffix="!")) == ["b!"]


@pytest.mark.parametrize(
    ("param", "value"), [("response_format", {"type": "json_object"}), ("model", "large"), ("n", 7)]
)
def test_bad_input_names_its_field(base: str, param: str, value: object) -> None:
    got = complete(base, **{param: value})
    assert (got.status in (400, 404), got.error["param"]) == (True, param), got.body
    assert ENGINE.running == 0


def test_a_suffix_of_nothing_is_no_suffix(base: str) -> None:
    assert complete(base, suffix="").status == 200


@pytest.mark.spec("DBX-96", "HAR-02")
def test_harmony_is_never_without_its_format_unless_forced() -> None:
    tokenizer = ByteTokenizer(Harmony().controls)
    engine = ScriptedEngine(tokenizer.encode("x"), context=4096)
    model = Model(name="oss", engine=engine, tokenizer=tokenizer, format=Harmony())
    with running(create_app(StaticCatalog({"oss": model}))) as base:
        hidden = complete(base, "Hi", use_raw_prompt="force")
        assert (hidden.status, hidden.error["code"]) == (403, "E-PERM-VISIBILITY"), "it would show reasoning"
        assert not engine.requests
    with running(create_app(StaticCatalog({"oss": model}), expose_reasoning=True)) as base:
        assert complete(base, "Hi").status == 200
        assert len(engine.requests[-1][0]) > 2, "the prompt is a user's message"
        for fields in ({"use_raw_prompt": True}, {"prompt": [72]}):
            refused = complete(base, **fields)
            assert refused.error["code"] == "unsupported_parameter"
            assert "force" in refused.error["message"]
        assert texts(complete(base, "Hi", use_raw_prompt="force")) == ["x"]
        assert list(engine.requests[-1][0]) == list(b"Hi")


def test_one_prompt_s_engine_error_ends_all_of_them() -> None:
    def breaks(prompt: Sequence[int], sampling: Sampling, choice: int) -> Any:
        return EngineLostError("the engine died") if prompt == (98,) else ids("fine", END)

    engine = scripted(breaks)
    with running(app(engine)) as base:
        assert complete(base, ["a", "b", "c"]).status == 503
        assert complete(base, ["b"], stream=True).status == 503
        answer = complete(base, ["a", "b"], stream=True)
        assert answer.status == 503 or "error" in answer.events[-2]
        assert engine.running == 0
        assert texts(complete(base, ["a", "c"])) == ["fine", "fine"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_stops_all_its_prompts(stream: bool) -> None:
    engine = scripted(ids("word " * 1500), delay=0.002)
    application = app(engine)
    async with serving(application) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wire_bytes("/v1/completions", {"prompt": ["a", "b", "c"], "n": 2, "stream": stream}))
        await until(lambda: engine.running == 3)
        writer.transport.abort()
        await until(lambda: engine.running == 0 and application.state.context.admission.running == 0)


REPLIES = st.lists(st.sampled_from(["a", "b ", "é", "漢", "\n", THINK, UNTHINK]), max_size=5)


@settings(max_examples=80, deadline=None)
@given(
    replies=st.lists(REPLIES, min_size=2, max_size=2),
    prompts=st.lists(st.text("xé", min_size=1, max_size=3), min_size=1, max_size=3),
    cuts=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    fields=st.fixed_dictionaries(
        {
            "n": st.integers(1, 2), "echo": st.booleans(), "suffix": st.sampled_from(["", "$"]),
            "max_tokens": st.none() | st.integers(0, 8), "stop": st.none() | st.sampled_from(["b", "é漢", "a\n"]),
            "use_raw_prompt": st.booleans(), "logprobs": st.none() | st.integers(0, 1),
            "return_token_ids": st.booleans(),
        }
    ),
)  # fmt: skip
async def test_a_stream_and_a_whole_answer_agree(
    replies: list[Any], prompts: list[str], cuts: tuple[int, int], fields: dict[str, Any]
) -> None:
    fields["use_raw_prompt"] |= fields["echo"] and fields["logprobs"] is not None
    dialect = replace(DATABRICKS, stream_default=False, ranges={})
    one, other = (
        app(scripted(lambda prompt, sampling, choice: ids(*replies[choice], END), chunk=cut), dialect=dialect)
        for cut in cuts
    )
    fields["return_token_ids"] &= fields["use_raw_prompt"]  # else they would show what it thinks
    whole = await post_in_process(one, "/v1/completions", prompt=prompts, **fields)
    streamed = await post_in_process(
        other, "/v1/completions", prompt=prompts, stream=True, stream_options={"include_usage": True}, **fields
    )
    assert (whole.status, streamed.status) == (200, 200), (whole.body, streamed.body)
    assert streamed.events[-1] == "[DONE]"
    assert assembled(streamed.events[:-1]) == assembled([whole.json])


def assembled(events: list[Any]) -> dict[Any, Any]:
    """What a client puts together from a stream, or from an answer that is one event."""
    fields: dict[Any, Any] = {"usage": None}
    for event in events:
        fields["usage"] = event.get("usage") or fields["usage"]
        for choice in event["choices"]:
            mine = fields.setdefault((choice["index"], choice["sample_index"]), ["", None, {}])
            assert mine[1] is None, "something came after the finish"
            mine[0] += choice["text"]
            mine[1] = choice["finish_reason"]
            more = {name: choice[name] for name in ("prompt_token_ids", "token_ids") if name in choice}
            for name, values in {**(choice["logprobs"] or {}), **more}.items():
                mine[2].setdefault(name, []).extend(values)
    return fields


async def test_as_many_prompts_run_at_once_as_the_engine_has_slots_for_their_choices() -> None:
    running: list[int] = []

    def counted(prompt: Sequence[int], sampling: Sampling, choice: int) -> list[int]:
        running.append(engine.running)
        return ids("a", END)

    engine = scripted(counted, slots=6)
    got = await post_in_process(app(engine), "/v1/completions", prompt=["a"] * 5, n=3)
    assert len(got.json["choices"]) == 15
    assert max(running) == 2


MARKS = tuple(Control(f"<|fim_{name}|>") for name in ("prefix", "suffix", "middle", "pad"))
IM_END = Control("<|im_end|>")
VOCABULARY = ByteTokenizer((*MARKS, IM_END))
PRE, SUF, MID, PAD = (VOCABULARY.controls[mark] for mark in MARKS)


def infilling(*reply: int, infill: bool = True, **options: Any) -> Any:
    engine = scripted(list(reply) or [*b"middle", PAD, *b"lost"])
    marks = FillInMiddle(MARKS[0], MARKS[1], MARKS[2], MARKS[3:])
    model = replace(model_of(engine), tokenizer=VOCABULARY, infill=marks if infill else None)
    return engine, running(create_app(StaticCatalog({"small": model}), **options))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("before", ["a <|fim_suffix|> b", "", "é"])
def test_the_prompt_is_prefix_suffix_and_middle_and_the_answer_ends_at_a_mark(before: str, stream: bool) -> None:
    engine, server = infilling()
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
    engine, server = infilling()
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
    engine, server = infilling(infill=infill)
    with server as base:
        got = post(base, "/v1/completions", suffix="z", **fields)
        assert (got.status, got.error["param"], engine.requests) == (400, param, [])
        assert post(base, "/v1/completions", prompt="", suffix="").error["param"] == "prompt"


@pytest.mark.spec("DBX-94")
def test_databricks_suffix_is_still_appended() -> None:
    engine, server = infilling(*b"middle", dialect=configured_dialects()["databricks"])
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


@pytest.mark.parametrize(
    ("marks", "names"),
    [
        (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"), ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")),
        (("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), ("<repo_name>", "<file_sep>")),
        (("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"), ()),
    ],
)
def test_marks_are_found_by_their_spelling_where_no_file_names_them(
    marks: tuple[str, str, str], names: tuple[str, ...], tmp_path: Path
) -> None:
    for spellings in ((*marks, *names), marks[:2]):
        library = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, []))
        library.add_tokens([tokenizers.AddedToken(spelling, special=False) for spelling in spellings])
        library.save(str(tmp_path / "tokenizer.json"))
        metadata: dict[str, GgufValue] = {
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", *spellings], "tokenizer.ggml.merges": [],
            "tokenizer.ggml.token_type": [1, *[3] * len(spellings)],
        }  # fmt: skip
        for text in (folder_text(tmp_path), gguf_text(metadata)):
            if spellings == marks[:2]:
                assert text.infill is None
                continue
            prefix, suffix, middle = map(Control, marks)
            ends = tuple(map(Control, names))
            assert text.infill == FillInMiddle(prefix, suffix, middle, ends, *ends[-2:])
