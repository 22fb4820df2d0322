"""POST /api/chat and /api/generate."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from antiphon.api.chat.archive import completion_id
from antiphon.api.chat.read import Reading, to_turn
from antiphon.api.chat.request import server_tools, turn_memory
from antiphon.api.chat.schema import ChatRequest
from antiphon.api.completions.read import read_completion
from antiphon.engines import Embeddings
from antiphon.generation import Draft, embed, plan_embedding, plan_turn
from antiphon.generation.turn import Keep
from antiphon.http.post import Post
from antiphon.http.server_tools import ServerToolUse
from antiphon.wire.errors import refused

from .read import (
    IN_CHAT,
    IN_PROMPT,
    OLLAMA,
    USUAL_CONTEXTS,
    chat_request,
    check_generate,
    check_keep_alive,
    check_request,
    check_task,
    merged_options,
    prompt_request,
    raw_request,
    settled_turn,
    unloads,
)
from .route import NamedModel, OllamaRoute, describes, head_of, loaded_model
from .schema import (
    KeepAlive,
    OllamaChatRequest,
    OllamaEmbedAnswer,
    OllamaEmbeddingsAnswer,
    OllamaEmbeddingsRequest,
    OllamaEmbedRequest,
    OllamaGenerateRequest,
    OllamaOptions,
    OllamaRequest,
)
from .write import OllamaWriter

# POST /api/embed and /api/embeddings.


class OllamaEmbed(OllamaRoute):
    """One unit vector a text; no text is no vector."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(OllamaEmbedRequest)
        _note(post, wire.options, wire.keep_alive)
        texts = ([wire.input] if wire.input else []) if isinstance(wire.input, str) else wire.input
        most = self._context.limits.max_inputs
        if len(texts) > most:
            raise refused("input", f"there are {len(texts)} inputs; at most {most} are possible.")
        named = await loaded_model(post, wire.model)
        made = await _embedded(post, named, texts, wire.dimensions, truncate=wire.truncate is not False)
        await post.send_json(
            OllamaEmbedAnswer(
                model=named.name,
                embeddings=list(made.vectors),
                total_duration=round((time.perf_counter() - post.exchange.started) * 1e9),
                load_duration=round(named.waited * 1e9),
                prompt_eval_count=made.tokens,
            )
        )


class OllamaEmbeddings(OllamaRoute):
    """The vector of one text."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(OllamaEmbeddingsRequest)
        _note(post, wire.options, wire.keep_alive)
        named = await loaded_model(post, wire.model)
        made = await _embedded(post, named, [wire.prompt] if wire.prompt else [], None, truncate=True)
        await post.send_json(OllamaEmbeddingsAnswer(embedding=made.vectors[0] if made.vectors else ()))


def _note(post: Post, options: Mapping[str, object] | None, keep_alive: KeepAlive) -> None:
    """No option has an effect on a vector."""
    check_keep_alive(keep_alive)
    post.ignore(f"options.{name}" for name in options or {})


async def _embedded(
    post: Post, named: NamedModel, texts: Sequence[str], dimensions: int | None, *, truncate: bool
) -> Embeddings:
    model = named.model
    plan = await post.off_loop(lambda: plan_embedding(model, texts, dimensions=dimensions, truncate=truncate))
    if not texts:
        return Embeddings((), 0)
    async with post.admitted():
        made = await post.context.lifecycle.run(embed(plan, tenant=post.exchange.tenant))
    post.charge(prompt=made.tokens)
    post.context.metrics.prompt_tokens.labels(model.name).inc(made.tokens)
    return made


class OllamaChat(OllamaRoute):
    """Goes on with a conversation; without messages it loads the model."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(OllamaChatRequest)
        settings = _settings(post, wire, IN_CHAT)
        if not wire.messages:
            await _load(post, wire, generates=False)
            return
        named = await _model(post, wire, settings, "chat")
        chat = await post.off_loop(lambda: chat_request(wire, settings, named.model))
        await _converse(post, wire, settings, named, chat)


class OllamaGenerate(OllamaRoute):
    """Answers one prompt, goes on with a raw one, or fills in before a suffix; without a prompt it loads the model."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(OllamaGenerateRequest)
        check_generate(wire)
        settings = _settings(post, wire, IN_PROMPT)
        if not wire.prompt and not wire.suffix:
            await _load(post, wire, generates=True)
            return
        named = await _model(post, wire, settings, "generate")
        if wire.raw or wire.suffix:
            await _complete(post, wire, settings, named)
        else:
            await _converse(post, wire, settings, named, prompt_request(wire, settings, named.model))


def _settings(post: Post, wire: OllamaRequest, places: dict[str, str]) -> OllamaOptions:
    """The request's options; from here on errors name its own fields."""
    check_request(wire)
    check_keep_alive(wire.keep_alive)
    if wire.keep_alive is not None and unloads(wire.keep_alive):
        post.ignore(("keep_alive",))
    post.exchange.stream = wire.stream is not False
    settings, names = merged_options(wire, post.exchange.names)
    post.ignore(names.ignored)
    post.exchange.names = replace(names, ignored=post.exchange.names.ignored, restored={**names.restored, **places})
    return settings


async def _model(post: Post, wire: OllamaRequest, settings: OllamaOptions, task: str) -> NamedModel:
    named = await loaded_model(post, wire.model)
    check_task(wire, named.model, task)
    most, requested = named.model.context, settings.num_ctx
    if requested not in (None, most, *USUAL_CONTEXTS) or (requested or 0) > most:
        post.ignore([post.exchange.names.restored.get("num_ctx", "num_ctx")])
    if (wished := settings.num_ctx) is not None and wished > most:
        post.exchange.warnings = (*post.exchange.warnings, f"num_ctx is {wished} and the model's context is {most}")
    return named


async def _load(post: Post, wire: OllamaRequest, *, generates: bool) -> None:
    """The model is loaded; that one is to be unloaded is noted, for when that happens is its owner's choice."""
    post.exchange.stream = False
    named = await loaded_model(post, wire.model)
    check_task(wire, named.model, "generate" if generates else "chat")
    reason = "unload" if unloads(wire.keep_alive) else "load"
    await post.send_json(head_of(post, named, generates=generates).loaded(reason))


async def _complete(post: Post, wire: OllamaGenerateRequest, settings: OllamaOptions, named: NamedModel) -> None:
    """Plans and answers a prompt as it is."""
    context, model = post.context, named.model
    reading = Reading(OLLAMA, context.limits, context.today, post.tenant, stream=post.exchange.stream)

    def draft() -> Draft:
        requested = read_completion(raw_request(wire, settings), model, reading, reveals=post.may_see_reasoning)
        return plan_turn(model, settled_turn(requested.turns[0], wire, settings))

    await _answer(post, wire, named, await post.off_loop(draft))


async def _converse(
    post: Post, wire: OllamaRequest, settings: OllamaOptions, named: NamedModel, chat: ChatRequest
) -> None:
    """Plans and answers a chat, with this server's tools where its owner offers them to all."""
    context, model, stream = post.context, named.model, post.exchange.stream
    tools = server_tools(context, chat, model.format, session=completion_id(context.clock()))
    memory = turn_memory(context, post.exchange, model, post.off_loop)
    reading = Reading(OLLAMA, context.limits, context.today, post.tenant, (), stream, tools.offer if tools else None)
    draft = await post.plan(model, lambda: settled_turn(to_turn(chat, reading), wire, settings), memory=memory)
    await _answer(post, wire, named, draft, tools=tools, keep=memory.keeper(draft.request, tools))


async def _answer(
    post: Post,
    wire: OllamaRequest,
    named: NamedModel,
    draft: Draft,
    *,
    tools: ServerToolUse | None = None,
    keep: Keep | None = None,
) -> None:
    """Writes the answer, by the steps of every turn."""
    generates = isinstance(wire, OllamaGenerateRequest)
    head = head_of(post, named, generates=generates, thinks=wire.think is not False)
    writer = OllamaWriter(head, lambda error: describes(post, error))
    await post.answer([draft], writer, tools=tools, keep=keep)
