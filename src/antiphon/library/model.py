"""A model to talk to, for programs that are asynchronous."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, Unpack, overload

from antiphon.conversation import ResponseFormat, Role
from antiphon.formats import Format
from antiphon.generation import EmbeddingPlan, Model, embed, plan_embedding
from antiphon.tokens import Tokenizer, encode_pieces

from .checks import checked
from .inputs import ChatInput
from .naming import ChatNames, EmbedNames, named
from .offer import offer_of
from .options import ChatOptions, request_of
from .reply import Delta, Reply
from .shape import ResponseType, Shape, with_schema
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
        """The name in the configuration, or that of the file or server that was opened."""
        return self.model.name

    @property
    def format(self) -> Format:
        """The format that the model was trained on."""
        return self.model.format

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own vocabulary: texts to ids and back."""
        return self.model.tokenizer

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self.model.context

    @checked
    def render(
        self,
        messages: ChatInput,
        *,
        response: ResponseType = None,
        **options: Unpack[ChatOptions],
    ) -> Prompt:
        """The exact prompt that `chat` would give the model with the same arguments, with its token ids."""
        requested = request_of(messages, options, offer_of(options.get("tools")), _response_format(response))
        request = with_schema(requested, self.format)
        pieces = tuple(self.format.render(request.conversation, reply_as=Role.ASSISTANT, history=request.history))
        return Prompt(pieces, tuple(encode_pieces(pieces, self.tokenizer)))


def _response_format(response: ResponseType) -> ResponseFormat | None:
    return None if response is None else Shape(response).response_format


class AsyncChatModel(LoadedModel):
    """A model that is loaded. Made by `open_model`, which also closes it; any number of chats may run at once."""

    @overload
    async def chat(
        self, messages: ChatInput, *, response: type[Value], **options: Unpack[ChatOptions]
    ) -> Reply[Value]: ...
    @overload
    async def chat(
        self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]
    ) -> Reply[Any]: ...
    async def chat(
        self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]
    ) -> Reply[Any]:
        """The model's answer, whole; functions among the ``tools`` are run until there is one.

        Args:
            messages: A question; messages, as values or as chat APIs write them; a conversation; the body of a chat
                request, whose settings count where no option is given.
            response: A type or a JSON Schema: the reply is constrained to it, and ``Reply.parsed`` is its value. Where
                the model's format has no place for the schema, the user's last message states it.
            system: The first message, a text.
            history: A conversation to go on with (`Reply.conversation`).
            tools: A list of Python functions, which run here, and of `ToolSpec` values or the dictionaries of chat
                APIs, whose calls come back in ``Reply.calls``.
            tool_choice: "auto", "none", "required", or the name of a tool, which is then called once.
            temperature: From 0, always the likeliest token, to 2.
            top_p: The share of the likeliest tokens that are sampled from, above 0 and up to 1.
            max_tokens: The most tokens that one answer may have; without it, as the model's entry says, else 16,384.
            seed: The same seed gives the same answer, on the same engine.
            stop: One text or several; the answer ends before the first that it would write.
            reasoning_effort: "none", "minimal", "low", "medium", "high", "xhigh" or "max", for a model that reasons.

        Raises `RequestError`, which names the argument, for what cannot be honoured, and what the engine raises.
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
        self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]
    ) -> AsyncGenerator[Delta[Any], None]: ...
    @checked
    async def stream(
        self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]
    ) -> AsyncGenerator[Delta[Any], None]:
        """The same answer as it comes, with the arguments of `chat`; the last delta has the whole reply.

        Closing the generator stops the model.
        """
        tools = options.get("tools") or ()
        shape = None if response is None else Shape(response)
        offer = offer_of(tools)
        request = request_of(messages, options, offer, shape.response_format if shape else None)
        names = ChatNames(
            body=isinstance(messages, Mapping),
            response=shape is not None,
            typed=not isinstance(response, Mapping),
            earlier_tools=len(request.conversation.tools) - len(tools),
            written=frozenset(i for i, tool in enumerate(tools) if isinstance(tool, Mapping)),
        )
        with named(names):
            async with aclosing(answered(self.model, request, offer.router, shape)) as deltas:
                async for delta in deltas:
                    yield delta

    async def embed(self, texts: Sequence[str], *, dimensions: int | None = None) -> list[tuple[float, ...]]:
        """One vector of length 1 a text, in their order, from a model that makes embeddings.

        ``dimensions``: so many numbers of each, for a model whose beginnings of vectors are vectors too. Raises
        `RequestError`, `UnsupportedError` for a model that makes none, and `ContextError` for a text that is too long.
        """
        embeddings = await embed(_embedding(self.model, texts, dimensions=dimensions))
        return list(embeddings.vectors)


@checked
def _embedding(model: Model, texts: Sequence[str], *, dimensions: int | None) -> EmbeddingPlan:
    with named(EmbedNames()):
        return plan_embedding(model, texts, dimensions=dimensions)
