"""POST /v1/moderations: a 404, for it needs a classifier, and an answer that nothing is flagged would be a lie."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.api.openapi.parts import Described, schema
from antiphon.api.wires import Wire
from antiphon.errors import NotFoundError, Position
from antiphon.http.context import Context
from antiphon.http.gate.access import PREFIXES
from antiphon.wire.errors import ErrorBody


async def moderate(request: Request) -> Response:
    """Raises `NotFoundError`."""
    raise NotFoundError(
        "No model here classifies content.",
        code="model_not_found",
        position=Position(path="model"),
        hint="Moderations need a classifier, which no engine here runs; ask a chat model instead.",
    )


def _routes(context: Context) -> list[Route]:
    return [Route(f"{prefix}/moderations", moderate, methods=["POST"]) for prefix in PREFIXES]


def _described() -> dict[str, Any]:
    error = {"description": "No model here classifies content.", "content": {"application/json": schema(ErrorBody)}}
    return {"summary": "Refused: it needs a classifier.", "responses": {"404": error}}


MODERATIONS = Wire(
    name="moderations", routes=_routes, described=Described(paths={"/v1/moderations": {"post": _described()}})
)
