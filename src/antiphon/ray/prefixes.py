"""Which replica of an engine has the beginning of a prompt in its cache: hashes of blocks of ids, and who had them."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

BLOCK = 16
"""Ids of one block, as in the caches of most engines."""
CAPACITY = 65_536
"""Blocks that are remembered of one replica: about a million ids."""
AVOID = 8
"""Blocks that are rather evaluated again than that a prompt goes where there is one request more than elsewhere, or,
if it begins a conversation, one conversation more."""

Block = bytes


def block_hashes(ids: Sequence[int], *, domain: str = "", block: int = BLOCK) -> tuple[Block, ...]:
    """A hash for each whole block of ``ids``, which stands for all ids up to its end.

    Prompts of different ``domain`` (a model, and who may share its cache) have no hash in common.
    """
    data = memoryview(array("I", ids).tobytes())
    size = block * array("I").itemsize
    above = blake2b(domain.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    hashes = []
    for end in range(size, len(data) + 1, size):
        above = blake2b(data[end - size : end], digest_size=8, key=above).digest()
        hashes.append(above)
    return tuple(hashes)


@dataclass(frozen=True, slots=True)
class Match:
    """How many blocks of a prompt a replica has. ``extends``: nothing else goes on from there, so this one does."""

    blocks: int = 0
    extends: bool = False


class ReplicaBlocks:
    """The blocks that went to one replica: ``capacity`` at most, the least recently used leave first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._above: OrderedDict[Block, Block | None] = OrderedDict()
        """Each block and the one before it; the most recently used is the last."""
        self._children: dict[Block, int] = {}
        """How many blocks follow each; not in it: none."""

    def __len__(self) -> int:
        return len(self._above)

    @property
    def conversations(self) -> int:
        """How many prompts it has of which none is the beginning of another."""
        return len(self._above) - len(self._children)

    def match(self, prompt: Sequence[Block]) -> Match:
        """How much of the beginning of ``prompt`` is here."""
        blocks = next((at for at, block in enumerate(prompt) if block not in self._above), len(prompt))
        return Match(blocks, extends=blocks > 0 and prompt[blocks - 1] not in self._children)

    def add(self, prompt: Sequence[Block]) -> None:
        """``prompt`` went there. Its last blocks will leave before its first."""
        above: Block | None = None
        for block in prompt:
            if block not in self._above:
                self._above[block] = above
                if above is not None:
                    self._children[above] = self._children.get(above, 0) + 1
            above = block
        for block in reversed(prompt):
            self._above.move_to_end(block)
        while len(self._above) > self._capacity:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        block, above = self._above.popitem(last=False)
        self._children.pop(block, None)
        if above is not None and above in self._children:
            self._children[above] -= 1
            if not self._children[above]:
                del self._children[above]


class PrefixIndex:
    """Ranks replicas for a prompt by what it would cost there: blocks to evaluate, and others to wait for.

    A prompt that goes on where another ended stays with it. One that only begins like others, as with the same
    instructions and tools, goes where there are fewer conversations, once there are enough of them to pay for that.
    """

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        """``capacity`` is in blocks of one replica."""
        self._capacity = capacity
        self._replicas: dict[str, ReplicaBlocks] = {}

    def ranked(self, prompt: Sequence[Block], loads: Mapping[str, int]) -> list[str]:
        """The replicas of ``loads`` (how many requests each has now), the best for ``prompt`` first."""
        here = {name: self._replicas.setdefault(name, ReplicaBlocks(self._capacity)) for name in loads}
        fewest = min((blocks.conversations for blocks in here.values()), default=0)
        idlest = min(loads.values(), default=0)

        def cost(name: str) -> tuple[int, bytes]:
            match = here[name].match(prompt)
            more = 0 if match.extends else here[name].conversations - fewest
            return len(prompt) - match.blocks + AVOID * (more + loads[name] - idlest), drawn(prompt, name)

        return sorted(loads, key=cost)

    def add(self, prompt: Sequence[Block], replica: str) -> None:
        """``prompt`` goes to ``replica``."""
        self._replicas.setdefault(replica, ReplicaBlocks(self._capacity)).add(prompt)

    def keep(self, replicas: Collection[str]) -> None:
        """Forgets what all others had: they are gone, and their caches with them."""
        self._replicas = {name: blocks for name, blocks in self._replicas.items() if name in replicas}


def drawn(prompt: Sequence[Block], replica: str) -> bytes:
    """Among replicas that are as good, routers that know nothing of each other send one prompt to one of them, and
    different prompts to different ones."""
    return blake2b(replica.encode(), digest_size=8, key=prompt[-1] if prompt else b"").digest()
