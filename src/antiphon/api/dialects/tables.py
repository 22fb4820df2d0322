"""Rules of dialects for a chat request beyond ranges: rows of their tables of checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import msgspec

from antiphon.api.chat.schema import ChatMessage, ChatRequest, ToolCall
from antiphon.conversation import FinishReason
from antiphon.formats import NO_OPINION
from antiphon.generation import Range
from antiphon.wire.dialect import DOCUMENTED, OPENAI_FINISH, OPENAI_REASON, Check, CompletionRules, Dialect, Shape
from antiphon.wire.errors import refused
from antiphon.wire.json import encode


def roles(*known: str) -> Check:
    """Only these roles. A dialect without ``developer`` takes it all the same unless it is strict (resolution X-07)."""

    def check(wire: ChatRequest) -> None:
        for i, message in enumerate(wire.messages):
            if message.role not in known:
                raise refused(f"messages[{i}].role", f"must be one of {', '.join(known)}.")

    return check


def total_content(most: int) -> Check:
    """All messages together have at most ``most`` UTF-16 units of content (resolution X-17)."""

    def check(wire: ChatRequest) -> None:
        texts = (text for message in wire.messages for text in _texts(message))
        size = sum(len(text.encode("utf-16-le", "surrogatepass")) // 2 for text in texts)
        if size > most:
            raise refused("messages", f"their content has {size} characters; at most {most} are read.")

    return check


def contents(*, strict: bool) -> Check:
    """No message is empty; unless ``strict``, one that calls or answers a call may be (resolution M-01)."""

    def check(wire: ChatRequest) -> None:
        for i, message in enumerate(wire.messages):
            excused = not strict and (message.role == "tool" or message.tool_calls)
            if not excused and not any(_texts(message)):
                raise refused(f"messages[{i}].content", "must not be empty.")

    return check


def one_leading_system(wire: ChatRequest) -> None:
    """Databricks: ``system`` only once, and first."""
    for i, message in enumerate(wire.messages[1:], start=1):
        if message.role == "system":
            raise refused(f"messages[{i}].role", "system is possible once, as the first message.")


def tool_ids(wire: ChatRequest) -> None:
    """Databricks: only a tool's message names a call."""
    for i, message in enumerate(wire.messages):
        if message.tool_call_id and message.role != "tool":
            raise refused(f"messages[{i}].tool_call_id", "only a tool's message has one.")


def calls_alone(wire: ChatRequest) -> None:
    """Databricks to the letter: no content beside tool calls (resolution D-09)."""
    for i, message in enumerate(wire.messages):
        if message.tool_calls and any(_texts(message)):
            raise refused(f"messages[{i}].content", "a message with tool calls has none.")


def one_id_a_call(wire: ChatRequest) -> None:
    """Databricks to the letter: no two calls of a conversation have one id."""
    ids: set[str] = set()
    for path, call in _calls(wire):
        if call.id in ids:
            raise refused(f"{path}.id", f"another call has the id {call.id[:80]!r}.")
        ids.add(call.id)


def objects_of_arguments(wire: ChatRequest) -> None:
    """Databricks to the letter: a call's arguments are a JSON object, as text or as it is (resolution X-21)."""
    for path, call in _calls(wire):
        if call.function is None:
            continue
        try:
            arguments = msgspec.json.decode(call.function.arguments)
            arguments = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
        except (msgspec.DecodeError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise refused(f"{path}.function.arguments", "must be the text of a JSON object.")


def plain_contents(wire: ChatRequest) -> None:
    """To the letter of a document without parts: content is a text."""
    for i, message in enumerate(wire.messages):
        if isinstance(message.content, list):
            raise refused(f"messages[{i}].content", "must be a text, not parts.", code="invalid_type")


def described_tools(wire: ChatRequest) -> None:
    """Databricks to the letter: every function says what it is for."""
    for i, tool in enumerate(wire.tools or ()):
        if tool.function is not None and not tool.function.description:
            path = f"tools[{i}].function.description"
            raise refused(path, "a function needs it.", code="missing_required_parameter")


def properties(most: int) -> Check:
    """A function takes at most ``most`` parameters; those within parameters are not counted (resolution X-26)."""

    def check(wire: ChatRequest) -> None:
        for i, tool in enumerate(wire.tools or ()):
            schema = tool.function.parameters if tool.function else None
            known = schema.get("properties") if isinstance(schema, dict) else None
            if isinstance(known, dict) and len(known) > most:
                path = f"tools[{i}].function.parameters.properties"
                raise refused(path, f"there are {len(known)}; at most {most} are possible.")

    return check


def strict_subset(wire: ChatRequest) -> None:
    """Databricks: a strict schema is limited to a subset of JSON Schema (resolution D-11)."""
    for i, tool in enumerate(wire.tools or ()):
        if tool.function is not None and tool.function.strict:
            _check_subset(tool.function.parameters, f"tools[{i}].function.parameters")
    format = wire.response_format.json_schema if wire.response_format else None
    if format is not None and format.strict:
        _check_subset(format.schema, "response_format.json_schema.schema")


FORBIDDEN = frozenset({"pattern", "anyOf", "oneOf", "allOf", "prefixItems", "$ref"})


def _check_subset(schema: Any, path: str) -> None:
    for place, part in _schemas(schema, path):
        for keyword in FORBIDDEN & part.keys():
            raise refused(f"{place}.{keyword}", f"{keyword!r} is not possible in a strict schema.")
        kinds = part.get("type")
        if isinstance(kinds, list) and not (len(kinds) == 2 and "null" in kinds):
            raise refused(f"{place}.type", "a strict schema has one type, or one and null.")


def _schemas(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within ``schema``. A property's name is no keyword, whatever it spells."""
    pending = [(path, schema)]
    while pending:
        place, part = pending.pop()
        if not isinstance(part, dict):
            continue
        yield place, part
        for keyword in ("properties", "$defs", "definitions"):
            within = part.get(keyword)
            if isinstance(within, dict):
                pending += [(f"{place}.{keyword}.{name}", inner) for name, inner in within.items()]
        pending += [(f"{place}.{keyword}", part.get(keyword)) for keyword in ("items", "additionalProperties", "not")]


def _calls(wire: ChatRequest) -> Iterator[tuple[str, ToolCall]]:
    """Every call of the history, each with its path."""
    for i, message in enumerate(wire.messages):
        for j, call in enumerate(message.tool_calls or ()):
            yield f"messages[{i}].tool_calls[{j}]", call


def _texts(message: ChatMessage) -> Iterator[str]:
    """Yields a message's texts, part by part."""
    if isinstance(message.content, str):
        yield message.content
    for part in message.content if isinstance(message.content, list) else ():
        yield part.text or part.refusal or ""


# Databricks' Foundation Model API: one system message, small tools; to the letter, streams by default.

ROLES = ("system", "user", "assistant", "tool")

CHAT = (
    "messages max_tokens stream temperature top_p top_k stop n tool_choice tools response_format logprobs top_logprobs"
)
COMPLETION = "prompt max_tokens stream temperature top_p top_k error_behavior n stop suffix echo use_raw_prompt"
EMBEDDING = "input instruction"
DATABRICKS_PARAMETERS = frozenset(f"model {CHAT} {COMPLETION} {EMBEDDING}".split())
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
        strict_calls=True,
        prefixes=("/serving-endpoints", "/databricks/v1", "/ai-gateway/mlflow/v1", "/ai-gateway/openai/v1"),
        strict=strict,
        parameters=DATABRICKS_PARAMETERS,
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


# LMDeploy's server: OpenAI's API, with its own word for cancelled answers and its own errors.

LMDEPLOY_FINISH = {
    **OPENAI_FINISH,
    FinishReason.CANCELLED: "abort",
    FinishReason.ERROR: "error",
    FinishReason.TIMEOUT: "error",
}
LMDEPLOY_REASONS = {**OPENAI_REASON, "abort": FinishReason.CANCELLED, "error": FinishReason.ERROR}


def respelled(body: bytes) -> bytes:
    """``messages`` may be one text, a user's; ``stop`` false is how its first clients requested no stop.

    Of two limits ``max_completion_tokens`` counts: its last clients send 16 for it with every completion.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return body  # Whoever reads it next says what is wrong with it.
    changes: dict[str, object] = {}
    text = bytes(fields.get("messages", b""))
    if text.startswith(b'"') and text != b'""':
        changes["messages"] = [{"role": "user", "content": fields["messages"]}]
    if bytes(fields.get("stop", b"")) == b"false":
        changes["stop"] = None
    if {"max_tokens", "max_completion_tokens"} <= {name for name, value in fields.items() if bytes(value) != b"null"}:
        changes |= {"max_tokens": fields["max_completion_tokens"], "max_completion_tokens": None}
    return encode({**fields, **changes}) if changes else body


def lmdeploy(*, strict: bool = False) -> Dialect:
    """``strict``: the three roles that its templates know (resolution X-07)."""
    return Dialect(
        name="lmdeploy",
        strict=strict,
        respelled=respelled,
        finish=LMDEPLOY_FINISH,
        reasons=LMDEPLOY_REASONS,
        checks=(roles("system", "user", "assistant"),) if strict else (),
    )


# MindIE's inference API: narrow ranges, limits from its configuration, its own ends and errors.

MINDIE_FINISH = {
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

MINDIE_REASONS = {
    "eos_token": FinishReason.STOP_EOS,
    "length": FinishReason.LENGTH_OUTPUT,
    "stop_sequence": FinishReason.CANCELLED,
}

MINDIE_PARAMETERS = frozenset(
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
        strict_calls=True,
        strict=strict,
        parameters=MINDIE_PARAMETERS,
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
        finish=MINDIE_FINISH,
        other_finish="invalid flag",
        reasons=MINDIE_REASONS,
        role="every",
        bare=True,
    )
