"""Our samples beside TRL, transformers and torch: `make check-training`, in an environment that has them."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, DataCollatorForSeq2Seq, LlamaConfig, LlamaForCausalLM
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from antiphon import training
from antiphon.catalog.files.store import ModelStore
from antiphon.config import load_config, shipped_entries
from bridge.templates import source
from docs.blocks import ROOT, blocks
from kit.plain_jinja import conversation_of
from training.marks import ARGUED, CHATS, MARKED, Messages, Template, chats, template_of, tools_of

PAGE = ROOT / "docs" / "training.md"
TABLE = re.compile(r"^\| templates \|.*\n(?:\|.*\n)+", re.MULTILINE)
HERE = "use_cpu=True, bf16=False, logging_steps=1, report_to='none', disable_tqdm=True"
"""What the page's settings of TRL get for a machine without an accelerator."""
EDGE = "cut at an edge"
KINDS = (*ARGUED, EDGE)


def default_model() -> Path:
    named = os.environ.get("ANTIPHON_TEST_MODEL")
    store = ModelStore(Path(load_config(os.environ).config.store.folder))
    path = Path(named) if named else store.path("smollm2", shipped_entries()["smollm2"])
    if path is None:
        raise SystemExit("the default model is not here: make model")
    return path


# Masks beside those of transformers, id by id.


@dataclass
class Row:
    """How many ids of a template's chats are alike in both, and how many of each kind differ."""

    name: str
    alike: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


Place = tuple[int, int, int]
"""Start and end of an id's characters in the text, and the id."""


def compared(name: str, vocabulary: Path, folder: Path) -> Row:
    known, row = source(name), Row(name)
    tokenizer = AutoTokenizer.from_pretrained(vocabulary)
    tokenizer.add_special_tokens({"additional_special_tokens": [*map(str, known.format.controls)]})
    tokenizer.eos_token = known.eos_token
    tokenizer.chat_template = template_of(known).text
    tokenizer.save_pretrained(folder)
    renderer = training.Renderer(folder)
    special = {"bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
    stops = [str(stop) for stop in renderer.format.stops]
    template = template_of(known)._replace(special=special, stops=stops, today=date.today())
    for chat, messages in chats(name):
        try:
            compare(row, template, messages, renderer, tokenizer)
        except AssertionError as error:
            raise SystemExit(f"{name}, {chat}: {error}") from error
    return row


def compare(row: Row, template: Template, messages: Messages, renderer: training.Renderer, tokenizer: Any) -> None:
    text, marked = template.marks(messages)
    expected, why = template.expected(messages, text, marked)
    theirs, mask = by_transformers(template, messages, text, tokenizer)
    for (start, end, _), own in zip(theirs, mask, strict=True):
        assert own == any(marked[start:end]), f"transformers does not mark as the template does: {text[start:end]!r}"
    sample = renderer.render(conversation_of(messages, tools_of(messages), template.today))
    ours = places(sample, renderer, text)
    for (start, end, _), own in zip(ours, sample.sampled, strict=True):
        assert {*expected[start:end]} == {own == 1}, f"sampled is {own}: {text[:start]} >>{text[start:end]}<<"
    edges = [i for i, (before, after) in enumerate(pairwise(expected), 1) if before != after]
    parts = [text[start:end] for start, end in pairwise([0, *edges, len(text)])]
    assert [*sample.ids] == [id for ids in tokenizer(parts, add_special_tokens=False)["input_ids"] for id in ids]
    shared = {*theirs}
    for place in ours:
        kind = next((why[i] for i in range(*place[:2]) if i in why), "") if place in shared else EDGE
        row.alike += not kind
        row.kinds[kind] += bool(kind)


def by_transformers(
    template: Template, messages: Messages, text: str, tokenizer: Any
) -> tuple[list[Place], Sequence[int]]:
    """The ids and the mask of ``apply_chat_template``."""
    given = [dict(message) for message in template.given(messages)]
    for message in given:
        if thought := message.get("reasoning_content"):
            message |= dict.fromkeys(("reasoning", "thinking", "thought"), thought)
    asked = {"tools": tools_of(messages) or None, "return_dict": True, "return_assistant_tokens_mask": True}
    found = tokenizer.apply_chat_template(given, **asked)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    assert encoded["input_ids"] == found["input_ids"], "transformers writes another text"
    ends = zip(encoded["offset_mapping"], found["input_ids"], strict=True)
    return [(start, end, id) for (start, end), id in ends], found["assistant_masks"]


def places(sample: training.Sample, renderer: training.Renderer, text: str) -> list[Place]:
    pieces = [renderer.tokenizer.piece(id) for id in sample.ids]
    spelled = [piece.decode("ascii") if isinstance(piece, bytes) else str(piece) for piece in pieces]
    assert "".join(spelled) == text, "another text"
    ends = pairwise(accumulate(map(len, spelled), initial=0))
    return [(start, end, id) for (start, end), id in zip(ends, sample.ids, strict=True)]


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown, those together that differ in the same kinds."""
    groups = defaultdict[tuple[str, ...], list[Row]](list)
    for row in rows:
        groups[tuple(kind for kind in KINDS if row.kinds[kind])].append(row)
    lines = [f"| templates | alike | {' | '.join(KINDS)} |", f"|---|{'--:|' * (len(KINDS) + 1)}"]
    for _, group in sorted(groups.items()):
        names = ", ".join(row.name.partition(": ")[2].removesuffix("_training") for row in group)
        cells = (sum(row.alike for row in group), *(sum(row.kinds[kind] for row in group) for kind in KINDS))
        lines.append(f"| {names} | {' | '.join(str(cell or '') for cell in cells)} |")
    return "\n".join(lines) + "\n"


# The examples of the page, and what trainers compute of our samples.


def train(vocabulary: Path) -> None:
    """Runs the page's code beside a small model, and compares its loss with transformers'."""
    tokenizer = AutoTokenizer.from_pretrained(vocabulary)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained("model")
    torch.manual_seed(0)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size)).save_pretrained("model")
    names: dict[str, Any] = {"__name__": "docs"}
    for block in sorted(blocks(PAGE, "python", "py"), key=lambda block: block.line):
        code = block.code.replace("max_steps=2", f"max_steps=2, {HERE}")
        exec(compile("\n" * (block.line - 1) + code, str(PAGE), "exec"), names)
    sample = names["samples"][0]
    (batch,) = names["trainer"].get_train_dataloader()
    assert batch["input_ids"].tolist() == [[*sample.ids]]
    assert batch["labels"].tolist() == [[*sample.labels]]
    assert names["trainer"].state.global_step == 2
    begun = float(names["trainer"].state.log_history[0]["loss"])
    loss = names["loss"](LlamaForCausalLM.from_pretrained("model"), [sample]).item()
    print(
        f"TRL took two steps on our row and kept its labels; its loss at first {begun}, by the page's loop {loss:.6f}"
    )
    assert abs(begun - loss) < 1e-5
    beside_collators(names, tokenizer)


def beside_collators(names: dict[str, Any], tokenizer: Any) -> None:
    samples = [names["renderer"].render(CHATS[chat]) for chat in ("turns", "system", "blanks", "thought")]
    rows = [{"input_ids": [*one.ids], "labels": [*one.labels]} for one in samples]
    model = LlamaForCausalLM.from_pretrained("model")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids, mask, weights = names["batch"](samples)
    collators = {
        "TRL": DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id),
        "transformers": DataCollatorForSeq2Seq(tokenizer),
    }
    for name, collate in collators.items():
        batch = collate([dict(row) for row in rows])
        assert torch.equal(batch["attention_mask"], mask)
        assert torch.equal(batch["input_ids"] * mask, ids)
        assert torch.equal(batch["labels"] != training.IGNORED, weights > 0)
        ours, theirs = names["loss"](model, samples).item(), model(**batch).loss.item()
        assert abs(ours - theirs) < 1e-5, (name, ours, theirs)
        print(f"the batch of {name}'s collator is ours; loss {ours:.6f}, by transformers {theirs:.6f}")
    before = names["loss"](model, samples).item()
    for _ in range(60):
        optimizer.zero_grad()
        names["loss"](model, samples).backward()
        optimizer.step()
    after = names["loss"](model, samples).item()
    print(f"60 steps: the loss of what is sampled goes from {before:.3f} to {after:.3f}")
    assert after < before / 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="templates with this in their names")
    parser.add_argument("--page", action="store_true", help="put the table into the page")
    args = parser.parse_args()
    gguf, rows = default_model(), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        vocabulary = Path(folder) / "vocabulary"
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(vocabulary)
        for i, name in enumerate(name for name in MARKED if name.startswith("trl") and args.only in name):
            rows.append(compared(name, vocabulary, Path(folder) / str(i)))
            print(f"{name:40} alike {rows[-1].alike:5}  {dict(+rows[-1].kinds) or ''}", flush=True)
        train(vocabulary)
    if args.page:
        PAGE.write_text(TABLE.sub(lambda _: table(rows), PAGE.read_text("utf-8")), "utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
