"""Writes docs/parameters.md: each field of each request is tried with each dialect and each engine's abilities.

Run as a script it prints the page: ``python tests/docs/parameters.py > docs/parameters.md``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

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
HEAD = """\
# Parameters

What each field of a request does, in every dialect and with every engine. The page is made by sending each field to
servers of each kind (`python tests/docs/parameters.py`).

`yes`: taken and honoured, in the API's own range. `no effect`: taken; it names the caller, asks for what is the owner's
choice, or is done elsewhere, and no answer depends on it. A number: what cannot be honoured is refused with this
status, by its name; a value that can be, or that requires nothing, is taken (`store: false`, `best_of: 1`, a
`min_tokens` as large as the limit). `strict` says what changes where a dialect is restricted to the letter of its
document. The last table has every other name that is known.

Engines are tried on the plain routes. `grammar`: where the engine takes grammars; a server that was not declared to
answers 400. `slots`: as many at once as the engine has slots. `seeds`: where its server takes them
([which do](engines.md#servers-that-you-run)). `tools`: where the server's owner runs tools.
`template`: where the model's own template has such an argument. `embeds`: from models that make embeddings, which
write no text. `ranks`: from models that rank, which write none either; those that embed rank too.
"""


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
        return "\n".join([HEAD, *[line async for line in self._lines()], *other_names()]) + "\n"

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


OTHERS = """\
## Names of other servers

Fields of other servers that are no field of ours, or not on every route: the same on chat completions, completions,
Responses, the interactive chat and Ollama's chat and generate, in every dialect but a strict one, which takes none of
them. Where a route has the field itself, its own table counts.

`= name`: another name of that field; both with different values are a 400. `= the limit`: of `max_tokens`,
`max_output_tokens` or `request_output_len`, -1 being none. `constraint`: what the answer must be
([structured output](structured-output.md)). `thinking`: how the model thinks, on each route that has a field for it
([API](api.md#chat-completions)). `no effect`: taken, and no answer depends on it. `told`: taken without effect, and
named in the header `x-antiphon-ignored`, on routes that have the field too (but chat and Responses honour
`parallel_tool_calls`). `400`: refused by its name. Null, `""`, `[]`, `{}` and the values listed require nothing, so
they are neither refused nor told (but `web_search_options: {}` requires a search). A name that is in no table is
ignored and told; one that is nearly a known one is a 400 with the right one.

| name | of | here | taken | use instead |
|---|---|---|---|---|"""


def other_names() -> Iterator[str]:
    """The table of known names, by name."""
    yield OTHERS
    for row in sorted(KNOWN.values(), key=lambda row: row.name):
        meaning = {"limit": "= the limit", "same": f"= `{row.stands_for}`", "harmless": NO_EFFECT, "refused": "400"}
        values = dict.fromkeys(json.dumps(value) for value in row.neutral) if row.use in ("refused", "told") else ()
        taken = ", ".join(f"`{value}`" for value in values if not value.endswith(".0"))
        cells = [f"`{row.name}`", row.of, meaning.get(row.use, row.use), taken, row.hint or ""]
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def page() -> str:
    return asyncio.run(Page().text())


if __name__ == "__main__":
    print(page(), end="")
