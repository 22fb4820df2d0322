"""POST /v1/completions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import accumulate

import msgspec
from starlette.datastructures import Headers

from antiphon.api.call import Call, Posted
from antiphon.conversation import FinishReason, Usage
from antiphon.generation import held, merge_usage, run_turn
from antiphon.generation.interleave import interleave
from antiphon.wire.chat.read import Reading
from antiphon.wire.chat.schema import CompletionUsage
from antiphon.wire.chat.write import completion_usage
from antiphon.wire.completions.read import CompletionOrder, read_completion
from antiphon.wire.completions.schema import Completion, CompletionChoice, CompletionRequest
from antiphon.wire.completions.write import ChoiceText, LogprobWriter, Part, likelihood
from antiphon.wire.dialect import Dialect
from antiphon.wire.json import encode
from antiphon.wire.sampling import streams
from antiphon.wire.sse import DONE, event


class Completions(Posted):
    """Goes on with texts: several prompts, several choices of each, streamed or whole from the same parts."""

    async def answer(self, call: Call) -> None:
        context = self._context
        wire = call.read(CompletionRequest)
        headers = Headers(scope=call.scope)
        call.exchange.stream = wire.stream = streams(wire.stream, context.dialect, headers.get("accept", ""))
        model = await call.model(wire.model)
        reading = Reading(context.dialect, context.limits, context.today, headers.get("x-session-affinity"))
        reveals = context.reveals(call.exchange)
        order = await call.planned(lambda: read_completion(wire, model, reading, reveals=reveals))
        order = replace(order, plans=tuple([await held(plan) for plan in order.plans]))
        answer = Answer(call, order, wire)
        async with call.admitted():
            if call.exchange.stream:
                await call.stream(answer.chunks())
            else:
                await call.tell(await call.run(answer.whole()))


class Answer:
    """All choices of one request on their way to its client. They are numbered prompt by prompt."""

    def __init__(self, call: Call, order: CompletionOrder, wire: CompletionRequest) -> None:
        self._call = call
        self._order = order
        self._dialect: Dialect = call.context.dialect
        self._id = f"cmpl-{secrets.token_hex(12)}"
        self._created = int(call.context.clock())
        self._alternatives = wire.logprobs or 0
        options = wire.stream_options
        self._tells_usage = bool(options and options.include_usage)
        self._tells_usage_always = bool(options and options.continuous_usage_stats)
        self._said = [Usage(len(plan.prompt_ids)) for plan in order.plans for _ in range(order.made)]

    async def whole(self) -> Completion:
        """The answer as one body; of more choices than were asked for, the likeliest."""
        order = self._order
        parts: list[list[Part]] = [[] for _ in self._said]
        async with aclosing(self._parts()) as told:
            async for number, part in told:
                parts[number].append(part)
        choices: list[CompletionChoice] = []
        for prompt in range(len(order.plans)):
            made = parts[prompt * order.made : (prompt + 1) * order.made]
            best = sorted(made, key=likelihood, reverse=True) if order.made > order.n else made
            choices += [self._joined(prompt, sample, best[sample]) for sample in range(order.n)]
        return self._completion(choices, completion_usage(self._usage()))

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The answer as the bytes of a stream."""
        writers = [LogprobWriter(self._alternatives) for _ in self._said]
        asked = self._tells_usage or self._tells_usage_always
        going_on = len(writers)
        async with aclosing(self._parts()) as told:
            async for number, part in told:
                prompt, sample = divmod(number, self._order.made)
                choice = self._choice(prompt, sample, part, writers[number])
                going_on -= part.finished is not None
                tells = self._tells_usage_always or (self._dialect.usage == "last" and not going_on)
                usage = completion_usage(self._usage()) if tells else None
                yield event(encode(self._completion([choice], usage if asked or tells else msgspec.UNSET)))
        last = event(encode(self._completion([], completion_usage(self._usage())))) if self._tells_usage else b""
        yield last + DONE

    async def _parts(self) -> AsyncGenerator[tuple[int, Part], None]:
        """The parts of every choice with its number, as they come."""
        order = self._order
        texts = [ChoiceText(echo=echo, suffix=order.suffix) for echo in order.echoes for _ in range(order.made)]
        slots = order.plans[0].model.engine.info.slots
        turns = interleave([run_turn(plan) for plan in order.plans], at_once=slots // order.made)
        async with aclosing(turns) as events:
            async for prompt, told in events:
                self._call.note_event()
                number = prompt * order.made + told.choice
                parts = texts[number].feed(told.event)
                self._count(number, told.completion_tokens, parts)
                for part in parts:
                    yield number, part

    def _count(self, number: int, tokens: int, parts: Sequence[Part]) -> None:
        ends = (part.finished.usage for part in parts if part.finished is not None)
        self._said[number] = next(ends, Usage(self._said[number].prompt_tokens, tokens))

    def _usage(self) -> Usage:
        """Of all prompts so far, each counted once."""
        made = self._order.made
        prompts = [merge_usage(self._said[at : at + made]) for at in range(0, len(self._said), made)]
        *_, total = accumulate(prompts, _sum)
        return total

    def _joined(self, prompt: int, sample: int, parts: Sequence[Part]) -> CompletionChoice:
        whole = Part(
            "".join(part.text for part in parts),
            tuple(one for part in parts for one in part.logprobs),
            parts[-1].finished,
        )
        return self._choice(prompt, sample, whole, LogprobWriter(self._alternatives))

    def _choice(self, prompt: int, sample: int, part: Part, writer: LogprobWriter) -> CompletionChoice:
        told = self._order.logprobs and (part.logprobs or part.finished is not None)
        return CompletionChoice(
            index=prompt if self._dialect.completions.index_of_prompt else prompt * self._order.n + sample,
            text=part.text,
            logprobs=writer.write(part.logprobs) if told else None,
            finish_reason=None if part.finished is None else self._reason(part.finished.reason),
            prompt_index=prompt,
            sample_index=sample,
        )

    def _reason(self, reason: FinishReason) -> str:
        """A completion calls no tools, whatever the model wrote."""
        return self._dialect.word(FinishReason.STOP_EOS if reason is FinishReason.TOOL_CALL else reason)

    def _completion(
        self, choices: list[CompletionChoice], usage: CompletionUsage | msgspec.UnsetType | None = msgspec.UNSET
    ) -> Completion:
        model = self._order.plans[0].model.name
        return Completion(id=self._id, created=self._created, model=model, choices=choices, usage=usage)


def _sum(one: Usage, other: Usage) -> Usage:
    cached = (one.cached_tokens or 0) + (other.cached_tokens or 0)
    return Usage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        cached_tokens=cached,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
    )
