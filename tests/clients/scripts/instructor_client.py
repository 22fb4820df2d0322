# /// script
# dependencies = ["instructor>=1.17"]
# ///
"""Instructor: a typed answer in each of its modes."""

from typing import Literal

import instructor
import openai
from pydantic import BaseModel
from steps import CHAT, CITIES, OBEDIENT, URL, finish, step

USER_MESSAGES = [{"role": "user", "content": 'say: {"city": "Bern"}'}]
CALLED = [{"role": "user", "content": 'call: Place {"city": "Bern"}'}]


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


def request_place(mode, messages, **fields):
    client = instructor.from_openai(openai.OpenAI(base_url=URL, api_key="any", max_retries=0), mode=mode)
    made = client.chat.completions.create(
        model=CHAT, messages=messages, response_model=Place, max_retries=0, **(fields or {"max_tokens": 200})
    )
    assert made.city in CITIES


def request_place_freely(mode, messages):
    """In these modes the schema is a wish in the prompt: a model may write what is none of it, which is an error."""
    try:
        request_place(mode, messages)
    except Exception as error:
        if OBEDIENT or "Error code" in str(error):
            raise
        print("the model wrote something else, which the mode lets it do")


@step
def chat_tools():
    request_place(instructor.Mode.TOOLS, CALLED)


@step
def chat_json():
    request_place_freely(instructor.Mode.JSON, USER_MESSAGES)


@step
def chat_json_schema():
    request_place(instructor.Mode.JSON_SCHEMA, USER_MESSAGES)


@step
def chat_markdown():
    request_place_freely(instructor.Mode.MD_JSON, [{"role": "user", "content": 'say: ```json {"city": "Bern"} ```'}])


@step
def chat_tools_streamed():
    client = instructor.from_openai(openai.OpenAI(base_url=URL, api_key="any", max_retries=0))
    called = [{"role": "user", "content": 'call: PartialPlace {"city": "Bern"}'}]
    parts = list(
        client.chat.completions.create_partial(model=CHAT, messages=called, response_model=Place, max_tokens=200)
    )
    assert parts[-1].city in CITIES


@step
def responses_tools():
    request_place(instructor.Mode.RESPONSES_TOOLS, CALLED, max_output_tokens=200)


finish("instructor")
