"""MindIE's inference API: narrow ranges, limits from its configuration, its own ends and errors."""

from __future__ import annotations

import re
from dataclasses import replace

from antiphon.conversation import FinishReason
from antiphon.formats import NO_OPINION
from antiphon.generation import Range
from antiphon.wire.dialect import DOCUMENTED, Dialect, Shape

from .tables import contents, plain_contents, roles, total_content

ROLES = ("system", "user", "assistant", "tool")

FINISH = {
    FinishReason.STOP_EOS: "eos_token",
    FinishReason.STOP_SEQUENCE: "eos_token",
    FinishReason.TOOL_CALL: "eos_token",
    FinishReason.LENGTH_OUTPUT: "length",
    FinishReason.LENGTH_CONTEXT: "length",
    FinishReason.CANCELLED: "stop_sequence",
    FinishReason.ERROR: "stop_sequence",
    FinishReason.CONTENT_FILTER: "stop_sequence",
    FinishReason.TIMEOUT: "stop_sequence",
}
"""``stop_sequence`` never means a stop string that matched (resolution X-02)."""

REASONS = {
    "eos_token": FinishReason.STOP_EOS,
    "length": FinishReason.LENGTH_OUTPUT,
    "stop_sequence": FinishReason.CANCELLED,
}

PARAMETERS = frozenset(
    "model messages max_tokens presence_penalty frequency_penalty seed temperature top_p stream".split()
)

MODEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,254}[A-Za-z0-9])?")


def mindie(
    *, strict: bool = False, max_seq_len: int = 2560, max_iter_times: int = 512, max_content: int = 512 * 2**10
) -> Dialect:
    """``strict``: what the document forbids is refused; else it is taken as later releases take it.

    ``max_seq_len`` and ``max_iter_times`` are MindIE's ``maxSeqLen`` and ``maxIterTimes`` in tokens; ``max_content``
    is in UTF-16 units, all messages together (resolution X-17).
    """
    numbers = {
        "max_tokens": Range(0, max_iter_times if strict else 2**63 - 1, above=True),
        "temperature": Range(0, 2, above=strict),
        "top_p": Range(0, 1, above=True),
        "seed": Range(0, 2**64 - 1, above=strict),
        "presence_penalty": Range(-2, 2),
        "frequency_penalty": Range(-2, 2),
    }
    letter = (plain_contents, roles(*ROLES)) if strict else ()
    return Dialect(
        name="mindie",
        strict=strict,
        parameters=PARAMETERS,
        required=frozenset({"model"}),
        model_name=MODEL_NAME,
        ranges=numbers | ({"n": Range(1, 1)} if strict else {}),
        shapes={"messages[]": Shape("role", "content")} if strict else {},
        checks=(total_content(max_content), contents(strict=strict), *letter),
        max_output=max_iter_times,
        defaults=replace(DOCUMENTED, max_tokens=max_iter_times) if strict else NO_OPINION,
        fallback=NO_OPINION if strict else DOCUMENTED,
        max_sequence=max_seq_len,
        tools_answer_in_order=True,
        finish=FINISH,
        other_finish="invalid flag",
        reasons=REASONS,
        role="every",
        bare=True,
    )
