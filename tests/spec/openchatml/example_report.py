"""The report on a transcript that the suite compares, by the small reader beside it: a program of the suite's protocol.

antiphon conformance --level 2 --lines -- python example_report.py --lines
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from example_reader import Frame, Reader, arguments_of, is_call

MARKER = re.compile(r"<\|(start|end)_(reflect|introspect|reason)\|>")
FIELDS = ("role", "to", "call_id", "name", "intent", "channel", "content_type", "constrain", "body", "end")
HIDDEN = {"code": "E-PERM-VISIBILITY"}
PLAN = ("assistant", "commentary", "preamble")


def shown(frame: Frame) -> Any:
    """6.3, 6.4"""
    if frame.intent != "debug" and (is_plan(frame) or is_answer(frame)):
        return MARKER.sub("", frame.body)
    return frame.body if (frame.role, frame.channel) == ("user", "final") else HIDDEN


def is_plan(frame: Frame) -> bool:
    return (frame.role, frame.written, frame.intent) == PLAN and not is_call(frame)


def is_answer(frame: Frame) -> bool:
    return frame.role == "assistant" and frame.channel == "final" and not is_call(frame)


def projection(frame: Frame) -> dict[str, Any]:
    """10.2, 10.4"""
    called = frame.end == "call"
    thought = (frame.role, frame.written, called) == ("assistant", "analysis", False)
    call = {"id": frame.call_id, "recipient": frame.to, "content_type": frame.content_type, "arguments": frame.body}
    rest = {} if called else {"to": frame.to, "call_id": frame.call_id, "content_type": frame.content_type}
    rest |= {"name": frame.name, "constrain": frame.constrain and True, "end": frame.end}
    return {
        "role": frame.role, "channel": frame.channel, "content": None if called or thought else frame.body,
        "tool_call": call if called else None, "thinking": frame.body if thought else None, "intent": frame.intent,
        "ocm": rest,
    }  # fmt: skip


def resumed(frames: list[Frame]) -> list[int]:
    """8.1, 8.3"""
    answers = [i for i, frame in enumerate(frames) if is_answer(frame) and frame.end]
    old = {i for i in range(max(answers, default=0)) if frames[i].written == "analysis"}
    dropped = {frames[i].call_id for i in old if is_call(frames[i])}
    gone = [frame.role == "tool" and frame.call_id in dropped for frame in frames]
    return [i for i, frame in enumerate(frames) if i not in old and not gone[i] and (frame.end or frame is frames[-1])]


def calls(frames: list[Frame]) -> list[dict[str, Any]]:
    """7.4, 7.5"""
    found = []
    for call in filter(is_call, frames):
        replies = [i for i, frame in enumerate(frames) if frame.role == "tool" and frame.call_id == call.call_id]
        values = arguments_of(call.body) if call.to.startswith("functions.") else None
        deadline = (values or {}).pop("deadline_ms", None)
        if deadline is not None and (type(deadline) is not int or deadline < 1):
            values = deadline = None
        arguments = call.body if values is None else values
        reply = replies[0] if replies else None
        found.append(
            {"call_id": call.call_id, "to": call.to, "arguments": arguments, "deadline_ms": deadline, "reply": reply}
        )
    return found


def harmony(frames: list[Frame]) -> list[dict[str, Any]]:
    """11.1, 11.2"""
    found, channels = [], {}
    for frame in frames:
        changed = {"intent": None, "channel": None}
        if is_call(frame):
            channels[frame.call_id] = changed["channel"] = frame.written or "commentary"
            if frame.content_type is None and arguments_of(frame.body) is not None:
                changed |= {"content_type": "json", "constrain": "json"}
        elif frame.role == "assistant":
            changed["channel"] = "analysis" if frame.channel == "commentary" and not is_plan(frame) else frame.channel
        elif frame.role == "tool":
            changed["channel"] = frame.written or channels.get(frame.call_id, "commentary")
            changed["to"] = frame.to or "assistant"
        found.append(fields(frame) | changed)
    return found


def events(frames: list[Frame], cancel: str | None) -> list[dict[str, Any]]:
    """9.1 … 9.4, of a reply whose frames these are."""
    found: list[dict[str, Any]] = []

    def event(kind: str, **more: Any) -> None:
        found.append({"type": kind, "message_id": message, "seq": len(found), **more})

    message = "reply.0"
    for number, frame in enumerate(frames):
        message = f"reply.{number}"
        text = frame.body if shown(frame) != HIDDEN else ""
        for paragraph in re.split(r"(?<=\n\n)(?=[^\n])", text) if text else ():
            event("response.delta", channel=frame.channel, delta=paragraph)
            if frame.end or cancel is None or not text.endswith(paragraph):
                event("response.delta.flush")
    done = frames[-1].end if frames else None
    if done in ("call", "return"):
        event("response.done", end_reason=done)
    if cancel is not None:
        event("tool.cancel", call_id=cancel, reason="user") if cancel else event("response.cancel")
    elif done not in ("call", "return"):
        event("error", code="E-STREAM-TRUNCATED")
    return found


def fields(frame: Frame) -> dict[str, Any]:
    return {key: getattr(frame, key) for key in FIELDS}


def report(transcript: bytes, flags: Sequence[str]) -> dict[str, Any]:
    given = dict(flag.partition("=")[::2] for flag in flags)
    text, whole = transcript.decode("utf-8", "surrogateescape"), {}
    if "--reply" in given:
        frames = Reader(f"<|start|>assistant{text}", given).frames
        last = next((i for i, frame in enumerate(frames) if frame.end in ("call", "return")), len(frames))
        frames = frames[: last + 1]
        whole["events"] = events(frames, given.get("--cancel"))
    else:
        reader = Reader(text, given)
        frames, header = reader.frames, reader.header or None
        places = sorted(reader.errors, key=lambda error: error[0])
        errors = [{"code": code, "line": text.count("\n", 0, at) + 1, "message": why} for at, code, why in places]
        whole = {"valid": not errors, "errors": errors, "header": header, "resumed": resumed(frames)}
        whole |= {"calls": calls(frames), "harmony": harmony(frames)}
    views = {"frames": fields, "projection": projection, "shown": shown, "debug": lambda frame: frame.body}
    return whole | {key: list(map(view, frames)) for key, view in views.items()}


if __name__ == "__main__":
    if sys.argv[1:] == ["--lines"]:
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps(report(base64.b64decode(request["base64"]), request["flags"])), flush=True)
    else:
        print(json.dumps(report(sys.stdin.buffer.read(), sys.argv[1:])))
