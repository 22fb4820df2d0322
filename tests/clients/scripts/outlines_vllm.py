# /// script
# dependencies = ["outlines>=1.3", "openai>=3.52"]
# ///
"""Outlines as it speaks with a vLLM server: choices, a schema, a regex, a stream."""

import json
import re
from typing import Literal

import openai
import outlines
from outlines.types import Regex
from pydantic import BaseModel
from steps import CHAT, CITIES, MORNING, OBEDIENT, URL, expect_text, finish, step

model = outlines.from_vllm(openai.OpenAI(base_url=URL, api_key="any", max_retries=0), CHAT)
SHORT = {"max_tokens": 200}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]
    size: Literal["small", "large"]


@step
def chat():
    expect_text(model(MORNING, **SHORT), "Good morning.")
    expect_text("".join(model.stream(MORNING, **SHORT)), "Good morning.")


@step
def chat_choice():
    ask = "say: Bern" if OBEDIENT else "Which is the capital of Switzerland?"
    assert model(ask, Literal["Bern", "Basel"], **SHORT) in CITIES


@step
def chat_schema():
    ask = 'say: {"city": "Bern", "size": "small"}' if OBEDIENT else "Describe Bern."
    assert Place.model_validate_json(model(ask, Place, **SHORT)).city in CITIES
    assert set(json.loads("".join(model.stream(ask, Place, **SHORT)))) == {"city", "size"}


@step
def chat_regex():
    ask = "say: 12" if OBEDIENT else "How many are a dozen?"
    assert re.fullmatch("[0-9]{1,3}", model(ask, Regex("[0-9]{1,3}"), **SHORT))


finish("outlines")
