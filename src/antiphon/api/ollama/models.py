"""GET /api/tags, /api/ps, /api/version; POST /api/show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from antiphon.api.models.routes import known_facts
from antiphon.catalog.catalog import Pull
from antiphon.errors import AntiphonError, NotFoundError, Position, UnsupportedError
from antiphon.http.context import Context, ModelFiles
from antiphon.http.errors import without_paths
from antiphon.http.exchange import json_response
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post
from antiphon.http.sse import Outbox
from antiphon.wire.json import encode
from antiphon.wire.writer import StreamForm

from .route import OllamaRoute, describes, named, not_found, own_name
from .schema import (
    OllamaModels,
    OllamaProgress,
    OllamaPullRequest,
    OllamaRunningModels,
    OllamaShowRequest,
    OllamaVersion,
)
from .write import LINES, listed, running, shown

# POST /api/pull, DELETE /api/delete: for keys with the scope ``models``.

LOOKS = 0.2
"""Seconds between two lines of progress."""
MANIFEST, SUCCESS = OllamaProgress(status="pulling manifest"), OllamaProgress(status="success")
UNKNOWN = "pull model manifest: file does not exist"


class OllamaPull(OllamaRoute):
    """Fetches a model of the catalog; a name that it does not have is nothing that could be fetched."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(OllamaPullRequest)
        pull = _pull(post, named(wire.model, wire.name))
        post.exchange.stream = wire.stream is not False
        if post.exchange.stream:
            await _stream(post, pull)
            return
        if pull is not None:
            await post.context.lifecycle.run(_done(pull))
        await post.send_json(SUCCESS)


async def _stream(post: Post, pull: Pull | None) -> None:
    """A line for each look at the pull; the pull goes on when the client hangs up."""
    form = StreamForm(lambda error: encode(describes(post, error)) + b"\n", LINES, keep_alive=_line(MANIFEST))

    async def write(outbox: Outbox) -> None:
        async for progress in _progress(pull):
            outbox.write(_line(progress))

    await post.stream(write, lambda: _line(SUCCESS), form, Work())


class OllamaDelete(OllamaRoute):
    """Deletes a model's file from the store."""

    async def answer(self, post: Post) -> None:
        wire, source = await post.read(OllamaPullRequest), self._context.source
        requested = named(wire.model, wire.name)
        if not isinstance(source, ModelFiles):
            raise UnsupportedError("the models of this server have no files.", position=Position(path="model"))
        try:
            await source.remove(own_name(source, requested))
        except NotFoundError:
            raise not_found(requested) from None
        await post.send_json({})


def _pull(post: Post, requested: str) -> Pull | None:
    """The pull of the model; None for one that is here. Raises `NotFoundError` in Ollama's words."""
    source = post.context.source
    name = own_name(source, requested)
    try:
        if isinstance(source, ModelFiles):
            return None if source.is_here(name) else source.pull(name)
    except NotFoundError:
        raise _unknown() from None
    if name not in source.names:
        raise _unknown()
    return None


def _unknown() -> NotFoundError:
    return NotFoundError(UNKNOWN, code="model_not_found", position=Position(path="model"))


async def _progress(pull: Pull | None) -> AsyncIterator[OllamaProgress]:
    """The lines of a pull, the last but its success; no line is repeated."""
    yield MANIFEST
    if pull is None:
        return
    last: OllamaProgress | None = None
    while True:
        await asyncio.wait([pull.done], timeout=LOOKS)
        if pull.done.done():
            break
        if (now := _now(pull)) != last:
            last = now
            yield now
    yield OllamaProgress(status="verifying sha256 digest", digest=f"sha256:{await _done(pull)}")
    yield OllamaProgress(status="writing manifest")


def _now(pull: Pull) -> OllamaProgress:
    digest = f"sha256:{pull.digest}" if pull.digest else ""
    status, total = f"pulling {pull.digest[:12] if pull.digest else pull.name}", pull.total or 0
    return OllamaProgress(status=status, digest=digest, total=total, completed=min(pull.completed, total))


async def _done(pull: Pull) -> str:
    """The digest of the file that was fetched. Raises what fetching it raises, without the paths of this machine."""
    try:
        return (await asyncio.shield(pull.done)).sha256
    except AntiphonError as error:
        raise without_paths(error) from error


def _line(progress: OllamaProgress) -> bytes:
    return encode(progress) + b"\n"


VERSION = "0.14.0"
"""The release of Ollama whose API this is: clients compare it with the one that they need."""


class OllamaLists:
    """The models that are here, and those that are in memory."""

    def __init__(self, context: Context) -> None:
        self._source = context.source

    async def tags(self, request: Request) -> Response:
        facts = [(name, await known_facts(self._source, name)) for name in self._source.names]
        return json_response(OllamaModels(models=[listed(name, self._at(name), one) for name, one in facts if one]))

    async def ps(self, request: Request) -> Response:
        models = [running(name, self._at(name), model.facts) for name, model in self._source.loaded.items()]
        return json_response(OllamaRunningModels(models=models))

    async def version(self, request: Request) -> Response:
        return json_response(OllamaVersion(VERSION))

    async def root(self, request: Request) -> Response:
        return PlainTextResponse("Ollama is running")

    def _at(self, name: str) -> int:
        return self._source.created(name)


class OllamaShow(OllamaRoute):
    """One model, by its name or an alias."""

    async def answer(self, post: Post) -> None:
        wire, source = await post.read(OllamaShowRequest), self._context.source
        requested = named(wire.model, wire.name)
        name = own_name(source, requested)
        if name not in source.names:
            raise not_found(requested)
        try:
            facts = await source.describe(name)
        except NotFoundError:
            raise not_found(requested) from None
        if facts is None:
            facts = (await self._context.model(name)).facts
        await post.send_json(shown(name, source.created(name), facts))
