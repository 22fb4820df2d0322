"""The page's own routes as the API document has them."""

from __future__ import annotations

from antiphon.api.openapi.parts import Described

from . import now, stored

DESCRIBED = Described(
    kinds=(*stored.DESCRIBED.kinds, *now.DESCRIBED.kinds),
    paths={**stored.DESCRIBED.paths, **now.DESCRIBED.paths},
)
