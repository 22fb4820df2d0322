"""A beginning of JSON is made shorter, and whatever goes on from it makes a value or none, as it did."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.formats.offered_calls import is_object
from antiphon.formats.replies.json_text import JsonScan, shortened

TEXTS = st.sampled_from(
    ["", "s", 'a longer text\n with "quotes", escapes \u00e9 and a brace {', "\U0001f600 and more of it", "x" * 50]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)
ODD = st.sampled_from(["", ",", "]", "}", "{", "\\", "\n", "1e999", '"', "\\ud800", ":", " ", ",,"])
BEHIND = ("", "}", "]}", '"}', '"]}', ', "z": 1}', ",]}", ",}", ":1}")


def at_rest(text: str) -> JsonScan | None:
    """The scan of a beginning that reads on from there as from any place; None where it does not."""
    scan = JsonScan()
    return scan if scan.feed(text, 0) == len(text) and not scan.broken and scan.reach("x") is not None else None


@settings(max_examples=250, deadline=None)
@given(st.dictionaries(TEXTS, VALUES, max_size=4), st.booleans(), ODD, st.data())
def test_nothing_that_goes_on_can_tell_the_two_apart(value: object, ascii: bool, odd: str, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    place = data.draw(st.integers(1, len(text)))
    text = text[:place] + odd + text[place:]
    end = data.draw(st.integers(1, len(text)))
    start, behind = data.draw(st.integers(1, end)), text[end:]
    scan = at_rest(text[:end])
    if scan is None or at_rest(text[:start]) is None or text[:end].endswith("\\") or text[:start].endswith("\\"):
        return
    shorter = shortened(text[:end], start)
    assert shorter.startswith(text[:start])
    assert len(shorter) <= end
    for more in (behind, *BEHIND):
        assert is_object(shorter + more) == is_object(text[:end] + more), (shorter, more)
    after = at_rest(shorter)
    assert after is not None
    assert (after.open, after.in_string, after.done) == (scan.open, scan.in_string, scan.done)


def test_however_long_the_text_it_keeps_the_way_to_its_end() -> None:
    members = ", ".join(f'"key {i}": [{i}, "text {i} of some length"]' for i in range(2000))
    open = f'{{"a": {{{members}, "b": [1, 2, {{"c": "a text that goes on\\n'
    short = shortened(open * 1, len('{"a": {'))
    assert len(short) < 120
    assert short.endswith('"b": [ 2, {"c": "')
    assert shortened(short, 7) == short
