"""Pages of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from antiphon.api.responses.item_schema import ItemList
from antiphon.api.responses.items import Entry
from antiphon.errors import Position, RequestError
from antiphon.wire.json import encode

MOST = 100
"""Items of one page."""
USUAL = 20


def page_of(entries: Sequence[Entry], query: Mapping[str, str], *, newest_first: bool) -> ItemList:
    """One page: ``limit`` items (1 to 100, by default 20) after the item ``after``, in the ``order`` asc or desc."""
    items = [entry.item for entry in entries if entry.item is not None]
    if newest_is_first(query, usual=newest_first):
        items.reverse()
    after = query.get("after")
    if after:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise _refused("after", f"there is no item {after[:80]!r}.")
        items = items[ids.index(after) + 1 :]
    page = items[: limit_of(query)]
    return ItemList(
        data=[msgspec.Raw(encode(item)) for item in page],
        first_id=page[0]["id"] if page else "",
        last_id=page[-1]["id"] if page else "",
        has_more=len(items) > len(page),
    )


def newest_is_first(query: Mapping[str, str], *, usual: bool) -> bool:
    """Whether ``order`` is desc; ``usual`` where it is not there."""
    order = query.get("order", "desc" if usual else "asc")
    if order not in ("asc", "desc"):
        raise _refused("order", f"{order[:32]!r} is neither asc nor desc.")
    return order == "desc"


def limit_of(query: Mapping[str, str]) -> int:
    """How many are on a page."""
    limit = query.get("limit")
    if limit is None:
        return USUAL
    if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit[:4]) <= MOST or len(limit) > 3:
        raise _refused("limit", f"must be a number from 1 to {MOST}.")
    return int(limit)


def _refused(name: str, message: str) -> RequestError:
    return RequestError(f"{name}: {message}", code="invalid_value", position=Position(path=name))
