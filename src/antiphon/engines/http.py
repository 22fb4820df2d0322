"""Common part of the engines behind HTTP: one open reply, and the lines of an event stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import quote, urlsplit

import msgspec

from antiphon.errors import (
    UNREACHABLE,
    AntiphonError,
    ConfigError,
    ContextError,
    EngineError,
    EngineLostError,
    OverloadedError,
    Position,
    RequestError,
)
from antiphon.tokens import Tokenizer, decode

from .connection import Connect, Connection, over_network
from .engine import Sampling, Step
from .kind import EngineSettings, ModelSpec

# Whether a server takes llguidance's grammars: found out with one that no model would follow by itself.

WORDS = ("~Qx7~", "~Zk4~")
TOKENS = 24
"""More than any vocabulary needs for a word of the grammar, which five single bytes would spell."""


class Generate(Protocol):
    """As much of `Engine.generate` as is used here."""

    def __call__(
        self, prompt: Sequence[int], sampling: Sampling, *, grammar: str | None
    ) -> AsyncGenerator[Step, None]: ...


async def takes_grammars(generate: Generate, tokenizer: Tokenizer, end_ids: Collection[int]) -> bool:
    """False for a server that ignores such a grammar, or refuses it. Raises when the server is not there.

    The grammar names an end of the model by its id, as those of replies do: a server that refuses that takes none.
    """
    ids: list[int] = []
    end = f"<[{','.join(map(str, sorted(end_ids)))}]>" if end_ids else ""
    grammar = f'%llguidance {{}}\nstart: ("{WORDS[0]}" | "{WORDS[1]}") {end}\n'
    try:
        async with aclosing(generate(tokenizer.encode("Hello"), Sampling(max_tokens=TOKENS), grammar=grammar)) as steps:
            async for step in steps:
                ids += step.ids
    except (OverloadedError, EngineLostError):
        raise
    except (RequestError, EngineError):
        return False
    return decode(tokenizer, ids).startswith(WORDS)


STREAMS = 256
"""Replies requested at once of a server that makes many at a time, where nobody says how many."""


class ServerSettings(EngineSettings, frozen=True, kw_only=True):
    """``url`` is the server's root, which may have a path. Its key is in the environment variable ``key_variable`` or
    the file ``key_file``; neither: it takes none. ``grammar``: whether the server takes llguidance's grammars; None:
    found out. ``share_cache``: whether owners may find each other's prompts in its cache; None: what ``[engine]`` says.
    ``schemes`` are those that a ``url`` may have, the usual one first."""

    url: str = ""
    key_variable: str = ""
    key_file: str = ""
    grammar: bool | None = None
    share_cache: bool | None = None

    remote: ClassVar[bool] = True
    streams: ClassVar[int] = STREAMS
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    needs_tokenizer: ClassVar[bool] = True
    paths: ClassVar[frozenset[str]] = frozenset({"key_file"})

    def shares_cache(self, model: ModelSpec) -> bool:
        """Whether owners share the server's cache of prompts."""
        return model.share_cache if self.share_cache is None else self.share_cache

    @property
    def address(self) -> str:
        return self.url

    def fault(self) -> tuple[str, str] | None:
        if self.key_variable and self.key_file:
            return "key_file", "key_variable and key_file cannot both be given"
        if self.key_variable.startswith("ANTIPHON_"):
            return "key_variable", "it begins with ANTIPHON_, as only keys of the configuration do"
        wrong = url_fault(self.url, self.schemes)
        return ("url", wrong) if wrong else None

    async def key(self, model: ModelSpec) -> str | None:
        """The server's key; never in a message or a log. Raises `ConfigError` when it is not where the settings say."""
        if self.key_variable:
            key, place = model.environ.get(self.key_variable, ""), f"the environment variable {self.key_variable}"
        elif self.key_file:
            key, place = await asyncio.to_thread(_read, self.key_file), f"the file {self.key_file}"
        else:
            return None
        key = key.strip()
        if not key or not key.isprintable() or not key.isascii():
            raise ConfigError(f"there is no key for {model.name!r} in {place}", code="engine_key")
        return key


def url_fault(url: str, schemes: Collection[str]) -> str | None:
    """Why this is not the root of a server. What may be a secret in it is not repeated."""
    example = f"{next(iter(schemes))}://127.0.0.1:8000"
    try:
        address = urlsplit(url)
    except ValueError:
        return "it is no URL"
    if address.scheme not in schemes or not address.hostname:
        return f"it needs a url, as in {example}"
    if address.username or address.password or address.query or address.fragment:
        return "it has more than an address; a key goes into key_variable or key_file"
    if address.path.rstrip("/").endswith("/v1"):
        return f"it is the server's root, as in {example} or {example}/engines/a, without /v1"
    return None


def _read(file: str) -> str:
    try:
        return Path(file).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


log = logging.getLogger("antiphon.engines")
MOST_LOGGED = 500
"""Characters of a server's words that go into a line of the log: they may quote what was sent."""
SHORT = 60.0
"""Seconds that a short call may take. How long a reply may take is decided above."""
RESTING = 3.0
"""Seconds for which a connection waits for the next request: less than servers wait, whose usual is 5."""
_AT_ONCE = 1.0
"""Seconds in which a connection fails that the server had closed while it rested, and in which a reply ends that is
whole."""


class HttpClient:
    """The connections to an engine's server, of whose replies at most ``streams`` are open at once; more wait here.

    ``url`` is the server's root, which may have a path: what is requested lies below it.
    """

    def __init__(
        self,
        url: str,
        *,
        streams: int,
        key: str | None = None,
        connect: Connect | None = None,
        rests: bool = True,
        limit: float | None = None,
    ) -> None:
        """``connect`` None: over the network. ``rests``: a connection serves one request after the other.

        ``limit``: seconds for a request and its reply.
        """
        address = urlsplit(url)
        self._connect = connect or over_network(address)
        self._places = asyncio.Semaphore(streams)
        self._rests = rests
        self._limit = limit
        self._root = quote(address.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        name = address.netloc.rpartition("@")[2]
        host = name.encode() if name.isascii() else name.encode("idna")
        self._headers = b"host: %s\r\nuser-agent: antiphon\r\naccept: */*\r\n" % host
        if key and not (key.isascii() and key.isprintable()):
            raise ConfigError("a key is printable ASCII", code="engine_key")
        if key:
            self._headers += b"authorization: Bearer %s\r\n" % key.encode()
        if not rests:
            self._headers += b"connection: close\r\n"
        self._resting: list[Connection] = []
        self._open: set[Connection] = set()
        self._closed = False

    @asynccontextmanager
    async def open_reply(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        refuse: Callable[[int, bytes], Exception],
    ) -> AsyncIterator[Connection]:
        """A reply of status 200; leaving it before it is whole closes the connection, which is what stops the work.

        Any other status raises what ``refuse`` makes of it. OverloadedError when nobody answers there, EngineLostError
        when it stops answering, or when the client is closed meanwhile; EngineError for a reply that cannot be read.
        """
        request = self._request(method, path, b"" if body is None else msgspec.json.encode(body))
        try:
            async with self._places, asyncio.timeout(self._limit):
                reply = await self._answered(request)
                try:
                    if reply.status != 200:
                        raise refuse(reply.status, await reply.read())
                    yield reply
                finally:
                    self._release(reply)
        except OSError as error:  # A `TimeoutError` is one.
            raise EngineLostError("the engine died in the middle of a reply") from error
        except (msgspec.MsgspecError, ValueError) as error:
            log.warning("the engine's server answers %s with what is not its protocol: %s", path, error)
            raise EngineError("the engine's server does not speak its protocol", hint="The log has more.") from error

    async def aclose(self) -> None:
        """Closes the connections. Who still reads a reply gets `EngineLostError`."""
        self._closed = True
        for connection in (*self._open, *self._resting):
            connection.close()
        self._resting.clear()

    def _request(self, method: str, path: str, content: bytes) -> bytes:
        about = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(content)
        return b"%s %s HTTP/1.1\r\n%s%s%s" % (
            method.encode(), (self._root + path).encode(), self._headers, about, content,
        )  # fmt: skip

    async def _answered(self, request: bytes) -> Connection:
        """A connection with the head of the reply.

        Sent once more where the server hung up before it answered: it may have closed a connection that rested. Where
        none rested, or it took a while, it is the request that ended the server, or its end.
        """
        clock = asyncio.get_running_loop().time
        while self._resting:
            connection = self._resting.pop()
            if not connection.wake():
                continue
            began = clock()
            try:
                return await self._sent(connection, request)
            except EngineLostError:
                if self._closed or clock() - began > _AT_ONCE:
                    raise
                break
        if self._closed:
            raise EngineLostError("the engine's client is closed")
        try:
            connection = await self._connect()
        except OSError as error:
            hint = "It is down or just starting: try again in a moment."
            raise OverloadedError("the engine cannot be reached", code=UNREACHABLE, hint=hint) from error
        return await self._sent(connection, request)

    async def _sent(self, connection: Connection, request: bytes) -> Connection:
        self._open.add(connection)
        if self._closed:  # Meanwhile.
            connection.close()
        try:
            await connection.send(request)
        except BaseException as error:
            self._release(connection)
            if isinstance(error, ConnectionError):
                raise EngineLostError("the engine died before it answered") from error
            raise
        return connection

    def _release(self, connection: Connection) -> None:
        """Takes a connection back from its reader."""
        if connection.ends and self._rests and not self._closed:
            connection.await_end(_AT_ONCE, self._release)
            return
        self._open.discard(connection)
        if connection.reusable and self._rests and not self._closed:
            connection.rest(RESTING)
            self._resting.append(connection)
        else:
            connection.close()


def origin_and_path(url: str) -> tuple[str, str]:
    """``https://host:8000/engines/a/`` → ``https://host:8000`` and ``/engines/a``; without a path: ``""``."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def failed(status: int, words: str) -> AntiphonError:
    """A server's failure as one of our errors, in our words. Its own go to the log: they are for the operator.

    Those of a refused request are logged at the level ``debug`` only, for they may quote what the client sent.
    """
    if status in (401, 403):
        return refused_key(status)
    level = logging.DEBUG if status in (400, 422) else logging.WARNING
    log.log(level, "the engine's server answered %d: %s", status, words[:MOST_LOGGED])
    match status:
        case 301 | 302 | 303 | 307 | 308:
            return EngineError(f"the engine's server redirects ({status})", hint="Give the url that it redirects to.")
        case 400 | 422:
            return RequestError("the engine refused the request", hint="The reason is in the log at the level debug.")
        case 404:
            return EngineError("the engine's server has no such route (404)", hint="Is the engine's kind the server's?")
        case 429 | 503:
            return OverloadedError("the engine takes nothing now", hint="Try again in a moment.")
        case _:
            return EngineError(f"the engine failed ({status})", hint="The reason is in the log.")


def refused_key(status: int) -> EngineError:
    """A server's answer to a wrong key, without its words: they may repeat the key."""
    return EngineError(f"the engine does not accept the key that it is called with ({status})", code="engine_key")


class EventLines:
    """Bytes of a server-sent event stream → (field, value) of each whole line; cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        parts = (line.rstrip(b"\r").partition(b":") for line in lines)
        return [(field, value.removeprefix(b" ")) for field, _, value in parts if field]


def values_of(reply: Connection, *, whole: bool) -> aclosing[AsyncGenerator[bytes, None]]:
    """The JSON of each event of a stream of chunks, up to ``data: [DONE]`` or the stream's end.

    ``whole``: there is no stream, and the reply's body is the only one.
    """
    return aclosing(_only_value(reply) if whole else event_values(reply))


async def _only_value(reply: Connection) -> AsyncGenerator[bytes, None]:
    yield await reply.read()


async def event_values(parts: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The same of a stream that comes in ``parts``."""
    lines = EventLines()
    async for data in parts:
        for _, value in lines.feed(data):
            if value == b"[DONE]":
                return
            if value.startswith(b"{"):
                yield value


def check_context(prompt: Sequence[int], context: int, *, room: int = 1) -> None:
    """RequestError for an empty prompt; ContextError, with both numbers, for one that leaves less than ``room``."""
    if not prompt:
        raise RequestError("the prompt is empty", position=Position(path="prompt"))
    if len(prompt) + room > context:
        raise ContextError(f"the prompt has {len(prompt)} tokens and the context holds {context}")
