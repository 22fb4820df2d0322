"""What is sent to llama.cpp's server and how its events are read."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.engines import EngineEnd, Sampling, Step
from antiphon.engines.llama_cpp.wire import ChoiceReader, Event, EventReader, Fragments, completion_body

STREAM = (
    b'data: {"index":0,"content":"","tokens":[0],"stop":false,"prompt_progress":{"total":9,"cache":4}}\n\n'
    b'data: {"index":0,"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}\n\n'
    b": a comment that keeps the line alive\n\n"
    b'data: {"index":0,"content":"\xe6\xbc\xa2","tokens":[162],"stop":false,"tokens_predicted":4}\n\n'
    b'data: {"index":0,"content":"","tokens":[2],"stop":false,"tokens_predicted":5}\n\n'
    b'data: {"index":0,"tokens":[],"stop":true,"stop_type":"eos","truncated":false,"tokens_predicted":5}\n\n'
)
BYTES = Fragments((byte, bytes((byte,))) for byte in range(256))
STEPS = [
    Step((5,), cached_tokens=4, prompt_tokens=9),
    Step((0xE6, 0xBC, 0xA2)),
    Step((2,), end=EngineEnd.STOP),
]


def steps(events: list[Event], sampling: Sampling | None = None) -> list[Step]:
    reader = ChoiceReader(0, sampling or Sampling(max_tokens=9), frozenset({2}), BYTES)
    return [step for event in events if (step := reader.read(event)) is not None]


def test_cutting_the_stream_anywhere_gives_the_same_steps() -> None:
    for cut in range(len(STREAM) + 1):
        reader = EventReader()
        assert steps(reader.feed(STREAM[:cut]) + reader.feed(STREAM[cut:])) == STEPS, cut


def test_a_stop_id_of_the_request_ends_the_choice_inside_a_character_too() -> None:
    found = steps(EventReader().feed(STREAM), Sampling(max_tokens=9, stop_ids=frozenset({0xBC})))
    assert found == [STEPS[0], Step((0xE6, 0xBC), end=EngineEnd.STOP)]


def test_an_end_that_was_not_reported_is_supplied() -> None:
    last = Event(stop=True, stop_type="eos", tokens_predicted=2)
    assert steps([Event(tokens=[5], tokens_predicted=1), last])[-1] == Step((2,), end=EngineEnd.STOP)


def test_a_limit_is_distinguished_from_a_full_context() -> None:
    assert steps([Event(stop=True, stop_type="limit")])[0].end is EngineEnd.LENGTH_OUTPUT
    assert steps([Event(stop=True, stop_type="limit", truncated=True)])[0].end is EngineEnd.LENGTH_CONTEXT


def test_an_error_in_mid_stream_is_read_in_both_spellings() -> None:
    body = b'{"code":500,"message":"no room","type":"server_error"}'
    for line in (b'data: {"error":' + body + b"}\n", b"error: " + body + b"\n"):
        (event,) = EventReader().feed(line)
        assert event.error is not None
        assert event.error.message == "no room"


def body(**settings: object) -> dict[str, object]:
    sampling = msgspec.convert({"max_tokens": 5, **settings}, Sampling)
    return completion_body((1, 2), sampling, n=1, grammar=None, context=100)


def test_every_sampler_with_a_default_of_its_own_is_named() -> None:
    request = body()
    assert request["samplers"] == ["temperature", "min_p", "top_k", "top_p"]
    assert (request["top_k"], request["top_p"], request["min_p"]) == (0, 1.0, 0.0)
    assert (request["repeat_penalty"], request["dry_multiplier"], request["xtc_probability"]) == (1.0, 0.0, 0.0)


def test_greedy_looks_at_nothing_but_the_most_probable() -> None:
    assert body(temperature=0)["samplers"] == ["top_k"]
    assert body(temperature=0)["top_k"] == 1
    assert body(temperature=0, presence_penalty=1.0)["samplers"] == ["penalties", "top_k"]


def test_penalties_look_at_the_whole_context_and_at_no_more() -> None:
    assert body(repetition_penalty=1.1)["repeat_last_n"] == 100
    assert body()["repeat_last_n"] == 0


@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
def test_a_seed_fits_32_bits_and_is_never_the_servers_word_for_random(seed: int) -> None:
    sent = body(seed=seed)["seed"]
    assert isinstance(sent, int)
    assert 0 <= sent < 2**32 - 2**15
    assert sent == seed or seed >= 2**32 - 2**16
