"""An embedding request → the texts that are embedded."""

from __future__ import annotations

from antiphon.config import Limits
from antiphon.wire.errors import refused

from .schema import EmbeddingRequest


def to_texts(wire: EmbeddingRequest, limits: Limits) -> list[str]:
    """The texts of a request, each behind its instruction. Raises `RequestError`.

    Token ids are refused: nothing says that they are of this model's vocabulary.
    """
    inputs = [wire.input] if isinstance(wire.input, str) else wire.input
    if not 1 <= len(inputs) <= limits.max_inputs:
        raise refused("input", f"there are {len(inputs)} inputs; from 1 to {limits.max_inputs} are possible.")
    texts = [text for text in inputs if isinstance(text, str)]
    if len(texts) < len(inputs):
        raise refused(
            "input",
            "token ids are not read: they are likely of another model's vocabulary.",
            hint="Send texts; with langchain's OpenAIEmbeddings set check_embedding_ctx_length=False.",
        )
    before = f"{wire.instruction} " if wire.instruction else ""
    return [before + text for text in texts]
