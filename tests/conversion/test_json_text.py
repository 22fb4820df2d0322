"""Long JSON texts are read piece by piece as `json.loads` reads them whole."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversion import json_text
from antiphon.conversion.json_text import entries
from antiphon.errors import ParseError, json_words

scalars = st.one_of(
    st.sampled_from(["", 'a"b\\', "\ud800", "é\n", "\0", -2.5e30, 10**20, 1, True, None, float("inf")]), st.text()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["messages", "input", "a", ""]), inner, max_size=3)
    ),
    max_leaves=12,
)
texts = st.builds(
    lambda value, ascii, indent: json.dumps(value, ensure_ascii=ascii, indent=indent).encode("utf-8", "surrogatepass"),
    values,
    st.booleans(),
    st.sampled_from([None, 1]),
)


def read(text: bytes) -> object:
    """What the entries say, put together again; what is wrong, with its place."""
    whole: dict[str | None, Any] = {}
    try:
        for key, index, value in entries(io.BytesIO(text)):
            if index is None:
                whole[key] = value
            else:
                whole[key] = [*(whole[key] if index else []), value]
    except ParseError as error:
        return error.message, error.position and (error.position.line, error.position.column)
    return whole.get(None, whole)


def loads(text: bytes) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return f"not JSON: {json_words(error)}", (error.lineno, error.colno)


@pytest.fixture(autouse=True, params=[3, 1 << 16])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "CHUNK", request.param)


@given(texts)
def test_any_json_is_read_as_it_is(text: bytes) -> None:
    assert repr(read(text)) == repr(loads(text))


@given(texts, st.data())
def test_what_is_no_json_is_reported_at_its_place(text: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    broken = text[:at] + data.draw(st.sampled_from([b"", b",", b"]", b"}", b'"', b"x"])) + text[at + 1 :]
    try:
        broken.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return
    assert repr(read(broken)) == repr(loads(broken))


def test_bytes_that_are_no_utf8_are_an_error() -> None:
    with pytest.raises(ParseError, match=r"the byte 0xff is no UTF-8 \(at 2:4\)"):
        list(entries(io.BytesIO(b'[1,\n "a\xff"]')))
