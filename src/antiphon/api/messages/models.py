"""Models as Anthropic lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.wire.errors import refused

USUAL, MOST = 20, 1000
"""Models of a page, and the most of one."""


class MessagesModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, or an alias of one. Its limits in tokens are there where they are known."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    max_input_tokens: int | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    lifecycle: Literal["active"] = "active"


class MessagesModelList(msgspec.Struct, frozen=True, kw_only=True):
    data: list[MessagesModel]
    has_more: bool
    first_id: str | None
    last_id: str | None


def messages_model(id: str, name: str, *, created: int, context: int | None, most: int | None) -> MessagesModel:
    """The model ``name`` under ``id``. ``created`` is a Unix time in seconds, ``most`` the longest answer."""
    limit = most or context
    return MessagesModel(
        id=id,
        display_name=name if id == name else f"{id} ({name})",
        created_at=datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=context or UNSET,
        max_tokens=limit or UNSET,
    )


def page_of(models: Sequence[MessagesModel], query: Mapping[str, str]) -> MessagesModelList:
    """The page that ``limit``, ``after_id`` and ``before_id`` ask for. Raises `RequestError`."""
    limit, ids = _limit(query.get("limit")), [model.id for model in models]
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None and before is not None:
        raise refused("before_id", "cannot be together with after_id.")
    if before is not None:
        end = _place(before, "before_id", ids)
        start = max(0, end - limit)
        return _page(models[start:end], more=start > 0)
    start = 0 if after is None else _place(after, "after_id", ids) + 1
    return _page(models[start : start + limit], more=len(models) > start + limit)


def _page(models: Sequence[MessagesModel], *, more: bool) -> MessagesModelList:
    first, last = (models[0].id, models[-1].id) if models else (None, None)
    return MessagesModelList(data=list(models), has_more=more, first_id=first, last_id=last)


def _limit(given: str | None) -> int:
    if given is None:
        return USUAL
    if not (given.isascii() and given.isdecimal() and len(given) < 5 and 1 <= int(given) <= MOST):
        raise refused("limit", f"must be a number from 1 to {MOST}.")
    return int(given)


def _place(id: str, name: str, ids: Sequence[str]) -> int:
    if id not in ids:
        raise refused(name, f"no model is named {id[:200]!r}.")
    return ids.index(id)
