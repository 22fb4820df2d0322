"""A reply of which some ids are there already: the engine goes on after them.

No engine begins a grammar in its middle. So the rest of a constrained reply is sampled freely as long as each id fits,
and where one does not, it is sampled once more among those that fit there. That is how llama.cpp itself samples under
a grammar, so the rest is distributed as it would have been.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from antiphon.engines import EngineEnd, GenerateOptions, Sampling, Step
from antiphon.generation.plan import Plan

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar
    from antiphon.grammar.following import Matcher


def continued(plan: Plan, before: Sequence[int]) -> AsyncGenerator[Step, None]:
    """The steps of the one choice of ``plan``, whose first ids are ``before``; closing it stops the engine."""
    if not before:
        return begun(plan)
    if plan.sampling.max_tokens <= len(before):
        return _no_more()
    if plan.constraint is None:
        return _freely(plan, before)
    return _Constrained(plan, plan.constraint, before).steps()


def begun(plan: Plan) -> AsyncGenerator[Step, None]:
    """The steps of a reply from its first id on."""
    options = GenerateOptions(n=plan.request.n, grammar=plan.grammar, tenant=plan.request.tenant)
    if plan.images:  # Few engines take some.
        options["images"] = plan.images
    return plan.model.engine.generate(plan.prompt_ids, plan.sampling, **options)


def _options(plan: Plan, grammar: str | None = None) -> GenerateOptions:
    """Options of a reply that goes on."""
    options = GenerateOptions(grammar=grammar, tenant=plan.request.tenant)
    if plan.images:
        options["images"] = plan.images
    return options


async def _no_more() -> AsyncGenerator[Step, None]:
    yield Step(end=EngineEnd.LENGTH_OUTPUT)


def _freely(plan: Plan, before: Sequence[int]) -> AsyncGenerator[Step, None]:
    return plan.model.engine.generate((*plan.prompt_ids, *before), _after(plan.sampling, len(before)), **_options(plan))


def _after(sampling: Sampling, count: int) -> Sampling:
    """For what comes after ``count`` ids; a seed gives other numbers than it gave for the first of them."""
    seed = None if sampling.seed is None else (sampling.seed + count) % 2**64
    return replace(sampling, max_tokens=sampling.max_tokens - count, seed=seed)


class _Constrained:
    """The rest of a reply with a grammar."""

    def __init__(self, plan: Plan, constraint: CompiledGrammar, before: Sequence[int]) -> None:
        self._plan = plan
        self._constraint = constraint
        self._ids = list(before)
        self._first = len(self._ids)
        self._ends = plan.sampling.stop_ids | plan.model.engine.info.end_ids

    async def steps(self) -> AsyncGenerator[Step, None]:
        """Free ones and masked ones in turn. With log probabilities all are masked: they are of what fits."""
        over = False
        while not over:
            for part in (self._free, self._masked):
                if part == self._free and self._plan.sampling.logprobs is not None:
                    continue
                async with aclosing(part()) as sampled:
                    async for step in sampled:
                        self._ids += step.ids
                        over = step.end is not None
                        yield step
                if over:
                    return

    async def _free(self) -> AsyncGenerator[Step, None]:
        """Steps that the engine samples freely, up to the first id that does not fit, or where it ended too early."""
        matcher = self._matcher()
        async with aclosing(_freely(self._plan, self._ids)) as sampled:
            async for step in sampled:
                violation = matcher.consume(step.ids)
                if violation is not None:
                    fitting = violation.position - len(self._ids)
                    if fitting:
                        yield Step(
                            step.ids[:fitting], cached_tokens=step.cached_tokens, prompt_tokens=step.prompt_tokens
                        )
                    return
                if step.end is EngineEnd.STOP and not matcher.accepting:
                    if step.ids:
                        yield msgspec.structs.replace(step, end=None)
                    return
                yield step

    async def _masked(self) -> AsyncGenerator[Step, None]:
        """One id of those that fit."""
        matcher, plan = self._matcher(), self._plan
        allowed = _ids_of(matcher.mask(), plan.model.tokenizer.size)
        if not allowed:
            yield Step(end=EngineEnd.STOP)
            return
        sampling = replace(_after(plan.sampling, len(self._ids)), max_tokens=1)
        sampled = plan.model.engine.generate(
            (*plan.prompt_ids, *self._ids), sampling, **_options(plan, one_of(allowed))
        )
        async with aclosing(sampled) as steps:
            async for step in steps:
                if step.ids:
                    yield msgspec.structs.replace(step, end=self._end(step.ids[-1]))
                    return
        yield Step(end=EngineEnd.LENGTH_CONTEXT)

    def _end(self, id: int) -> EngineEnd | None:
        if id in self._ends:
            return EngineEnd.STOP
        return EngineEnd.LENGTH_OUTPUT if len(self._ids) + 1 >= self._plan.sampling.max_tokens else None

    def _matcher(self) -> Matcher:
        matcher = self._constraint.matcher()
        matcher.consume(self._ids)
        return matcher


def one_of(ids: Sequence[int]) -> str:
    """The grammar of one id of these, which are in order, as ranges."""
    ranges: list[list[int]] = []
    for id in ids:
        if ranges and ranges[-1][1] == id - 1:
            ranges[-1][1] = id
        else:
            ranges.append([id, id])
    named = ",".join(f"{first}-{last}" if first < last else str(first) for first, last in ranges)
    return f'%llguidance {{"no_forcing": true}}\nstart: <[{named}]>\n'


def _ids_of(mask: bytes, size: int) -> list[int]:
    """The ids of a matcher's mask."""
    return [id for place, byte in enumerate(mask) if byte for id in range(place * 8, place * 8 + 8)
            if byte >> id % 8 & 1 and id < size]  # fmt: skip
