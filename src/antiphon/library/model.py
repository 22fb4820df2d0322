"""A model to talk to, for programs that are asynchronous."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, Unpack, overload

from antiphon.conversation import ResponseFormat, Role
from antiphon.errors import RequestError
from antiphon.formats import Format
from antiphon.generation import Model, embed, plan_embedding
from antiphon.tokens import Tokenizer, encode_pieces

from .inputs import ChatInput
from .options import ChatOptions, offer_of, request_of
from .reply import Delta, Reply
from .shape import Shape
from .text import Prompt
from .turns import answered

Value = TypeVar("Value")


class LoadedModel:
    """What is known of a model that is loaded, whether its methods are awaited or not."""

    def __init__(self, model: Model) -> None:
        self.model = model
        """The model as `antiphon.generation` runs it: engine, tokenizer, format, defaults."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def format(self) -> Format:
        """The format that the model was trained on."""
        return self.model.format

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self.model.context

    def render(
        self,
        messages: ChatInput,
        *,
        response: type[Any] | Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Prompt:
        """The exact prompt that `chat` would give the model, with its token ids."""
        request = request_of(messages, options, offer_of(options), _response_format(response))
        pieces = tuple(self.format.render(request.conversation, reply_as=Role.ASSISTANT, history=request.history))
        return Prompt(pieces, tuple(encode_pieces(pieces, self.tokenizer)))


def _response_format(response: type[Any] | Mapping[str, Any] | None) -> ResponseFormat | None:
    return None if response is None else Shape(response).response_format


class AsyncChatModel(LoadedModel):
    """A model that is loaded. Made by `open_model`, which also closes it; any number of chats may run at once."""

    @overload
    async def chat(
        self, messages: ChatInput, *, response: type[Value], **options: Unpack[ChatOptions]
    ) -> Reply[Value]: ...
    @overload
    async def chat(
        self, messages: ChatInput, *, response: Mapping[str, Any] | None = None, **options: Unpack[ChatOptions]
    ) -> Reply[Any]: ...
    async def chat(
        self,
        messages: ChatInput,
        *,
        response: type[Any] | Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Reply[Any]:
        """The model's answer, whole; functions among the ``tools`` are run until there is one.

        ``response`` is a type or a JSON Schema: the reply is constrained to it and ``Reply.parsed`` is its value.
        Raises `RequestError` for a request that cannot be honoured, and what the engine raises.
        """
        async with aclosing(self.stream(messages, response=response, **options)) as deltas:
            async for delta in deltas:
                if delta.reply is not None:
                    return delta.reply
        raise AssertionError("a stream ends with its reply")

    @overload
    def stream(
        self, messages: ChatInput, *, response: type[Value], **options: Unpack[ChatOptions]
    ) -> AsyncGenerator[Delta[Value], None]: ...
    @overload
    def stream(
        self,
        messages: ChatInput,
        *,
        response: type[Any] | Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> AsyncGenerator[Delta[Any], None]: ...
    async def stream(
        self,
        messages: ChatInput,
        *,
        response: type[Any] | Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> AsyncGenerator[Delta[Any], None]:
        """The same answer as it comes; the last delta has the whole reply. Closing the generator stops the model."""
        shape = None if response is None else Shape(response)
        offer = offer_of(options)
        request = request_of(messages, options, offer, shape.response_format if shape else None)
        async with aclosing(answered(self.model, request, offer.router, shape)) as deltas:
            async for delta in deltas:
                yield delta

    async def embed(self, texts: Sequence[str], *, dimensions: int | None = None) -> list[tuple[float, ...]]:
        """One vector of length 1 a text, in their order, from a model that makes embeddings."""
        if isinstance(texts, str):
            raise RequestError("texts: a list of texts is expected, not one text.", code="invalid_type")
        embeddings = await embed(plan_embedding(self.model, texts, dimensions=dimensions))
        return list(embeddings.vectors)
