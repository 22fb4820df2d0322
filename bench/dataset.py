"""`antiphon dataset check` and `render` over rows of about 1,000 tokens, beside `apply_chat_template` of transformers.

python bench/dataset.py [--rows 20000] [--workers 2] [--transformers PYTHON] [--transformers-rows 500]

Both have one vocabulary (the default model's, as a folder of Hugging Face's) and one template with ``generation`` tags.
What is printed is processor time of all processes, a row, without what the start of them takes (as that of the other
way is not counted either), and their greatest memory together. ``--transformers``: the
interpreter of an environment that has transformers; without one, the other way is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from antiphon.catalog.files.store import ModelStore
from antiphon.config import load_config, shipped_entries
from antiphon.engines.gguf_file import read_gguf_metadata

CONFIG = """\
model = "bench"
[models.bench]
engine = "vllm"
url = "http://127.0.0.1:1"
tokenizer = "{folder}"
"""
TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "assistant" %}<|im_start|>assistant
{% generation %}{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>{% endgeneration %}
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city, now or at an hour of the day.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "hour": {"type": "integer", "minimum": 0, "maximum": 23}},
            "required": ["city"],
        },
    },
}
OTHER_WAY = """
import json, os, sys, time
os.environ["HF_DATASETS_OFFLINE"] = "1"
from datasets import disable_progress_bars, load_dataset
from transformers import AutoTokenizer
folder, rows, cache = sys.argv[1:]
disable_progress_bars()
tokenizer = AutoTokenizer.from_pretrained(folder)
began = time.process_time()
def tokenize(row):
    return tokenizer.apply_chat_template(
        row["messages"], tools=row["tools"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
data = load_dataset("json", data_files=rows, split="train", cache_dir=cache)
data = data.map(tokenize, remove_columns=data.column_names)
data.to_parquet(cache + "/rows.parquet")
seconds = time.process_time() - began
tokens, trained = (sum(map(sum, data[name])) for name in ("attention_mask", "assistant_masks"))
print(json.dumps({"seconds": seconds, "rows": len(data), "tokens": tokens, "trained": trained}))
"""
"""What TRL does before it trains on conversations of which the assistant's part counts."""


def texts(seed: int) -> Iterator[str]:
    """Sentences of words whose frequencies fall as those of a language do, punctuation and numbers among them."""
    source = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(source.choices(letters, weights=range(26, 0, -1), k=source.randint(1, 9))) for _ in range(20_000)]
    weights = list(accumulate(1 / (i + 10) for i in range(len(words))))
    while True:
        sentence = source.choices(words, cum_weights=weights, k=source.randint(5, 25))
        if source.random() < 0.1:
            sentence.append(str(source.randint(0, 9999)))
        yield " ".join(sentence).capitalize() + source.choice([". ", ". ", "? ", ", ", "!\n"])


def rows(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Chat rows of about 1,000 tokens; each third has reasoning and calls of a tool with their results."""
    source, said = random.Random(seed), texts(seed)

    def text(words: int) -> str:
        parts: list[str] = []
        while sum(map(len, parts)) < 4 * words:
            parts.append(next(said))
        return "".join(parts).strip()

    for number in range(count):
        scale = source.lognormvariate(-0.1, 0.45)
        messages: list[dict[str, Any]] = [{"role": "system", "content": text(15)}]
        for turn in range(3):
            messages.append({"role": "user", "content": text(int(42 * scale))})
            if number % 3 == 0 and turn < 2:
                arguments = {"city": text(1)[:20], "hour": turn}
                call = {
                    "id": f"call{turn:05}",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": arguments},
                }
                thought = {
                    "role": "assistant",
                    "content": "",
                    "reasoning_content": text(int(22 * scale)),
                    "tool_calls": [call],
                }
                messages += [
                    thought,
                    {"role": "tool", "tool_call_id": f"call{turn:05}", "content": text(int(30 * scale))},
                ]
            messages.append({"role": "assistant", "content": text(int(74 * scale))})
        yield {"messages": messages, "tools": [TOOL]} if number % 3 == 0 else {"messages": messages}


def write_folder(folder: Path) -> None:
    """The default model's vocabulary and the template, as files of Hugging Face's."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    store = ModelStore(Path(load_config(os.environ).config.store.folder))
    store.pull("smollm2", shipped_entries()["smollm2"])
    path = store.path("smollm2", shipped_entries()["smollm2"])
    metadata = read_gguf_metadata(Path(str(path)))
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True) for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


class Memory(threading.Thread):
    """Greatest memory of a process and its children together, in bytes, as it is looked at ten times a second."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._process = process

    def run(self) -> None:
        while self._process.poll() is None:
            try:
                top = psutil.Process(self._process.pid)
                self.most = max(
                    self.most, sum(one.memory_full_info().pss for one in (top, *top.children(recursive=True)))
                )
            except psutil.Error:
                pass
            time.sleep(0.1)


def measured(*arguments: str) -> tuple[float, float, int]:
    """The processor time and the seconds of a run of the program, and the most memory it took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "antiphon", *arguments], stdout=subprocess.DEVNULL)
    memory = Memory(process)
    memory.start()
    code = process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert code in (0, 1), code
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return processor, time.perf_counter() - began, memory.most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--transformers", help="the interpreter of an environment that has transformers")
    parser.add_argument("--transformers-rows", type=int, default=500)
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (model := folder / "model").mkdir()
        write_folder(model)
        config = folder / "config.toml"
        config.write_text(CONFIG.format(folder=model))
        data = folder / "rows.jsonl"
        with data.open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows(options.rows))
        size = data.stat().st_size / options.rows
        print(f"{options.rows} rows of {size:.0f} bytes, {options.workers} processes")
        given = (str(data), "--config", str(config), "--workers", str(options.workers))
        each: dict[str, float] = {}
        start, _, _ = measured("dataset", "stats", *given, "--limit", "1")
        print(f"{'start':<12} {start:6.2f} s of processor time, which the rows below do not have")
        for action, more in (
            ("check", ("-o", str(folder / "checked"))),
            ("render", ("-o", str(folder / "rendered"), "--to", "parquet")),
        ):
            processor, seconds, memory = measured("dataset", action, *given, *more)
            each[action] = (processor - start) / options.rows
            row = f"{each[action] * 1e3:6.2f} ms a row of processor time"
            print(f"{action:<12} {row}, {seconds:.0f} s, {memory / 1e6:.0f} MB")
        if options.transformers:
            some = folder / "some.jsonl"
            with data.open() as file:
                some.write_text("".join(islice(file, options.transformers_rows)))
            command = [options.transformers, "-c", OTHER_WAY, str(model), str(some), str(folder / "cache")]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout.splitlines()[-1])
            own = json.loads(subprocess.run(
                [sys.executable, "-m", "antiphon", "dataset", "stats", str(some), "--config", str(config), "--json"],
                check=True, capture_output=True,
            ).stdout)  # fmt: skip
            assert (own["tokens"], own["trained"]) == (found["tokens"], found["trained"])
            other = found["seconds"] / found["rows"]
            row, ratio = f"{other * 1e3:6.2f} ms a row of processor time", other / each["render"]
            print(f"{'transformers':<12} {row}, the same ids and masks; render is {ratio:.1f} x")
        shutil.rmtree(folder / "rendered")


if __name__ == "__main__":
    main()
