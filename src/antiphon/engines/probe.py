"""Whether a server takes llguidance's grammars: found out with one that no model would follow by itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing

from antiphon.errors import EngineError, EngineLostError, OverloadedError, RequestError
from antiphon.tokens import Tokenizer, decode

from .engine import Sampling, Step

WORDS = ("~Qx7~", "~Zk4~")
TOKENS = 24
"""More than any vocabulary needs for a word of the grammar, which five single bytes would spell."""

Generate = Callable[[list[int], Sampling, str], AsyncGenerator[Step, None]]
"""(prompt, sampling, grammar) → the steps."""


async def takes_grammars(generate: Generate, tokenizer: Tokenizer, end_ids: Collection[int]) -> bool:
    """False for a server that ignores such a grammar, or refuses it. Raises when the server is not there.

    The grammar names an end of the model by its id, as those of replies do: a server that refuses that takes none.
    """
    ids: list[int] = []
    end = f"<[{','.join(map(str, sorted(end_ids)))}]>" if end_ids else ""
    grammar = f'%llguidance {{}}\nstart: ("{WORDS[0]}" | "{WORDS[1]}") {end}\n'
    try:
        async with aclosing(generate(tokenizer.encode("Hello"), Sampling(max_tokens=TOKENS), grammar)) as steps:
            async for step in steps:
                ids += step.ids
    except (OverloadedError, EngineLostError):
        raise
    except (RequestError, EngineError):
        return False
    return decode(tokenizer, ids).startswith(WORDS)
