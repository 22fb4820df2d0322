"""Scripted models with the abilities that each engine's class declares."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Embeddings, EngineInfo, Sampling, ScriptedEngine, Step, llama_server, sglang, vllm
from antiphon.engines.grpc import engine as grpc
from antiphon.engines.llama_cpp import engine as llama_cpp
from antiphon.engines.llama_cpp.client import ServedModel as LlamaModel
from antiphon.engines.llama_cpp.client import check
from antiphon.formats.raw import RawFormat
from antiphon.formats.template import jinja_format
from antiphon.generation import Model, RankingSpec
from antiphon.generation.compile import ReplyCompiler
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tools import FunctionToolSet, Toolbox
from antiphon.wire.dialect import OPENAI, Dialect
from kit.api import CHATML, TOKENIZER
from kit.obedient import CountingEngine, counting
from kit.obliging import ENDS, ObligingEngine, constrained

LLAMA = LlamaModel(context=8192, slots=4, vocabulary=TOKENIZER.size, ends=ENDS)


@dataclass(frozen=True, slots=True)
class Kind:
    """An engine: its ``name`` for people, what it can do at best, each way to do less, and all of these."""

    name: str
    best: EngineInfo
    embeds: EngineInfo | None
    ranks: EngineInfo | None
    less: Mapping[str, EngineInfo]
    least: EngineInfo


def kinds() -> Iterator[Kind]:
    """Every engine that ships; which abilities are its configuration's, its class's declaration tells."""
    embedded = llama_cpp.declared(LLAMA)
    one = replace(embedded, slots=1)
    yield Kind(
        "llama.cpp",
        embedded,
        llama_cpp.declared(LLAMA, embeddings=True),
        llama_cpp.declared(LLAMA, embeddings=True, ranks=True),
        {"slots": one},
        one,
    )
    server, free = (llama_server.declared(LLAMA, grammar=grammar) for grammar in (True, False))
    yield Kind(
        "llama.cpp server",
        server,
        llama_server.declared(LLAMA, grammar=False, embeddings=True),
        llama_server.declared(LLAMA, grammar=False, ranks=True),
        {"slots": replace(server, slots=1), "grammar": free},
        replace(free, slots=1),
    )
    remote, free = (vllm.declared(8192, 256, ENDS, grammar=grammar) for grammar in (True, False))
    ranks = vllm.declared(8192, 256, ENDS, grammar=False, ranks=True)
    yield Kind("vLLM", remote, None, ranks, {"grammar": free}, free)
    native = sglang.declared(8192, 256, ENDS, grammar=True, seeds=True)
    less = {"grammar": replace(native, grammar=False), "seeds": sglang.declared(8192, 256, ENDS, grammar=True)}
    yield Kind("SGLang", native, None, None, less, replace(less["seeds"], grammar=False))
    served = {service.name: grpc.declared(service, 8192, 256, ENDS, grammar=True) for service in grpc.SERVICES}
    best = served["vllm"]
    less = {"grammar": replace(best, grammar=False), "seeds": served["sglang"]}
    yield Kind("gRPC", best, None, None, less, replace(less["seeds"], grammar=False))


class Declared(ScriptedEngine):
    """An engine with the abilities that it is given."""

    def __init__(self, declared: EngineInfo, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._declared = declared

    @property
    def info(self) -> EngineInfo:
        return self._declared


class DeclaredEngine(Declared, ObligingEngine):
    """Writes as it must, within what ``info`` says, and refuses what the engine of that name refuses itself."""

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
        **options: Any,
    ) -> AsyncGenerator[Step, None]:
        assert grammar is None or self._declared.grammar, "what cannot be constrained must have been refused before"
        assert n <= self._declared.slots
        if self._declared.name == "grpc":
            grpc.check_domain(tenant.domain(shared=True))
        elif self._declared.name.startswith("llama"):
            check(prompt, sampling, msgspec.structs.replace(LLAMA, slots=self._declared.slots), n=n, grammar=grammar)
        async with aclosing(
            super().generate(prompt, sampling, n=n, grammar=grammar, tenant=tenant, **options)
        ) as steps:
            async for step in steps:
                yield step


class DeclaredEncoder(Declared, CountingEngine):
    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        assert self._declared.embeddings
        return await super().embed(inputs, tenant=tenant)


def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()


def application(info: EngineInfo, *, dialect: Dialect = OPENAI, tools: bool = True, jinja: bool = False) -> Starlette:
    """A server of one model, ``small``, on an engine of these abilities."""
    if info.embeddings:
        return create_app(
            StaticCatalog({"small": replace(counting(), engine=DeclaredEncoder(info, []))}), dialect=dialect
        )
    if info.ranks:
        engine = Declared(info, [], scoring=lambda query, document: float(query == document))
        ranker = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=RawFormat(), ranking=RankingSpec(3))
        return create_app(StaticCatalog({"small": ranker}), dialect=dialect)
    model: Model = constrained(DeclaredEngine(info))
    if jinja:
        format = jinja_format("{% if loud %}!{% endif %}{{ messages[0].content }}", CHATML.controls)
        compiler = ReplyCompiler(format, TOKENIZER, ENDS)
        model = replace(model, format=format, compiler=compiler)
    box = Toolbox([FunctionToolSet([shout])]) if tools else None
    return create_app(StaticCatalog({"small": model}), dialect=dialect, tools=box, expose_reasoning=True)
