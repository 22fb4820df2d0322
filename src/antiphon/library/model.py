"""A model to talk to, for programs that are asynchronous."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, Unpack, assert_never, overload

from antiphon.conversation import (
    Channel,
    Conversation,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    Usage,
    visible_to_user,
)
from antiphon.errors import ContextError, EngineError, RequestError, UnsupportedError
from antiphon.formats import Format
from antiphon.formats.format import incidents_of
from antiphon.generation import (
    Model,
    RoundEvent,
    TurnRequest,
    embed,
    plan_embedding,
    prepare_turn,
    run_rounds,
)
from antiphon.generation.plan import prompt_of
from antiphon.tokens import Tokenizer, encode_pieces
from antiphon.tools import Router, ToolCall, ToolCancelled, ToolEnded, ToolResult, ToolStarted

from .checks import check, checked
from .options import ChatInput, ChatOptions, offer_of, request_of
from .shape import ResponseType, Shape, with_schema
from .text import Prompt

# Answers of a chat: a whole reply, and the pieces of one that is streamed.

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[Parsed]):
    """One answer, whole.

    ``text`` is what an end user may read, ``reasoning`` what the model thought before. ``calls`` are tool calls that
    nobody here answered: they are the caller's. ``parsed`` is the answer as the requested type, None
    without one, or when the answer was cut before its end. ``messages`` are all messages of the answer, with those of
    the tools that ran, and ``conversation`` is the whole conversation: hand it in as ``history`` to go on.
    """

    text: str
    parsed: Parsed | None
    reasoning: str
    calls: tuple[ToolCall, ...]
    messages: tuple[Message, ...]
    conversation: Conversation
    finish_reason: FinishReason
    usage: Usage

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(Generic[Parsed]):
    """New part of a stream; exactly one field is filled.

    ``text`` is more of the visible answer, ``reasoning`` more of what the model thinks. ``call`` is a call of a tool
    that runs here, and ``result`` its result. ``reply`` comes last: the whole reply.
    """

    text: str = ""
    reasoning: str = ""
    call: ToolCall | None = None
    result: ToolResult | None = None
    reply: Reply[Parsed] | None = None


# Errors about parts of a request, in the words of the caller's arguments: ``response``, not ``response_format``.

FORMAT = re.compile(r"response_format(?:\.json_schema(?:\.schema)?)?(?P<inner>[\w.$\[\]]*)")
TOOL = re.compile(r"tools\[(?P<index>\d+)\](?P<function>\.function)?")
STEPS = re.compile(r"\.(?:properties|\$defs)(?=\.)")
"""Steps of a schema's path that are none of the type's."""


@dataclass(frozen=True, slots=True)
class ChatNames:
    """How a chat's arguments are named. ``response`` and ``typed``: there is one, and it is a type, not a schema.

    ``earlier_tools`` came with the messages, before those of ``tools``; ``written`` are those that are dictionaries.
    ``body``: the messages are the body of a chat request, whose own names stay.
    """

    body: bool = False
    response: bool = False
    typed: bool = False
    earlier_tools: int = 0
    written: frozenset[int] = frozenset()

    def place(self, text: str) -> str:
        """A path, or a message with paths in it."""
        return TOOL.sub(self._tool, FORMAT.sub(self._format, text))

    def hint(self, error: RequestError) -> str | None:
        if self.response and isinstance(error, UnsupportedError) and error.code == "invalid_schema":
            return "Leave it out, and check the value yourself."
        return error.hint

    def _format(self, found: re.Match[str]) -> str:
        if self.response:
            return "response" + (STEPS.sub("", found["inner"]) if self.typed else found["inner"])
        return found[0] if self.body else f"messages.{found[0]}"

    def _tool(self, found: re.Match[str]) -> str:
        index = int(found["index"]) - self.earlier_tools
        if index >= 0:
            return f"tools[{index}]" + (".function" if found["function"] and index in self.written else "")
        return found[0] if self.body else f"messages.tools[{found['index']}]"


@dataclass(frozen=True, slots=True)
class EmbedNames:
    """How the arguments of `embed` are named."""

    def place(self, text: str) -> str:
        return re.sub(r"^input\b", "texts", text)

    def hint(self, error: RequestError) -> str | None:
        if isinstance(error, ContextError):
            return "Give a shorter text."
        if error.param == "model":
            return 'Open one that does: antiphon.open_model("minilm").'
        return error.hint


@contextmanager
def named(names: ChatNames | EmbedNames) -> Iterator[None]:
    """Errors that are raised inside, with the names of arguments."""
    try:
        yield
    except RequestError as error:
        message, hint = names.place(error.message), names.hint(error)
        position = error.position and replace(error.position, path=names.place(error.position.path or "") or None)
        raise type(error)(message, code=error.code, position=position, hint=hint) from error.__cause__
    except EngineError as error:
        error.message = names.place(error.message)
        error.args = (error.message,)
        raise


# One answer of a model with the tools that run here: the events of generation as what a library user reads.

WHOLE = (FinishReason.STOP_EOS, FinishReason.STOP_SEQUENCE)
"""How an answer ends that nothing cut short."""


@dataclass(slots=True)
class Answer(Generic[Parsed]):
    """The answer to one request while it is made. `feed` takes the events, one by one."""

    conversation: Conversation
    shape: Shape[Parsed] | None
    _messages: list[Message] = field(default_factory=list)
    _field: str = ""

    def feed(self, event: RoundEvent) -> Delta[Parsed] | None:
        """Returns the event's part for the caller; None: nothing."""
        match event:
            case TextDelta(text):
                return self._text(text)
            case MessageStarted(message):
                self._field = field_of(message)
                return None
            case MessageEnded(message):
                self._messages.append(message)
                return None
            case ToolStarted(call):
                return Delta(call=call)
            case ToolEnded(result):
                self._messages.append(result.message())
                return Delta(result=result)
            case ToolCancelled() | Incident():
                return None
            case TurnEnded():
                return Delta(reply=self._reply(event))
            case _:
                assert_never(event)

    def _text(self, text: str) -> Delta[Parsed] | None:
        match self._field:
            case "text":
                return Delta(text=text)
            case "reasoning":
                return Delta(reasoning=text)
            case _:
                return None

    def _reply(self, ended: TurnEnded) -> Reply[Parsed]:
        messages = tuple(self._messages)
        answered = {message.call_id for message in messages if message.name is not None}
        calls = [message for message in messages if message.is_call and message.call_id not in answered]
        text = "\n\n".join(message.text for message in messages if field_of(message) == "text")
        return Reply(
            text=text,
            parsed=self._parsed(messages, ended),
            reasoning="\n\n".join(message.text for message in messages if field_of(message) == "reasoning"),
            calls=tuple(ToolCall.of(message, fallback_id=f"call_{i}") for i, message in enumerate(calls)),
            messages=messages,
            conversation=self.conversation.add(*messages),
            finish_reason=ended.reason,
            usage=ended.usage,
        )

    def _parsed(self, messages: Sequence[Message], ended: TurnEnded) -> Parsed | None:
        """The value of the final message; None for an answer that was cut, and for one that is a call."""
        if self.shape is None or ended.reason not in WHOLE or not messages or field_of(messages[-1]) != "text":
            return None
        return self.shape.read(messages[-1].text)


def field_of(message: Message) -> str:
    """Which field of a `Delta` a message's text goes to; "" for none."""
    if visible_to_user(message):
        return "text"
    return "reasoning" if message.channel == Channel.ANALYSIS else ""


async def answered(
    model: Model, request: TurnRequest, router: Router, shape: Shape[Parsed] | None
) -> AsyncGenerator[Delta[Parsed], None]:
    """The answer as it is made, calls to the router's tools run in between; the last delta has the whole reply.

    Raises what planning, the engine, or a value of another type raise. Closing the generator stops engine and tools.
    """
    answer = Answer(request.conversation, shape)
    plan = await prepare_turn(model, with_schema(request, model.format))
    async with aclosing(run_rounds(plan, router)) as events:
        async for event in events:
            delta = answer.feed(event)
            if delta is not None:
                yield delta


Value = TypeVar("Value")


class LoadedModel:
    """Facts of a loaded model, whether its methods are awaited or not."""

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
        form = None if response is None else Shape(response).response_format
        requested = request_of(messages, options, offer_of(options.get("tools")), form)
        request = with_schema(requested, self.format)
        pieces = tuple(prompt := prompt_of(self.model, request))
        return Prompt(pieces, tuple(encode_pieces(pieces, self.tokenizer)), incidents_of(prompt))


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
        check(texts, Sequence[str], "texts")
        check(dimensions, int | None, "dimensions")
        with named(EmbedNames()):
            plan = plan_embedding(self.model, texts, dimensions=dimensions)
        return list((await embed(plan)).vectors)
