"""Every built-in template against the releases of LMDeploy themselves: ``make lmdeploy`` fetches them and runs this.

It is no part of the test run, because the wheels have a hundred megabytes each. docs/templates.md says what differs and
is therefore not compared: a history in a later round, content in parts, and a call's arguments where they are spelled
otherwise than Python spells JSON.
"""

from __future__ import annotations

import copy
import json
import os
import random
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import TemplateError
from antiphon.formats.template import builtin_templates
from kit.lmdeploy_release import RELEASES, SEED, Release, load_release

CASES = 200
"""Random histories a name, the same in every run."""

OURS = {"chatml", "internlm-7b", "internlm-7b@seed"}
"""Names that no release has: the plain form, and the base model that only the article has."""

HF = "hf"
"""The model's own template: it needs a model's tokenizer."""

ENCODED = {"deepseek-v3.2", "deepseek-v32", "deepseek-v4"}
"""Names that a release writes by a program of its own: here they have what it writes for turns without tools."""

CUT_TWICE = {"deepseek-chat"}
"""Its release cuts a text in the place of a history twice, the marker's colon too; here once, as a text by itself."""

WITHOUT_HISTORIES = {
    "baichuan-7b@seed", "base@seed", "falcon", "internlm-20b@seed", "internlm@seed", "llama", "llama@seed",
}  # fmt: skip
"""Names whose release renders single texts alone."""

COUNTING = {"chatglm", "chatglm2-6b"}
"""Names whose later rounds have the number that the release's object has counted up to."""

WITH_TOOLS = {
    "intern-s1", "internlm2", "internlm2-chat", "internlm2-chat-1_8b", "internlm2-chat-20b", "internlm2-chat-7b",
    "internlm3", "interns1", "internvl-internlm2", "internvl2-internlm2", "internvl2_5", "llama3_1", "llama3_2",
    "qwen2d5", "qwen2d5-vl", "qwen3", "qwq", "qwq_preview",
}  # fmt: skip
"""The names whose template offers tools, in the last release that has them."""

TOOLS = [
    {"name": "weather", "description": "Tells the weather of a {name}.", "parameters": {"type": "object"}},
    {
        "name": "add",
        "description": "Adds “two” numbers.\nBoth.",
        "parameters": {"properties": {"a": {"type": "integer"}}},
    },
]


@cache
def releases() -> dict[str, Release]:
    folder = Path(os.environ["LMDEPLOY_RELEASES"])
    return {version: load_release(folder, version) for version in RELEASES}


def release_of(name: str) -> tuple[Release, str]:
    """The release that a name means, and what it is called there."""
    if name.endswith("@seed"):
        return releases()[SEED], name.removesuffix("@seed")
    return next(release for release in reversed(releases().values()) if name in release.classes), name


NAMES = sorted(set(builtin_templates().names) - OURS - {HF})


def history(rng: random.Random, *, tools: bool, results: bool) -> list[dict[str, Any]]:
    """Roles in any order that a client may send; ``results``: of tools, behind answers that call some (``tools``)."""
    roles = ["system"] * rng.randint(0, 2) + [rng.choice(("user", "assistant")) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.3:
        roles.insert(rng.randint(0, len(roles)), "system")
    messages: list[dict[str, Any]] = []
    for role in roles:
        messages.append(message(role, rng))
        if results and role == "assistant" and rng.random() < 0.5:
            count = rng.randint(1, 2)
            if tools:
                messages[-1]["tool_calls"] = [call(rng, n) for n in range(count)]
            messages += [message("tool", rng) for _ in range(count)]
    return messages


def message(role: str, rng: random.Random) -> dict[str, Any]:
    """A text that may be empty or have blanks around it; perhaps a name that a template may know."""
    text = rng.choice(["Hi", "Why?", " two\nlines ", "書生", "", "x: ", "<function=f>{}</function>"])
    named: dict[str, Any] = {"role": role, "content": text}
    if rng.random() < 0.2:
        named["name"] = rng.choice(("plugin", "interpreter", *(["add"] if role == "tool" else [])))
    return named


def in_turn(rng: random.Random) -> list[dict[str, Any]]:
    """Users and answers one after the other, and a user's text at the end."""
    roles = ["system"] * rng.randint(0, 1) + ["user", "assistant"] * rng.randint(0, 3) + ["user"]
    return [{"role": role, "content": rng.choice(["Hi", "Why?", " two\nlines ", "x: "])} for role in roles]


def call(rng: random.Random, number: int) -> dict[str, Any]:
    """Its arguments spelled as Python spells JSON: LMDeploy reads and writes them anew, we leave them as they are."""
    arguments: Any = {"a": rng.randint(0, 9), "b": "“x”"}
    if rng.random() < 0.5:
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"id": f"c{number}", "type": "function", "function": {"name": "add", "arguments": arguments}}


def upstream(release: Release, name: str, messages: object, **settings: Any) -> str | None:
    """Its prompt; None where it cannot make one."""
    try:
        return release.prompt(name, messages, **settings)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return None


def here(name: str, messages: Any, **settings: Any) -> str | None:
    template: Any = builtin_templates().get(name)()
    try:
        if isinstance(messages, str):
            return str(template.get_prompt(messages, **settings))
        return str(template.messages2prompt(copy.deepcopy(messages), **settings))
    except TemplateError:
        return None


def different(name: str, histories: list[Any], **settings: Any) -> list[Any]:
    """Where the two differ; what the release cannot render is not compared."""
    release, own = release_of(name)
    rendered = [(messages, upstream(release, own, messages, **settings)) for messages in histories]
    assert any(right is not None for _, right in rendered), f"{release.version} renders none"
    pairs = [(messages, here(name, messages, **settings), right) for messages, right in rendered if right is not None]
    return [pair for pair in pairs if pair[1] != pair[2]]


def test_every_name_of_every_release_is_here_and_no_other() -> None:
    named = {name for release in releases().values() for name in release.classes}
    seed = {f"{name}@seed" for name in releases()[SEED].classes}
    assert set(builtin_templates().names) == named | seed | OURS


@pytest.mark.parametrize("name", NAMES)
def test_a_single_text(name: str) -> None:
    texts = ["Hi", "", " Why?\n", "two\n\nlines", "書生"]
    assert different(name, texts) == []


@pytest.mark.parametrize("name", sorted(set(NAMES) - CUT_TWICE))
def test_a_single_text_in_the_place_of_a_history(name: str) -> None:
    release, own = release_of(name)
    template: Any = builtin_templates().get(name)()
    assert template.messages2prompt("Hi") == release.classes[own]().messages2prompt("Hi")


@pytest.mark.parametrize("name", sorted(set(NAMES) - COUNTING))
def test_a_text_of_a_later_round(name: str) -> None:
    """In the last release whose templates know of rounds."""
    release, own = release_of(name)
    if "sequence_start" not in signature(release.classes[own].get_prompt).parameters:
        release = releases()["0.14.0"]
    texts = ["Hi", " Why?\n", ""]
    right = [upstream(release, own, text, sequence_start=False) for text in texts if own in release.classes]
    assert [here(name, text, sequence_start=False) for text in texts[: len(right)]] == right


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_HISTORIES))
def test_a_history(name: str) -> None:
    rng = random.Random(name)
    encoded = name in ENCODED
    make = in_turn if encoded else lambda rng: history(rng, tools=False, results=rng.random() < 0.3)
    assert different(name, [make(rng) for _ in range(CASES)]) == []


def test_the_names_that_offer_tools_in_their_release() -> None:
    found = {name for name in NAMES if release_of(name)[0].takes(release_of(name)[1], "tools")}
    assert found == WITH_TOOLS


@pytest.mark.parametrize("name", sorted(WITH_TOOLS))
def test_a_history_with_tools(name: str) -> None:
    rng = random.Random(name)
    histories = [history(rng, tools=True, results=True) for _ in range(CASES)]
    assert different(name, histories, tools=TOOLS) == []
    assert different(name, histories) == []


@pytest.mark.parametrize("name", NAMES)
def test_generation_settings(name: str) -> None:
    """Sampling stood in the classes up to 0.2.5, a session's length up to 0.5.1: the last that has a setting counts."""
    _, own = release_of(name)
    oldest_first = [releases()[SEED]] if name.endswith("@seed") else list(releases().values())
    right: dict[str, Any] = {}
    for release in oldest_first:
        if own in release.classes:
            right |= release.settings(own)
    template: Any = builtin_templates().get(name)()
    mine = {key: getattr(template, key) for key in right}
    assert {key: list(value) if key == "stop_words" and value else value for key, value in mine.items()} == right
