"""The table ``[engine]``: what all embedded models share."""

from __future__ import annotations

from typing import Annotated

import msgspec


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For every embedded model that does not say otherwise. 0: the engine's own choice.

    ``fallback_format`` is for files without a chat template; empty, such a model is refused. ``idle_unload``, in
    seconds: a model that was not used for so long is unloaded until it is requested again (0: it stays).
    ``memory_mib`` is what all of them may have together; the one that is longest unused makes room (0: no limit).
    ``share_cache`` lets the requests of one API key find in a cache what those of another left: quicker where keys
    share long prompts, and each can find out what the others sent.
    """

    context: int = 0
    slots: int = 4
    threads: int = 0
    fallback_format: str = "chatml"
    idle_unload: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 0.0
    memory_mib: Annotated[int, msgspec.Meta(ge=0)] = 0
    share_cache: bool = False
