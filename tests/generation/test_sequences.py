"""What is remembered of turns: which ids a prompt keeps, whose, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation
from antiphon.formats.raw import RawFormat
from antiphon.generation import TurnRequest
from antiphon.generation.sequences import RememberedPrompt, Sequences, common
from antiphon.tenancy import Tenant
from antiphon.tokens import Control, Piece, SampledText
from kit.pairs import CHATML, FRAMES, TOKENIZER, ids, sampled_ids

START, END = CHATML[:2]
QUESTION: tuple[Piece, ...] = (START, "user\nthe end", END, "\n", START, "assistant\n")
ANSWER: tuple[Piece, ...] = ("in the", END)


def request(owner: str = "", affinity: str | None = None, raw: RawFormat | None = None) -> TurnRequest:
    tenant = Tenant(owner=owner, affinity=affinity)
    return TurnRequest(conversation=Conversation(), return_token_ids=True, tenant=tenant, raw=raw)


def remember(
    known: Sequences, pieces: Sequence[Piece], sampled: Sequence[int], turn: TurnRequest | None = None
) -> None:
    known.add(RememberedPrompt(turn or request(), pieces, tuple(ids(*pieces)), TOKENIZER), (), sampled)


def kept(known: Sequences, *pieces: Piece, owner: str = "") -> list[int]:
    """The whole prompt's ids."""
    first, rest = known.kept(request(owner).tenant.domain(), pieces)
    return [*first, *ids(*rest)]


@given(st.randoms(use_true_random=False))
def test_a_prompt_that_goes_on_keeps_the_ids_that_were_sampled(random: Random) -> None:
    known, sampled = Sequences(), sampled_ids(random, ANSWER)
    remember(known, QUESTION, sampled)
    after: tuple[Piece, ...] = ("\n", START, "user\nthen?", END)
    prompt = kept(known, *QUESTION[:-1], "assistant\nin the", END, *after)
    assert prompt == ids(*QUESTION) + sampled + ids(*after)


def test_texts_that_stand_beside_each_other_are_one_however_they_were_cut() -> None:
    known, sampled = Sequences(), [*b"in the", *ids(END)]
    remember(known, QUESTION, sampled)
    for cut in (("assistant\n", "in the"), ("assis", "tant\nin", " the")):
        assert kept(known, *QUESTION[:-1], *cut, END) == ids(*QUESTION) + sampled


@pytest.mark.parametrize(
    "other",
    [
        ("assistant\nin thE", END),
        ("assistant\nin the ", END),
        ("assistant\nin the", START),
        ("assistant\nin the<|im_end|>",),
        ("assistant\nin the", "c\x00\x00\x00\x00\x00\x00\x00\x0a<|im_end|>"),
    ],
)
def test_another_text_or_another_control_keeps_what_is_before_it(other: tuple[Piece, ...]) -> None:
    known = Sequences()
    remember(known, QUESTION, [*b"in the", *ids(END)])
    prompt = kept(known, *QUESTION[:-1], *other)
    assert TOKENIZER.controls[END] not in prompt[len(ids(*QUESTION[:-1])) :] or END in other
    found = b"".join(
        piece.spelling.encode() if isinstance(piece, Control) else piece for piece in map(TOKENIZER.piece, prompt)
    )
    assert found.decode() == "".join(map(str, (*QUESTION[:-1], *other)))


def test_owners_keep_their_own_ids_and_raw_prompts_none() -> None:
    known, sampled = Sequences(), [*b"in the", *ids(END)]
    remember(known, QUESTION, sampled, request("ann"))
    whole: tuple[Piece, ...] = (*QUESTION[:-1], "assistant\nin the", END)
    assert kept(known, *whole, owner="ann") == ids(*QUESTION) + sampled
    assert kept(known, *whole, owner="bob") == ids(*whole) != ids(*QUESTION) + sampled
    raw = Sequences()
    text = SampledText("<|im_end|>x", tuple(ids(END, "x")), TOKENIZER.name)
    turn = request(raw=RawFormat(TOKENIZER.controls))
    raw.add(RememberedPrompt(turn, (text,), text.ids, TOKENIZER), (), sampled)
    assert kept(raw, *whole) == ids(*whole)


def test_the_oldest_is_forgotten_first() -> None:
    known, sampled = Sequences(capacity=150), [*b"in the", *ids(END)]
    questions: list[tuple[Piece, ...]] = [(START, f"user\n{i} the end", END, START, "assistant\n") for i in range(10)]
    for question in questions:
        remember(known, question, sampled)
    remembered = [
        kept(known, *question[:-1], "assistant\nin the", END) == ids(*question) + sampled for question in questions
    ]
    assert remembered == sorted(remembered), "those that came last"
    assert 0 < sum(remembered) < 5


def test_a_session_is_compared_with_its_own_last_and_others_with_the_most_alike() -> None:
    known = Sequences()
    remember(known, (FRAMES[0], "abcd"), [], request(affinity="s"))
    remember(known, (FRAMES[0], "abxx"), [], request(affinity="s"))
    remember(known, (FRAMES[0], "abcde"), [])
    looked = ids(FRAMES[0], "abcdef")
    of_session = known.nearest(request(affinity="s"), looked)
    alike = known.nearest(request(affinity="other"), looked)
    assert of_session is not None
    assert alike is not None
    assert list(of_session.ids) == ids(FRAMES[0], "abxx")
    assert list(alike.ids) == ids(FRAMES[0], "abcde")
    assert known.nearest(request("bob"), looked) is None


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_what_is_common_is_the_longest_beginning(one: list[int], other: list[int]) -> None:
    length = common(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]
