"""Frames that the examples of several rules begin with."""

FINAL = "<|start|>assistant<|channel|>final<|message|>4<|return|>"
CALL = "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
USER = "<|start|>user<|message|>Hi<|end|>\n"
