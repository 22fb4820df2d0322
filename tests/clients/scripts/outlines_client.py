# /// script
# dependencies = ["outlines>=1.3", "openai>=2"]
# ///
"""Outlines, as it speaks to vLLM: an answer of some words, of a schema, of a pattern and of a grammar."""

from typing import Literal

import openai
import outlines
from outlines.types import CFG, Regex
from pydantic import BaseModel
from steps import CHAT, CITIES, URL, finish, step

WORDS = 'start: CITY "!"\nCITY: "Bern" | "Basel"\n'


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


model = outlines.from_vllm(openai.OpenAI(base_url=URL, api_key="any", max_retries=0), CHAT)


@step
def chat_words():
    assert model("say: Bern", Literal["Bern", "Basel"], max_tokens=20) in CITIES


@step
def chat_schema():
    answer = model('say: {"city":"Bern"}', Place, max_tokens=60)
    assert Place.model_validate_json(answer).city in CITIES


@step
def chat_pattern():
    assert model("say: Bern", Regex("Bern|Basel"), max_tokens=20) in CITIES


@step
def chat_grammar():
    assert model("say: Bern!", CFG(WORDS), max_tokens=20).rstrip("!") in CITIES


@step
def chat_words_streamed():
    assert "".join(model.stream("say: Bern", Literal["Bern", "Basel"], max_tokens=20)) in CITIES


finish("outlines")
