# /// script
# dependencies = ["requests>=2.32"]
# ///
"""The requests of MindIE's document as they stand there but for the model's name, whole and as streams."""

import json

import requests
from steps import BASE, CHAT, expect_text, expects, finish, step

URL = f"{BASE}/mindie/v1/chat/completions"
SINGLE = """{
    "model": "gpt-3.5-turbo",
    "messages": [{
        "role": "user",
        "content": "You are a helpful assistant."
    }],
    "max_tokens": 20,
    "presence_penalty": 1.03,
    "frequency_penalty": 1.0,
    "seed": null,
    "temperature": 0.5,
    "top_p": 0.95,
    "stream": false
}"""
MULTI = """{
    "model": "gpt-3.5-turbo",
    "messages": [{
        "role": "system",
        "content": "You are a student who is good at math."
        },
        {
        "role": "user",
        "content": "what is your hobby?"
        }
    ],
    "max_tokens": 20,
    "presence_penalty": 1.03,
    "frequency_penalty": 1.0,
    "seed": null,
    "temperature": 0.5,
    "top_p": 0.95,
    "stream": false
}"""
ENDS = {"eos_token", "length"}


def post(sample):
    body = sample.replace('"gpt-3.5-turbo"', json.dumps(CHAT))
    return requests.post(URL, data=body, headers={"content-type": "application/json"}, timeout=300)


def whole(sample):
    done = post(sample).json()
    assert list(done) == ["id", "object", "created", "model", "choices", "usage"], done
    (choice,) = done["choices"]
    assert list(choice) == ["index", "message", "finish_reason"], choice
    assert (done["object"], choice["message"]["role"]) == ("chat.completion", "assistant")
    assert choice["finish_reason"] in ENDS
    expect_text(choice["message"]["content"], "Hello!")


def streamed(sample):
    lines = [line for line in post(sample.replace("false", "true")).text.split("\n\n") if line.startswith("data: ")]
    assert lines.pop() == "data: [DONE]"
    *pieces, end = (json.loads(line.removeprefix("data: ")) for line in lines)
    assert end["choices"] == [{"index": 0, "delta": {}, "finish_reason": end["choices"][0]["finish_reason"]}]
    assert end["choices"][0]["finish_reason"] in ENDS
    assert all(piece["choices"][0]["delta"]["role"] == "assistant" for piece in pieces)
    expect_text("".join(piece["choices"][0]["delta"]["content"] for piece in pieces), "Hello!")


@step
def chat_single():
    whole(SINGLE)


@step
def chat_multi():
    whole(MULTI)


@step
def chat_single_stream():
    streamed(SINGLE)


@step
def chat_multi_stream():
    streamed(MULTI)


@step
def errors():
    expects(422, "/mindie/v1/chat/completions")
    refused = post(SINGLE.replace("0.95", "9.5"))
    assert refused.status_code == 422
    assert refused.json()["choices"][0]["finish_reason"] == "stop_sequence"
    assert "top_p" in refused.json()["err_msg"]


finish("mindie", "(the document's samples)")
