"""A session's follow-up turn evaluates its new tokens and nothing else, by the real engine's own count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from kit.api import post_in_process
from kit.real import chatml_model

pytestmark = pytest.mark.asyncio(loop_scope="module")
GUIDE = "You are a patient librarian who answers in a few plain words and never invents the title of a book. " * 3
CLOSING = 3
"""Of the turn before: the last id that was sampled, and the end and the newline that the format writes after it."""
TOPICS = ("bees", "rivers", "clocks")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def application(smollm2_path: Path) -> AsyncIterator[Starlette]:
    async with chatml_model(smollm2_path, context=1024, slots=2, cache_mib=256) as model:
        yield create_app(StaticCatalog({"smollm2": model}))


async def turn(application: Starlette, session: str, prompt: str, *, first: bool = False) -> Any:
    opening = [{"role": "system", "content": f"{GUIDE}Today we speak about {session}."}] if first else []
    got = await post_in_process(
        application, "/v1/chat/interactive", session_id=session, interactive_mode=True,
        prompt=[*opening, {"role": "user", "content": prompt}], temperature=0.9, seed=5, request_output_len=6,
    )  # fmt: skip
    assert got.status == 200, got.body
    return got.json


def evaluated(answer: Any) -> int:
    count: int = answer["history_tokens"] + answer["input_tokens"] - answer["cached_tokens"]
    return count


@pytest.mark.spec("LMD-27")
async def test_each_follow_up_turn_evaluates_its_own_tokens_only(application: Starlette) -> None:
    await turn(application, "moss", "Name one.", first=True)
    for question in ("Why?", "And what grows there?", "Say it in one word."):
        answer = await turn(application, "moss", question)
        assert answer["history_tokens"] > 60
        assert evaluated(answer) <= answer["input_tokens"] + CLOSING


async def test_more_sessions_than_slots_that_take_turns_keep_their_caches(application: Starlette) -> None:
    """Their long common beginning must not make them take each other's place."""
    for topic in TOPICS:
        await turn(application, topic, "Name one.", first=True)
    for question in ("Why that one?", "Tell me a little more about it, and where I could find out for myself."):
        for topic in TOPICS:
            answer = await turn(application, topic, question)
            assert evaluated(answer) <= answer["input_tokens"] + CLOSING, topic
