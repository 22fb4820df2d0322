"""One of several servers over one store, which a test kills: ``cluster_server.py STORE PORT LEASE`` prints its URL.

What its model says follows from all ids so far, and from nothing else: a server that goes on with a reply of another
says what that one would have said, unless an id was lost or doubled on the way. Asked for something it first calls the
tool ``look_up``, once or twice, and then says some words, which depend on every word before them. It spells its calls
as its template does: the server that sampled a call keeps its ids in the next prompt, and another writes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import sha256

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.generation import Model
from antiphon.http.server.server import Server
from antiphon.store import SessionLimits, Store, store_at
from antiphon.tokens import ByteTokenizer
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import CALL, CHATML, END, START, TOKENIZER, UNCALL, ids

PACE = 0.004
"""Seconds between two ids."""
BEGINS = ids(START, "assistant\n")
RESULT = b"<tool_response>"
TOKENS: ByteTokenizer = TOKENIZER


def reply_to(prompt: Sequence[int]) -> list[int]:
    """The whole reply to a prompt."""
    pieces = map(TOKENS.piece, prompt)
    text = b"".join(piece if isinstance(piece, bytes) else piece.spelling.encode() for piece in pieces)
    digest = sha256(text).hexdigest()
    asked = text.rpartition(b"look up ")[2]
    wanted = int(asked[:1] or b"0") if asked[:1].isdigit() else 0
    if asked.count(RESULT) < wanted:
        call = f'\n{{"name": "look_up", "arguments": {{"word": "{digest[:8]}"}}}}\n'
        return ids("Let me see.\n", CALL, call, UNCALL, END)
    return ids(" ".join([f"Word {i} {digest[i : i + 6]}" for i in range(12)]), END)


def rest(prompt: Sequence[int], sampling: Sampling, choice: int) -> list[int]:
    """What comes after the ids so far."""
    begins = next(i for i in range(len(prompt), 0, -1) if tuple(prompt[i - len(BEGINS) : i]) == tuple(BEGINS))
    reply, said = reply_to(prompt[:begins]), len(prompt) - begins
    assert list(prompt[begins:]) == reply[:said], "these ids were never said"
    return reply[said:]


def look_up(word: str) -> str:
    """What a word means.

    Args:
        word: it.
    """
    return sha256(word.encode()).hexdigest()


def application(store: Store, lease: float) -> Starlette:
    ends = frozenset({TOKENS.controls[END]})
    engine = ScriptedEngine(rest, end_ids=ends, delay=PACE, context=65536, grammar=False)
    model = Model(name="m", engine=engine, tokenizer=TOKENS, format=CHATML)
    return create_app(
        StaticCatalog({"m": model}),
        store=store,
        session_limits=SessionLimits(lease=lease),
        tools=Toolbox([FunctionToolSet([look_up])]),
        offer_tools=True,
        reasoning_key=bytes(32),
    )


if __name__ == "__main__":
    address, port, lease = sys.argv[1:]
    server = Server(
        application(store_at(address), float(lease)), port=int(port), on_ready=lambda url: print(url, flush=True)
    )
    server.run()
