"""An embedding request → the texts and ids that are embedded."""

from __future__ import annotations

from antiphon.config import Limits
from antiphon.wire.errors import refused

from .wire import EmbeddingRequest

Inputs = list[str | list[int]]


def to_inputs(wire: EmbeddingRequest, limits: Limits) -> Inputs:
    """The inputs of a request: texts, each behind its instruction, and ids as they are. Raises `RequestError`."""
    inputs = _inputs(wire)
    if not 1 <= len(inputs) <= limits.max_inputs:
        raise refused("input", f"there are {len(inputs)} inputs; from 1 to {limits.max_inputs} are possible.")
    if not wire.instruction:
        return inputs
    return [f"{wire.instruction} {text}" for text in inputs if _is_text(text)]


def _inputs(wire: EmbeddingRequest) -> Inputs:
    """One text, the ids of one, or a list of both."""
    if isinstance(wire.input, str):
        return [wire.input]
    several = [one for one in wire.input if not isinstance(one, int)]
    if len(several) == len(wire.input):
        return list(several)
    if several:
        raise refused("input", "ids stand beside texts or lists of ids; put them into a list of their own.")
    return [[one for one in wire.input if isinstance(one, int)]]


def _is_text(given: str | list[int]) -> bool:
    if not isinstance(given, str):
        raise refused("instruction", "it is text, which cannot stand before token ids.")
    return True
