"""What every engine must do: sentences that an engine's own test module runs by subclassing `EngineContract`.

An engine under test can say at least eight ids to ``prompt`` before an end of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest

from antiphon.engines import Engine, EngineEnd, GenerateOptions, PlacedImage, Sampling, Step
from antiphon.errors import ContextError, EngineLostError, UnsupportedError
from antiphon.tenancy import Tenant

ANN, BOB = Tenant(owner="ann"), Tenant(owner="bob")
GREEDY = Sampling(max_tokens=8, temperature=0)


async def steps_of(
    engine: Engine, prompt: Sequence[int], sampling: Sampling, n: int = 1, images: Sequence[PlacedImage] = ()
) -> list[Step]:
    options = GenerateOptions(n=n)
    if images:
        options["images"] = images
    async with aclosing(engine.generate(prompt, sampling, **options)) as steps:
        return [step async for step in steps]


async def lost_after(engine: Engine, prompt: Sequence[int]) -> list[int]:
    """The ids of a reply that came before the engine was lost."""
    received: list[int] = []
    try:
        async with aclosing(engine.generate(prompt, GREEDY)) as steps:
            async for step in steps:
                received += step.ids
    except EngineLostError:
        return received
    raise AssertionError("the engine was not lost")


def ids_of(steps: Sequence[Step], choice: int = 0) -> list[int]:
    return [id for step in steps if step.choice == choice for id in step.ids]


class EngineContract:
    """Subclasses give the fixtures ``subject`` (an `Engine`) and ``prompt`` (ids)."""

    async def test_a_limit_is_kept_and_named(self, subject: Engine, prompt: Sequence[int]) -> None:
        steps = await steps_of(subject, prompt, replace(GREEDY, max_tokens=3))
        assert len(ids_of(steps)) == 3
        assert steps[-1].end is EngineEnd.LENGTH_OUTPUT

    async def test_only_the_last_step_of_a_choice_has_an_end(self, subject: Engine, prompt: Sequence[int]) -> None:
        steps = await steps_of(subject, prompt, GREEDY, n=2)
        for choice in range(2):
            ends = [step.end for step in steps if step.choice == choice]
            assert [end is None for end in ends] == [True] * (len(ends) - 1) + [False]

    async def test_greedy_says_the_same_twice(self, subject: Engine, prompt: Sequence[int]) -> None:
        assert ids_of(await steps_of(subject, prompt, GREEDY)) == ids_of(await steps_of(subject, prompt, GREEDY))

    @pytest.mark.parametrize("most", [3, 8])
    async def test_whole_replies_are_the_streamed_ones(self, subject: Engine, prompt: Sequence[int], most: int) -> None:
        streamed = await steps_of(subject, prompt, replace(GREEDY, max_tokens=most), n=2)
        whole = await steps_of(subject, prompt, replace(GREEDY, max_tokens=most, whole=True), n=2)
        assert len(whole) == 2 or not subject.info.whole
        for choice in range(2):
            assert ids_of(whole, choice) == ids_of(streamed, choice)
        assert sorted((step.choice, step.end) for step in whole if step.end) == [
            (step.choice, step.end) for step in sorted(streamed, key=lambda step: step.choice) if step.end
        ]
        assert [step.cached_tokens for step in whole][-1:] == [step.cached_tokens for step in streamed][-1:]

    async def test_a_stop_id_ends_the_reply_and_is_its_last_id(self, subject: Engine, prompt: Sequence[int]) -> None:
        ids = ids_of(await steps_of(subject, prompt, GREEDY))
        stop = ids[2]
        steps = await steps_of(subject, prompt, replace(GREEDY, stop_ids=frozenset({stop})))
        assert ids_of(steps) == ids[: ids.index(stop) + 1]
        assert steps[-1].end is EngineEnd.STOP

    async def test_nothing_is_said_when_nothing_is_asked_for(self, subject: Engine, prompt: Sequence[int]) -> None:
        steps = await steps_of(subject, prompt, replace(GREEDY, max_tokens=0))
        assert ids_of(steps) == []
        assert steps[-1].end is EngineEnd.LENGTH_OUTPUT

    async def test_a_prompt_as_long_as_the_context_is_refused(self, subject: Engine, prompt: Sequence[int]) -> None:
        context = subject.info.context
        with pytest.raises(ContextError, match=rf"{context} tokens.* {context}"):
            await steps_of(subject, [prompt[0]] * context, GREEDY)

    async def test_log_probabilities_stand_one_for_each_id(self, subject: Engine, prompt: Sequence[int]) -> None:
        for step in await steps_of(subject, prompt, replace(GREEDY, logprobs=2)):
            assert [entry.id for entry in step.logprobs] == list(step.ids)
            assert all(entry.logprob <= 0 and len(entry.top) == 2 for entry in step.logprobs)

    async def test_no_log_probabilities_come_unasked(self, subject: Engine, prompt: Sequence[int]) -> None:
        assert all(step.logprobs == () for step in await steps_of(subject, prompt, GREEDY))

    async def test_a_prompt_is_scored_as_if_it_had_been_sampled(self, subject: Engine, prompt: Sequence[int]) -> None:
        if not subject.info.scores:
            with pytest.raises(UnsupportedError):
                await subject.score(prompt, tenant=ANN)
            return
        prompt = list(reversed(prompt))  # not the others', which a cache would keep as it was evaluated here
        steps = await steps_of(subject, prompt, replace(GREEDY, logprobs=2))
        sampled = [entry for step in steps for entry in step.logprobs]
        whole = [*prompt, *ids_of(steps)]
        first, *scores = await subject.score(whole, alternatives=2)
        assert first is None, "nothing comes before it"
        assert [score and score.id for score in scores] == whole[1:]
        for score, entry in zip(scores[len(prompt) - 1 :], sampled, strict=True):
            assert score is not None
            assert score.data == entry.data
            assert score.logprob == pytest.approx(entry.logprob, abs=0.1)
            assert [other.id for other in score.top] == [other.id for other in entry.top]
        alone = await subject.score(whole)
        assert [score and score.top for score in alone[1:]] == [()] * len(scores)

    async def test_a_prompt_as_long_as_the_context_is_not_scored(self, subject: Engine, prompt: Sequence[int]) -> None:
        if subject.info.scores:
            with pytest.raises(ContextError):
                await subject.score([prompt[0]] * subject.info.context)

    async def test_many_at_once_get_what_each_would_get_alone(self, subject: Engine, prompt: Sequence[int]) -> None:
        alone = ids_of(await steps_of(subject, prompt, GREEDY))
        together = await asyncio.gather(*(steps_of(subject, prompt, GREEDY) for _ in range(6)))
        assert [ids_of(steps) for steps in together] == [alone] * 6

    async def test_closing_in_the_middle_leaves_the_engine_as_it_was(
        self, subject: Engine, prompt: Sequence[int]
    ) -> None:
        whole = ids_of(await steps_of(subject, prompt, GREEDY))
        async with aclosing(subject.generate(prompt, GREEDY)) as steps:
            await anext(steps)
        assert ids_of(await steps_of(subject, prompt, GREEDY)) == whole

    async def test_embeddings_are_refused_where_none_are_made(self, subject: Engine, prompt: Sequence[int]) -> None:
        assert not subject.info.embeddings, "engines that embed have a contract of their own"
        with pytest.raises(UnsupportedError):
            await subject.embed([prompt], tenant=ANN)


class EmbeddingContract:
    """Subclasses give the fixtures ``encoder`` (an `Engine` with embeddings) and ``inputs`` (three, all different)."""

    async def test_inputs_have_one_vector_each_in_their_order(
        self, encoder: Engine, inputs: Sequence[Sequence[int]]
    ) -> None:
        many = [inputs[i % 3] for i in range(3 * encoder.info.slots + 2)]
        made = await encoder.embed(many, tenant=ANN)
        assert made.tokens == sum(map(len, many))
        alone = [(await encoder.embed([one], tenant=BOB)).vectors[0] for one in inputs]
        assert len(made.vectors) == len(many)
        for i, vector in enumerate(made.vectors):
            assert vector == pytest.approx(alone[i % 3], abs=1e-3), "whoever asks, and whatever is beside it"

    async def test_no_inputs_have_no_vectors(self, encoder: Engine) -> None:
        made = await encoder.embed([], tenant=ANN)
        assert (made.vectors, made.tokens) == ((), 0)

    async def test_many_inputs_of_one_owner_leave_turns_to_another(
        self, encoder: Engine, inputs: Sequence[Sequence[int]]
    ) -> None:
        ended: list[str] = []

        async def embed(tenant: Tenant, count: int) -> None:
            await encoder.embed([inputs[0]] * count, tenant=tenant)
            ended.append(tenant.owner)

        anns = [asyncio.create_task(embed(ANN, 32 * encoder.info.slots)) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.gather(*anns, embed(BOB, 1))
        assert ended == ["bob", "ann", "ann", "ann"]

    async def test_embeddings_that_are_given_up_leave_the_engine_as_it_was(
        self, encoder: Engine, inputs: Sequence[Sequence[int]]
    ) -> None:
        given_up = asyncio.create_task(encoder.embed([inputs[0]] * 32 * encoder.info.slots, tenant=ANN))
        for _ in range(5):
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        for tenant in (ANN, BOB):
            assert len((await encoder.embed(inputs, tenant=tenant)).vectors) == 3
