"""Samples: arrays beside the ids, what is trained of them, and rollouts that become one."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

import antiphon
from antiphon import training
from antiphon.errors import ModelError, NotFoundError, RequestError
from antiphon.formats.harmony import Harmony
from antiphon.formats.template import jinja_format
from antiphon.library.training import TrainOn
from antiphon.tokens import ByteTokenizer, Control, decode, o200k_harmony
from antiphon.training import Owner, Part, Renderer, Turn, join_rollout

CONTROLS = [Control("<|im_start|>"), Control("<|im_end|>")]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "assistant"},
    {"role": "assistant", "content": "Grüße."},
    {"role": "user", "content": "And?"},
    {"role": "assistant", "content": "<|im_end|> is text."},
]


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    tokenizer = ByteTokenizer(CONTROLS)
    return Renderer((jinja_format(CHATML, CONTROLS, {"eos_token": "<|im_end|>"}), tokenizer))


def texts(renderer: Renderer, sample: training.Sample) -> list[tuple[str, str, str]]:
    return [
        (one.owner.name, one.part.name, decode(renderer.tokenizer, sample.ids[one.start : one.end]))
        for one in sample.passages
    ]


def test_each_stretch_has_its_owner_and_a_spelled_control_is_a_text(renderer: Renderer) -> None:
    sample = renderer.render(TALK)
    assert texts(renderer, sample) == [
        ("TEMPLATE", "NONE", "<|im_start|>system\n"),
        ("SYSTEM", "NONE", "Be brief."),
        ("TEMPLATE", "NONE", "<|im_end|>\n<|im_start|>user\n"),
        ("USER", "NONE", "assistant"),
        ("TEMPLATE", "NONE", "<|im_end|>\n<|im_start|>assistant\n"),
        ("ASSISTANT", "CONTENT", "Grüße."),
        ("ASSISTANT", "END", "<|im_end|>"),
        ("TEMPLATE", "NONE", "\n<|im_start|>user\n"),
        ("USER", "NONE", "And?"),
        ("TEMPLATE", "NONE", "<|im_end|>\n<|im_start|>assistant\n"),
        ("ASSISTANT", "CONTENT", "<|im_end|> is text."),
        ("ASSISTANT", "END", "<|im_end|>"),
        ("TEMPLATE", "NONE", "\n"),
    ]
    assert sample.changes == ()


def test_the_arrays_say_the_same_as_the_stretches_and_numpy_copies_none(renderer: Renderer) -> None:
    sample = renderer.render(TALK)
    ids = np.frombuffer(sample.ids, "i4")
    sampled = np.frombuffer(sample.sampled, "?")
    assert len(sample) == len(ids) == len(sampled) == len(sample.owners) == len(sample.parts) == len(sample.messages)
    for one in sample.passages:
        here = slice(one.start, one.end)
        assert set(sample.owners[here]) == {one.owner}
        assert set(sample.parts[here]) == {one.part}
        assert set(sample.messages[here]) == {one.message}
        assert set(sampled[here].tolist()) == {one.sampled}
    assert np.array_equal(np.frombuffer(sample.weights, "f4"), sampled.astype("f4"))
    assert np.array_equal(np.where(sampled, ids, training.IGNORED), np.frombuffer(sample.labels, "i4"))
    sample.ids[0] += 1
    assert ids[0] == sample.ids[0]


@pytest.mark.parametrize(
    ("train_on", "trained"),
    [
        ("all", ["Grüße.", "<|im_end|>", "<|im_end|> is text.", "<|im_end|>"]),
        ("last", ["<|im_end|> is text.", "<|im_end|>"]),
        ({Owner.USER}, ["assistant", "And?"]),
        ({Owner.ASSISTANT, Owner.SYSTEM}, ["Be brief.", "Grüße.", "<|im_end|>", "<|im_end|> is text.", "<|im_end|>"]),
    ],
)
def test_what_is_trained_is_chosen(renderer: Renderer, train_on: TrainOn, trained: list[str]) -> None:
    sample = renderer.render(TALK, train_on=train_on)
    weighed = [
        text
        for (_, _, text), one in zip(texts(renderer, sample), sample.passages, strict=True)
        if sample.weights[one.start]
    ]
    assert weighed == trained


def test_a_message_weighs_what_is_given_and_what_is_not_sampled_nothing(renderer: Renderer) -> None:
    sample = renderer.render(TALK, weights={2: 0.5, 1: 9.0})
    assert {sample.weights[one.start] for one in sample.passages if one.message == 2} == {0.5}
    assert {sample.weights[one.start] for one in sample.passages if one.message == 4} == {1.0}
    assert {sample.weights[one.start] for one in sample.passages if not one.sampled} == {0.0}


@pytest.mark.parametrize(
    ("wrong", "place"),
    [("none", "train_on"), (3, "train_on"), ({"assistant"}, "train_on[0]"), ([7], "train_on[0]")],
)
def test_another_choice_is_refused(renderer: Renderer, wrong: object, place: str) -> None:
    with pytest.raises(RequestError) as caught:
        renderer.render(TALK, train_on=wrong)  # type: ignore[arg-type]
    assert caught.value.position is not None
    assert caught.value.position.path == place


def test_gpt_oss_ends_a_last_answer_as_it_is_trained_and_keeps_the_last_thoughts() -> None:
    thought = {"role": "assistant", "reasoning_content": "Hm.", "content": "Yes."}
    sample = training.render([*TALK[:2], thought, TALK[1], thought], "harmony")
    tokenizer = o200k_harmony()
    spelled = decode(tokenizer, [id for id, weight in zip(sample.ids, sample.weights, strict=True) if weight])
    assert spelled == (
        "<|channel|>final<|message|>Yes."
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    )
    assert [(change.kind, change.message) for change in sample.changes] == [
        ("reasoning_dropped", 2),
        ("end_not_shown", 3),
    ]
    kept = Renderer((Harmony(), tokenizer), history=antiphon.formats.HistoryPolicy.KEEP_ALL)
    again = kept.render([*TALK[:2], thought, TALK[1], thought])
    assert {one.message for one in again.passages if one.part is Part.REASONING} == {2, 5}


def test_the_ids_before_a_reply_are_those_of_the_prompt_for_it(smollm2_path: Path) -> None:
    renderer = Renderer(smollm2_path)
    sample = renderer.render(TALK)
    with antiphon.open_model(smollm2_path) as model:
        prompt = model.render(TALK[:4])
    first = max(
        one.start
        for one, after in zip(sample.passages[1:], sample.passages, strict=False)
        if one.sampled > after.sampled
    )
    assert tuple(sample.ids[:first]) == prompt.ids


def test_a_template_is_told_the_day(tmp_path: Path) -> None:
    source = "{{ strftime_now('%Y') }}" + CHATML
    format = jinja_format(source, CONTROLS, {"eos_token": "<|im_end|>"})
    tokenizer = ByteTokenizer(CONTROLS)
    told = [
        decode(tokenizer, Renderer((format, tokenizer), date=day).render(TALK).ids)[:4]
        for day in (date(1999, 1, 1), None)
    ]
    assert told == ["1999", str(date.today().year)]


def test_a_folder_of_hugging_faces_is_a_model(tmp_path: Path, renderer: Renderer) -> None:
    letters = sorted(ByteLevel.alphabet())
    vocabulary = tokenizers.Tokenizer(BPE({letter: id for id, letter in enumerate(letters)}, []))
    vocabulary.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    vocabulary.decoder = tokenizers.decoders.ByteLevel()
    vocabulary.add_special_tokens([str(control) for control in CONTROLS])
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    settings = {"chat_template": CHATML, "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    known = Renderer(tmp_path)
    assert texts(known, known.render(TALK)) == texts(renderer, renderer.render(TALK))


def test_a_model_that_is_not_here_is_named() -> None:
    with pytest.raises(NotFoundError, match="no-such-model"):
        Renderer("no-such-model")
    with pytest.raises(ModelError):
        Renderer(Path("/nowhere/model.gguf"))


@pytest.mark.parametrize("weights", [{5: 1.0}, {-1: 1.0}, {2: float("nan")}])
def test_a_weight_of_no_message_and_no_number_are_refused(renderer: Renderer, weights: dict[int, float]) -> None:
    with pytest.raises(RequestError, match="Weights go by the index of a message"):
        renderer.render(TALK, weights=weights)


# Rollouts.


def test_turns_whose_prompts_go_on_are_one_sample_with_the_log_probabilities_of_each() -> None:
    turns = [Turn([1, 2], [3, 4], [-0.5, -0.25]), Turn([1, 2, 3, 4, 5], [6], [-1.0])]
    (sample,), breaks = join_rollout(turns)
    assert not breaks
    assert list(sample.ids) == [1, 2, 3, 4, 5, 6]
    assert list(sample.sampled) == [0, 0, 1, 1, 0, 1]
    assert list(sample.weights) == [0, 0, 1, 1, 0, 1]
    assert list(sample.logprobs) == [0, 0, -0.5, -0.25, 0, -1]


@pytest.mark.parametrize(
    ("prompt", "position", "within", "says"),
    [
        ([1, 2, 3, 9, 5], 3, True, "the prompt of turn 1 writes the reply before it otherwise, from id 3 on"),
        ([1, 9, 3, 4, 5], 1, False, "the prompt of turn 1 has another beginning, from id 1 on"),
        ([1, 2, 3], 3, True, "the prompt of turn 1 writes the reply before it otherwise, from id 3 on"),
    ],
)
def test_a_prompt_that_does_not_go_on_begins_a_sample_and_says_why(
    prompt: list[int], position: int, within: bool, says: str
) -> None:
    samples, (broken,) = join_rollout([Turn([1, 2], [3, 4]), Turn(prompt, [6]), Turn([*prompt, 6, 7], [8])])
    assert [list(sample.ids) for sample in samples] == [[1, 2, 3, 4], [*prompt, 6, 7, 8]]
    assert (broken.turn, broken.position, broken.within_reply, str(broken)) == (1, position, within, says)
    assert [len(sample.logprobs) for sample in samples] == [0, 0]


def test_log_probabilities_of_another_number_are_refused() -> None:
    with pytest.raises(RequestError, match="turn 1 has 2 sampled ids and 1 log probabilities"):
        join_rollout([Turn([1], [2]), Turn([1, 2], [3, 4], [-1.0])])


@pytest.mark.parametrize("id", [-1, 2**31, 1.0, "1", True, None])
def test_what_is_no_id_is_refused_with_its_place(id: object) -> None:
    with pytest.raises(RequestError) as caught:
        join_rollout([Turn([1], [2]), Turn([1, 2], [id])])  # type: ignore[list-item]
    assert caught.value.position is not None
    assert caught.value.position.path == "turns[1].sampled"


@pytest.mark.parametrize("weights", [{"1": 1.0}, {1: "heavy"}, [1.0], {1: None}])
def test_weights_of_another_type_are_refused(renderer: Renderer, weights: object) -> None:
    with pytest.raises(RequestError, match="weights"):
        renderer.render(TALK, weights=weights)  # type: ignore[arg-type]


def test_no_turns_are_no_samples() -> None:
    assert join_rollout([]) == ([], [])
