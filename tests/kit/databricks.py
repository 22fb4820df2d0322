"""What the tests of Databricks' dialect share: how its endpoint is asked, and an engine that a grammar must hold."""

from __future__ import annotations

import json
from typing import Any

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.api.dialects import databricks
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.tokens import Piece
from kit import obliging
from kit.api import CALL, END, UNCALL, Got, ids, request, scripted

PATH = "/serving-endpoints/small/invocations"
HELLO = ids("Hello", END)
STRICT = databricks(strict=True)
USER = {"role": "user", "content": "Hi"}
FRAME = 19  # tokens of the template around a user's text


def invoke(base: str, path: str = PATH, **fields: Any) -> Got:
    return request(base, "POST", path, json.dumps(fields).encode(), content_type="application/json")


def ask(base: str, **fields: Any) -> Got:
    """A chat that is not streamed unless ``stream`` says so."""
    return invoke(base, **{"messages": [USER], "stream": False, **fields})


def refusal(got: Got) -> str:
    assert (got.status, got.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE"), got.body
    assert set(got.json) == {"error_code", "message"}
    message: str = got.json["message"]
    return message


def tool(name: str = "f", **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Does it.", **function}}


def called(name: str, arguments: str) -> tuple[Piece, ...]:
    """A call as the template writes it, which is how the grammar has it."""
    return (CALL, f'\n{{"name": "{name}", "arguments": {arguments}}}\n', UNCALL)


def constrained(*reply: Piece) -> tuple[ScriptedEngine, Starlette]:
    """An engine that says ``reply`` whatever grammar it is given, and is caught where that breaks the grammar."""
    engine = scripted(ids(*reply, END), end_ids=obliging.ENDS)
    return engine, create_app(StaticCatalog({"small": obliging.constrained(engine)}))
