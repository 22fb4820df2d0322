"""`encode_pieces` and `PieceDecoder` against plain tiktoken, and loading against openai-harmony. Ratios of one run.

python bench/tokens.py [--load]     # --load also times loading, each in a fresh process (needs psutil)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import tiktoken

from antiphon.tokens import Control, PieceDecoder, SegmentMemo, TableTokenizer, encode_pieces, o200k_harmony
from antiphon.tokens.bpe import PATTERN, O200kRanks

START, MESSAGE, END = (Control(f"<|{name}|>") for name in ("start", "message", "end"))
TEXT = (
    "The quick brown fox jumps over 12 lazy dogs; naïve façades don't help. 你好，世界 — привет! "
    "def area(r: float) -> float:\n    return 3.14159 * r ** 2  # ok\n"
)


def seconds(work: Callable[[], object], *, repeat: int = 7) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def row(what: str, own: float, peer: float, peer_name: str) -> None:
    print(f"{what:<58} {own * 1e3:>9.2f} ms {peer * 1e3:>9.2f} ms  {peer / own:>7.2f} x  {peer_name}")


def compare(tokenizer: TableTokenizer, backend: str, plain: tiktoken.Encoding) -> None:
    messages = [f"{i}. {TEXT * (1 + i % 4)}" for i in range(200)]
    pieces = [piece for text in messages for piece in (START, "user", MESSAGE, text, END)]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    cold = seconds(lambda: [plain.encode_ordinary(text) for text in texts])

    print(f"\nbackend {backend}: antiphon, plain tiktoken, how many times faster")
    row("encode 200 messages, no memo", seconds(lambda: encode_pieces(pieces, tokenizer)), cold, "encode_ordinary")
    memo = SegmentMemo()
    encode_pieces(pieces, tokenizer, memo)
    turn = iter(range(10**6))

    def grow() -> None:
        encode_pieces([*pieces, START, "user", MESSAGE, f"{next(turn)} {TEXT}", END], tokenizer, memo)

    row("encode them again with one message more, memo", seconds(grow), cold, "encode_ordinary of all")

    ids = plain.encode_ordinary("".join(texts))
    row("decode one chunk", seconds(lambda: PieceDecoder(tokenizer).feed(ids)), *peer(plain.decode, ids))
    chunks = [ids[i : i + 16] for i in range(0, len(ids), 16)]

    def feed_all(chunks: Sequence[Sequence[int]]) -> None:
        feed = PieceDecoder(tokenizer).feed
        for chunk in chunks:
            feed(chunk)

    decode = plain.decode
    each = seconds(lambda: [decode(chunk) for chunk in chunks])
    row("decode chunks of 16 ids", seconds(lambda: feed_all(chunks)), each, "decode of each chunk")
    singles = [[id] for id in ids]
    each = seconds(lambda: [decode(single) for single in singles])
    row("decode id by id", seconds(lambda: feed_all(singles)), each, "decode of each id")


def peer(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> tuple[float, str]:
    return seconds(lambda: decode(ids)), "decode"


LOADERS = {
    "antiphon, tiktoken": "from antiphon.tokens import o200k_harmony as load; arguments = ('tiktoken',)",
    "antiphon, splintr": "from antiphon.tokens import o200k_harmony as load; arguments = ('splintr',)",
    "openai-harmony": "from openai_harmony import load_harmony_encoding as load; arguments = ('HarmonyGptOss',)",
}
MEASURE = """
import time, psutil
{imports}
for name in {modules}: __import__(name)
process = psutil.Process(); before = process.memory_info().rss; start = time.perf_counter()
load(*arguments).encode("x")
print(time.perf_counter() - start, (process.memory_info().rss - before) / 1e6)
"""


def loading() -> None:
    """Each in a fresh process, libraries imported before; openai-harmony reads its file from a folder on disk."""
    print("\nloading, best of 5 fresh processes: seconds, MB of resident memory")
    for name, imports in LOADERS.items():
        modules = [name.rpartition(" ")[2]] if "antiphon" in name else []
        script = MEASURE.format(imports=imports, modules=modules)
        runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True) for _ in range(5)]
        found = [tuple(map(float, run.stdout.split())) for run in runs if run.returncode == 0]
        print(f"{name:<24}", "not here" if not found else f"{min(found)[0]:.3f} s {min(found)[1]:.1f} MB")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--load", action="store_true")
    if arguments.parse_args().load:
        loading()
    plain = tiktoken.Encoding("o200k", pat_str=PATTERN, mergeable_ranks=O200kRanks().as_dict(), special_tokens={})
    for backend in ("tiktoken", "splintr"):
        try:
            compare(o200k_harmony(backend), backend, plain)
        except Exception as error:  # noqa: BLE001 - a backend that is not installed is a line of the table
            print(f"\nbackend {backend}: {error}")


if __name__ == "__main__":
    main()
