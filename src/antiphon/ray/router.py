"""A router of Ray Serve for deployments of engines: a prompt goes where its beginning is in the cache."""

from __future__ import annotations

from collections.abc import Sequence

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from .prefixes import BLOCK, CAPACITY, Block, PrefixIndex, block_hashes


class PrefixRouter(RequestRouter):
    """Routes calls of `engine.EngineReplica.generate` by the ids of their prompts, all others by load.

    It runs in the process that has the handle, and each has its own: what another one sent is not known here.
    """

    def initialize_state(self, block: int = BLOCK, capacity: int = CAPACITY) -> None:
        """``block`` is in ids, ``capacity`` in blocks of one replica."""
        self._block = block
        self._index = PrefixIndex(capacity=capacity)

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replicas, each a rank of its own, the best first; Ray takes the first that has room."""
        replicas = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        queues = self.replica_queue_len_cache
        loads = {name: queues.get(replica.replica_id) or 0 for name, replica in replicas.items()}
        return [[replicas[name]] for name in self._index.ranked(self._prompt(pending_request), loads)]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: object) -> None:
        """Remembers what the replica will have in its cache."""
        self._index.add(self._prompt(pending_request), replica_id.unique_id)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Forgets what replicas had that are gone."""
        super().update_replicas(replicas)
        self._index.keep({replica.replica_id.unique_id for replica in replicas})

    def _prompt(self, request: PendingRequest | None) -> Sequence[Block]:
        if request is None or request.metadata.call_method != "generate":
            return ()
        domain, ids = request.args[:2]
        return block_hashes(ids, domain=domain, block=self._block)
