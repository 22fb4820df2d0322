"""Harmony against openai-harmony, in one run: each line says how many times faster Antiphon is.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from antiphon.conversation import Conversation, Message, Role
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


def seconds(work: Callable[[], object], *, repeat: int = 5) -> float:
    """The best of some runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def row(what: str, own: float, peer: float, aim: str = "") -> None:
    print(f"{what:<66} {own * 1e6:>12.2f} µs {peer * 1e6:>12.2f} µs {peer / own:>9.2f} x  {aim}")


def text(seed: int, words: int) -> str:
    return " ".join(
        WORDS[(seed * 7 + i * (1 + seed % 5)) % len(WORDS)] + str(seed % 97) * (i % 3 == 0) for i in range(words)
    )


def conversation(messages: int) -> Conversation:
    """A chat about the weather with twelve tools, in the reference's own form."""
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
        messages_json.append({"role": role, "content": text(i, 45), **channel})
    return read_conversation({"messages": messages_json})


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
    harmony = Harmony()
    for size in (200, 2000):
        chat = conversation(size)
        reference_chat = module.Conversation(
            messages=[module.Message.from_dict(m) for m in write_conversation(chat)["messages"]]
        )

        def render_reference(chat: Any = reference_chat) -> list[int]:
            ids: list[int] = encoding.render_conversation_for_completion(chat, module.Role.ASSISTANT)
            return ids

        def render_antiphon(chat: Conversation = chat) -> list[int]:
            return encode_pieces(harmony.render(chat), tokenizer)

        reference_time = seconds(render_reference, repeat=3)
        row(
            f"render {size} messages, {len(render_antiphon()):,} tokens, cold",
            seconds(render_antiphon),
            reference_time,
            "≥ 2.5",
        )
        running = RunningPrompt(harmony, tokenizer, chat)
        turns = iter(range(10**6))

        def append(running: RunningPrompt = running, turns: Any = turns) -> list[int]:
            return running.append(Message(role=Role.USER, text=text(next(turns), 45)))

        row(f"… and again with one message more, after {size}", seconds(append, repeat=20), reference_time, "≥ 25")


def streaming(module: Any, encoding: Any, tokenizer: Tokenizer) -> None:
    controls = {control.spelling: id for control, id in tokenizer.controls.items()}
    body = tokenizer.encode(" ".join(text(i, 45) for i in range(500)))
    opening = [controls["<|channel|>"], *tokenizer.encode("analysis"), controls["<|message|>"]]
    ids = [*opening, *body[:10_000], controls["<|return|>"]]
    table = TokenDeltas(tokenizer)

    def run_antiphon() -> None:
        parser = StreamParser(table)
        for id in ids:
            parser.feed(id)
            _ = parser.delta, parser.channel, parser.recipient

    def run_reference() -> None:
        parser = module.StreamableParser(encoding, module.Role.ASSISTANT)
        for id in ids:
            parser.process(id)
            _ = parser.last_content_delta, parser.current_channel, parser.current_recipient

    count = len(ids)
    each = (seconds(run_antiphon) / count, seconds(run_reference) / count)
    row("one id: process, read delta, channel, recipient", *each, "≥ 1")
    row(
        "parse a finished completion of 10,000 tokens",
        seconds(lambda: parse_completion(ids, tokenizer)),
        seconds(lambda: encoding.parse_messages_from_completion_tokens(ids, module.Role.ASSISTANT)),
        "≥ 2",
    )
    long = (body * 4)[:30_000]
    parser, peer = StreamParser(table), module.StreamableParser(encoding, module.Role.ASSISTANT)
    for id in [*opening, *long]:
        parser.feed(id)
        peer.process(id)

    def poll() -> None:
        for id in body[:1000]:
            parser.feed(id)
            _ = parser.content, parser.messages
            del _  # a text that somebody references is copied when it grows

    def poll_reference() -> None:
        for id in body[:20]:
            peer.process(id)
            _ = peer.current_content, peer.messages

    own, peer_poll = seconds(poll) / 1000, seconds(poll_reference, repeat=2) / 20
    row("… one id, read content and messages, after 30,000 tokens", own, peer_poll, "≥ 200")


def runs(encoding: Any, tokenizer: Tokenizer) -> None:
    """Equal characters: Antiphon's time grows with the length, the reference's with its square."""
    for length in (10_000, 20_000):
        dashes = "-" * length
        peer = seconds(lambda dashes=dashes: encoding.encode(dashes), repeat=1)  # type: ignore[misc]  # a bound default
        row(f"encode a run of {length:,} equal characters", seconds(lambda d=dashes: tokenizer.encode(d)), peer)  # type: ignore[misc]  # a bound default
    short, long = (seconds(lambda n=n: tokenizer.encode("-" * n)) for n in (10_000, 100_000))  # type: ignore[misc]  # a bound default
    print(f"antiphon for 100,000 characters: {long / short:.1f} x the time for 10,000")


def loading() -> None:
    own_code = "from antiphon.tokens import o200k_harmony as load; load()"
    reference_code = "import openai_harmony as h; h.load_harmony_encoding('HarmonyGptOss')"

    def fresh(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeat=3)

    row("load the vocabulary, in a fresh process", fresh(own_code), fresh(reference_code), "≥ 1")


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
