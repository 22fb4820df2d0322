"""Databricks' Foundation Model API: one system message, small tools; to the letter, streams by default."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from antiphon.formats import NO_OPINION
from antiphon.generation import Range
from antiphon.wire.dialect import DOCUMENTED, CompletionRules, Dialect, Shape

from .tables import (
    calls_alone,
    described_tools,
    objects_of_arguments,
    one_id_a_call,
    one_leading_system,
    plain_contents,
    properties,
    roles,
    strict_subset,
    tool_ids,
)

ROLES = ("system", "user", "assistant", "tool")

CHAT = (
    "messages max_tokens stream temperature top_p top_k stop n tool_choice tools response_format logprobs top_logprobs"
)
COMPLETION = "prompt max_tokens stream temperature top_p top_k error_behavior n stop suffix echo use_raw_prompt"
EMBEDDING = "input instruction"
PARAMETERS = frozenset(f"model {CHAT} {COMPLETION} {EMBEDDING}".split())
"""``model`` because the endpoint's name is one."""

NUMBERS = {
    "max_tokens": Range(0, 2**63 - 1, above=True),
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, above=True),
    "top_k": Range(0, 2**31 - 1, above=True),
    "top_logprobs": Range(0, 20),
    "n": Range(0, 2**31 - 1, above=True),
}

SHAPES = {
    "messages[]": Shape("role", "content tool_calls tool_call_id"),
    "messages[].tool_calls[]": Shape("id type function"),
    "messages[].tool_calls[].function": Shape("name arguments"),
    "tools[]": Shape("type function"),
    "tools[].function": Shape("name", "description parameters strict"),
    "tool_choice": Shape("type function"),
    "tool_choice.function": Shape("name"),
    "response_format": Shape("type", "json_schema"),
    "response_format.json_schema": Shape("name schema", "description strict"),
}
"""The document's tables of ChatMessage, ToolCall and so on."""

EndpointMode = Literal["any", "pay_per_token", "provisioned"]
"""Resolution D-01: ``n`` is for provisioned endpoints, ``error_behavior`` for those that are paid by the token."""

REFUSED: dict[EndpointMode, frozenset[str]] = {
    "any": frozenset(),
    "pay_per_token": frozenset({"n"}),
    "provisioned": frozenset({"error_behavior"}),
}


def databricks(*, strict: bool = False, mode: EndpointMode = "any", streams: bool | None = None) -> Dialect:
    """``streams`` is for requests that do not say; None: where ``strict``, for MLflow's ``predict`` cannot read one.

    ``strict``: the letter of the document: the plural object name, 15 properties, no text beside tool calls.
    """
    letter = (plain_contents, calls_alone, one_id_a_call, objects_of_arguments, described_tools, roles(*ROLES))
    return Dialect(
        name="databricks",
        prefixes=("/serving-endpoints", "/databricks/v1", "/ai-gateway/mlflow/v1", "/ai-gateway/openai/v1"),
        strict=strict,
        parameters=PARAMETERS,
        refused=REFUSED[mode],
        ranges=NUMBERS if strict else {**NUMBERS, "top_k": Range(-1, 2**31 - 1)},
        shapes=SHAPES if strict else {},
        checks=(one_leading_system, tool_ids, properties(15 if strict else 16), strict_subset)
        + (letter if strict else ()),
        max_tools=32,
        completions=CompletionRules(raw=False, appends_suffix=True, index_of_prompt=True),
        defaults=replace(DOCUMENTED, max_tokens=0) if strict else NO_OPINION,
        fallback=NO_OPINION if strict else DOCUMENTED,
        stream_default=strict if streams is None else streams,
        whole="chat.completions" if strict else "chat.completion",
        usage="last",
    )
