"""Files: uploaded piece by piece, bounded, listed in pages, each for its key alone."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.api import Limits
from antiphon.config import BatchesConfig
from antiphon.http.gate.keys import new_key
from antiphon.store import MemoryStore, SqliteStore
from antiphon.store.files import PART
from kit.api import END, app, exchange_bytes, ids, request, running, served
from kit.batches import form, get, upload

SAY = ids("Hi", END)
CONTENTS = [b"", b"x", b"\r\n--edge", bytes(range(256)) * 3, b"a" * PART, b"b" * (PART + 1), b"c\n" * (PART * 5)]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | SqliteStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "files.db")


@pytest.mark.parametrize("data", CONTENTS, ids=len)
async def test_a_file_comes_back_as_it_went(store: MemoryStore | SqliteStore, data: bytes) -> None:
    application = app(SAY, store=store, clock=lambda: 1_800_000_000.5)
    made = (await upload(application, data)).json
    assert {**made, "id": "file-…"} == {
        "id": "file-…", "object": "file", "bytes": len(data), "created_at": 1_800_000_000,
        "expires_at": 1_802_592_000, "filename": "in.jsonl", "purpose": "batch", "status": "processed",
    }  # fmt: skip
    got = await get(application, f"/v1/files/{made['id']}/content")
    assert (got.status, got.body) == (200, data)
    assert got.headers["content-type"] == "application/octet-stream"
    assert (await get(application, f"/v1/files/{made['id']}")).json == made
    await store.aclose()


async def test_what_is_deleted_leaves_nothing_behind(store: MemoryStore | SqliteStore) -> None:
    application = app(SAY, store=store)
    id = (await upload(application, b"x" * (3 * PART))).json["id"]
    deleted = await get(application, f"/v1/files/{id}", method="DELETE")
    assert deleted.json == {"id": id, "object": "file", "deleted": True}
    for path, method in ((f"/v1/files/{id}", "GET"), (f"/v1/files/{id}/content", "GET"), (f"/v1/files/{id}", "DELETE")):
        assert (await get(application, path, method=method)).status == 404
    assert await store.names("file", "") == await store.names("file_part", "") == []
    await store.aclose()


async def test_pages_of_files() -> None:
    application = app(SAY)
    made = [
        (await upload(application, b"x", purpose=purpose)).json["id"] for purpose in ("batch", "user_data", "batch")
    ]
    newest = made[::-1]

    async def page(query: str) -> tuple[list[str], bool]:
        listed = (await get(application, "/v1/files", query=query)).json
        assert (listed["first_id"], listed["last_id"]) == (
            (listed["data"] or [{"id": ""}])[0]["id"],
            (listed["data"] or [{"id": ""}])[-1]["id"],
        )
        return [one["id"] for one in listed["data"]], listed["has_more"]

    assert await page("") == (newest, False)
    assert await page("order=asc") == (made, False)
    assert await page("limit=2") == (newest[:2], True)
    assert await page(f"limit=2&after={newest[1]}") == (newest[2:], False)
    assert await page(f"order=asc&after={made[0]}") == (made[1:], False)
    assert await page("purpose=batch") == ([newest[0], newest[2]], False)
    assert await page("purpose=batch&limit=1") == ([newest[0]], True)
    assert await page("purpose=none") == ([], False)
    for query, param in (
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("order=up", "order"),
        ("after=../x", "after"),
    ):
        got = await get(application, "/v1/files", query=query)
        assert (got.status, got.error["param"]) == (400, param)


@pytest.mark.one_process("has two servers of its own, whose clock it sets")
async def test_a_file_expires_at_a_server_that_was_there_and_is_asked_only_then() -> None:
    now, store = [1_800_000_000.0], MemoryStore()
    one, other = (app(SAY, store=store, clock=lambda: now[0]) for _ in range(2))
    made = (await upload(one, b"x", **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"})).json
    now[0] += 3601
    assert (await get(other, f"/v1/files/{made['id']}")).status == 404


async def test_a_file_expires_when_its_maker_said() -> None:
    now = [1_800_000_000.0]
    application = app(SAY, clock=lambda: now[0])
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    made = (await upload(application, b"x", **fields)).json
    assert made["expires_at"] == 1_800_003_600
    now[0] += 3601
    assert (await get(application, f"/v1/files/{made['id']}")).status == 404
    assert (await get(application, "/v1/files")).json["data"] == []


async def test_no_more_is_stored_for_a_key_than_its_quota() -> None:
    (ann, anns), (bob, bobs) = new_key("ann"), new_key("bob")
    application = app(SAY, keys=[anns, bobs], batches=BatchesConfig(max_file=3 * PART, quota=5 * PART, max_files=3))
    first = (await upload(application, b"x" * (3 * PART), key=ann)).json["id"]
    over = await upload(application, b"x" * (3 * PART), key=ann)
    assert (over.status, over.error["code"]) == (413, "file_quota")
    assert (await upload(application, b"x" * (2 * PART), key=ann)).status == 200
    assert (await upload(application, b"x", key=ann)).error["code"] == "file_quota"
    assert (await upload(application, b"x" * (3 * PART), key=bob)).status == 200
    await get(application, f"/v1/files/{first}", key=ann, method="DELETE")
    assert [(await upload(application, b"x", key=ann)).status for _ in range(3)] == [200, 200, 413]


@pytest.mark.one_process("is about a store in memory, which several workers have not")
async def test_files_in_memory_push_nothing_out() -> None:
    application = app(SAY, store=MemoryStore(limit=8 * PART))
    assert [(await upload(application, b"x" * PART)).status for _ in range(3)] == [200, 200, 413]
    assert len((await get(application, "/v1/files")).json["data"]) == 2


async def test_files_that_come_at_once_share_the_quota() -> None:
    application = app(SAY, batches=BatchesConfig(quota=2 * PART + 4096))
    with running(application) as base:

        def send(_: int) -> int:
            body, kind = form(b"x" * PART, purpose="batch")
            return request(base, "POST", "/v1/files", body, content_type=kind).status

        with ThreadPoolExecutor(6) as pool:
            statuses = sorted(pool.map(send, range(12)))
        listed = request(base, "GET", "/v1/files").json["data"]
        assert sum(one["bytes"] for one in listed) <= 2 * PART + 4096
        assert statuses.count(200) == len(listed)
        assert set(statuses) <= {200, 413}
        for one in listed:
            request(base, "DELETE", f"/v1/files/{one['id']}")
        assert [send(0), send(0), send(0)] == [200, 200, 413]


async def test_a_file_beyond_the_limit_is_refused(store: MemoryStore | SqliteStore) -> None:
    application = app(SAY, store=store, batches=BatchesConfig(max_file=PART))
    for size in (PART + 1, 3 * PART, 40 * PART):
        got = await upload(application, b"x" * size)
        assert (got.status, got.error["code"]) == (413, "body_too_large")
    assert (await upload(application, b"x" * PART)).status == 200
    assert len(await store.names("file_part", "")) == 1
    await store.aclose()


@pytest.mark.one_process("calls the application itself, with a body in pieces")
async def test_an_upload_that_stops_coming_leaves_nothing(store: MemoryStore | SqliteStore) -> None:
    application = app(SAY, store=store, limits=Limits(body_timeout=0.05))
    body, kind = form(b"x" * PART, purpose="batch")
    never = asyncio.Event()
    pieces = [{"type": "http.request", "body": body[: PART // 2], "more_body": True}]

    async def receive() -> MutableMapping[str, Any]:
        if not pieces:
            await never.wait()
        return pieces.pop()

    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/v1/files", "query_string": b"", "client": None, "server": None,
        "headers": [(b"content-type", kind.encode())], "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    await application(scope, receive, send)
    assert sent[0]["status"] == 408
    gone = [{"type": "http.disconnect"}]

    async def hang_up() -> MutableMapping[str, Any]:
        return gone[0] if not half else half.pop()

    half = [{"type": "http.request", "body": body[: PART // 2], "more_body": True}]
    sent.clear()
    await application(scope, hang_up, send)
    assert sent == []
    assert await store.names("file_part", "") == []
    await store.aclose()


PART_OF_A_FORM = b'--e\r\ncontent-disposition: form-data; name="%s"\r\n\r\n%s\r\n'
FILE = b'--e\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n'
PURPOSE = PART_OF_A_FORM % (b"purpose", b"batch")
END_OF_A_FORM = b"--e--\r\n"
FORM = "multipart/form-data; boundary=e"
BAD_FORMS: dict[str, tuple[bytes, str]] = {
    "no form": (b"{}", FORM), "nothing": (b"", FORM), "no boundary": (FILE + END_OF_A_FORM, "multipart/form-data"),
    "JSON": (b'{"file": "x"}', "application/json"), "another boundary": (FILE + PURPOSE + b"--e--", FORM + "x"),
    "urlencoded": (b"purpose=batch", "application/x-www-form-urlencoded"), "no type": (FILE + PURPOSE, ""),
    "no file": (PURPOSE + END_OF_A_FORM, FORM), "no purpose": (FILE + END_OF_A_FORM, FORM),
    "a text as file": (PART_OF_A_FORM % (b"file", b"x") + PURPOSE + END_OF_A_FORM, FORM),
    "two files": (FILE + FILE + PURPOSE + END_OF_A_FORM, FORM),
    "a purpose twice": (FILE + PURPOSE * 2 + END_OF_A_FORM, FORM),
    "no end": (FILE[:-1] + PURPOSE[:20], FORM), "a file without an end": (PURPOSE + FILE[:-2], FORM),
    "many fields": (FILE + b"".join(PART_OF_A_FORM % (str(i).encode(), b"") for i in range(99)) + END_OF_A_FORM, FORM),
    "a long field": (FILE + PART_OF_A_FORM % (b"purpose", b"b" * 5000) + END_OF_A_FORM, FORM),
    "a long header": (FILE.replace(b'"a"', b'"' + b"a" * 100_000 + b'"') + PURPOSE + END_OF_A_FORM, FORM),
    "many headers": (FILE.replace(b"\r\n\r\n", b"\r\n" + b"x: y\r\n" * 5000 + b"\r\n", 1) + END_OF_A_FORM, FORM),
    "a long name": (FILE.replace(b'"a"', b'"' + b"a" * 300 + b'"') + PURPOSE + END_OF_A_FORM, FORM),
    "no name": (FILE.replace(b'"a"', b'""') + PURPOSE + END_OF_A_FORM, FORM),
    "a name with a control": (FILE.replace(b'"a"', b'"a\x01"') + PURPOSE + END_OF_A_FORM, FORM),
    "an unknown field": (FILE + PURPOSE + PART_OF_A_FORM % (b"metadata", b"{}") + END_OF_A_FORM, FORM),
    "a charset": (FILE + PART_OF_A_FORM % (b"purpose", b"\xff\xfe") + END_OF_A_FORM, FORM + "; charset=utf-16"),
    **{
        f"the purpose {purpose}": (FILE + PART_OF_A_FORM % (b"purpose", purpose.encode()) + END_OF_A_FORM, FORM)
        for purpose in ("assistants", "fine-tune", "evals", "batch_output", "", "Batch", "batch ")
    },
    **{
        f"expires after {seconds!r} of {anchor!r}": (
            FILE + PURPOSE + PART_OF_A_FORM % (b"expires_after[anchor]", anchor)
            + PART_OF_A_FORM % (b"expires_after[seconds]", seconds) + END_OF_A_FORM, FORM,
        )
        for anchor, seconds in (
            (b"created_at", b"0"), (b"created_at", b"3599"), (b"created_at", b"2592001"), (b"created_at", b"x"),
            (b"created_at", b"1e9"), (b"created_at", b"9" * 400), (b"now", b"3600"), (b"", b"3600"),
        )
    },
    "half of an expiry": (FILE + PURPOSE + PART_OF_A_FORM % (b"expires_after[seconds]", b"3600") + END_OF_A_FORM, FORM),
}  # fmt: skip


FORM_CODES = {
    "unsupported_media_type": ("JSON", "urlencoded", "no type"), "unknown_parameter": ("an unknown field",),
    "missing_required_parameter": ("no file", "no purpose", "a text as file", "a charset"),
}  # fmt: skip
"""Of those that are not ``invalid_value`` with a field, or ``invalid_request`` with none."""
base = served(lambda: app(SAY))


@pytest.mark.parametrize("what", BAD_FORMS)
def test_a_form_that_is_no_upload_is_refused(base: str, what: str) -> None:
    body, kind = BAD_FORMS[what]
    got = request(base, "POST", "/v1/files", body, content_type=kind)
    assert 400 <= got.status < 500, got.body
    usual = "invalid_value" if got.error["param"] else "invalid_request"
    assert got.error["code"] == next((code for code, kinds in FORM_CODES.items() if what in kinds), usual)
    assert got.error["message"]
    assert request(base, "GET", "/v1/files").json["data"] == []


SERVED = app(SAY)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=400), cut=st.integers(0, 400), put=st.binary(max_size=20))
async def test_no_form_is_too_odd(data: bytes, cut: int, put: bytes) -> None:
    """Whatever comes, the answer is a file or a refusal."""
    body, kind = form(data, purpose="batch")
    odd = body[:cut] + put + body[cut:]
    got = await exchange_bytes(SERVED, "/v1/files", odd, [], content_type=kind)
    assert got.status == 200 or 400 <= got.status < 500, got.body


def test_the_official_client_uploads_lists_reads_and_deletes(base: str) -> None:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        file = client.files.create(
            file=("wörter.jsonl", b'{"a": 1}\n'),
            purpose="batch",
            expires_after={"anchor": "created_at", "seconds": 3600},
        )
        assert (file.filename, file.bytes, file.purpose) == ("wörter.jsonl", 9, "batch")
        assert file.expires_at == file.created_at + 3600
        assert client.files.retrieve(file.id) == file
        assert [one.id for one in client.files.list(purpose="batch", limit=1)] == [file.id]
        assert client.files.content(file.id).text == '{"a": 1}\n'
        assert client.files.delete(file.id).deleted
        with pytest.raises(openai.NotFoundError):
            client.files.content(file.id)
        with pytest.raises(openai.BadRequestError, match="purpose"):
            client.files.create(file=b"x", purpose="fine-tune")
