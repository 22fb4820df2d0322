"""Where prompts go in a cluster: how much of them the replicas' caches have, by the way that requests are routed.

python bench/routing.py        (with Ray in the environment its own prefix tree is asked, otherwise a plain one like it)

Twenty conversations with tools, ten turns each, two requests a turn (a call, then the answer), six at once, in an order
that a seed draws; those with one assistant have its instructions and tools in common. Prompts are Harmony's, rendered
and encoded as the server does. Each of four simulated replicas has a cache of blocks, the least recently used of which
leaves first. The best possible is one cache without a limit.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import antiphon
from antiphon.ray.prefixes import BLOCK, Block, PrefixIndex, block_hashes

try:
    from ray.llm._internal.serve.routing_policies.prefix_aware.prefix_tree import PrefixTree

    TREE = "Ray's own prefix tree"
except ImportError:
    PrefixTree = None
    TREE = "a prefix tree like Ray's"

REPLICAS = ("a", "b", "c", "d")
CONVERSATIONS, TURNS, AT_ONCE = 20, 10, 6
ASSISTANTS = (4, 1, 10)
"""How many there are, in each of the mixes."""
ROOMS = (None, 2500)
"""Blocks of a replica's cache; None: no limit."""
LEAST_MATCH = 0.1
"""Of a prompt's characters: below that Ray's router prefers the replica with the least text."""


class Words:
    """Text that a seed draws."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        letters = "etaoinshrdlu"
        self._known = ["".join(rng.choices(letters, k=rng.randrange(2, 9))) for _ in range(2000)]

    def text(self, least: int, most: int) -> str:
        return " ".join(self._rng.choices(self._known, k=self._rng.randrange(least, most)))


@dataclass(frozen=True, slots=True)
class Request:
    """One request: which conversation it is of, its chat body, and the hashes of its prompt."""

    conversation: int
    body: dict[str, Any]
    prompt: tuple[Block, ...]


def recorded(count: int, seed: int = 18) -> list[Request]:
    """The requests of all conversations with ``count`` assistants, in the order in which they come."""
    rng = random.Random(seed)
    words = Words(rng)
    assistants = [assistant(words) for _ in range(count)]
    lines = [deque(conversation(at, assistants[at % count], words)) for at in range(CONVERSATIONS)]
    requests = []
    while any(lines):
        requests.append(rng.choice([line for line in lines if line]).popleft())
    return requests


def assistant(words: Words) -> dict[str, Any]:
    """Instructions and tools that several conversations have in common."""
    parameters = {"type": "object", "properties": {"query": {"type": "string", "description": words.text(5, 12)}}}
    function = {"name": "search", "description": words.text(20, 40), "parameters": parameters}
    tools = [{"type": "function", "function": {**function, "name": f"search_{at}"}} for at in range(5)]
    return {"messages": [{"role": "system", "content": words.text(300, 600)}], "tools": tools}


def conversation(number: int, start: dict[str, Any], words: Words) -> list[Request]:
    """Two requests a turn: after the question, and after the tool's result."""
    messages, requests = list(start["messages"]), []

    def ask() -> None:
        body = {"messages": list(messages), "tools": start["tools"]}
        prompt = antiphon.render(antiphon.read_chat(body)).ids
        assert prompt is not None
        requests.append(Request(number, body, block_hashes(prompt)))

    for turn in range(TURNS):
        messages.append({"role": "user", "content": words.text(20, 60)})
        ask()
        call = {"name": f"search_{turn % 5}", "arguments": f'{{"query": "{words.text(3, 8)}"}}'}
        calls = [{"id": f"call_{turn}", "type": "function", "function": call}]
        messages.append({"role": "assistant", "reasoning_content": words.text(30, 80), "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": words.text(80, 300)})
        ask()
        messages.append({"role": "assistant", "content": words.text(40, 120)})
    return requests


class Cache:
    """A replica's: what it had of a prompt, and then has."""

    def __init__(self, room: int | None) -> None:
        self._room = room
        self._blocks: OrderedDict[Block, None] = OrderedDict()

    def evaluate(self, prompt: Sequence[Block]) -> int:
        """How many blocks need no evaluation."""
        had = next((at for at, block in enumerate(prompt) if block not in self._blocks), len(prompt))
        for block in reversed(prompt):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while self._room is not None and len(self._blocks) > self._room:
            self._blocks.popitem(last=False)
        return had


Loads = dict[str, int]


class Policy(Protocol):
    """A way to route. It learns where each request goes by choosing."""

    def choose(self, request: Request, loads: Loads) -> str: ...


class ByIds:
    """Our router."""

    def __init__(self) -> None:
        self._index = PrefixIndex()

    def choose(self, request: Request, loads: Loads) -> str:
        chosen = self._index.ranked(request.prompt, loads)[0]
        self._index.add(request.prompt, chosen)
        return chosen


class BySession:
    """A hash of `x-session-id`, as consistent hashing does."""

    def choose(self, request: Request, loads: Loads) -> str:
        return REPLICAS[random.Random(request.conversation).randrange(len(REPLICAS))]


class ByLoad:
    """The less busy of two, drawn by chance: Ray's default, and what its prefix router does with a body that has
    neither `messages` nor `prompt`, such as that of Responses."""

    def __init__(self) -> None:
        self._rng = random.Random(2)

    def choose(self, request: Request, loads: Loads) -> str:
        return min(self._rng.sample(REPLICAS, 2), key=lambda name: loads[name])


class ByText:
    """Ray's prefix router: the text of the messages' contents, end to end, in a prefix tree."""

    def __init__(self) -> None:
        self._tree = PrefixTree() if PrefixTree is not None else PlainTree()
        self._tree.add_tenants(list(REPLICAS), 0.0)
        self._now = 0.0

    def choose(self, request: Request, loads: Loads) -> str:
        self._now += 1
        text = "".join(message.get("content") or "" for message in request.body["messages"])
        matched, owners = self._tree.prefix_match(text, list(REPLICAS))
        few = len(matched) < LEAST_MATCH * len(text)
        candidates = (self._tree.get_smallest_tenants() if few else owners) or REPLICAS
        chosen = min(candidates, key=lambda name: loads[name])
        self._tree.insert(text, chosen, self._now)
        return chosen


class PlainTree:
    """The same answers, without the tree: the texts that each replica got."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def add_tenants(self, names: list[str], now: float) -> None:
        self._texts = {name: [] for name in names}

    def insert(self, text: str, name: str, now: float) -> None:
        self._texts[name].append(text)

    def prefix_match(self, text: str, names: list[str]) -> tuple[str, list[str]]:
        lengths = {name: self._length(text, name) for name in names}
        longest = max(lengths.values())
        return text[:longest], [name for name in names if lengths[name] == longest]

    def get_smallest_tenants(self) -> list[str]:
        sizes = {name: sum(map(len, texts)) for name, texts in self._texts.items()}
        return [name for name in sizes if sizes[name] == min(sizes.values())]

    def _length(self, text: str, name: str) -> int:
        return max((shared(text, other) for other in self._texts[name]), default=0)


def shared(one: str, two: str) -> int:
    """How many characters of their beginnings are the same."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def simulated(requests: Sequence[Request], policy: Policy, room: int | None) -> tuple[float, float]:
    """(cached share of all blocks, share of the requests that the busiest replica has)."""
    caches = {name: Cache(room) for name in REPLICAS}
    running: deque[str] = deque(maxlen=AT_ONCE)
    went, cached = Counter[str](), 0
    for request in requests:
        loads = {name: running.count(name) for name in REPLICAS}
        chosen = policy.choose(request, loads)
        running.append(chosen)
        went[chosen] += 1
        cached += caches[chosen].evaluate(request.prompt)
    return cached / sum(len(request.prompt) for request in requests), max(went.values()) / len(requests)


POLICIES: dict[str, Callable[[], Policy]] = {
    "ids (Antiphon)": ByIds,
    "x-session-id, hashed": BySession,
    "text of chat (Ray's prefix router)": ByText,
    "Responses bodies (Ray's prefix router)": ByLoad,
}


def main() -> None:
    print(f"{TREE}; replicas: {len(REPLICAS)}")
    for count in ASSISTANTS:
        requests = recorded(count)
        whole = Cache(None)
        blocks = [len(request.prompt) for request in requests]
        best = sum(whole.evaluate(request.prompt) for request in requests) / sum(blocks)
        ids = f"prompts of {min(blocks) * BLOCK} to {max(blocks) * BLOCK} ids"
        print(f"\n{len(requests)} requests, {count} assistants, {ids}; best possible: {best:.1%} cached")
        print(f"{'cache of a replica':<20} {'routed by':<40} {'cached':>7} {'of best':>8} {'busiest replica':>16}")
        for room in ROOMS:
            for name, policy in POLICIES.items():
                cached, busiest = simulated(requests, policy(), room)
                size = "no limit" if room is None else f"{room * BLOCK} ids"
                print(f"{size:<20} {name:<40} {cached:>7.1%} {cached / best:>8.1%} {busiest:>16.0%}")


if __name__ == "__main__":
    main()
