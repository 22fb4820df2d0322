"""The API described, from the same structs that read and write it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pkgutil import resolve_name

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.wires import Wire
from antiphon.config import Limits
from antiphon.http.context import Context
from antiphon.version import __version__
from antiphon.wire.errors import ErrorBody

from .bounds import bound
from .openai import openai_routes
from .parts import REF, Described


class ApiDocument:
    """GET /openapi.json, made anew where the limits changed."""

    def __init__(self, context: Context, wires: Sequence[Wire]) -> None:
        self._context = context
        self._wires = tuple(wire.described for wire in wires)
        self._made: tuple[Limits, bytes] | None = None

    async def get(self, request: Request) -> Response:
        limits = self._context.limits
        if self._made is None or self._made[0] is not limits:
            self._made = limits, await asyncio.to_thread(document, limits, self._wires)
        return Response(self._made[1], media_type="application/json")


def document(limits: Limits, wires: Sequence[Described | str] = ()) -> bytes:
    """The OpenAPI 3.1 document of a server that bears so much, whose wires are described so (`Wire.described`)."""
    described: list[Described] = [resolve_name(one) if isinstance(one, str) else one for one in wires]
    parts = (openai_routes(), *described)
    kinds = dict.fromkeys((ErrorBody, *(kind for part in parts for kind in part.kinds)))
    _, components = msgspec.json.schema_components(kinds, ref_template=REF)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Antiphon", "version": __version__},
            "paths": {path: item for part in parts for path, item in part.paths.items()},
            "components": {"schemas": bound(components, limits)},
        }
    )
