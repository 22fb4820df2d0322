"""A session of 30 requests with 100 tools of which ten are used: prompt tokens that an engine evaluates, counted.

python bench/deferred_tools.py

Each tool is searched, called and answered. ``deferred``: it stands where the search found it. ``all``: a hundred stand
at the head. ``found``: those that were found stand there, so that each search changes the head. The default model on
the embedded engine, asked by Anthropic's client.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anthropic import Anthropic

TOOLS, USED = 100, 10
WORDS = ("orders", "stock", "people", "rooms", "bills", "roads", "plants", "books", "songs", "ships")
SEARCH = {
    "name": "ToolSearch",
    "description": "Finds tools by what they do.",
    "input_schema": {
        "type": "object",
        "properties": {"query": {"type": "string", "maxLength": 20}},
        "required": ["query"],
    },
}
Fields = dict[str, Any]


def tool(number: int) -> Fields:
    word = WORDS[number % len(WORDS)]
    number_of = {"type": "integer", "minimum": 1, "maximum": 99}
    schema = {"type": "object", "properties": {"id": number_of}, "required": ["id"]}
    return {"name": f"get_{word}_{number}", "description": f"Gets {word} of shop {number}.", "input_schema": schema}


ALL = [tool(number) for number in range(TOOLS)]


def offered(way: str, found: int) -> list[Fields]:
    """The tools of a request after that many were found."""
    if way == "deferred":
        return [SEARCH, *({**one, "defer_loading": True} for one in ALL)]
    return [SEARCH, *(ALL if way == "all" else ALL[:found])]


def result(reply: Any, content: Any) -> Fields:
    use = next(block for block in reply.content if block.type == "tool_use")
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": content}]}


def session(client: Anthropic, way: str) -> tuple[int, int]:
    """The tokens of all prompts, and those of them that were in the cache."""
    messages: list[Fields] = []
    total = cached = 0

    def ask(message: Fields, found: int, name: str | None) -> Any:
        nonlocal total, cached
        messages.append(message)
        chosen: Fields = {"type": "tool", "name": name} if name else {"type": "auto"}
        reply = client.messages.create(
            model="default", max_tokens=48 if name else 8, system=f"A shop, kept {way}.",
            messages=messages, tools=offered(way, found), tool_choice=chosen,
        )  # fmt: skip
        cached += reply.usage.cache_read_input_tokens or 0
        total += reply.usage.input_tokens + (reply.usage.cache_read_input_tokens or 0)
        said = [
            block.model_dump(exclude_none=True) for block in reply.content if (block.type == "tool_use") == bool(name)
        ]
        messages.append({"role": "assistant", "content": said or "Done."})
        return reply

    for number in range(USED):
        name = ALL[number]["name"]
        searched = ask({"role": "user", "content": f"What is number {number}?"}, number, "ToolSearch")
        reference = [{"type": "tool_reference", "tool_name": name}] if way == "deferred" else name
        called = ask(result(searched, reference), number + 1, name)
        ask(result(called, f"It is {number * 7}."), number + 1, None)
    return total, cached


@contextmanager
def served() -> Iterator[str]:
    command = [sys.executable, "-m", "antiphon", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        announced = ""
        while not announced.endswith("}\n"):
            announced += server.stdout.readline()
        try:
            yield json.loads(announced)["url"]
        finally:
            server.terminate()


def main() -> None:
    with served() as url, Anthropic(base_url=url, api_key="none") as client:
        for way in ("deferred", "all", "found"):
            total, cached = session(client, way)
            share = cached / total
            print(f"{way:>9}  {total:6d} tokens of prompts, evaluated {total - cached:6d}, {share:.1%} from the cache")


main()
