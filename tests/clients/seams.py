"""Whether a reply of a real model that another server went on with is the one that its model would have made.

The ids of a reply are in the store. Those that were recorded when its server was killed must begin the whole reply, its
text must be that of all its ids, and each id after the seam must be the likeliest after all before it: an id that is
lost there or doubled is not. Texts are not compared with those of a server that nobody kills, for the same prompt need
not give the same floats twice: what else is decoded beside it counts, and where two ids are nearly as likely, that
decides.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.generation.resume.tape import Sampled, TurnBegan, unpack_inputs
from antiphon.store import Key, Store, StoredRuns
from antiphon.store.runs import KIND
from antiphon.tokens import Tokenizer, gguf_tokenizer

NEAR = 1.0
"""How much less likely than the likeliest, as a logarithm, an id may be that floats have decided.

The default model's own replies were up to 0.3 below it, and from 4 to 17 where we took an id out or doubled one.
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The ids of the one turn of a reply, as far as they are stored."""

    prompt: tuple[int, ...] = ()
    reply: tuple[int, ...] = ()


@dataclass(slots=True)
class Seams:
    """The replies that were broken, by the ids of their responses, with what was recorded when they were."""

    store: Store
    model: Path
    broken: dict[str, list[Recorded]] = field(default_factory=dict)
    margins: list[float] = field(default_factory=list)
    """How much less likely than the likeliest each judged id is."""

    async def note(self, id: str) -> None:
        """Takes down what is recorded of a reply, while its server is stopped and about to be killed."""
        recorded = await self._recorded(id)
        if recorded.reply:
            self.broken.setdefault(id, []).append(recorded)

    async def fault(self, id: str, text: str, client: aiohttp.ClientSession, url: str) -> str:
        """What is wrong with a reply that is over and says ``text``; empty where nothing is. ``url`` is a server's."""
        whole, tokens = await self._recorded(id), gguf_tokenizer(read_gguf_metadata(self.model))
        for before in self.broken[id]:
            if whole.prompt != before.prompt or whole.reply[: len(before.reply)] != before.reply:
                return f"{before.reply} was recorded of {before.prompt}, and then {whole.reply} of {whole.prompt}"
        if spelled(whole.reply, tokens) != text:
            return f"its ids are {spelled(whole.reply, tokens)!r}"
        begins = len(whole.prompt) + len(self.broken[id][0].reply)
        ids = [*whole.prompt, *whole.reply]
        margins = await _margins(ids, begins, client, url)
        self.margins += margins
        worst = max(margins, default=0.0)
        place = begins + margins.index(worst) - len(whole.prompt) if margins else 0
        return "" if worst <= NEAR else f"its token {place} of {len(whole.reply)} is {worst:.2f} below the likeliest"

    async def _recorded(self, id: str) -> Recorded:
        batches = await StoredRuns(self.store, time.time).batches(Key(KIND, "", id))
        inputs = [one for batch in batches for one in unpack_inputs(batch.inputs)]
        turns = Counter(type(one) for one in inputs)[TurnBegan]
        assert turns <= 1, "a reply with several turns"
        return Recorded(
            tuple(id for one in inputs if isinstance(one, TurnBegan) for id in one.more),
            tuple(id for one in inputs if isinstance(one, Sampled) for id in one.ids),
        )


def spelled(ids: Sequence[int], tokens: Tokenizer) -> str:
    """The text of ids, without control tokens."""
    pieces = map(tokens.piece, ids)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes)).decode()


async def _margins(ids: Sequence[int], begins: int, client: aiohttp.ClientSession, url: str) -> list[float]:
    """How much less likely than the likeliest each id from number ``begins`` on is; the model says so of a prompt."""
    body: dict[str, Any] = {"prompt": ids, "max_tokens": 0, "prompt_logprobs": 1}
    async with client.post(f"{url}/v1/completions", json=body) as answer:
        assert answer.status == 200, await answer.text()
        scores = (await answer.json())["choices"][0]["prompt_logprobs"]
    return [
        max(one["logprob"] for one in score.values()) - score[str(id)]["logprob"]
        for id, score in zip(ids[begins:], scores[begins:], strict=True)
    ]
