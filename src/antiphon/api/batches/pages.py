"""Pages of what has ids that sort by the time at which they were made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from antiphon.wire.errors import refused

_DIGITS = "0-9a-f"


def ids_of_page(ids: Iterable[str], query: Mapping[str, str], prefix: str, *, newest_first: bool) -> list[str]:
    """The ids behind that which ``after`` names, in the order of the list; it may be deleted meanwhile.

    Raises `RequestError` for what cannot have been an id.
    """
    ordered, after = sorted(ids, reverse=newest_first), query.get("after", "")
    if not after:
        return ordered
    if not re.fullmatch(rf"{prefix}[{_DIGITS}]{{30}}", after):
        raise refused("after", f"there is no {after[:80]!r}.")
    return [id for id in ordered if (id < after if newest_first else id > after)]


def page_size(query: Mapping[str, str], *, usual: int, most: int) -> int:
    """``limit``. Raises `RequestError` for one that is no number from 1 to ``most``."""
    limit = query.get("limit", str(usual))
    if not re.fullmatch("[0-9]{1,6}", limit) or not 1 <= int(limit) <= most:
        raise refused("limit", f"must be a number from 1 to {most}.")
    return int(limit)
