"""The memo: what was encoded is not encoded again, and it stays within its bounds."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import TokenError
from antiphon.tokens import ByteTokenizer, Control, SampledText, SegmentMemo, encode_pieces

START, END = Control("<|start|>"), Control("<|end|>")


class CountingTokenizer(ByteTokenizer):
    """Remembers which texts it had to encode."""

    def __init__(self) -> None:
        super().__init__([START, END])
        self.encoded: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.encoded.append(text)
        return super().encode(text)


def test_a_conversation_that_grew_by_one_message_encodes_one_message() -> None:
    tokenizer, memo = CountingTokenizer(), SegmentMemo()
    history = [piece for i in range(50) for piece in (START, f"message {i}", END)]
    encode_pieces(history, tokenizer, memo)
    tokenizer.encoded.clear()
    ids = encode_pieces([*history, START, "one more", END], tokenizer, memo)
    assert tokenizer.encoded == ["one more"]
    assert ids == encode_pieces([*history, START, "one more", END], tokenizer)


@given(st.lists(st.text(max_size=8), max_size=60), st.integers(0, 60))
def test_a_memo_changes_no_id_and_never_holds_more_than_its_capacity(texts: list[str], capacity: int) -> None:
    tokenizer, memo = ByteTokenizer(), SegmentMemo(capacity)
    for text in texts:
        assert encode_pieces([text], tokenizer, memo) == tokenizer.encode(text)
        assert memo.size <= capacity


def test_the_least_recently_used_segment_goes_first() -> None:
    memo = SegmentMemo(12)
    for text in ("a", "b", "c"):
        memo.put(text, (0, 0, 0))
    assert memo.get("a") is not None
    memo.put("d", (0, 0, 0))
    assert [text for text in "abcd" if memo.get(text)] == ["a", "c", "d"]


def test_one_huge_text_does_not_empty_the_memo() -> None:
    memo = SegmentMemo(100)
    memo.put("small", (1, 2, 3))
    memo.put("huge", tuple(range(50)))
    assert memo.get("small") == (1, 2, 3)
    assert memo.get("huge") is None


def test_threads_share_a_memo_and_its_count_stays_true() -> None:
    tokenizer, memo = ByteTokenizer(), SegmentMemo(400)
    failures: list[object] = []

    def work(seed: int) -> None:
        try:
            for i in range(4_000):
                text = str((i * seed) % 97)
                assert encode_pieces([text], tokenizer, memo) == tokenizer.encode(text)
        except BaseException as failure:  # noqa: BLE001 - shown by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (3, 5, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert memo.size == sum(len(ids) + 1 for ids in memo.segments().values())


def test_sampled_ids_are_kept_for_their_own_vocabulary_only() -> None:
    tokenizer = ByteTokenizer([START, END])
    own, other = (SampledText("hi", (256, 257), name) for name in (tokenizer.name, "another"))
    assert encode_pieces([own], tokenizer) == [256, 257]
    assert encode_pieces([other], tokenizer) == [*b"hi"]


def test_a_control_that_the_vocabulary_lacks_is_an_error_that_names_it() -> None:
    with pytest.raises(TokenError, match=r"<\|call\|>") as raised:
        encode_pieces([Control("<|call|>")], ByteTokenizer([START]))
    assert raised.value.code == "unknown_control"
