"""HTTP as it should not be: a body as it comes, bytes on a real socket, and what the server says and does."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.datastructures import Headers

from antiphon.api import Limits
from antiphon.engines import ScriptedEngine
from antiphon.errors import OverloadedError, RequestError
from antiphon.http.client import DISCARD, read_body
from antiphon.http.errors import ClientGone
from antiphon.http.gate.keys import new_key
from antiphon.http.gate.large import BodyRoom, LargeWork
from antiphon.http.rules import Rules
from kit.api import END, app, ids, request, running, scripted, serving
from kit.waiting import PATIENCE, LoopClock, turns


class Connection:
    """Gives these messages, and then that the client is gone; ``left`` are those that nobody has read."""

    def __init__(self, *messages: Mapping[str, Any]) -> None:
        self.left = [{"type": "http.request", **message} for message in messages]

    async def receive(self) -> dict[str, Any]:
        return self.left.pop(0) if self.left else {"type": "http.disconnect"}


async def read(connection: Connection, headers: Mapping[str, str] | None = None, **limited: int) -> bytes:
    limits = Limits(**{"max_body": 10, **limited})
    return await read_body(Headers(headers), connection.receive, limits, BodyRoom(LargeWork(Rules(limits))))


async def test_a_body_is_whole_with_the_message_that_promises_no_more() -> None:
    assert await read(Connection({"body": b"ab", "more_body": True}, {"body": b"c", "more_body": False})) == b"abc"
    assert await read(Connection({"body": b"abc"})) == b"abc"
    assert await read(Connection({})) == b""
    with pytest.raises(ClientGone):
        await read(Connection({"body": b"ab", "more_body": True}))


async def test_a_body_is_read_up_to_its_limit() -> None:
    assert await read(Connection({"body": b"x" * 10})) == b"x" * 10
    assert await read(Connection({"body": b"x" * 9, "more_body": True}, {"body": b"x"})) == b"x" * 10
    for chunks in ([b"x" * 11], [b"x" * 10, b"x"]):
        messages = [{"body": chunk, "more_body": chunk is not chunks[-1]} for chunk in chunks]
        with pytest.raises(RequestError) as refused:
            await read(Connection(*messages))
        assert refused.value.code == "body_too_large"


async def test_a_body_without_room_is_read_to_its_end_and_refused() -> None:
    connection = Connection({"body": b"x" * 6, "more_body": True}, {"body": b"x"})
    with pytest.raises(OverloadedError) as refused:
        await read(connection, max_bodies=5, off_loop_above=0)
    assert (refused.value.code, connection.left) == ("bodies_full", [])


async def test_a_longer_body_is_read_to_its_end_but_not_for_ever() -> None:
    chunk = {"body": b"x" * 10, "more_body": True}
    for count, left in ((DISCARD - 1, 0), (DISCARD + 5, 5)):
        connection = Connection(*[chunk] * count, {"body": b"x"})
        with pytest.raises(RequestError) as refused:
            await read(connection)
        assert refused.value.code == "body_too_large"
        assert len(connection.left) == left


async def test_a_body_that_announces_far_too_much_is_not_read_at_all() -> None:
    for announced, left in ((10 * DISCARD, 0), (10 * DISCARD + 1, 1)):
        connection = Connection({"body": b"x" * 11})
        with pytest.raises(RequestError) as refused:
            await read(connection, {"content-length": str(announced)})
        assert refused.value.code == "body_too_large"
        assert len(connection.left) == left


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate, identity"])
async def test_a_compressed_body_is_not_read(encoding: str) -> None:
    with pytest.raises(RequestError) as refused:
        await read(Connection({"body": b"x"}), {"content-encoding": encoding})
    assert refused.value.code == "unsupported_media_type"
    assert await read(Connection({"body": b"x"}), {"content-encoding": "Identity"}) == b"x"


BODY = b'{"messages": [{"role": "user", "content": "Hi"}]}'
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
HIDDEN = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
"""What follows a request that cannot be read. A server that answers it was smuggled a request."""


def post(headers: bytes, body: bytes = BODY, *, version: bytes = b"1.1") -> bytes:
    return b"POST /v1/chat/completions HTTP/" + version + b"\r\nhost: x\r\n" + headers + b"\r\n" + body


def get(line: bytes = b"GET /livez HTTP/1.1", headers: bytes = b"host: x\r\n") -> bytes:
    return line + b"\r\n" + headers + b"\r\n"


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return scripted(ids("ok", END))


@pytest.fixture(scope="module")
def base(engine: ScriptedEngine) -> Iterator[str]:
    with running(app(engine, limits=Limits(max_body=4096))) as url:
        yield url


def connected(base: str) -> socket.socket:
    address = urlsplit(base)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=PATIENCE)


def answer_to(base: str, sent: bytes) -> bytes:
    """All that the server says until it closes; a connection that it resets has lost an answer."""
    with connected(base) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(65536), b""))


def read_json(client: socket.socket) -> bytes:
    """An answer to the end of its body, in however many pieces it comes."""
    answer = b""
    while not answer.endswith(b"}"):
        piece = client.recv(65536)
        assert piece, answer
        answer += piece
    return answer


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


MALFORMED = {
    "a length and chunks": post(LENGTH + CHUNKED, CHUNKS),
    "chunks and a length": post(CHUNKED + LENGTH, CHUNKS),
    "one length twice": post(LENGTH + LENGTH),
    "two lengths": post(b"content-length: 5\r\n" + LENGTH),
    "a list of lengths": post(b"content-length: %d, %d\r\n" % (len(BODY), len(BODY))),
    "a negative length": post(b"content-length: -1\r\n"),
    "a length with a sign": post(b"content-length: +%d\r\n" % len(BODY)),
    "a length with an exponent": post(b"content-length: 1e3\r\n"),
    "a hexadecimal length": post(b"content-length: 0x10\r\n"),
    "a length of 2 to the 64": post(b"content-length: 18446744073709551616\r\n"),
    "an empty length": post(b"content-length:\r\n"),
    "another coding": post(b"transfer-encoding: xchunked\r\n", CHUNKS),
    "a coding before chunks": post(b"transfer-encoding: gzip, chunked\r\n", CHUNKS),
    "a coding after chunks": post(b"transfer-encoding: chunked, identity\r\n", CHUNKS),
    "chunked twice": post(CHUNKED + CHUNKED, CHUNKS),
    "a blank before the colon": post(b"transfer-encoding : chunked\r\n", CHUNKS),
    "a vertical tab": post(b"transfer-encoding:\x0bchunked\r\n", CHUNKS),
    "chunks in HTTP/1.0": post(CHUNKED, CHUNKS, version=b"1.0"),
    "a chunk's size is no number": post(CHUNKED, b"zz\r\nabc\r\n0\r\n\r\n"),
    "a chunk's size is negative": post(CHUNKED, b"-1\r\nabc\r\n0\r\n\r\n"),
    "a chunk's size is hexadecimal twice": post(CHUNKED, b"0x3\r\nabc\r\n0\r\n\r\n"),
    "a chunk of 2 to the 68": post(CHUNKED, b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    "a chunk is longer than it says": post(CHUNKED, b"3\r\nabcd\r\n0\r\n\r\n"),
    "a chunk ends in LF": post(CHUNKED, b"3\nabc\n0\n\n"),
    "lines end in LF": b"GET /livez HTTP/1.1\nhost: x\n\n",
    "lines end in CR": b"GET /livez HTTP/1.1\rhost: x\r\r",
    "a folded header": post(b"x-a: b\r\n c\r\n" + LENGTH),
    "NUL in a value": post(b"x-a: b\0c\r\n" + LENGTH),
    "NUL in a name": post(b"x\0a: b\r\n" + LENGTH),
    "CR in a value": post(b"x-a: b\rc\r\n" + LENGTH),
    "a blank in a name": post(b"x a: b\r\n" + LENGTH),
    "no colon": post(b"xa\r\n" + LENGTH),
    "no name": post(b": b\r\n" + LENGTH),
    "no host": get(headers=b""),
    "two hosts": get(headers=b"host: a\r\nhost: b\r\n"),
    "two hosts in HTTP/1.0": get(b"GET /livez HTTP/1.0", b"host: a\r\nhost: b\r\n"),
    "a proxy's method": get(b"CONNECT x:443 HTTP/1.1"),
    "no path": get(b"GET http://x HTTP/1.1"),
    "bytes in the path": get(b"GET /\xc3\xa9 HTTP/1.1"),
    "tabs between the words": get(b"GET\t/livez\tHTTP/1.1"),
    "an unknown method": get(b"FOO /livez HTTP/1.1"),
    "a method in small letters": get(b"get /livez HTTP/1.1"),
    "HTTP/1.9": get(b"GET /livez HTTP/1.9"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "the beginning of TLS": bytes.fromhex("1603010200010001fc0303") + bytes(100),
    "seventeen requests at once": get() * 18,
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_malformed_is_refused_and_nothing_behind_it_is_read(
    base: str, engine: ScriptedEngine, sent: bytes
) -> None:
    before = len(engine.requests)
    answer = answer_to(base, sent + HIDDEN)
    *earlier, last = statuses(answer)
    assert (earlier, last) == ([200] * (17 if sent == MALFORMED["seventeen requests at once"] else 0), 400)
    assert b'"code":"malformed_http"' in answer
    assert b"connection: close" in answer
    assert len(engine.requests) == before
    assert request(base, "GET", "/health").status == 200


@pytest.mark.parametrize("line", [b"GET /livez HTTP/2.0", b"GET /livez"])
def test_other_versions_of_http_are_refused(base: str, line: bytes) -> None:
    answer = answer_to(base, get(line) + HIDDEN)
    assert statuses(answer) == [505]
    assert b'"code":"http_version_not_supported"' in answer


CODES = {413: b"body_too_large", 414: b"uri_too_long", 431: b"head_too_large"}
TOO_LARGE = {
    "one header of a megabyte": (431, post(b"x-a: " + b"a" * 2**20 + b"\r\n" + LENGTH)),
    "one name of a megabyte": (431, post(b"a" * 2**20 + b": a\r\n" + LENGTH)),
    "a header that does not end": (431, post(b"x-a: " + b"a" * 2**20)),
    "ten thousand headers": (431, post(b"x-a: a\r\n" * 10_000 + LENGTH)),
    "a hundred and twenty-nine headers": (431, post(b"x:\r\n" * 127 + LENGTH)),
    "a URL of 64 kB": (414, get(b"GET /" + b"a" * 2**16 + b" HTTP/1.1")),
    "a URL that does not end": (414, b"GET /" + b"a" * 2**20),
    "a body of a gigabyte": (413, post(b"content-length: 1000000000\r\n", b"")),
    "a body of a byte too many": (413, post(b"content-length: 4097\r\n", b" " * 4097)),
    "a chunk too many": (413, post(CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n1\r\n \r\n0\r\n\r\n")),
}


@pytest.mark.parametrize(("status", "sent"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_what_is_too_large_is_refused_and_the_client_can_read_it(base: str, status: int, sent: bytes) -> None:
    answer = answer_to(base, sent)
    assert (statuses(answer), b'"code":"%s"' % CODES[status] in answer) == ([status], True), answer
    assert request(base, "GET", "/health").status == 200


WELL_FORMED = {
    "a hundred and twenty-eight headers": ([200], post(b"x:\r\n" * 125 + LENGTH + b"connection: close\r\n")),
    "a URL of 8 kB": ([404], get(b"GET /" + b"a" * 8000 + b" HTTP/1.1", b"host: x\r\nconnection: close\r\n")),
    "chunks": ([200, 200], post(CHUNKED, CHUNKS) + HIDDEN),
    "chunks with an extension": ([200, 200], post(CHUNKED, CHUNKS.replace(b"\r\n", b";a=b\r\n", 1)) + HIDDEN),
    "HTTP/1.0": ([200], get(b"GET /livez HTTP/1.0", b"")),
    "HTTP/1.0 with a body": ([200], post(LENGTH, version=b"1.0")),
    "several requests at once": ([200] * 6, get() * 5 + HIDDEN),
    "a body that is not expected": ([200, 200], get(headers=b"host: x\r\ncontent-length: 5\r\n") + b"hello" + HIDDEN),
    "a request behind the last": ([200], HIDDEN + HIDDEN),
    "empty lines first": ([200], b"\r\n\r\n" + HIDDEN),
    "HEAD": ([200, 200], get(b"HEAD /livez HTTP/1.1") + HIDDEN),
    "TRACE": ([405, 200], get(b"TRACE /livez HTTP/1.1") + HIDDEN),
    "PUT": ([405, 200], get(b"PUT /livez HTTP/1.1") + HIDDEN),
    "OPTIONS of all": ([404, 200], get(b"OPTIONS * HTTP/1.1") + HIDDEN),
    "a wish for 100 Continue": ([100, 200, 200], post(b"expect: 100-continue\r\n" + LENGTH) + HIDDEN),
    "an offer of HTTP/2": (
        [200, 200],
        post(b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n" + LENGTH) + HIDDEN,
    ),
    "an offer of web sockets": (
        [200, 200],
        get(headers=b"host: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n") + HIDDEN,
    ),
    "bytes in a header": ([200, 200], post(b"x-a: \xe9\xff\r\n" + LENGTH) + HIDDEN),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "sent"), WELL_FORMED.values(), ids=WELL_FORMED.keys())
def test_what_is_well_formed_is_answered_in_order(base: str, expected: list[int], sent: bytes) -> None:
    assert statuses(answer_to(base, sent)) == expected


@pytest.mark.parametrize("name", ["chunks", "an offer of HTTP/2", "several requests at once"])
def test_byte_by_byte_the_answers_are_the_same(base: str, name: str) -> None:
    expected, sent = WELL_FORMED[name]
    with connected(base) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in sent:
            client.sendall(bytes([byte]))
        assert statuses(b"".join(iter(lambda: client.recv(65536), b""))) == expected


def test_only_what_belongs_to_a_head_counts_as_one() -> None:
    body = BODY + b" " * 10_000
    whole = post(b"content-length: %d\r\n" % len(body), body)
    with running(app(ids("ok", END), limits=Limits(max_head=1024))) as base, connected(base) as client:
        client.sendall(get() + whole[:10])
        answer = client.recv(65536)  # so that the server has seen the beginning of a head
        client.sendall(whole[10:] + HIDDEN[:10])
        while len(statuses(answer)) < 2:
            answer += client.recv(65536)
        client.sendall(HIDDEN[10:])
        answer += b"".join(iter(lambda: client.recv(65536), b""))
    assert statuses(answer) == [200, 200, 200]


def test_a_body_behind_an_offer_is_never_taken_for_a_request(base: str) -> None:
    offer = b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: %d\r\n" % len(HIDDEN)
    with connected(base) as client:
        client.sendall(post(offer, b""))
        client.sendall(HIDDEN)
        answer = read_json(client)
    assert statuses(answer) == [400]
    assert b'"code":"invalid_json"' in answer


def test_a_trailer_is_no_header() -> None:
    secret, key = new_key("alice")
    trailed = CHUNKS.removesuffix(b"\r\n") + b"x-api-key: " + secret.encode() + b"\r\n\r\n"
    with running(app(ids("ok", END), keys=[key])) as base:
        assert statuses(answer_to(base, post(CHUNKED + b"connection: close\r\n", trailed))) == [401]


def test_garbage_behind_a_request_leaves_its_answer_whole(base: str) -> None:
    streamed = BODY[:-1] + b', "stream": true}'
    answer = answer_to(base, post(b"content-length: %d\r\n" % len(streamed), streamed) + b"\0garbage\r\n\r\n")
    assert statuses(answer) == [200, 400]
    assert answer.index(b"data: [DONE]\n\n\r\n0\r\n\r\n") < answer.index(b"malformed_http")


# What is slow. The clock is set forward until the server closes the connection.


@pytest.mark.parametrize(
    ("sent", "expected", "code"),
    [
        (b"", [], b""),
        (b"\r\n\r\n", [], b""),
        (b"G", [408], b"head_timeout"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-a", [408], b"head_timeout"),
        (get() + b"GET ", [200, 408], b"head_timeout"),
        (get(), [200], b""),
        (get(headers=b"host: x\r\ncontent-length: 100\r\n") + b"short", [200], b""),
        (post(b"content-length: 100\r\n", b"short"), [408], b"body_timeout"),
        (post(CHUNKED, b"64\r\nshort"), [408], b"body_timeout"),
    ],
)
@pytest.mark.one_process("sets the clock of its event loop forward")
async def test_who_says_too_little_is_not_waited_for(
    sent: bytes, expected: list[int], code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(body_timeout=300, head_timeout=300, idle_timeout=300)
    clock = LoopClock(monkeypatch)
    async with serving(app(ids("ok", END), limits=limits)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        reading = asyncio.ensure_future(reader.read())
        await turns(200)  # The server has taken what was sent, and answered what is whole.
        assert not reading.done()
        while not reading.done():
            await clock.forward(301)
        answer = await reading
        writer.close()
    assert statuses(answer) == expected
    assert code in answer


FIELDS = b"host: x\r\nconnection: close\r\n"
EDGES: dict[str, tuple[Limits, Callable[[int], bytes], int, int]] = {
    "headers in all": (Limits(max_headers=7), lambda n: get(headers=FIELDS + b"x: a\r\n" * (n - 2)), 7, 431),
    "bytes of headers": (
        Limits(max_head=300), lambda n: get(headers=FIELDS + b"x: " + b"a" * (n - len(FIELDS) - 5) + b"\r\n"), 300, 431,
    ),
    "bytes of many headers": (
        Limits(max_head=300),
        lambda n: get(headers=FIELDS + b"x: a\r\n" * 20 + b"x: " + b"a" * (n - len(FIELDS) - 125) + b"\r\n"), 300, 431,
    ),
    "bytes of a URL": (
        Limits(max_url=50), lambda n: get(b"GET /livez?" + b"a" * (n - 7) + b" HTTP/1.1", FIELDS), 50, 414,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_a_head_as_large_as_it_may_be_is_read_and_one_that_is_larger_is_refused(name: str) -> None:
    limits, sent, most, refusal = EDGES[name]
    with running(app(ids("ok", END), limits=limits)) as base:
        assert statuses(answer_to(base, sent(most))) == [200]
        assert statuses(answer_to(base, sent(most + 1))) == [refusal]


def test_sixteen_requests_may_wait_behind_the_one_that_is_answered(base: str) -> None:
    last = get(headers=FIELDS)
    assert statuses(answer_to(base, get() * 16 + last)) == [200] * 17
    assert 400 in statuses(answer_to(base, get() * 17 + last))
