"""Streams that their clients can resume, as their routes answer."""

from __future__ import annotations

import msgspec


class DeletedStream(msgspec.Struct, frozen=True):
    id: str
    object: str = "stream.deleted"
    deleted: bool = True
