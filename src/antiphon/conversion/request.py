"""What a request says beside its conversation and a transcript's header has a place for: the model, how to sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.api.transcript.schema import GenerationSettings
from antiphon.conversation import Conversation
from antiphon.formats.openchatml import DocumentHeader, envelope_of
from antiphon.structs import ready

REQUEST = "request"
"""Where a `Conversation` has it in ``extra``: as a `DocumentHeader`, by the names of OpenChatML (§2)."""
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "stop")
CHAT = {**{name: (name,) for name in SAMPLING}, "max_tokens": ("max_completion_tokens", "max_tokens")}
"""The settings that chat JSON has, each with its names there; the first one is written."""
RESPONSES = {**{name: (name,) for name in SAMPLING}, "max_tokens": ("max_output_tokens",)}
Names = Mapping[str, tuple[str, ...]]


def header_of(about: Conversation) -> DocumentHeader:
    """The header of a transcript, or what a request says that would be in one."""
    if "openchatml" in about.extra:
        return envelope_of(about).header or DocumentHeader()
    known = about.extra.get(REQUEST)
    return known if isinstance(known, DocumentHeader) else DocumentHeader()


def read_request(request: Mapping[str, Any], names: Names) -> tuple[dict[str, DocumentHeader], frozenset[str]]:
    """What the request's fields say, as ``extra`` of a conversation, and the fields that it is made of."""
    given = {name: key for name, keys in names.items() for key in keys if _fits(name, request.get(key))}
    model = request.get("model")
    fields: dict[str, Any] = {"model": model} if isinstance(model, str) else {}
    settings = {name: request[key] for name, key in given.items()}
    header = DocumentHeader(fields={**fields, "generation_settings": settings} if settings else fields)
    return ({REQUEST: header} if header.fields else {}), frozenset([*fields, *given.values()])


def written_request(about: Conversation, names: Names) -> dict[str, Any]:
    """The request's fields for what the header says, where it is of the right kind."""
    header = header_of(about)
    settings = {
        keys[0]: header.generation_settings[name]
        for name, keys in names.items()
        if _fits(name, header.generation_settings.get(name))
    }
    return ({"model": header.model} if header.model is not None else {}) | settings


def carried_request(about: Conversation, names: Names) -> dict[str, DocumentHeader]:
    """What a reader of `written_request` gets of it, as ``extra`` of a conversation."""
    return read_request(written_request(about, names), names)[0]


def with_request(header: DocumentHeader, about: Conversation) -> DocumentHeader:
    """The header with the model and the settings of the request that the conversation comes from."""
    known = header_of(about)
    own = {key: value for key, value in known.fields.items() if key != "generation_settings"}
    return replace(header, fields={**own, **header.fields}).with_settings(
        **{**known.generation_settings, **header.generation_settings}
    )


def _fits(name: str, value: Any) -> bool:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return False
    try:
        msgspec.convert({name: value}, ready(GenerationSettings))
    except msgspec.ValidationError:
        return False
    return True
