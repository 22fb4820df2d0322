"""The answers of the package openai-harmony, as a program of the suite's protocol. It has no grammars.

antiphon conformance --suite harmony --level 1 --only parse- --lines -- python example_answers.py
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from typing import Any

import openai_harmony

ENCODING = openai_harmony.load_harmony_encoding("HarmonyGptOss")


def rendered(request: dict[str, Any]) -> list[int]:
    conversation = openai_harmony.Conversation.from_json(json.dumps(request["conversation"]))
    config = openai_harmony.RenderConversationConfig(auto_drop_analysis=request["history"] == "reference")
    if request["reply_as"] is None:
        return ENCODING.render_conversation(conversation, config)
    return ENCODING.render_conversation_for_completion(conversation, openai_harmony.Role(request["reply_as"]), config)


def pieces(ids: list[int]) -> list[Any]:
    """Runs of text decoded as one, so that no character is cut."""
    found: list[Any] = []
    for special, group in groupby(ids, ENCODING.is_special_token):
        run = list(group)
        found += [{"control": ENCODING.decode([id])} for id in run] if special else [ENCODING.decode(run)]
    return found


def read(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The reply's messages; tokens one by one."""
    parser = openai_harmony.StreamableParser(ENCODING, openai_harmony.Role.ASSISTANT)
    for is_text, run in groupby(request["reply"], lambda piece: isinstance(piece, str)):
        if is_text:
            ids = ENCODING.encode("".join(run), disallowed_special=())
        else:
            ids = [id for piece in run for id in ENCODING.encode(piece["control"], allowed_special="all")]
        for id in ids:
            parser.process(id)
    parser.process_eos()
    return [plain(message.to_dict()) for message in parser.messages]


def plain(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": "".join(part["text"] for part in message["content"])}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["op"]:
        case "render":
            return {"pieces": pieces(rendered(request))}
        case "tokens":
            return {"ids": rendered(request)}
        case "parse" | "stream":
            return {"messages": read(request)}
    return {}


for line in sys.stdin:
    try:
        print(json.dumps(answer(json.loads(line))), flush=True)
    except (RuntimeError, ValueError) as error:  # the suite's next case is another
        print(json.dumps({"error": str(error)}), flush=True)
