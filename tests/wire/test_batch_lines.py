"""The lines of a batch: read the same however the file comes in pieces, and run next to those that begin alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.api.batches.lines import Lanes, Line, LineReader, body_of
from kit.batches import CHAT, jsonl, line

BATCH = jsonl([line("a"), line("ü" * 9, "two\nlines", n=3), line("c", model=None)])


def read(*pieces: bytes, most: int = 100) -> LineReader:
    reader = LineReader({CHAT}, most, 10_000)
    for piece in pieces:
        reader.feed(piece)
    reader.close()
    return reader


@pytest.mark.parametrize("cut", range(0, len(BATCH) + 1, 3))
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_file_is_read_the_same_in_pieces(cut: int, end: bytes) -> None:
    data = BATCH.rstrip(b"\n") + end
    cut_up, whole = read(data[:cut], data[cut:]), read(data)
    assert cut_up.lines == whole.lines
    assert cut_up.faults == whole.faults == []
    assert [(one.number, one.custom_id, one.model, one.places) for one in whole.lines] == [
        (1, "a", "small", 1),
        (2, "ü" * 9, "small", 3),
        (3, "c", None, 1),
    ]
    for one, sent in zip(whole.lines, data.splitlines(), strict=True):
        assert data[one.start : one.end] == sent
        assert json.loads(body_of(sent)) == json.loads(sent)["body"]


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_file_is_too_odd(data: bytes, cut: int) -> None:
    cut_up, whole = read(data[:cut], data[cut:], most=3), read(data, most=3)
    assert cut_up.faults == whole.faults
    assert whole.faults  # none of them is a batch


@pytest.mark.parametrize(
    ("fields", "places"),
    [({}, 1), ({"n": 4}, 4), ({"n": "4"}, 1), ({"n": -1}, 1), ({"prompt": ["a", "b"]}, 2), ({"prompt": [1, 2]}, 1),
     ({"prompt": ["a", "b"], "n": 2}, 4), ({"prompt": []}, 1), ({"prompt": {"a": 1}}, 1), ({"n": True}, 1)],
)  # fmt: skip
def test_a_line_takes_a_place_for_each_answer(fields: dict[str, Any], places: int) -> None:
    assert read(jsonl([line("a", **fields)])).lines[0].places == places


def talks(groups: int, each: int) -> list[Line]:
    """Lines of several system texts, taken in turn."""
    systems = [f"System {group} " * 40 for group in range(groups)]
    sent = [
        line(f"{group}-{i}", messages=[{"role": "system", "content": systems[group]}, {"role": "user", "content": ""}])
        for i in range(each)
        for group in range(groups)
    ]
    return read(jsonl(sent), most=10_000).lines


def in_turn(lanes: Lanes, count: int) -> Iterator[tuple[int, Line]]:
    """One line of each lane after the other, as lanes of one speed run them."""
    left = {lane: lanes.lines(lane) for lane in range(count)}
    while left:
        for lane, lines in tuple(left.items()):
            next_line = next(lines, None)
            if next_line is None:
                del left[lane]
            else:
                yield lane, next_line


@pytest.mark.parametrize("count", [1, 3, 8])
def test_lines_that_begin_alike_run_in_one_lane_one_after_the_other(count: int) -> None:
    lines = talks(6, 10)
    run = sorted(in_turn(Lanes(lines, count, by_prompt=True), count), key=lambda one: one[0])
    begun = [key for key, _ in groupby((lane, one.custom_id.partition("-")[0]) for lane, one in run)]
    assert sorted(one.number for _, one in run) == list(range(1, 61))
    assert len(begun) <= 6 + 2 * (count - 1)


@given(st.integers(0, 40), st.integers(1, 9), st.lists(st.integers(0, 8), max_size=80), st.booleans())
def test_every_line_is_run_once_whichever_lane_is_quicker(
    total: int, count: int, order: list[int], by_prompt: bool
) -> None:
    lines = [Line(i, 0, 0, str(i), CHAT, None, 1, bytes([i * 7 % 5])) for i in range(total)]
    lanes = Lanes(lines, count, by_prompt=by_prompt)
    left = [lanes.lines(lane) for lane in range(count)]
    run = [next(left[lane % count], None) for lane in order]
    run += [one for lane in left for one in lane]
    assert sorted(one.number for one in run if one is not None) == list(range(total))
