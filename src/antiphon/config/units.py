"""Numbers of the configuration that have bounds."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0)]
"""0 is no limit."""
Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e8)]
LeaseSeconds = Annotated[float, msgspec.Meta(ge=1, le=3600)]
SecondsOrNone = Annotated[float, msgspec.Meta(ge=0, le=1e8)]
"""0 is no limit. Infinity is none that a timer could be set to."""
