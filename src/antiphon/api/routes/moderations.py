"""POST /v1/moderations: a 404, for it needs a classifier, and an answer that nothing is flagged would be a lie."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.openapi.parts import Described, schema
from antiphon.errors import NotFoundError, Position
from antiphon.http.context import Context
from antiphon.wire.errors import ErrorBody


class Moderations:
    def __init__(self, context: Context) -> None:
        """They are the same in every context."""

    async def refuse(self, request: Request) -> Response:
        """Raises `NotFoundError`."""
        raise NotFoundError(
            "No model here classifies content.",
            code="model_not_found",
            position=Position(path="model"),
            hint="Moderations need a classifier, which no engine here runs; ask a chat model instead.",
        )


def _described() -> dict[str, Any]:
    error = {"description": "No model here classifies content.", "content": {"application/json": schema(ErrorBody)}}
    return {"summary": "Refused: it needs a classifier.", "responses": {"404": error}}


DESCRIBED = Described(paths={"/v1/moderations": {"post": _described()}})
