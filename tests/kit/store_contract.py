"""What every store must do: sentences that a store's own test module runs by subclassing `StoreContract`."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.conversation import Message, Role
from antiphon.errors import ConflictError
from antiphon.store import Delete, Key, Lease, Record, Sessions, Store, Write

from .waiting import until_found

KEY, OTHER = Key("response", "ann", "r1"), Key("response", "ann", "r2")


class StoreContract:
    """Subclasses give the fixture ``subject``: an empty `Store`."""

    async def test_what_was_never_written_is_not_there(self, subject: Store) -> None:
        assert await subject.get(KEY) is None
        assert await subject.entries(KEY) == []
        assert await subject.names("response", "ann") == []
        assert not await subject.delete(KEY)

    async def test_a_record_keeps_its_birth_and_takes_its_new_value(self, subject: Store) -> None:
        await subject.put(KEY, Record(b"one", 1.0), b"a")
        await subject.put(KEY, Record(b"two", 2.0, 9.0), b"b", b"c")
        assert await subject.get(KEY) == Record(b"two", 1.0, 9.0)
        assert await subject.entries(KEY) == [b"a", b"b", b"c"]
        assert await subject.delete(KEY)
        assert await subject.get(KEY) is None

    async def test_a_record_that_comes_again_has_nothing_of_the_old_one(self, subject: Store) -> None:
        await subject.put(KEY, Record(b"one", 1.0), b"a")
        await subject.delete(KEY)
        await subject.put(KEY, Record(b"two", 2.0), b"b")
        assert await subject.get(KEY) == Record(b"two", 2.0)
        assert await subject.entries(KEY) == [b"b"]

    async def test_several_writes_are_done_in_order(self, subject: Store) -> None:
        other = Key("conversation", "ann", "c1")
        await subject.put_all(Write(KEY, Record(b"one", 1.0), [b"a"]), Write(other, Record(b"two", 2.0), [b"b"]))
        await subject.put_all(Write(other, Record(b"three", 3.0), [b"c"]), Write(other, Record(b"four", 4.0), [b"d"]))
        assert await subject.get(KEY) == Record(b"one", 1.0)
        assert await subject.get(other) == Record(b"four", 2.0)
        assert await subject.entries(KEY) == [b"a"]
        assert await subject.entries(other) == [b"b", b"c", b"d"]

    async def test_a_batch_deletes_too_and_in_order(self, subject: Store) -> None:
        await subject.put_all(Write(KEY, Record(b"one", 1.0), [b"a"]), Write(OTHER, Record(b"other", 1.0)))
        await subject.put_all(Delete(KEY), Write(KEY, Record(b"two", 2.0), [b"b"]), Delete(OTHER))
        assert await subject.get(KEY) == Record(b"two", 2.0)
        assert await subject.entries(KEY) == [b"b"]
        assert await subject.get(OTHER) is None
        await subject.put_all(Write(OTHER, Record(b"other", 1.0)), Delete(OTHER), Delete(OTHER))
        assert await subject.get(OTHER) is None

    async def test_a_batch_deletes_only_what_has_the_value_that_is_named(self, subject: Store) -> None:
        await subject.put_all(Write(KEY, Record(b"one", 1.0), [b"a"]), Write(OTHER, Record(b"", 1.0)))
        await subject.put_all(Delete(KEY, b"two"), Delete(OTHER, b"two"), Delete(Key("k", "", "none"), b"two"))
        assert [await subject.entries(KEY), await subject.names("response", "ann")] == [[b"a"], ["r1", "r2"]]
        await subject.put_all(Delete(KEY, b"one"), Delete(OTHER, b""))
        assert await subject.names("response", "ann") == []

    async def test_a_batch_that_is_refused_deletes_nothing(self, subject: Store) -> None:
        await subject.put(KEY, Record(b"one", 1.0))
        with pytest.raises(ConflictError):
            await subject.put_all(Delete(KEY), Write(OTHER, Record(b"two", 1.0), expected=1))
        assert await subject.get(KEY) == Record(b"one", 1.0)

    async def test_any_bytes_come_back(self, subject: Store) -> None:
        value = bytes(range(256))
        await subject.put(KEY, Record(value, 0.5), b"", value)
        assert await subject.get(KEY) == Record(value, 0.5)
        assert await subject.entries(KEY) == [b"", value]

    async def test_another_kind_owner_or_name_is_another_record(self, subject: Store) -> None:
        others = [Key("session", "ann", "r1"), Key("response", "bob", "r1"), Key("response", "ann", "r2")]
        await subject.put(KEY, Record(b"mine", 0.0), b"a")
        for key in others:
            assert await subject.get(key) is None
            await subject.put(key, Record(b"theirs", 0.0))
        assert await subject.get(KEY) == Record(b"mine", 0.0)
        assert await subject.entries(others[0]) == []

    async def test_names_are_sorted_and_of_one_owner_and_kind(self, subject: Store) -> None:
        for kind, owner, name in (("k", "ann", "b"), ("k", "ann", "a"), ("k", "bob", "c"), ("l", "ann", "d")):
            await subject.put(Key(kind, owner, name), Record(b"", 0.0))
        assert await subject.names("k", "ann") == ["a", "b"]

    async def test_what_expired_is_swept(self, subject: Store) -> None:
        for name, expires in (("a", 5.0), ("b", 15.0), ("c", None), ("d", 10.0)):
            await subject.put(Key("k", "", name), Record(b"", 0.0, expires), b"x")
        assert await subject.expire(10.0) == 2
        assert await subject.names("k", "") == ["b", "c"]
        assert await subject.entries(Key("k", "", "a")) == []

    async def test_many_writers_at_once_lose_nothing(self, subject: Store) -> None:
        keys = [Key("k", "", str(i)) for i in range(20)]
        await asyncio.gather(*(subject.put(key, Record(b"", 0.0), str(n).encode()) for n in range(10) for key in keys))
        for key in keys:
            assert sorted(await subject.entries(key)) == sorted(str(n).encode() for n in range(10))

    async def test_a_write_whose_caller_goes_away_is_whole_or_not_there(self, subject: Store) -> None:
        writing = asyncio.create_task(subject.put(KEY, Record(b"one", 1.0), b"a", b"b"))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await subject.put(Key("k", "", "after"), Record(b"", 0.0))
        entries = await subject.entries(KEY)
        assert entries in ([], [b"a", b"b"])
        assert not entries or await subject.get(KEY) == Record(b"one", 1.0)

    async def test_a_session_finds_what_its_last_turn_committed(self, subject: Store) -> None:
        sessions = Sessions(subject, lambda: 0.0)
        question = Message(role=Role.USER, text="hi")
        async with sessions.turn("s") as first:
            assert first.new
            await first.commit([question])
        async with sessions.turn("s") as second:
            assert second.messages == (question,)

    async def test_entries_are_read_from_where_a_reader_is(self, subject: Store) -> None:
        await subject.put(KEY, Record(b"", 0.0), b"a", b"b")
        await subject.put(KEY, Record(b"", 0.0), b"c")
        assert [await subject.entries(KEY, after=number) for number in range(5)] == [
            [b"a", b"b", b"c"],
            [b"b", b"c"],
            [b"c"],
            [],
            [],
        ]

    async def test_every_write_gives_another_version(self, subject: Store) -> None:
        versions = set()
        for _ in range(3):
            await subject.put(KEY, Record(b"same", 1.0))
            versions.add(await self.version(subject))
        await subject.delete(KEY)
        await subject.put(KEY, Record(b"same", 1.0))
        versions.add(await self.version(subject))
        assert len(versions) == 4
        assert 0 not in versions

    async def test_a_write_that_expects_another_version_is_not_done(self, subject: Store) -> None:
        await subject.put(KEY, Record(b"one", 1.0), expected=0)
        first = await self.version(subject)
        await subject.put(KEY, Record(b"two", 1.0), expected=first)
        for expected in (0, first):
            with pytest.raises(ConflictError) as caught:
                await subject.put(KEY, Record(b"three", 1.0), b"x", expected=expected)
            assert caught.value.code == "write_conflict"
        with pytest.raises(ConflictError):
            await subject.put(OTHER, Record(b"three", 1.0), expected=first)
        assert await subject.get(KEY) == Record(b"two", 1.0)
        assert await subject.entries(KEY) == []
        assert await subject.get(OTHER) is None

    async def test_where_one_of_several_writes_is_not_expected_none_is_done(self, subject: Store) -> None:
        await subject.put(KEY, Record(b"one", 1.0))
        version = await self.version(subject)
        with pytest.raises(ConflictError):
            await subject.put_all(
                Write(OTHER, Record(b"new", 1.0), [b"x"]), Write(KEY, Record(b"two", 1.0), expected=0)
            )
        assert await subject.get(OTHER) is None
        twice = [Write(KEY, Record(value, 1.0), [value], expected=version) for value in (b"two", b"three")]
        await subject.put_all(*twice)
        assert await subject.entries(KEY) == [b"two", b"three"]

    async def test_of_writers_that_expect_the_same_version_one_writes(self, subject: Store) -> None:
        writes = [subject.put(KEY, Record(str(number).encode(), 0.0), b"x", expected=0) for number in range(8)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes if outcome] == [ConflictError] * 7
        assert await subject.entries(KEY) == [b"x"]

    async def test_a_key_has_one_lease_until_it_is_released(self, subject: Store) -> None:
        assert await subject.lease(KEY) is None
        first = await self.claim(subject, KEY, "a")
        assert (first.key, first.holder, first.signal) == (KEY, "a", "")
        assert [await subject.claim(KEY, holder, 60.0) for holder in "ab"] == [None, None]
        assert await subject.lease(KEY) == first
        other = await self.claim(subject, OTHER, "b")
        await subject.release(first)
        await subject.release(first)
        assert await subject.lease(KEY) is None
        again = await self.claim(subject, KEY, "a")
        assert first.fence < other.fence < again.fence
        await subject.release(first)
        assert await subject.lease(KEY) == again, "another's is not released"

    async def test_of_many_who_claim_at_once_one_has_it(self, subject: Store) -> None:
        leases = await asyncio.gather(*(subject.claim(KEY, str(number), 60.0) for number in range(16)))
        assert len([lease for lease in leases if lease]) == 1

    async def test_a_lease_ends_by_itself_and_then_another_may_have_it(self, subject: Store) -> None:
        first = await self.claim(subject, KEY, "a", 0.01)
        second = await until_found(lambda: subject.claim(KEY, "b", 60.0))
        assert second.fence > first.fence
        assert await subject.renew([first], 60.0) == []
        await subject.release(first)
        assert await subject.lease(KEY) == second

    async def test_a_lease_whose_time_is_over_is_its_holder_s_until_another_claims(self, subject: Store) -> None:
        lease = await self.claim(subject, KEY, "a", 0.01)
        await self.over(subject, KEY)
        await subject.put(KEY, Record(b"late", 1.0), lease=lease)
        assert await subject.renew([lease], 60.0) == [lease]
        assert await subject.lease(KEY) == lease

    async def test_leases_are_renewed_together_and_say_which_are_gone(self, subject: Store) -> None:
        leases = [await self.claim(subject, Key("k", "", str(number)), "a", 0.5) for number in range(3)]
        await subject.release(leases[1])
        assert [lease.fence for lease in await subject.renew(leases, 60.0)] == [leases[0].fence, leases[2].fence]
        assert await subject.renew([], 60.0) == []

    async def test_what_is_left_for_a_holder_is_read_when_it_renews(self, subject: Store) -> None:
        assert not await subject.signal(KEY, "stop")
        lease = await self.claim(subject, KEY, "a")
        assert await subject.signal(KEY, "stop")
        assert [renewed.signal for renewed in await subject.renew([lease], 60.0)] == ["stop"]
        found = await subject.lease(KEY)
        assert found is not None
        assert found.signal == "stop"
        await subject.release(lease)
        assert not await subject.signal(KEY, "stop")
        assert (await self.claim(subject, KEY, "b")).signal == "", "it was for another"

    async def test_only_a_lease_s_holder_writes_under_it(self, subject: Store) -> None:
        first = await self.claim(subject, OTHER, "a", 0.01)
        await subject.put(KEY, Record(b"first", 1.0), b"1", lease=first)
        second = await until_found(lambda: subject.claim(OTHER, "b", 60.0))
        await subject.put(KEY, Record(b"second", 1.0), b"2", lease=second)
        for late in (
            subject.put(KEY, Record(b"late", 1.0), b"x", lease=first),
            subject.put_all(Write(KEY, Record(b"late", 1.0), [b"x"]), Write(OTHER, Record(b"", 1.0), lease=first)),
            subject.delete(KEY, lease=first),
        ):
            with pytest.raises(ConflictError) as caught:
                await late
            assert caught.value.code == "lease_lost"
        assert await subject.get(KEY) == Record(b"second", 1.0)
        assert await subject.entries(KEY) == [b"1", b"2"]
        await subject.release(second)
        with pytest.raises(ConflictError):
            await subject.put(KEY, Record(b"late", 1.0), lease=second)
        assert await subject.delete(KEY)

    async def test_what_ran_out_and_was_not_released_is_abandoned(self, subject: Store) -> None:
        keys = [Key("k", "ann", name) for name in "abcd"]
        leases = {key.name: await self.claim(subject, key, "x", 60.0 if key.name == "d" else 0.01) for key in keys}
        await self.claim(subject, Key("l", "ann", "a"), "x", 0.01)
        await subject.release(leases["a"])
        for key in keys[1:3]:
            await self.over(subject, key)
        assert sorted(key.name for key in await subject.abandoned("k")) == ["b", "c"]
        assert len(await subject.abandoned("k", limit=1)) == 1
        await self.claim(subject, keys[1], "y")
        assert await subject.abandoned("k") == [keys[2]]

    @staticmethod
    async def version(store: Store) -> int:
        """That of the record at `KEY`."""
        record = await store.get(KEY)
        assert record is not None
        return record.version

    @staticmethod
    async def claim(store: Store, key: Key, holder: str, seconds: float = 60.0) -> Lease:
        """A lease that must be free."""
        lease = await store.claim(key, holder, seconds)
        assert lease is not None
        return lease

    @staticmethod
    async def over(store: Store, key: Key) -> None:
        """Waits until the key's lease has ended."""

        async def ended() -> bool | None:
            return await store.lease(key) is None or None

        await until_found(ended)
