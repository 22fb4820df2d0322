"""Harmony's control tokens (HAR-26 … HAR-33)."""

from __future__ import annotations

from typing import Literal

from antiphon.conversation import End
from antiphon.tokens import Control

# What may be chosen of Harmony.

Dialect = Literal["a", "b"]
"""``a`` is openai-harmony's, ``b`` oss-harmony's: the recipient after the channel, the type always constrained."""
Types = Literal["reference", "full"]
"""``reference`` prints tools as gpt-oss was trained on them; ``full`` adds what that loses (anyOf, $ref, const …)."""


START = Control("<|start|>")
END = Control("<|end|>")
MESSAGE = Control("<|message|>")
CHANNEL = Control("<|channel|>")
CONSTRAIN = Control("<|constrain|>")
RETURN = Control("<|return|>")
CALL = Control("<|call|>")
ENDOFTEXT = Control("<|endoftext|>")

CONTROLS = (START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL)
ENDS = {END: End.END, CALL: End.CALL, RETURN: End.RETURN}
"""The controls that end a message, and the `End` that each gives it."""
