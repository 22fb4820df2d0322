"""What `make test-workers` stands on: an application of a test as two workers (`kit.forked`)."""

from __future__ import annotations

import asyncio

from antiphon.catalog.static import StaticCatalog
from antiphon.store import MemoryStore
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import END, call, ids, model, post, request, scripted
from kit.forked import WORKERS, Several, team_of
from kit.responses import turns


async def test_requests_meet_both_workers_and_what_one_stores_the_other_finds() -> None:
    engine = scripted(ids("Hello.", END))
    async with team_of(Several(StaticCatalog({"small": model(engine)})), drain=5.0) as team:
        base = f"http://127.0.0.1:{team.port}"
        made = [(await asyncio.to_thread(post, base, "/v1/responses", input="Hi")).json for _ in range(WORKERS)]
        for one in (made[0], *made, made[-1]):
            found = await asyncio.to_thread(request, base, "GET", f"/v1/responses/{one['id']}")
            assert found.json["output"] == one["output"]
        assert [worker.load[1] for worker in team.workers] == [3] * WORKERS
    assert len(engine.requests) == WORKERS, "the engine is the test's own"


async def test_the_clock_the_tools_and_the_store_are_the_test_s_own() -> None:
    now, looked, store = [1_700_000_000.0], list[str](), MemoryStore()

    def look(word: str) -> str:
        """Looks it up."""
        looked.append(word)
        now[0] += 5
        return "found"

    engine = scripted(turns(ids(*call("look", '{"word": "moon"}'), END), ids("Found.", END)))
    several = Several(
        StaticCatalog({"small": model(engine)}),
        clock=lambda: now[0],
        store=store,
        tools=Toolbox([FunctionToolSet([look])]),
        offer_tools=True,
    )
    async with team_of(several, drain=5.0) as team:
        base = f"http://127.0.0.1:{team.port}"
        made = (await asyncio.to_thread(post, base, "/v1/responses", input="Hi")).json
        assert (made["created_at"], made["completed_at"], looked) == (1_700_000_000, 1_700_000_005, ["moon"])
        assert await store.names("response", "") == [made["id"]]
