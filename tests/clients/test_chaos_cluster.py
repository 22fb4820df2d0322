"""A few kills of what `make chaos-cluster` does fifty times."""

from __future__ import annotations

from pathlib import Path

from clients.chaos_cluster import chaos_cluster


async def test_streams_go_on_when_their_servers_are_killed() -> None:
    cluster = await chaos_cluster(replies=5, kills=2, servers=2, writers=4)
    assert not cluster.faults, cluster.table()
    assert cluster.killed == 2
    assert cluster.seams["in a reply"], "no kill met a reply"
    assert cluster.chats


async def test_a_reply_of_a_real_model_goes_on_without_a_lost_or_a_doubled_token(smollm2_path: Path) -> None:
    cluster = await chaos_cluster(replies=1, kills=1, servers=2, writers=1, model=str(smollm2_path), most=32)
    assert not cluster.faults, cluster.table()
    assert cluster.real is not None
    assert len(cluster.real.broken) == 1
    assert cluster.real.margins, "nothing came after the seam"
