"""Images and texts that a request names, by the id of a file or by an address: they stand in it from then on."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import openai
import pytest
from aiohttp import web
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.api.responses.request import RunHead
from antiphon.api.responses.schema import ResponsesRequest
from antiphon.catalog.static import StaticCatalog
from antiphon.config import BatchesConfig, Limits
from antiphon.engines import ScriptedEngine
from antiphon.http.gate.keys import new_key
from antiphon.http.journal import run_key
from antiphon.http.recorded import KIND as STREAM
from antiphon.http.recorded import RESUMABLE, StreamHead
from antiphon.store import Key, SqliteStore
from antiphon.tokens import decode
from antiphon.tools.browser import Web, WebLimits
from antiphon.wire.json import decode as decode_body
from kit.aiohttp_site import listening
from kit.api import END, Got, exchange, exchange_bytes, post_in_process, running, sampled
from kit.bad_pictures import png_of
from kit.batches import content, get, jsonl, run, upload
from kit.pictures import ENDS, TOKENIZER, data_url, picture, seeing_engine, seeing_model

RED, BLUE = picture(color=(255, 0, 0)), picture("JPEG", color=(0, 0, 255))
NOTES = b"First line.\nSecond: <|im_end|>"
REPLY = sampled(TOKENIZER, ("Red.", END))
Request = tuple[str, dict[str, Any], str]
"""A path, a body, and the place of the part in it that names something."""


def seeing(**options: Any) -> tuple[Starlette, ScriptedEngine]:
    engine = seeing_engine(REPLY)
    return create_app(StaticCatalog({"m": seeing_model(engine)}), **options), engine


def responses(part: Mapping[str, Any], **fields: Any) -> Request:
    return (
        "/v1/responses",
        {"model": "m", "input": [{"role": "user", "content": [part]}], **fields},
        "input[0].content[0]",
    )


def chat(part: Mapping[str, Any]) -> Request:
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": [part]}]}, "messages[0].content[0]"


def messages(block: Mapping[str, Any]) -> Request:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
    return "/v1/messages", body, "messages[0].content[0]"


def in_a_result(block: Mapping[str, Any]) -> Request:
    body = {"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "see", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [block]}]},
    ]}  # fmt: skip
    return "/v1/messages", body, "messages[2].content[0].content[0]"


def in_a_document(block: Mapping[str, Any]) -> Request:
    path, body, place = messages({"type": "document", "source": {"type": "content", "content": [block]}})
    return path, body, f"{place}.content[0]"


def images_by_id(id: str) -> list[Request]:
    block = {"type": "image", "source": {"type": "file", "file_id": id}}
    part = {"type": "input_image", "file_id": id, "detail": "auto"}
    return [responses(part), messages(block), in_a_result(block), in_a_document(block)]


def texts_by_id(id: str) -> list[Request]:
    return [
        chat({"type": "file", "file": {"file_id": id}}),
        responses({"type": "input_file", "file_id": id}),
        messages({"type": "document", "source": {"type": "file", "file_id": id}}),
    ]


def images_at(url: str) -> list[Request]:
    block = {"type": "image", "source": {"type": "url", "url": url}}
    return [
        chat({"type": "image_url", "image_url": {"url": url, "detail": "low"}}),
        chat({"type": "image_url", "image_url": url}),
        responses({"type": "input_image", "image_url": url}),
        messages(block), in_a_result(block), in_a_document(block),
    ]  # fmt: skip


def texts_at(url: str) -> list[Request]:
    return [
        responses({"type": "input_file", "file_url": url}),
        messages({"type": "document", "source": {"type": "url", "url": url}}),
    ]


async def ask(application: Starlette, request: Request, *, key: str | None = None) -> Got:
    return await exchange(application, request[0], request[1], [], key=key)


def images_seen(engine: ScriptedEngine) -> list[bytes]:
    return [image.data for image in engine.images[-1]]


async def test_a_file_of_the_owners_is_an_image_or_a_text_of_each_wire() -> None:
    application, engine = seeing()
    red = (await upload(application, RED, purpose="vision")).json["id"]
    notes = (await upload(application, NOTES, purpose="user_data")).json["id"]
    for request in images_by_id(red):
        got = await ask(application, request)
        assert (got.status, images_seen(engine)) == (200, [RED]), got.body
    for request in texts_by_id(notes):
        got = await ask(application, request)
        assert got.status == 200, got.body
        prompt = engine.requests[-1][0]
        assert f"\nin.jsonl\n\n{NOTES.decode()}\n\n" in decode(TOKENIZER, prompt)
        assert prompt.count(TOKENIZER.controls[END]) == 1


def test_the_clients_upload_and_name_files_and_a_stored_turn_keeps_what_is_deleted() -> None:
    application, engine = seeing()
    with running(application) as base:
        with openai.OpenAI(base_url=f"{base}/v1", api_key="-") as client:
            id = client.files.create(file=("red.png", RED), purpose="vision").id
            part: Any = {"type": "input_image", "file_id": id, "detail": "auto"}
            first = client.responses.create(model="m", input=[{"role": "user", "content": [part]}])
            client.files.delete(id)
            client.responses.create(model="m", input="And now?", previous_response_id=first.id)
            assert images_seen(engine) == [RED]
            listed = client.responses.input_items.list(first.id).data[0].model_dump()
            assert listed["content"][0]["image_url"] == data_url(RED)
            made = client.conversations.create(items=[{"role": "user", "content": [
                {"type": "input_image", "image_url": data_url(BLUE), "detail": "auto"}]}])  # fmt: skip
            client.responses.create(model="m", input="And?", conversation=made.id)
            assert images_seen(engine) == [BLUE]
            id = client.files.create(file=("blue.jpg", BLUE), purpose="user_data").id
            made = client.conversations.create(items=[{"role": "user", "content": [{**part, "file_id": id}]}])
            client.responses.create(model="m", input="And?", conversation=made.id)
            assert images_seen(engine) == [BLUE]
        with anthropic.Anthropic(base_url=base, api_key="-") as messages_client:
            block: Any = {"type": "image", "source": {"type": "file", "file_id": id}}
            answer = messages_client.beta.messages.create(
                model="m", max_tokens=9, betas=["files-api-2025-04-14"], messages=[{"role": "user", "content": [block]}]
            )
            assert images_seen(engine) == [BLUE]
            assert answer.usage.input_tokens == len(engine.requests[-1][0])


def test_the_files_of_anthropics_client_are_those_of_all() -> None:
    application, engine = seeing()
    with running(application) as base, anthropic.Anthropic(base_url=base, api_key="-") as client:
        files, names = client.beta.files, [f"{i}.png" for i in range(3)]
        made = [files.upload(file=(name, RED, "image/png"), expires_in_seconds=3600) for name in names]
        first = made[0]
        assert (first.filename, first.mime_type, first.size_bytes) == ("0.png", "image/png", len(RED))
        assert first.expires_at == first.created_at + timedelta(hours=1)
        assert [file.filename for file in files.list(limit=2)] == names[::-1]
        page = client.get(f"/v1/files?limit=1&before_id={made[0].id}", cast_to=dict[str, Any])
        assert ([file["id"] for file in page["data"]], page["has_more"]) == ([made[1].id], True)
        assert files.retrieve_metadata(made[1].id) == made[1]
        assert files.download(made[1].id).read() == RED
        block: Any = {"type": "image", "source": {"type": "file", "file_id": made[1].id}}
        client.beta.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": [block]}])
        assert images_seen(engine) == [RED]
        assert files.delete(made[1].id).type == "file_deleted"
        with pytest.raises(anthropic.NotFoundError) as gone:
            files.retrieve_metadata(made[1].id)
        assert gone.value.body["error"]["type"] == "not_found_error"
        for options in ({"expires_in_seconds": 5}, {"extra_body": {"purpose": "batch"}}):
            with pytest.raises(anthropic.BadRequestError):
                files.upload(file=("a.png", RED), **options)
        with openai.OpenAI(base_url=f"{base}/v1", api_key="-") as other:
            assert {file.purpose for file in other.files.list()} == {"user_data"}


async def test_a_line_of_a_batch_names_a_file_of_its_owner() -> None:
    application, _ = seeing()
    red = (await upload(application, RED, purpose="vision")).json["id"]
    _, body, _ = responses({"type": "input_image", "file_id": red})
    lines = [{"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": body}]
    async with AsyncExitStack() as living:
        await living.enter_async_context(application.router.lifespan_context(application))
        batch = await run(application, jsonl(lines), endpoint="/v1/responses")
        (answer,) = await content(application, batch["output_file_id"])
    assert answer["response"]["status_code"] == 200


async def test_anothers_file_an_unknown_one_and_a_deleted_one_are_refused_alike() -> None:
    (ann, anns), (bob, bobs) = new_key("ann"), new_key("bob")
    application, engine = seeing(keys=[anns, bobs])
    deleted = (await upload(application, RED, key=bob, purpose="vision")).json["id"]
    await get(application, f"/v1/files/{deleted}", key=bob, method="DELETE")
    others = (await upload(application, RED, key=ann, purpose="vision")).json["id"]
    for requests in (images_by_id, texts_by_id):
        answers = []
        for id in (others, "file-1", "file-\0", deleted):
            for request in requests(id):
                got = await ask(application, request, key=bob)
                text = got.body.decode().replace(json.dumps(repr(id))[1:-1], "ID")
                assert (got.status, "file_not_found" in text) == (400, True), text
                assert f"{request[2]}: there is no file ID" in text
                answers.append(text.partition('"request_id"')[0])
        assert len(set(answers)) == len(requests(""))
    assert not engine.requests


BOMB = png_of(50_000, 50_000)
FILES: list[tuple[str, bytes, str, Callable[[str], list[Request]], str, str]] = [
    ("of a batch", RED, "batch", images_by_id, "invalid_value", "upload it for vision or user_data"),
    ("a PDF as an image", b"%PDF-1.7", "vision", images_by_id, "invalid_image", "none of PNG"),
    ("an empty image", b"", "vision", images_by_id, "invalid_image", "none of PNG"),
    ("a cut image", BLUE[:300], "vision", images_by_id, "invalid_image", "damaged"),
    ("a bomb", BOMB, "vision", images_by_id, "invalid_image", "pixels"),
    ("too large an image", RED + bytes(70_000), "vision", images_by_id, "body_too_large", "more than 65536 bytes"),
    ("an image as a text", RED, "user_data", texts_by_id, "unsupported_content", "cannot be read"),
    ("a PDF as a text", b"%PDF-1.7\n\x00\xff", "user_data", texts_by_id, "unsupported_content", "cannot be read"),
    ("too large a text", b"x" * 50_000, "user_data", texts_by_id, "body_too_large", "more than 65536 bytes"),
]


@pytest.mark.parametrize(
    ("data", "purpose", "requests", "code", "words"), [row[1:] for row in FILES], ids=[r[0] for r in FILES]
)
async def test_a_file_that_cannot_be_read_is_refused_at_its_place(
    data: bytes, purpose: str, requests: Callable[[str], list[Request]], code: str, words: str
) -> None:
    application, engine = seeing(limits=Limits(max_body=2**16))
    id = (await upload(application, data, purpose=purpose)).json["id"]
    for request in requests(id):
        got = await ask(application, request)
        assert got.status in (400, 413), got.body
        assert all(part in got.body.decode() for part in (f"{request[2]}: ", f'"{code}"', words)), got.body
    assert not engine.requests


async def test_what_the_engine_does_not_count_is_counted_by_its_marks() -> None:
    application, engine = seeing()
    red = (await upload(application, RED, purpose="vision")).json["id"]
    part, block = {"type": "input_image", "file_id": red}, {"type": "image", "source": {"type": "file", "file_id": red}}
    asked = [await ask(application, request) for request in (responses(part), messages(block))]
    for made, (path, (_, body, _)) in zip(asked, (
        ("/v1/responses/input_tokens", responses(part)), ("/v1/messages/count_tokens", messages(block))
    ), strict=True):  # fmt: skip
        got = await post_in_process(application, path, **body)
        assert got.json["input_tokens"] == made.json["usage"]["input_tokens"]
    assert len(engine.requests) == 2


async def test_what_is_named_many_times_counts_as_often() -> None:
    application, engine = seeing(limits=Limits(max_body=2**16))
    large = RED + bytes(20_000)
    id = (await upload(application, large, purpose="vision")).json["id"]
    for count, status in ((3, 413), (2, 200)):
        parts = [{"type": "input_image", "file_id": id}] * count
        body = {"model": "m", "input": [{"role": "user", "content": parts}]}
        got = await post_in_process(application, "/v1/responses", **body)
        assert got.status == status, got.body
        assert application.state.context.large.bytes == 0
    assert [image.data for image in engine.images[0]] == [large] * 2


async def test_a_server_without_files_has_none_to_name() -> None:
    application, _ = seeing(batches=BatchesConfig(enabled=False))
    for request in (*images_by_id("file-1"), *texts_by_id("file-1")):
        assert (await ask(application, request)).status == 400


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "file_id": "file-1", "image_url": data_url(RED)},
        {"type": "input_file", "file_id": "file-1", "file_data": "eA=="},
        {"type": "input_file", "file_url": "https://example.com/a.txt", "file_data": "eA=="},
    ],
)
async def test_a_part_has_one_source(part: dict[str, Any]) -> None:
    application, _ = seeing()
    got = await ask(application, responses(part))
    assert (got.status, got.error["param"]) == (400, "input[0].content[0]")
    assert "it has one of" in got.error["message"]


# Addresses.

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
Handler = Callable[[web.Request], Any]


class Site:
    """A site whose answers are by path, and how often each was asked for."""

    def __init__(self, pages: Mapping[str, Handler]) -> None:
        self.asked: list[str] = []
        self._pages = pages

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        self.asked.append(request.path)
        answer: web.StreamResponse = await self._pages[request.path](request)
        return answer

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        async with listening(application, shutdown_timeout=0.1) as url:
            yield url


def page(body: bytes, kind: str, status: int = 200, **headers: str) -> Handler:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={"Content-Type": kind, **named})

    return answer


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "image/png"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(RED + bytes(65536))
    return response


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def fetching(site: Site, limits: WebLimits | None = None, **options: Any) -> AsyncIterator[tuple[str, Any, Any]]:
    """The site's address, and a server that fetches of this machine what it is told to."""
    async with site.serving() as url, aclosing(Web(allowed=LOOPBACK, limits=limits)) as fetcher:
        application, engine = seeing(web=fetcher, **options)
        yield url, application, engine


async def test_what_is_at_an_address_is_an_image_or_a_text_of_each_wire() -> None:
    moved = page(b"", "text/plain", 302, Location="/red.png")
    site = Site({
        "/red.png": page(RED, "image/png"), "/moved": moved, "/blob": page(RED, "application/octet-stream"),
        "/notes": page(NOTES, "text/markdown; charset=utf-8"),
    })  # fmt: skip
    async with fetching(site) as (url, application, engine):
        for path in ("/red.png", "/moved", "/blob"):
            for request in images_at(url + path):
                got = await ask(application, request)
                assert (got.status, images_seen(engine)) == (200, [RED]), got.body
        for request in texts_at(f"{url}/notes"):
            got = await ask(application, request)
            assert got.status == 200, got.body
            assert f"{url}/notes\n\n{NOTES.decode()}\n\n" in decode(TOKENIZER, engine.requests[-1][0])


async def test_an_address_is_fetched_once_for_a_request_and_for_the_turns_that_go_on_with_it(tmp_path: Path) -> None:
    site = Site({"/red.png": page(RED, "image/png")})
    async with fetching(site, store=SqliteStore(tmp_path / "store.db")) as (url, application, engine):
        part = {"type": "input_image", "image_url": f"{url}/red.png"}
        body = {"model": "m", "input": [{"role": "user", "content": [part, part]}], "stream": True}
        got = await post_in_process(application, "/v1/responses", **body)
        id = msgspec.json.decode(got.body.split(b"data: ")[1].split(b"\n")[0])["response"]["id"]
        assert images_seen(engine) == [RED, RED]
        head = await application.state.context.stored_runs.head(run_key("", id), RunHead)
        assert head.body.count(data_url(RED).encode()) == 2  # Another server has the same images, if this one dies.
        assert decode_body(head.body, ResponsesRequest)[1].ignored == ()
        got = await post_in_process(application, "/v1/responses", model="m", input="And?", previous_response_id=id)
        assert (got.status, images_seen(engine)) == (200, [RED, RED])
        assert site.asked == ["/red.png"]
        session: dict[str, Any] = {"session_id": "s", "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": f"{url}/red.png"}}]}]}  # fmt: skip
        more: dict[str, Any] = {"session_id": "s", "messages": [{"role": "user", "content": "And?"}]}
        for body in (session, more):
            got = await post_in_process(application, "/v1/chat/completions", **body)
            assert (got.status, images_seen(engine)) == (200, [RED]), got.body
        assert site.asked == ["/red.png"] * 2
        body = {"messages": session["messages"], "stream": True}
        got = await exchange_bytes(
            application, "/v1/chat/completions", json.dumps(body).encode(), [], headers=[(RESUMABLE.encode(), b"true")]
        )
        stream = Key(STREAM, "", got.headers["x-antiphon-resume"].rpartition("/")[2])
        made = await application.state.context.stored_runs.head(stream, StreamHead)
        assert data_url(RED).encode() in made.body
        await application.state.context.leases.aclose()
        await application.state.context.archive.store.aclose()


PACKED = zlib.compress(RED + bytes(50_000_000))
PAGES: dict[str, tuple[Handler, str]] = {
    "/gone": (page(b"", "image/png", 410), "answered 410"),
    "/html": (page(b"<html>", "text/html"), "is text/html, not an image"),
    "/svg": (page(b"<svg/>", "image/svg+xml"), "not an image"),
    "/lies": (page(b"<html>", "image/png"), "none of PNG"),
    "/cut": (page(BLUE[:300], "image/png"), "damaged"),
    "/bomb": (page(BOMB, "image/png"), "pixels"),
    "/packed": (page(PACKED, "image/png", content_encoding="deflate"), "more than"),
    "/endless": (endless, "more than"),
    "/silent": (silent, "could not be fetched"),
    "/private": (page(b"", "image/png", 302, Location="http://10.0.0.1/a.png"), "not a public address"),
    "/file": (page(b"", "image/png", 302, Location="file:///etc/passwd"), "only http"),
    "/round": (page(b"", "image/png", 302, Location="/round"), "more than 5 redirects"),
}


@pytest.mark.parametrize("path", PAGES)
async def test_what_a_site_does_to_us_is_an_error_at_the_part(path: str) -> None:
    handler, words = PAGES[path]
    code = "invalid_image" if path in ("/lies", "/cut", "/bomb") else "fetch_failed"
    limits = WebLimits(seconds=0.5) if handler is silent else None
    async with fetching(Site({path: handler}), limits) as (url, application, engine):
        for request in images_at(url + path)[2:4]:
            got = await ask(application, request)
            assert got.status == 400, got.body
            assert all(part in got.body.decode() for part in (f"{request[2]}: ", f'"{code}"', words)), got.body
        assert not engine.requests
        assert application.state.context.large.bytes == 0


PRIVATE = (
    "http://127.0.0.1/a.png", "http://localhost:8080/a.png", "http://[::1]/", "http://169.254.169.254/latest",
    "http://2130706433/", "file:///etc/passwd", "a.png",
)  # fmt: skip


@pytest.mark.parametrize("url", PRIVATE)
async def test_no_address_that_is_not_public_is_fetched(url: str) -> None:
    async with aclosing(Web()) as fetcher:
        application, _ = seeing(web=fetcher)
        for request in (*images_at(url), *texts_at(url)):
            got = await ask(application, request)
            assert got.status == 400, got.body
            assert f"{request[2]}: " in got.body.decode()


async def test_nothing_is_fetched_where_the_owner_does_not_allow_it_nor_for_a_model_that_sees_nothing() -> None:
    site = Site({"/red.png": page(RED, "image/png"), "/notes": page(NOTES, "text/plain")})
    async with fetching(site) as (url, _, _):
        application, engine = seeing()
        for request in (*images_at(f"{url}/red.png"), *texts_at(f"{url}/notes")):
            got = await ask(application, request)
            assert got.status == 400, got.body
            assert f"{request[2]}: " in got.body.decode()
            assert "server.fetch is off" in got.body.decode()
        async with aclosing(Web(allowed=LOOPBACK)) as fetcher:
            blind = create_app(StaticCatalog({"m": seeing_model(ScriptedEngine(REPLY, end_ids=ENDS))}), web=fetcher)
            for request in images_at(f"{url}/red.png"):
                got = await ask(blind, request)
                assert (got.status, "reads text" in got.body.decode()) == (400, True), got.body
        assert (site.asked, engine.requests) == ([], [])


async def test_the_addresses_of_a_request_are_limited_in_number() -> None:
    site = Site({f"/{i}": page(RED, "image/png") for i in range(17)})
    async with fetching(site) as (url, application, engine):
        for count, status in ((17, 400), (16, 200)):
            parts = [{"type": "input_image", "image_url": f"{url}/{i}"} for i in range(count)]
            body = {"model": "m", "input": [{"role": "user", "content": parts}]}
            got = await post_in_process(application, "/v1/responses", **body)
            assert got.status == status, got.body
            assert len(site.asked) == (0 if status == 400 else 16)
        assert images_seen(engine) == [RED] * 16
