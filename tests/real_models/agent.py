"""An agent's loop: a model repairs a program with tools until its tests pass, by the official clients of three APIs.

``make agent`` runs this file, which prints each call and its result; the exit code is how many APIs were left unsolved.

PYTHONPATH=tests python tests/real_models/agent.py --model qwen-1.5b --threads 1
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from anthropic import Anthropic
from openai import OpenAI

from real_models.sides import Machine, Ours, ours
from real_models.tool_tasks import Json, text, tool
from real_models.weights import MODELS, model_file

FILES = {
    "cart.py": '''def total(prices):
    """The sum of the prices."""
    result = 0
    for price in prices:
        result -= price
    return result
''',
    "discount.py": '''def reduced(price, percent):
    """The price less so many percent of it."""
    return price + price * percent / 100
''',
    "sign.py": '''def capitals(text):
    """The text in capital letters."""
    return text.lower()
''',
    "tests.py": """from cart import total
from discount import reduced
from sign import capitals


def check(file, call, found, expected):
    if found != expected:
        raise SystemExit(f"FAILED: {file} is wrong: {call} gives {found!r}, expected {expected!r}")


check("cart.py", "total([2, 3])", total([2, 3]), 5)
check("discount.py", "reduced(200, 10)", reduced(200, 10), 180)
check("sign.py", "capitals('stop')", capitals("stop"), "STOP")
print("All tests passed. No more calls: tell the user what was wrong.")
""",
}
SYSTEM = (
    "You are a programmer who repairs Python files. Make one tool call at a time: run_tests tells which file is wrong, "
    "read_file shows it, correct_file corrects it. Then run_tests again, until all tests pass."
)
ASK = "Run the tests and repair the files that are wrong, until all tests pass."
TOOLS = (
    tool("run_tests", "Runs the tests and tells what is wrong", {}),
    tool("read_file", "Shows a file", {"path": text("Name of the file, such as cart.py")}, "path"),
    tool(
        "correct_file",
        "Writes the corrected file",
        {"path": text("Name of the file"), "corrected": text("The corrected code")},
        "path corrected",
    ),
)
MOST = 20
"""Replies of a loop."""
TOKENS = 300


@dataclass(slots=True)
class Workshop:
    """The files in their folder, and the tools over them. ``seen`` is each call with its result."""

    folder: Path
    seen: list[tuple[str, Json, str]] = field(default_factory=list)

    def call(self, name: str, arguments: str | Json) -> str:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
        result = self._result(name, **given)
        self.seen.append((name, given, result))
        return result

    def _result(self, name: str, path: str = "", corrected: str = "") -> str:
        if name == "run_tests":
            return self.tested()
        file = self.folder / Path(path).name
        if name == "correct_file" and file.name in FILES and file.name != "tests.py":
            same = file.read_text() == corrected
            file.write_text(corrected)
            return f"{file.name} is {'as it was: nothing changed' if same else 'written'}. Run the tests again."
        return file.read_text() if file.is_file() and name == "read_file" else f"There is no such file: {path}"

    def tested(self) -> str:
        command = [sys.executable, "-I", "-c", "import sys; sys.path.insert(0, '.'); import tests"]
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=30)
        except subprocess.TimeoutExpired:
            return "FAILED: the tests did not end"
        return (done.stdout + done.stderr[-400:]).strip()

    @property
    def solved(self) -> bool:
        return self.tested().startswith("All tests passed.")


@contextmanager
def workshop() -> Iterator[Workshop]:
    with TemporaryDirectory() as place:
        for name, content in FILES.items():
            (Path(place) / name).write_text(content)
        yield Workshop(Path(place))


class Side(Protocol):
    """One API. ``step`` runs the model once and its calls; it is False once the model made none."""

    def step(self, shop: Workshop) -> bool: ...


class ByChat:
    """Chat completions: the client keeps the messages."""

    def __init__(self, client: OpenAI, model: str) -> None:
        self._client, self._model = client, model
        self._messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASK}]

    def step(self, shop: Workshop) -> bool:
        answer = self._client.chat.completions.create(
            model=self._model, messages=self._messages, tools=list(TOOLS), max_tokens=TOKENS, temperature=0
        )
        message = answer.choices[0].message
        self._messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or ():
            result = shop.call(call.function.name, call.function.arguments)
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return bool(message.tool_calls)


class ByResponses:
    """Responses: the server keeps the conversation."""

    def __init__(self, client: OpenAI, model: str) -> None:
        self._client, self._model = client, model
        self._before: str | None = None
        self._new: Any = ASK
        self._tools: list[Any] = [{"type": "function", "strict": False, **one["function"]} for one in TOOLS]

    def step(self, shop: Workshop) -> bool:
        more = {"previous_response_id": self._before} if self._before else {}
        answer = self._client.responses.create(
            model=self._model, instructions=SYSTEM, input=self._new, tools=self._tools, max_output_tokens=TOKENS,
            temperature=0, **more,
        )  # fmt: skip
        self._before = answer.id
        calls = [item for item in answer.output if item.type == "function_call"]
        self._new = [
            {"type": "function_call_output", "call_id": call.call_id, "output": shop.call(call.name, call.arguments)}
            for call in calls
        ]
        return bool(calls)


class ByMessages:
    """Messages: the client keeps the messages."""

    def __init__(self, client: Anthropic, model: str) -> None:
        self._client, self._model = client, model
        self._messages: list[Any] = [{"role": "user", "content": ASK}]
        self._tools: list[Any] = [
            {
                "name": one["function"]["name"],
                "description": one["function"]["description"],
                "input_schema": one["function"]["parameters"],
            }
            for one in TOOLS
        ]

    def step(self, shop: Workshop) -> bool:
        answer = self._client.messages.create(
            model=self._model, system=SYSTEM, messages=self._messages, tools=self._tools, max_tokens=TOKENS,
            extra_body={"temperature": 0},
        )  # fmt: skip
        self._messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
        calls = [block for block in answer.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": shop.call(call.name, call.input)}
            for call in calls
        ]
        self._messages += [{"role": "user", "content": results}] if results else []
        return bool(calls)


@contextmanager
def sides(server: Ours) -> Iterator[dict[str, Side]]:
    patience = 1800.0
    with (
        OpenAI(base_url=f"{server.url}/v1", api_key="-", timeout=patience, max_retries=0) as openai,
        Anthropic(base_url=server.url, api_key="-", timeout=patience, max_retries=0) as anthropic,
    ):
        model = openai.models.list().data[0].id
        yield {
            "chat": ByChat(openai, model),
            "responses": ByResponses(openai, model),
            "messages": ByMessages(anthropic, model),
        }


def play(side: Side, shop: Workshop, tell: Callable[[str], None]) -> int:
    """Runs the loop; returns the number of calls."""
    for _ in range(MOST):
        told = len(shop.seen)
        goes_on = side.step(shop)
        for name, arguments, result in shop.seen[told:]:
            tell(f"  {name} {json.dumps(arguments)} -> {result!r}")
        if not goes_on:
            break
    return len(shop.seen)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen-1.5b")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(argv)
    weights = next(one for one in MODELS if one.name == given.model)
    wrong = 0
    with ours(model_file(weights), Machine(given.threads)) as server, sides(server) as apis:
        for name, side in apis.items():
            with workshop() as shop:
                began = time.perf_counter()
                print(name, flush=True)
                calls = play(side, shop, lambda line: print(line, flush=True))
                solved = shop.solved
                wrong += not solved
                seconds = time.perf_counter() - began
                print(f"{name}: {calls} calls, {'solved' if solved else 'NOT solved'}, {seconds:.0f} s", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
