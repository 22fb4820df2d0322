# /// script
# dependencies = ["instructor>=1.17"]
# ///
"""Instructor: a typed answer in each of its modes."""

import instructor
import openai
from pydantic import BaseModel
from steps import URL, finish, step

SAID = [{"role": "user", "content": 'say: {"city": "Bern"}'}]
CALLED = [{"role": "user", "content": 'call: Place {"city": "Bern"}'}]


class Place(BaseModel):
    """A place."""

    city: str


def asked(mode, messages):
    client = instructor.from_openai(openai.OpenAI(base_url=URL, api_key="any", max_retries=0), mode=mode)
    made = client.chat.completions.create(model="small", messages=messages, response_model=Place, max_retries=0)
    assert made.city == "Bern"


@step
def by_tools():
    asked(instructor.Mode.TOOLS, CALLED)


@step
def by_json_object():
    asked(instructor.Mode.JSON, SAID)


@step
def by_json_schema():
    asked(instructor.Mode.JSON_SCHEMA, SAID)


@step
def by_markdown():
    fenced = [{"role": "user", "content": 'say: ```json {"city": "Bern"} ```'}]
    asked(instructor.Mode.MD_JSON, fenced)


@step
def by_responses():
    asked(instructor.Mode.RESPONSES_TOOLS, CALLED)


finish("instructor")
