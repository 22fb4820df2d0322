"""reference-routes.md: every route that /openapi.json describes, and the few that are no API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from antiphon.api.builtin import BUILT_IN
from antiphon.api.openapi.document import document
from antiphon.config import Limits
from docs.parameters import ROUTES
from docs.text import cell

HEAD = """\
# Every route

Each path of a server, with the fields of its body. What a field of a request does is in [Parameters](parameters.md),
what errors mean in [Errors](errors.md). The page is made from the description that a server gives of itself
(`make docs`): `GET /openapi.json`, which has the schemas too.

A path of `/v1` is there without `/v1` too, and with it twice: some clients leave it out of their base URL, some repeat
it. What a [dialect](dialects.md) has is below its place as well (`/mindie/v1/chat/completions`), and Messages and
models are below `/anthropic`. With keys configured every route needs one (`authorization: Bearer …` or `x-api-key`),
but for those of health and the pages for browsers. `[…]` marks query parameters. Fields in bold are required.
"""
GROUPS = (
    (
        "Chat, completions, embeddings",
        ("/v1/chat", "/v1/completions", "/v1/fim", "/v1/infill", "/v1/embeddings", "/v1/openchatml"),
    ),
    ("Responses and conversations", ("/v1/responses", "/v1/conversations")),
    ("Messages", ("/v1/messages",)),
    ("Files and batches", ("/v1/files", "/v1/batches")),
    ("Rank", ("/v1/rerank", "/v1/reranking", "/v1/score")),
    ("Ollama", ("/api/",)),
    ("Health", ("/health", "/readyz", "/ping", "/livez", "/version")),
    ("Models, and the layer as a service", ("/",)),
)
OTHERS = (
    ("GET", "`/openapi.json`", "The description that this page is made from."),
    (
        "GET",
        "`/metrics`",
        "[Metrics](operations.md#metrics-and-traces) in Prometheus' form; the key needs the scope `admin`.",
    ),
    ("GET", "`/`, `/playground`", "The [playground](playground.md), for browsers, unless `server.playground = false`."),
    ("GET", "`/playground/api/tools`", "The tools of the server, as the playground offers them."),
    ("GET", "`/playground/api/progress/{id}`", "How far a response is that this server makes."),
    ("GET", "`/playground/api/stored`", "What the playground lists of what this key stored."),
    ("GET", "`/playground/api/stored/{kind}/{id}`", "One of them."),
    ("GET", "`/docs`", "These pages, unless `server.docs = false`."),
    ("HEAD", "`/`", "Whether an Ollama server is here: yes."),
    ("WebSocket", "`/v1/responses`", "[Responses over one connection](responses.md#over-a-websocket)."),
    ("POST", "`/v1/encode`", "LMDeploy's [token ids of texts](dialects.md)."),
    ("POST", "`/v2/rerank`", "Cohere's place of `/v1/rerank`."),
    (
        "POST",
        "`/v1/{endpoint}/invocations`",
        "Below a dialect's place: Databricks' [model by its path](dialects.md#databricks).",
    ),
    ("GET", "`/api/2.0/serving-endpoints`", "The models as [Databricks' endpoints](dialects.md#databricks)."),
    ("GET", "`/api/2.0/serving-endpoints/{name}`", "One of them."),
)
"""What /openapi.json does not describe: pages, refusals, and other places of what it does."""
MANY = 16
"""Fields of one body that are listed."""
TABLES = {path: title.replace("'", "") for title, path, *_ in ROUTES}
METHODS = ("get", "post", "put", "patch", "delete")


def routes_page() -> str:
    described = json.loads(document(Limits(), [wire.described for wire in BUILT_IN if wire.described]))
    rest = dict(described["paths"])
    lines = [HEAD]
    for title, beginnings in GROUPS:
        paths = [path for path in rest if path.startswith(beginnings)]
        lines += [f"## {title}\n", "| method | path | | body |\n|---|---|---|---|"]
        lines += [row for path in paths for row in rows(path, rest.pop(path), described["components"]["schemas"])]
        lines.append("")
    lines += ["## Pages, descriptions, other places\n", "| method | path | |\n|---|---|---|"]
    return "\n".join([*lines, *(f"| {method} | {path} | {said} |" for method, path, said in OTHERS)]) + "\n"


def rows(path: str, item: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    for method in METHODS:
        if operation := item.get(method):
            queries = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
            asked = f" [{', '.join(f'`{name}`' for name in queries)}]" if queries else ""
            said = cell(operation["summary"])
            yield f"| `{method.upper()}` | `{path}` | {said}{asked} | {fields(path, operation, schemas)} |".replace(
                "|  |", "| |"
            )


def fields(path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The fields of the body, the required in bold; of many, where they are; of no JSON object, its media type."""
    content = operation.get("requestBody", {}).get("content", {})
    for media_type, body in content.items():
        name = body["schema"].get("$ref", "").rpartition("/")[2]
        schema = schemas.get(name, body["schema"])
        required = schema.get("required", [])
        names = [f"**`{field}`**" if field in required else f"`{field}`" for field in schema.get("properties", {})]
        if len(names) > MANY:
            table = TABLES.get(path, TABLES.get(path.rpartition("/")[0]))
            place = f"parameters.md#{table.lower().replace(' ', '-')}" if table else "parameters.md"
            names = [*(name for name in names if name.startswith("**")), f"[its fields]({place})"]
        return ", ".join(names) or f"`{media_type}`"
    return ""
