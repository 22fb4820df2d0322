"""Harmony's control tokens (HAR-26 … HAR-33)."""

from __future__ import annotations

from antiphon.conversation import End
from antiphon.tokens import Control

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
