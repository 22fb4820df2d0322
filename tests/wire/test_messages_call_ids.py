"""Ids of calls go out under names that no other answer has, and come back as they were."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.api.messages.call_ids import from_client, to_client

OURS = st.from_regex(r"call_[A-Za-z0-9]{16}", fullmatch=True)
THEIRS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256)


@given(st.one_of(OURS, THEIRS))
def test_an_id_comes_back_as_it_was_and_every_client_takes_it(id: str) -> None:
    sent = to_client(id)
    assert re.fullmatch(r"toolu_[A-Za-z0-9_-]{16,}", sent)
    assert from_client(sent) == id


@given(THEIRS)
def test_an_id_of_the_model_s_own_is_another_in_each_answer(id: str) -> None:
    assert re.fullmatch(r"call_[A-Za-z0-9]{16}", id) or to_client(id) != to_client(id)


@pytest.mark.parametrize(
    "id",
    ["toolu_1", "toolu_01A09q90qw90lq917835lq9", "call_1", "x", "toolu_0123456789abcdef_!", "toolu_0123456789abcdef_A"],
)
def test_an_id_of_another_server_stays_as_it_is(id: str) -> None:
    assert from_client(id) == id
