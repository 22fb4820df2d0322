"""Rendering chat templates: Antiphon against plain Jinja, and declared templates against plain string joining.

python bench/templates.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from timeit import repeat

from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon.conversation import Conversation, Message, Role
from antiphon.formats import Format
from antiphon.formats.template import JinjaCache, builtin_templates, jinja_format, template_format
from antiphon.formats.template.sandbox import CompiledTemplate
from antiphon.tokens import Control, Piece

SOURCES = Path(__file__).parents[1] / "tests" / "formats" / "template" / "jinja"
CONTROLS = [Control(s) for s in ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")]
ROUND = [("user", "What is the weather like in Paris today? " * 4), ("assistant", "It rains. " * 20)]


def best(call: Callable[[], object], number: int = 200) -> float:
    """Microseconds a call, the best of five."""
    return min(repeat(call, number=number, repeat=5)) / number * 1e6


def _pieces(format: Format, conversation: Conversation) -> list[Piece]:
    return list(format.render(conversation))


def main() -> None:
    rounds = [(role, text) for _ in range(10) for role, text in ROUND] + [ROUND[0]]
    conversation = Conversation(tuple(Message(role=Role(role), text=text) for role, text in rounds))
    dicts = [{"role": role, "content": text} for role, text in rounds]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = json.dumps
    print(f"{'21 messages, rendered':28}{'own us':>10}{'plain us':>10}{'ratio':>8}")
    for name in ("chatml", "qwen2", "qwen3"):
        source = (SOURCES / f"{name}.jinja").read_text()
        format = jinja_format(source, CONTROLS, cache=JinjaCache())
        plain = environment.from_string(source)
        own = best(partial(_pieces, format, conversation))
        peer = best(partial(plain.render, messages=dicts, tools=None, add_generation_prompt=True))
        print(f"{'jinja ' + name + ' (pieces)':28}{own:10.0f}{peer:10.0f}{own / peer:8.2f}")
        compiled = CompiledTemplate(source)
        variables = {"messages": dicts, "tools": None, "add_generation_prompt": True}
        own = best(partial(compiled.render, variables))
        print(f"{'jinja ' + name + ' (text alone)':28}{own:10.0f}{peer:10.0f}{own / peer:8.2f}")
    declared = template_format("chatml", CONTROLS)
    template = builtin_templates().get("chatml")()
    own = best(partial(_pieces, declared, conversation))
    peer = best(lambda: template.messages2prompt(dicts))
    print(f"{'declared chatml (pieces)':28}{own:10.0f}{peer:10.0f}{own / peer:8.2f}   (plain: its own text)")


if __name__ == "__main__":
    main()
