"""What a call costs beside its function, a hundred calls at once, and the python sandbox. Figures of one run.

python bench/tools.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from antiphon.errors import ConfigError
from antiphon.tools import FunctionTool, Router, ToolCall, ToolEnded, ToolLimits
from antiphon.tools.python import Bubblewrap, PythonTool

CALLS = 2_000


async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def call(number: int, recipient: str = "functions.add", body: str = '{"a": 1, "b": 2}', session: str = "") -> ToolCall:
    return ToolCall(call_id=f"c{number}", recipient=recipient, body=body, session=session)


async def overhead() -> None:
    tool = FunctionTool(add)
    router = Router([tool])
    arguments: Mapping[str, Any] = {"a": 1, "b": 2}
    bare, routed, streamed = [], [], []
    for number in range(CALLS):
        start = time.perf_counter()
        await add(**arguments)
        bare.append(time.perf_counter() - start)
        start = time.perf_counter()
        await router.call(call(number))
        routed.append(time.perf_counter() - start)
        start = time.perf_counter()
        async with aclosing(router.run([call(number)])) as events:
            async for _ in events:
                pass
        streamed.append(time.perf_counter() - start)
    for what, times in (("Router.call", routed), ("Router.run", streamed)):
        print(f"{what:<44} {(median(times) - median(bare)) * 1e6:>8.0f} µs a call beside the function (aim ≤ 200)")


async def hundred() -> None:
    async def wait(seconds: float) -> float:
        """Sleeps."""
        await asyncio.sleep(seconds)
        return seconds

    router = Router([FunctionTool(wait)], ToolLimits(deadline=0.1, concurrent=100))
    calls = [call(i, "functions.wait", f'{{"seconds": {0.01 if i % 2 else 5}}}') for i in range(100)]
    start = time.perf_counter()
    ended = [event.result async for event in router.run(calls) if isinstance(event, ToolEnded)]
    took = time.perf_counter() - start
    left = len(asyncio.all_tasks()) - 1
    fine = sum(result.ok for result in ended)
    print(f"{'100 calls, half of them past a 100 ms deadline':<44} {took * 1e3:>8.0f} ms; {fine} ok, {left} tasks left")


async def sandbox() -> None:
    try:
        tool = PythonTool(Bubblewrap())
    except ConfigError as error:
        print(f"no sandbox on this machine: {error}")
        return
    async with aclosing(tool):
        router = Router([tool])
        first, later = [], []
        for session in range(10):
            for number in range(20):
                start = time.perf_counter()
                result = await router.call(call(number, "python", "1 + 1", f"s{session}"))
                assert result.text(envelope=False) == "2\n"
                (later if number else first).append(time.perf_counter() - start)
        print(f"{'python, first call of a session':<44} {median(first) * 1e3:>8.1f} ms (aim ≤ 500)")
        print(f"{'python, later calls':<44} {median(later) * 1e3:>8.1f} ms (aim ≤ 20)")


def median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


async def main() -> None:
    await overhead()
    await hundred()
    await sandbox()


if __name__ == "__main__":
    asyncio.run(main())
