# /// script
# dependencies = ["dspy>=3.4"]
# ///
"""DSPy: its model over chat and over Responses, by text and by a signature with the adapter for JSON."""

from typing import Literal

import dspy
from steps import (
    CHAT,
    CITIES,
    MORNING,
    OBEDIENT,
    TOKENS,
    URL,
    each,
    expect_text,
    finish,
)

HERE = {"api_base": URL, "api_key": "any", "max_tokens": TOKENS, "cache": False, "num_retries": 0}
MODELS = {
    "chat": dspy.LM(f"openai/{CHAT}", **HERE),
    "responses": dspy.LM(f"openai/{CHAT}", model_type="responses", **HERE),
}


class Where(dspy.Signature):
    """Name the city."""

    question: str = dspy.InputField()
    city: Literal["Bern", "Basel"] = dspy.OutputField()


def plain(model):
    (text,) = model(MORNING)
    expect_text(text if isinstance(text, str) else text["text"], "Good morning.")


def typed(model):
    """DSPy asks for any JSON of a model that it does not know, so that one must do as the prompt says."""
    with dspy.context(lm=model, adapter=dspy.JSONAdapter()):
        assert dspy.Predict(Where)(question='say: {"city": "Bern"}').city in CITIES


each(MODELS, plain, *[typed] * OBEDIENT)
finish("dspy")
