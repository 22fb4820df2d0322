"""What every store must do: sentences that a store's own test module runs by subclassing `StoreContract`."""

from __future__ import annotations

import asyncio

from antiphon.conversation import Message, Role
from antiphon.store import Key, Record, Sessions, Store, Write

KEY = Key("response", "ann", "r1")


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
        await subject.put(Key("k", "", "after"), Record(b"", 0.0))  # A store that writes in order has done both now.
        record = await subject.get(KEY)
        assert await subject.entries(KEY) == ([] if record is None else [b"a", b"b"])

    async def test_a_session_finds_what_its_last_turn_committed(self, subject: Store) -> None:
        sessions = Sessions(subject, lambda: 0.0)
        question = Message(role=Role.USER, text="hi")
        async with sessions.turn("s") as first:
            assert first.new
            await first.commit([question])
        async with sessions.turn("s") as second:
            assert second.messages == (question,)
