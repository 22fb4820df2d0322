"""The table ``[batches]``: files that clients upload, and the batches that run from them. Sizes in bytes."""

from __future__ import annotations

import msgspec

from .units import Count, Seconds


class BatchesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``enabled``: this server has files and batches, and runs those in its store that no other server runs.

    A file has at most ``max_file`` bytes, and the files of one key, those that batches write included, ``quota`` bytes
    before an upload is refused; of one key there are at most ``max_files`` files and ``max_batches`` batches that have
    not ended. The input of a batch has at most ``max_lines``. A file is deleted ``lifetime`` seconds after it was made
    unless its maker says when.
    """

    enabled: bool = True
    max_file: Count = 200 * 2**20
    quota: Count = 2**30
    max_files: Count = 2000
    max_lines: Count = 50_000
    max_batches: Count = 100
    lifetime: Seconds = 30 * 24 * 3600.0
