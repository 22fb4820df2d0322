"""Where a prompt goes: block hashes of its ids, what each replica has of them, and how busy it is."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.ray.prefixes import AVOID, BLOCK, Match, PrefixIndex, ReplicaBlocks, block_hashes

IDLE = {"a": 0, "b": 0, "c": 0, "d": 0}
INSTRUCTIONS = list(range(1000, 1000 + 40 * BLOCK))


def conversation(number: int, turns: int = 1) -> list[int]:
    """The prompt of a turn; those of later turns begin with it."""
    return INSTRUCTIONS + [number * 10_000 + at for at in range(turns * 5 * BLOCK)]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=200), st.lists(st.integers(0, 300_000), max_size=60))
def test_a_prompt_has_the_hashes_of_its_beginning_and_only_of_that(ids: list[int], more: list[int]) -> None:
    shorter, longer = block_hashes(ids), block_hashes([*ids, *more])
    assert longer[: len(shorter)] == shorter
    assert len(longer) == (len(ids) + len(more)) // BLOCK == len(set(longer))


def test_one_other_id_changes_every_hash_from_its_block_on() -> None:
    ids = list(range(10 * BLOCK))
    other = [*ids[: 4 * BLOCK], 7, *ids[4 * BLOCK + 1 :]]
    one, two = block_hashes(ids), block_hashes(other)
    assert one[:4] == two[:4]
    assert not set(one[4:]) & set(two[4:])


def test_what_may_not_share_a_cache_has_no_hash_in_common() -> None:
    ids = list(range(3 * BLOCK))
    assert not set(block_hashes(ids)) & set(block_hashes(ids, domain="ann"))


def test_a_conversation_stays_where_it_was_though_the_instructions_are_everywhere() -> None:
    index = PrefixIndex()
    for name in IDLE:
        index.add(block_hashes(INSTRUCTIONS), name)
    index.add(block_hashes(conversation(1)), "c")
    for turns in range(2, 9):
        prompt = block_hashes(conversation(1, turns))
        assert index.ranked(prompt, IDLE)[0] == "c"
        index.add(prompt, "c")


def test_conversations_with_the_same_instructions_spread() -> None:
    index, went = PrefixIndex(), dict.fromkeys(IDLE, 0)
    for number in range(40):
        prompt = block_hashes(conversation(number))
        first = index.ranked(prompt, IDLE)[0]
        index.add(prompt, first)
        went[first] += 1
    assert max(went.values()) - min(went.values()) <= len(INSTRUCTIONS) // BLOCK // AVOID + 1


@pytest.mark.parametrize("seed", range(5))
def test_nearly_all_is_cached_that_one_cache_without_a_limit_would_have(seed: int) -> None:
    rng = random.Random(seed)
    turns = [number for number in range(20) for _ in range(10)]
    rng.shuffle(turns)
    index, caches, best = PrefixIndex(), {name: ReplicaBlocks(3000) for name in IDLE}, ReplicaBlocks(10**6)
    running, had, could, at = list[str](), 0, 0, dict[int, int]()
    for number in turns:
        at[number] = at.get(number, 0) + 1
        prompt = block_hashes(conversation(number, at[number]))
        chosen = index.ranked(prompt, {name: running.count(name) for name in IDLE})[0]
        index.add(prompt, chosen)
        running = [*running, chosen][-6:]
        had += caches[chosen].match(prompt).blocks
        could += best.match(prompt).blocks
        caches[chosen].add(prompt)
        best.add(prompt)
    assert had >= 0.95 * could


def test_a_busy_replica_loses_short_conversations_before_long_ones() -> None:
    index = PrefixIndex()
    short, long = block_hashes(list(range(40 * BLOCK))), block_hashes(list(range(10**6, 10**6 + 900 * BLOCK)))
    for prompt in (short, long):
        index.add(prompt, "a")
    busy = {"a": 10, "b": 0}
    assert index.ranked(short, busy) == ["b", "a"]
    assert index.ranked(long, busy) == ["a", "b"]


def test_an_unknown_prompt_goes_to_the_idlest_replica() -> None:
    index = PrefixIndex()
    assert index.ranked(block_hashes([1] * 100), {"a": 3, "b": 1, "c": 2}) == ["b", "c", "a"]
    assert index.ranked((), {"a": 1, "b": 0}) == ["b", "a"]
    assert index.ranked((), {}) == []


def test_routers_that_know_nothing_of_each_other_agree_on_a_prompt_and_spread_different_ones() -> None:
    prompts = [block_hashes(conversation(number)) for number in range(40)]
    went = [PrefixIndex().ranked(prompt, IDLE)[0] for prompt in prompts]
    assert went == [PrefixIndex().ranked(prompt, dict(reversed(IDLE.items())))[0] for prompt in prompts]
    assert set(went) == set(IDLE)


def test_a_replica_that_is_gone_is_forgotten_and_comes_back_empty() -> None:
    index = PrefixIndex()
    prompt = block_hashes(conversation(1))
    index.add(prompt, "b")
    assert index.ranked(prompt, IDLE | {"b": 4})[0] == "b"
    index.keep({"a", "c", "d"})
    assert index.ranked(prompt, IDLE | {"b": 4})[-1] == "b"


def test_what_was_used_longest_ago_leaves_first_and_ends_of_prompts_before_their_beginnings() -> None:
    blocks = ReplicaBlocks(capacity=10)
    one, two = (block_hashes([number] * 6 * BLOCK) for number in (1, 2))
    blocks.add(one)
    blocks.add(two)
    assert len(blocks) == 10
    assert (blocks.match(one), blocks.match(two)) == (Match(4, extends=True), Match(6, extends=True))
    blocks.add(one[:4])
    blocks.add(block_hashes([3] * 4 * BLOCK))
    assert (blocks.match(one).blocks, blocks.match(two).blocks) == (4, 2)


def test_a_prompt_extends_the_one_that_ends_where_it_goes_on() -> None:
    blocks = ReplicaBlocks()
    blocks.add(block_hashes(conversation(1)))
    assert blocks.match(block_hashes(conversation(1, 2))) == Match(45, extends=True)
    assert blocks.match(block_hashes(conversation(2))) == Match(40, extends=False)
    assert blocks.conversations == 1
    blocks.add(block_hashes(conversation(2)))
    assert blocks.conversations == 2


@pytest.mark.parametrize("seed", range(20))
def test_however_prompts_come_and_go_the_counts_are_those_of_what_is_there(seed: int) -> None:
    rng = random.Random(seed)
    blocks = ReplicaBlocks(capacity=rng.randrange(1, 60))
    tree: set[tuple[bytes, ...]] = set()
    for _ in range(200):
        ids = [rng.randrange(3) for _ in range(rng.randrange(8)) for _ in range(1)]
        prompt = block_hashes([id for id in ids for _ in range(BLOCK)])
        tree |= {prompt[:end] for end in range(1, len(prompt) + 1)}
        blocks.add(prompt)
        there = {chain for chain in tree if blocks.match(chain).blocks == len(chain)}
        leaves = {chain for chain in there if not any(other[:-1] == chain for other in there)}
        assert len(blocks) == len(there)
        assert blocks.conversations == len(leaves)
