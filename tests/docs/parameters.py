"""Writes docs/parameters.md: each field of a chat request is asked of each dialect and of a poorer engine.

Run as a script it prints the page: ``python tests/docs/parameters.py > docs/parameters.md``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from antiphon.api import Dialect, Limits
from antiphon.api.convert.chat import Reading, to_turn
from antiphon.api.convert.fields import check_fields
from antiphon.api.dialects import spoken
from antiphon.api.errors import api_error
from antiphon.api.schemas.chat import ChatRequest
from antiphon.api.wire import decode
from antiphon.engines import EngineInfo, ScriptedEngine
from antiphon.errors import RequestError
from antiphon.generation import Model, plan_turn
from antiphon.generation.compile import ReplyCompiler
from api.kit import CHATML, TOKENIZER

TOOL = {"type": "function", "function": {"name": "f", "description": "Does it."}}
SAMPLES: dict[str, dict[str, Any]] = {
    "messages": {}, "model": {}, "stream": {"stream": True},
    "stream_options": {"stream": True, "stream_options": {"include_usage": True}},
    "n": {"n": 2}, "max_tokens": {"max_tokens": 9}, "max_completion_tokens": {"max_completion_tokens": 9},
    "temperature": {"temperature": 0.5}, "top_p": {"top_p": 0.5}, "top_k": {"top_k": 5}, "min_p": {"min_p": 0.1},
    "seed": {"seed": 7}, "stop": {"stop": ["x"]}, "presence_penalty": {"presence_penalty": 1},
    "frequency_penalty": {"frequency_penalty": 1}, "repetition_penalty": {"repetition_penalty": 1.1},
    "logit_bias": {"logit_bias": {"5": 1}}, "logprobs": {"logprobs": True},
    "top_logprobs": {"logprobs": True, "top_logprobs": 3}, "ignore_eos": {"ignore_eos": True},
    "tools": {"tools": [TOOL]}, "tool_choice": {"tools": [TOOL], "tool_choice": "required"},
    "parallel_tool_calls": {"parallel_tool_calls": False}, "server_tools": {"server_tools": ["python"]},
    "response_format": {"response_format": {"type": "json_object"}}, "reasoning_effort": {"reasoning_effort": "low"},
    "chat_template": {"chat_template": "{{ 1 }}"}, "chat_template_kwargs": {"chat_template_kwargs": {"x": 1}},
    "continue_final_message": {
        "continue_final_message": True,
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
    },
    "error_behavior": {"error_behavior": "truncate"}, "user": {"user": "u"}, "metadata": {"metadata": {"a": "b"}},
    "prompt_cache_key": {"prompt_cache_key": "k"},
    "session_id": {"session_id": "s"}, "sequence_start": {"session_id": "s", "sequence_start": True},
    "sequence_end": {"session_id": "s", "sequence_end": True},
    "safety_identifier": {"safety_identifier": "s"}, "service_tier": {"service_tier": "auto"},
    "functions": {"functions": [{"name": "f"}]}, "function_call": {"function_call": "auto"},
    "modalities": {"modalities": ["text", "audio"]}, "audio": {"audio": {"voice": "v"}},
    "web_search_options": {"web_search_options": {"x": 1}}, "min_tokens": {"min_tokens": 3},
    "best_of": {"best_of": 2}, "store": {"store": True},
}  # fmt: skip
"""A request that makes each field matter. A field without a sample fails the test of this page."""


class Poor(ScriptedEngine):
    """Holds no grammar, tells no log probabilities, makes one answer at a time."""

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(name="poor", context=8192, slots=1)


def model(engine: ScriptedEngine) -> Model:
    compiler = ReplyCompiler(CHATML, TOKENIZER, set())
    return Model(name="small", engine=engine, tokenizer=TOKENIZER, format=CHATML, compiler=compiler)


RICH, POOR = model(ScriptedEngine([])), model(Poor([]))


def refusal(sample: dict[str, Any], dialect: Dialect, answering: Model) -> int | None:
    """The status of the answer to a request with the sample; None: it is taken."""
    body = {"model": "small", "messages": [{"role": "user", "content": "Hi"}], **sample}
    try:
        wire, unknown = decode(json.dumps(body).encode(), ChatRequest)
        check_fields(wire, unknown, dialect)
        plan_turn(answering, to_turn(wire, Reading(dialect, Limits())))
    except RequestError as error:
        return api_error(error, dialect).status
    return None


def cell(name: str, plain: Dialect, strict: Dialect) -> str:
    refused = refusal(SAMPLES[name], plain, RICH)
    if refused is not None:
        return str(refused)
    told = str(plain.ranges[name]) if name in plain.ranges else "yes"
    strictly = refusal(SAMPLES[name], strict, RICH)
    if strictly is not None:
        return f"{told}; strict {strictly}"
    narrow = strict.ranges.get(name)
    return told if narrow in (None, plain.ranges.get(name)) else f"{told}; strict {narrow}"


def page() -> str:
    plain, strict = spoken(), spoken(strict=True)
    lines = [
        "# Parameters of chat completions",
        "",
        "Written by `python tests/docs/parameters.py`, which asks each field of each dialect.",
        "",
        "`yes`: taken and honoured, in the API's own range. A status: the field is refused with it. `strict` tells",
        "what changes where the dialect is held to the letter of its document. The last column tells which engines do",
        "it; `declared`: those that hold grammars, tell log probabilities, or make several answers at once.",
        "",
        f"| field | {' | '.join(plain)} | engine |",
        f"|---|{'---|' * len(plain)}---|",
    ]
    assert SAMPLES.keys() == set(ChatRequest.__struct_fields__)
    for name in SAMPLES:
        cells = [cell(name, plain[dialect], strict[dialect]) for dialect in plain]
        openai = plain["openai"]
        rich, poor = (refusal(SAMPLES[name], openai, answering) for answering in (RICH, POOR))
        engine = "none" if rich is not None else "every" if poor is None else "declared"
        lines.append(f"| `{name}` | {' | '.join(cells)} | {engine} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
