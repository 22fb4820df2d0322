"""What may be chosen of Harmony."""

from __future__ import annotations

from typing import Literal

Dialect = Literal["a", "b"]
"""``a`` is openai-harmony's, ``b`` oss-harmony's: the recipient after the channel, the type always constrained."""
Types = Literal["reference", "full"]
"""``reference`` prints tools as gpt-oss was trained on them; ``full`` adds what that loses (anyOf, $ref, const …)."""
