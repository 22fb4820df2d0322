"""Batches in tests: their lines, their files, and a client's calls without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from starlette.types import ASGIApp

from kit.api import Got, exchange, exchange_bytes
from kit.waiting import until_found

CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
ENDED = ("completed", "failed", "expired", "cancelled")
Json = dict[str, Any]


def line(custom_id: str, text: str = "Hi", *, url: str = CHAT, **body: Any) -> Json:
    """One request of a batch; ``body`` changes its body."""
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": url,
        "body": {"model": "small", "messages": [{"role": "user", "content": text}], **body},
    }


def jsonl(lines: Iterable[Json]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def form(data: bytes, **fields: str) -> tuple[bytes, str]:
    """A form's body with a file of these bytes, and its content type; a name's ``__`` stands for brackets."""
    edge = "edge-of-a-part"
    parts = [
        f'--{edge}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
        for name, text in fields.items()
    ]
    head = f'--{edge}\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'.encode()
    return b"".join([*parts, head, data, f"\r\n--{edge}--\r\n".encode()]), f"multipart/form-data; boundary={edge}"


async def get(application: ASGIApp, path: str, *, key: str | None = None, method: str = "GET", query: str = "") -> Got:
    return await exchange_bytes(application, path, b"", [], key=key, method=method, query=query.encode())


async def upload(application: ASGIApp, data: bytes, *, key: str | None = None, **fields: str) -> Got:
    body, kind = form(data, **{"purpose": "batch", **fields})
    return await exchange_bytes(application, "/v1/files", body, [], key=key, content_type=kind)


async def begin(application: ASGIApp, data: bytes, *, key: str | None = None, **fields: Any) -> Json:
    """The batch of a file with these bytes, just made."""
    file = (await upload(application, data, key=key)).json
    request = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", **fields}
    made = await exchange(application, "/v1/batches", request, [], key=key)
    assert made.status == 200, made.body
    batch: Json = made.json
    return batch


async def ended(application: ASGIApp, id: str, *, key: str | None = None) -> Json:
    """The batch once it has ended."""

    async def look() -> Json | None:
        batch: Json = (await get(application, f"/v1/batches/{id}", key=key)).json
        return batch if batch["status"] in ENDED else None

    return await until_found(look)


async def run(application: ASGIApp, data: bytes, **fields: Any) -> Json:
    """The batch of a file with these bytes, at its end."""
    return await ended(application, (await begin(application, data, **fields))["id"])


async def content(application: ASGIApp, file: str | None, *, key: str | None = None) -> list[Json]:
    """The lines of a file; none where there is no file."""
    if file is None:
        return []
    return [json.loads(one) for one in (await get(application, f"/v1/files/{file}/content", key=key)).body.splitlines()]


async def outcome(application: ASGIApp, batch: Json, *, key: str | None = None) -> dict[str, Json]:
    """Every line that was written of a batch by its name, each of which is there once."""
    lines = [
        *await content(application, batch["output_file_id"], key=key),
        *await content(application, batch["error_file_id"], key=key),
    ]
    by_name = {one["custom_id"]: one for one in lines}
    assert len(by_name) == len(lines)
    return by_name
