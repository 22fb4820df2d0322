"""A rerank or a score request → the texts that are compared."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.config import Limits
from antiphon.errors import Position, UnsupportedError
from antiphon.generation import Comparison, Placed
from antiphon.wire.errors import refused

from .wire import RerankRequest, ScoreRequest

_ACTIVATED = "Scores are cosines, or the sigmoid of a logit."


def to_comparison(wire: RerankRequest, limits: Limits) -> Comparison:
    """The query and its documents. Raises `RequestError` at the field."""
    _check_activation(wire.use_activation)
    if wire.raw_scores:
        raise UnsupportedError("raw_scores cannot be honoured.", position=Position(path="raw_scores"), hint=_ACTIVATED)
    if wire.top_n is not None and wire.top_n < 0:
        raise refused("top_n", f"{wire.top_n} is none of 0 (all), 1, 2 ….")
    if wire.max_tokens_per_doc is not None and wire.max_tokens_per_doc < 1:
        raise refused("max_tokens_per_doc", "a document has 1 token at least.")
    if wire.truncate and wire.truncate_prompt_tokens not in (None, -1):
        raise refused("truncate", "it is truncate_prompt_tokens -1, and that is there with another value.")
    return Comparison(_query(wire.query, "query"), _documents(wire, limits))


def limit_of(wire: RerankRequest) -> int | None:
    """Tokens to which what the model reads at once is cut; -1: as many as it reads; None: it is not cut."""
    return -1 if wire.truncate else wire.truncate_prompt_tokens


def to_comparisons(wire: ScoreRequest, limits: Limits) -> list[Comparison]:
    """One query with all texts of the other side, or pair by pair. Raises `RequestError` at the field."""
    _check_activation(wire.use_activation)
    first, second = _placed(wire.text_1, "text_1", limits), _placed(wire.text_2, "text_2", limits)
    queries = [_query(one.text, one.path) for one in first]
    if len(queries) == 1:
        return [Comparison(queries[0], second)]
    if len(queries) != len(second):
        counts = f"{len(queries)} texts cannot be paired with {len(second)}"
        raise refused("text_2", f"{counts}; send one with several, or as many with as many.")
    return [Comparison(query, [other]) for query, other in zip(queries, second, strict=True)]


def _check_activation(use_activation: bool | None) -> None:
    if use_activation is False:
        position = Position(path="use_activation")
        raise UnsupportedError("use_activation: logits are not answered.", position=position, hint=_ACTIVATED)


def _documents(wire: RerankRequest, limits: Limits) -> list[Placed]:
    if (wire.documents is None) == (wire.texts is None):
        code = "missing_required_parameter" if wire.texts is None else "invalid_value"
        raise refused("documents", "either documents or texts must be there.", code=code)
    if wire.texts is not None:
        return _counted(wire.texts, "texts", limits)
    return _counted([one if isinstance(one, str) else one.text for one in wire.documents or ()], "documents", limits)


def _placed(texts: str | list[str], path: str, limits: Limits) -> list[Placed]:
    return [Placed(texts, path)] if isinstance(texts, str) else _counted(texts, path, limits)


def _counted(texts: Sequence[str], path: str, limits: Limits) -> list[Placed]:
    if not 1 <= len(texts) <= limits.max_inputs:
        raise refused(path, f"there are {len(texts)} texts; from 1 to {limits.max_inputs} are possible.")
    return [Placed(text, f"{path}[{i}]") for i, text in enumerate(texts)]


def _query(text: str, path: str) -> Placed:
    if not text.strip():
        raise refused(path, "the text is empty.")
    return Placed(text, path)
