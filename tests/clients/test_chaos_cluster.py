"""A few kills of what `make chaos-cluster` does fifty times."""

from __future__ import annotations

from clients.chaos_cluster import chaos_cluster


async def test_streams_go_on_when_their_servers_are_killed() -> None:
    cluster = await chaos_cluster(replies=10, kills=4, servers=2, writers=4)
    assert not cluster.faults, cluster.table()
    assert cluster.killed == 4
    assert cluster.seams["in a reply"], "no kill met a reply"
