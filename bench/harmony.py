"""Harmony against openai-harmony, in one run: each line says how many times faster Antiphon is.

Times are of the processor, the best of some rounds that take turns; each round has texts that no round before it had.

python bench/harmony.py [--backend tiktoken]     # the encoder; splintr where it is installed
"""

from __future__ import annotations

import argparse
import base64
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

from antiphon.compat import openai_harmony as compat
from antiphon.conversation import Conversation, Message, Role
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import (
    Harmony,
    RunningPrompt,
    StreamParser,
    TokenDeltas,
    parse_completion,
    read_conversation,
    write_conversation,
)
from antiphon.tokens import Tokenizer, encode_pieces, o200k_harmony

WORDS = (
    "The quick brown fox jumps over lazy dogs while naïve façades don't help anybody; 你好，世界 — привет! "
    "def area(r: float) -> float: return 3.14159 * r ** 2 "
).split()
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "array", "items": {"type": "integer"}, "description": "Which days to tell about"},
    },
    "required": ["city"],
}


ROUNDS = 5
Work = Callable[[], object]


def best(rounds: Iterable[Sequence[Work]]) -> list[float]:
    """The least processor time, in seconds, of each of the works that a round has beside each other."""
    return [min(times) for times in zip(*(list(map(_seconds, works)) for works in rounds), strict=True)]


def _seconds(work: Work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def row(what: str, own: float, peer: float, aim: str = "") -> None:
    print(f"{what:<66} {own * 1e6:>12.2f} µs {peer * 1e6:>12.2f} µs {peer / own:>9.2f} x  {aim}")


def text(seed: int, words: int) -> str:
    chance = Random(seed)
    return " ".join(chance.choice(WORDS) + str(chance.randrange(1000)) * (i % 3 == 0) for i in range(words))


def conversation(messages: int, round: int) -> Conversation:
    """A chat about the weather with twelve tools, in the reference's own form; its texts are this round's."""
    tools = [{"name": f"tool_{i}", "description": f"Does the {i}th thing.", "parameters": SCHEMA} for i in range(12)]
    functions = {"functions": {"name": "functions", "tools": tools}}
    messages_json: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "system_content", "model_identity": "You are ChatGPT."}]},
        {"role": "developer", "content": [{"type": "developer_content", "instructions": "Help.", "tools": functions}]},
    ]
    for i in range(messages - 2):
        kind = ("user", "analysis", "final")[i % 3]
        role = "user" if kind == "user" else "assistant"
        channel = {} if kind == "user" else {"channel": kind}
        messages_json.append({"role": role, "content": text(10_000 * round + i, 45), **channel})
    chat = compat.Conversation([compat.Message.from_dict(message) for message in messages_json])  # with its defaults
    return read_conversation(chat.to_dict())


def reference() -> Any:
    """The reference, with the vocabulary that Antiphon ships, so that it fetches nothing."""
    folder = Path(tempfile.mkdtemp())
    pieces = map(o200k_harmony().piece, range(199_998))
    lines = (base64.b64encode(p) + b" %d\n" % rank for rank, p in enumerate(pieces) if isinstance(p, bytes))
    (folder / "o200k_base.tiktoken").write_bytes(b"".join(lines))
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(folder)
    import openai_harmony  # after the variable that it reads

    return openai_harmony


def rendering(module: Any, encoding: Any, tokenizer: Tokenizer) -> None:
    harmony, ours = Harmony(), compat.load_harmony_encoding("HarmonyGptOss")

    def render(chat: Conversation) -> list[int]:
        return encode_pieces(harmony.render(chat, history=HistoryPolicy.REFERENCE), tokenizer)

    for size in (200, 2000):
        chats = [conversation(size, round) for round in range(ROUNDS)]
        own, adapter, peer = best(
            (
                partial(render, chat),
                _completion(ours, compat, chat),
                _completion(encoding, module, chat),
            )
            for chat in chats
        )
        other = conversation(size, ROUNDS)
        assert render(other) == _completion(encoding, module, other)()
        row(
            f"render {size} messages, {len(render(other)):,} tokens",
            own,
            peer,
            "≥ 2.5",
        )
        row("… through antiphon.compat", adapter, peer, "≥ 2.5")
        running = RunningPrompt(harmony, tokenizer, chats[0])
        messages = [Message(role=Role.USER, text=text(10**6 + size + i, 45)) for i in range(20)]
        (append,) = best((partial(running.append, message),) for message in messages)
        row(f"… and again with one message more, after {size}", append, peer, "≥ 25")


def _completion(encoding: Any, module: Any, chat: Conversation) -> Work:
    given = module.Conversation(messages=[module.Message.from_dict(m) for m in write_conversation(chat)["messages"]])
    return lambda: encoding.render_conversation_for_completion(given, module.Role.ASSISTANT)


def streaming(module: Any, encoding: Any, tokenizer: Tokenizer) -> None:
    controls = {control.spelling: id for control, id in tokenizer.controls.items()}
    opening = [controls["<|channel|>"], *tokenizer.encode("analysis"), controls["<|message|>"]]
    bodies = [
        tokenizer.encode(" ".join(text(10**7 * (1 + round) + i, 45) for i in range(300))) for round in range(ROUNDS)
    ]
    replies = [[*opening, *body[:10_000], controls["<|return|>"]] for body in bodies]
    table, ours = TokenDeltas(tokenizer), compat.load_harmony_encoding("HarmonyGptOss")

    def native(ids: Sequence[int]) -> None:
        parser = StreamParser(table)
        for id in ids:
            parser.feed(id)
            _ = parser.delta, parser.channel, parser.recipient

    def polled(module: Any, encoding: Any, ids: Sequence[int]) -> None:
        parser = module.StreamableParser(encoding, module.Role.ASSISTANT)
        for id in ids:
            parser.process(id)
            _ = parser.last_content_delta, parser.current_channel, parser.current_recipient

    own, adapter, peer = (
        seconds / len(replies[0])
        for seconds in best(
            (
                partial(native, ids),
                partial(polled, compat, ours, ids),
                partial(polled, module, encoding, ids),
            )
            for ids in replies
        )
    )
    row("one id: process, read delta, channel, recipient", own, peer, "≥ 1")
    row("… through antiphon.compat", adapter, peer, "≥ 1")
    own, peer = best(
        (
            partial(parse_completion, ids, tokenizer),
            partial(encoding.parse_messages_from_completion_tokens, ids, module.Role.ASSISTANT),
        )
        for ids in replies
    )
    row("parse a finished completion of 10,000 tokens", own, peer, "≥ 2")
    parser, reference = StreamParser(table), module.StreamableParser(encoding, module.Role.ASSISTANT)
    for id in [*opening, *(bodies[0] * 4)[:30_000]]:
        parser.feed(id)
        reference.process(id)

    def poll(ids: Sequence[int]) -> None:
        for id in ids:
            parser.feed(id)
            _ = parser.content, parser.messages
            del _  # a text that somebody references is copied when it grows

    def poll_reference(ids: Sequence[int]) -> None:
        for id in ids:
            reference.process(id)
            _ = reference.current_content, reference.messages

    (own,) = best((partial(poll, body[:1000]),) for body in bodies)
    (peer,) = best((partial(poll_reference, body[:20]),) for body in bodies[:2])
    row("… one id, read content and messages, after 30,000 tokens", own / 1000, peer / 20, "≥ 200")


def runs(encoding: Any, tokenizer: Tokenizer) -> None:
    """Equal characters: Antiphon's time grows with the length, the reference's with its square."""
    signs = iter("-=*_#~.+/|")
    for length in (10_000, 20_000):
        line = next(signs) * length
        own, peer = best([(partial(tokenizer.encode, line), partial(encoding.encode, line))])
        row(f"encode a run of {length:,} equal characters", own, peer)
    short, long = (_seconds(partial(tokenizer.encode, next(signs) * n)) for n in (10_000, 100_000))
    print(f"antiphon for 100,000 characters: {long / short:.1f} x the time for 10,000")


def loading() -> None:
    own_code = "from antiphon.tokens import o200k_harmony as load; load()"
    reference_code = "import openai_harmony as h; h.load_harmony_encoding('HarmonyGptOss')"

    def fresh(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    own, peer = (min(fresh(code) for _ in range(3)) for code in (own_code, reference_code))
    row("load the vocabulary, in a fresh process", own, peer, "≥ 1")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--backend", choices=["auto", "tiktoken", "splintr"], default="auto")
    backend: Literal["auto", "tiktoken", "splintr"] = arguments.parse_args().backend
    module = reference()
    encoding, tokenizer = module.load_harmony_encoding("HarmonyGptOss"), o200k_harmony(backend)
    print(f"{'backend ' + backend:<66} {'antiphon':>15} {'openai-harmony':>15} {'faster':>11}  aim")
    rendering(module, encoding, tokenizer)
    streaming(module, encoding, tokenizer)
    runs(encoding, tokenizer)
    loading()


if __name__ == "__main__":
    main()
