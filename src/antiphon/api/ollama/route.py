"""Base of all routes of Ollama's API."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
from starlette.types import Receive

from antiphon.config import named_by
from antiphon.errors import AntiphonError, NotFoundError, Position
from antiphon.generation import Model
from antiphon.http.client import read_body, read_json
from antiphon.http.context import Context, ModelSource
from antiphon.http.errors import api_error
from antiphon.http.exchange import Exchange
from antiphon.http.gate.browsers import sent_by_browser
from antiphon.http.gate.large import BodyRoom
from antiphon.http.post import Post, PostRoute
from antiphon.wire.errors import refused

from .read import DEFAULT, OLLAMA, bare_name
from .write import Durations, OllamaHead, time_of


class OllamaRoute(PostRoute):
    """A route whose body is JSON, whatever its content type."""

    def __init__(self, context: Context) -> None:
        super().__init__(replace(context, dialect=OLLAMA))

    async def body(self, exchange: Exchange, receive: Receive, room: BodyRoom) -> bytes:
        """Reads the body, which must be JSON from a browser: other types it may send without asking for leave."""
        read = read_json if sent_by_browser(exchange.headers) else read_body
        return await read(exchange.headers, receive, self._context.limits, room)


class NamedModel(msgspec.Struct, frozen=True):
    """A model that was asked for by ``name``, and the seconds until it was there."""

    name: str
    model: Model
    waited: float


async def loaded_model(post: Post, name: str) -> NamedModel:
    """The model that the request names. Raises `NotFoundError` in Ollama's words."""
    own, begun = own_name(post.context.source, name), time.perf_counter()
    try:
        model = await post.model(own)
    except NotFoundError as error:
        raise not_found(name, error.hint) from None
    return NamedModel(name, model, time.perf_counter() - begun)


def own_name(source: ModelSource, name: str | None) -> str:
    """The name under which the server has the model: in any case, with the tag ``latest`` or without one.

    A name that it does not have comes back without that tag. Raises `RequestError` where there is none.
    """
    if not name:
        raise refused("model", "it must be named.", code="missing_required_parameter")
    known = {one: (one, *source.aliases(one)) for one in source.names}
    exact = next((one for one, names in known.items() if name in names), None)
    bare = {one: [bare_name(alias) for alias in names] for one, names in known.items()}
    tagless = name[: -len(DEFAULT)] if name.lower().endswith(DEFAULT) else name
    return exact or named_by(bare_name(name), bare) or tagless


def not_found(name: str, hint: str | None = None) -> NotFoundError:
    return NotFoundError(
        f"model {name[:200]!r} not found", code="model_not_found", position=Position(path="model"), hint=hint
    )


def named(*names: str | None) -> str:
    """The first name that is given. Raises `RequestError` where none is."""
    name = next((name for name in names if name), None)
    if name is None:
        raise refused("model", "it must be named.", code="missing_required_parameter")
    return name


def head_of(post: Post, named: NamedModel, *, generates: bool, thinks: bool = True) -> OllamaHead:
    """Makes the head of the answer's lines; ``thinks`` false: the client wants no reasoning."""
    exchange, clock = post.exchange, post.context.clock

    def spent() -> Durations:
        now = time.perf_counter()
        begun, first = exchange.admitted or now, exchange.first_event or now
        seconds = (now - exchange.started, named.waited, first - begun, now - first)
        return Durations(*(round(one * 1e9) for one in seconds))

    return OllamaHead(
        model=named.name,
        now=lambda: time_of(clock()),
        spent=spent,
        generates=generates,
        expose_reasoning=post.may_see_reasoning and thinks,
    )


def describes(post: Post, error: AntiphonError) -> object:
    """The last line of a stream that broke."""
    post.exchange.names.restore(error)
    shape = post.exchange.errors
    return shape.body(api_error(error, shape))
