"""The tables of docs/parameters.md: each field of each request, tried with each dialect and each engine's abilities."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping

import msgspec
from starlette.applications import Starlette

from antiphon.api.chat.schema import ChatRequest
from antiphon.api.completions.schema import CompletionRequest
from antiphon.api.dialects import configured_dialects
from antiphon.api.embeddings.wire import EmbeddingRequest
from antiphon.api.interactive.wire import InteractiveRequest
from antiphon.api.messages.schema import MessagesRequest
from antiphon.api.ollama.schema import OllamaChatRequest, OllamaEmbedRequest, OllamaGenerateRequest
from antiphon.api.rerank.wire import RerankRequest, ScoreRequest
from antiphon.api.responses.schema import ResponsesRequest
from antiphon.engines import EngineInfo
from antiphon.wire.dialect import OPENAI, Dialect
from antiphon.wire.names.table import KNOWN
from docs.declared import Kind, application, kinds
from docs.samples import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    INTERACTIVE,
    MESSAGES,
    OLLAMA_CHAT,
    OLLAMA_EMBED,
    OLLAMA_GENERATE,
    RERANK,
    RESPONSES,
    SCORE,
    USER,
    Samples,
)
from kit.api import Got, post_in_process

ROUTES: tuple[tuple[str, str, type[msgspec.Struct], Samples, dict[str, object]], ...] = (
    ("Chat completions", "/v1/chat/completions", ChatRequest, CHAT, {"messages": [USER]}),
    ("Completions", "/v1/completions", CompletionRequest, COMPLETIONS, {"prompt": "Hi"}),
    ("Embeddings", "/v1/embeddings", EmbeddingRequest, EMBEDDINGS, {"input": "Hi"}),
    ("Messages", "/v1/messages", MessagesRequest, MESSAGES, {"model": "small", "messages": [USER], "max_tokens": 9}),
    ("Rerank", "/v1/rerank", RerankRequest, RERANK, {"query": "Hi", "documents": ["Hi"]}),
    ("Score", "/v1/score", ScoreRequest, SCORE, {"text_1": "Hi", "text_2": "Hi"}),
    ("Responses", "/v1/responses", ResponsesRequest, RESPONSES, {"input": "Hi"}),
    ("Interactive chat", "/v1/chat/interactive", InteractiveRequest, INTERACTIVE, {"prompt": "Hi"}),
    ("Ollama's chat", "/api/chat", OllamaChatRequest, OLLAMA_CHAT, {"model": "small", "messages": [USER]}),
    ("Ollama's generate", "/api/generate", OllamaGenerateRequest, OLLAMA_GENERATE, {"model": "small", "prompt": "Hi"}),
    ("Ollama's embed", "/api/embed", OllamaEmbedRequest, OLLAMA_EMBED, {"model": "small", "input": "Hi"}),
)
SPOKEN = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
"""The routes whose words differ between dialects."""
RANKING = ("/v1/rerank", "/v1/score")
READING = ("/v1/embeddings", "/api/embed", *RANKING)
"""The routes of models that write nothing."""
IDENTIFYING = {
    "user", "metadata", "safety_identifier", "service_tier", "cache_control", "context_management", "speed",
    "diagnostics", "user_profile_id", "workspace_id", "billing_policy", "fallbacks",
    "fallback_credit_token", "keep_alive", "num_ctx", "repeat_last_n",
}  # fmt: skip
"""Fields that name the caller, ask for the owner's choice or are done elsewhere: no answer depends on them."""
NO_EFFECT = "no effect"
Answers = dict[tuple[int, str, str], Got]


async def answered(app: Starlette, path: str, fields: Mapping[str, object], known: Answers = {}) -> Got:  # noqa: B006
    """The answer to a request, which is sent once; what it refers to is made before."""
    key = id(app), path, json.dumps(fields)
    if key not in known:
        known[key] = await _answer(app, path, dict(fields))
    return known[key]


async def _answer(app: Starlette, path: str, fields: dict[str, object]) -> Got:
    if fields.get("previous_response_id") == "EARLIER":
        fields["previous_response_id"] = (await post_in_process(app, path, model="small", input="Hi")).json["id"]
    if fields.get("conversation") == "CONVERSATION":
        fields["conversation"] = (await post_in_process(app, "/v1/conversations")).json["id"]
    return await post_in_process(app, path, **{"model": "small", **fields})


class Servers:
    """One server for each set of abilities: they take longer to make than to ask."""

    def __init__(self) -> None:
        self._made: dict[object, Starlette] = {}

    def of(
        self, info: EngineInfo, *, dialect: Dialect = OPENAI, tools: bool = True, jinja: bool = False
    ) -> Starlette:  # fmt: skip
        key = (info, dialect.name, dialect.strict, tools, jinja)
        if key not in self._made:
            self._made[key] = application(info, dialect=dialect, tools=tools, jinja=jinja)
        return self._made[key]


SERVERS = Servers()


class Page:
    """The tables, one a route."""

    def __init__(self) -> None:
        self._kinds = list(kinds())
        self._plain, self._strict = configured_dialects(), configured_dialects(strict=True)
        self._servers = SERVERS

    async def text(self) -> str:
        return "\n".join([line async for line in self._lines()])

    async def _lines(self) -> AsyncIterator[str]:
        for title, path, kind, samples, least in ROUTES:
            known = {name.partition(",")[0] for name in samples}
            assert known == set(kind.__struct_fields__), (title, known ^ set(kind.__struct_fields__))
            dialects = list(self._plain) if path in SPOKEN else []
            heads = [*dialects, *(kind.name for kind in self._kinds)]
            yield f"## {title}\n\n| field | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}"
            for name, sample in samples.items():
                body = {**least, **sample}
                cells = [await self._spoken(path, name, body, dialect) for dialect in dialects]
                cells += [await self._done(path, name, body, engine) for engine in self._kinds]
                yield f"| `{name}` | {' | '.join(cells)} |"
            yield ""

    async def _spoken(self, path: str, name: str, body: Mapping[str, object], dialect: str) -> str:
        plain, strict = self._plain[dialect], self._strict[dialect]
        refused = await self._refusal(path, body, plain)
        if refused:
            return str(refused)
        taken = str(plain.ranges[name]) if name in plain.ranges else NO_EFFECT if name in IDENTIFYING else "yes"
        strictly = await self._refusal(path, body, strict)
        if strictly:
            return f"{taken}; strict {strictly}"
        narrow = strict.ranges.get(name)
        return taken if narrow in (None, plain.ranges.get(name)) else f"{taken}; strict {narrow}"

    async def _refusal(self, path: str, body: Mapping[str, object], dialect: Dialect) -> int | None:
        """The status of a refusal by a server that can do everything; None: the sample is taken."""
        first = self._kinds[0]
        info = first.embeds if path in ("/v1/embeddings", "/api/embed") and first.embeds else first.best
        got = await answered(self._servers.of(info, dialect=dialect, jinja="chat_template_kwargs" in body), path, body)
        return None if got.status == 200 else got.status

    async def _done(self, path: str, name: str, body: Mapping[str, object], engine: Kind) -> str:
        if path in READING:
            info, taken = (engine.ranks, "ranks") if path in RANKING else (engine.embeds, "embeds")
            if info is None:
                return str((await answered(self._servers.of(engine.best), path, body)).status)
            got = await answered(self._servers.of(info), path, body)
            return str(got.status) if got.status != 200 else NO_EFFECT if name in IDENTIFYING else taken
        jinja = "chat_template_kwargs" in body
        got = await answered(self._servers.of(engine.best, jinja=jinja), path, body)
        if got.status != 200:
            return str(got.status)
        needs = [need async for need in self._needs(path, body, engine)]
        return ", ".join(needs) or (NO_EFFECT if name in IDENTIFYING else "yes")

    async def _needs(self, path: str, body: Mapping[str, object], engine: Kind) -> AsyncIterator[str]:
        """What the field is refused without."""
        jinja = "chat_template_kwargs" in body
        if (await answered(self._servers.of(engine.least, jinja=jinja), path, body)).status != 200:
            for need, info in engine.less.items():
                if (await answered(self._servers.of(info, jinja=jinja), path, body)).status != 200:
                    yield need
        # Whoever runs the model, the server runs the tools.
        first = self._kinds[0].best
        some, none = [
            await answered(self._servers.of(first, tools=tools, jinja=jinja), path, body) for tools in (True, False)
        ]
        if some.status == 200 != none.status:
            yield "tools"
        if jinja and (await answered(self._servers.of(engine.best), path, body)).status != 200:
            yield "template"


def other_names() -> str:
    """The table of known names, by name."""
    lines = ["| name | of | here | taken | use instead |\n|---|---|---|---|---|"]
    for row in sorted(KNOWN.values(), key=lambda row: row.name):
        meaning = {"limit": "= the limit", "same": f"= `{row.stands_for}`", "harmless": NO_EFFECT, "refused": "400"}
        values = dict.fromkeys(json.dumps(value) for value in row.neutral) if row.use in ("refused", "told") else ()
        taken = ", ".join(f"`{value}`" for value in values if not value.endswith(".0"))
        cells = [f"`{row.name}`", row.of, meaning.get(row.use, row.use), taken, row.hint or ""]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def tables() -> str:
    """A section for each route."""
    return asyncio.run(Page().text())
