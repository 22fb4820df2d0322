"""Our own answers to the requests of the suites of Harmony and of reply formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from antiphon.api.chat.conversation import read_turn_request
from antiphon.conversation import TRAINED, Channel, Incident, Message, MessageEnded, ResponseFormat, Role
from antiphon.errors import RequestError
from antiphon.errors.extras import extra
from antiphon.formats import HistoryPolicy, Parser
from antiphon.formats.harmony import Harmony, read_conversation, write_message
from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.generation import TurnRequest
from antiphon.grammar import ReplyShape
from antiphon.tokens import (
    ByteTokenizer,
    Control,
    ControlScanner,
    Piece,
    Tokenizer,
    encode_pieces,
    o200k_harmony,
    spell,
)

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar, Vocabulary

HARMONY = Harmony()
OurFormat = Harmony | JinjaFormat


def answer_harmony(line: bytes, flags: Sequence[str] = ()) -> dict[str, Any]:
    """The answer to a request of the suite of Harmony. Raises `RequestError` for an unknown ``op``."""
    request = json.loads(line)
    match request["op"]:
        case "render" | "tokens" as op:
            role, history = request["reply_as"], HistoryPolicy(request["history"])
            pieces = HARMONY.render(
                read_conversation(request["conversation"]), reply_as=role and Role(role), history=history
            )
            return {"pieces": _listed(pieces)} if op == "render" else {"ids": encode_pieces(pieces, o200k_harmony())}
        case "parse" | "stream":
            parser = HARMONY.parser(tools=request["tools"])
            messages, incidents = _read(parser, _pieces(request["reply"]))
            return {"messages": [write_message(message) for message in messages], "incidents": incidents}
        case "admits":
            return {"admits": _admits(HARMONY, request)}
        case op:
            raise _unknown(op)


def answer_reply(line: bytes, flags: Sequence[str] = ()) -> dict[str, Any]:
    """The answer to a request of the suite of reply formats. Raises `RequestError` for an unknown ``op``."""
    request = json.loads(line)
    format = _format(request["template"], tuple(request["controls"]))
    match request["op"]:
        case "render":
            pieces = list(format.render(_turn(_chat(request)).conversation))
            return {"text": spell(pieces), "pieces": _listed(pieces)}
        case "parse" | "stream":
            parser = format.parser(prompt=_prompt(format, request), tools=_turn(_chat(request)).conversation.tools)
            messages, incidents = _read(parser, _pieces(request["reply"]))
            return {"message": _chat_message(messages), "incidents": incidents}
        case "admits":
            return {"admits": _admits(format, request, _prompt(format, request))}
        case op:
            raise _unknown(op)


def _unknown(op: object) -> RequestError:
    return RequestError(f"unknown op {str(op)[:64]!r}", hint="Those of docs/internals/conformance.md are known.")


@lru_cache(maxsize=64)
def _format(template: str, controls: tuple[str, ...]) -> JinjaFormat:
    return jinja_format(template, [Control(spelling) for spelling in controls])


@lru_cache(maxsize=64)
def _vocabulary(format: OurFormat) -> tuple[Tokenizer, Vocabulary]:
    with extra("local", "a grammar"):
        from antiphon.grammar.compiler import Vocabulary

    tokenizer = o200k_harmony() if isinstance(format, Harmony) else ByteTokenizer(format.vocabulary)
    ends = [tokenizer.control_id(stop) for stop in format.stops if isinstance(stop, Control)]
    return tokenizer, Vocabulary(tokenizer, [end for end in ends if end is not None])


def _prompt(format: JinjaFormat, request: dict[str, Any]) -> list[Piece]:
    scanner = ControlScanner(format.controls)
    return [*scanner.feed(request["prompt"]), *scanner.close()]


def _chat(request: dict[str, Any]) -> str:
    """The chat request that is in the request, as JSON; a question where it has no messages."""
    known = ("messages", "tools", "tool_choice", "response_format")
    members = {name: request[name] for name in known if name in request}
    return json.dumps({"messages": [{"role": "user", "content": "?"}], **members})


@lru_cache(maxsize=64)
def _turn(chat: str) -> TurnRequest:
    return read_turn_request(json.loads(chat))


def _pieces(values: Iterable[Any]) -> list[Piece]:
    return [value if isinstance(value, str) else Control(value["control"]) for value in values]


def _listed(pieces: Iterable[Piece]) -> list[Any]:
    """Pieces as JSON: adjacent texts are one, and none is empty."""
    listed: list[Any] = []
    for piece in pieces:
        if isinstance(piece, Control):
            listed.append({"control": piece.spelling})
        elif listed and isinstance(listed[-1], str):
            listed[-1] += piece
        elif piece:
            listed.append(str(piece))
    return listed


def _read(parser: Parser, pieces: Iterable[Piece]) -> tuple[list[Message], list[dict[str, str]]]:
    """The messages that the parser reads, fed piece by piece, and what it repaired."""
    events = [event for piece in pieces for event in parser.feed([piece])] + parser.close()
    incidents = [{"code": event.code, "text": event.text} for event in events if isinstance(event, Incident)]
    return [event.message for event in events if isinstance(event, MessageEnded)], incidents


def _chat_message(messages: Sequence[Message]) -> dict[str, Any]:
    """The messages of a reply as one message of a chat; arguments that are JSON are their value."""
    thoughts = [message for message in messages if message.channel == Channel.ANALYSIS and not message.is_call]
    texts = [message for message in messages if message.channel != Channel.ANALYSIS and not message.is_call]
    calls = [
        {"name": str(message.recipient).removeprefix("functions."), "arguments": _value(str(message.text))}
        for message in messages
        if message.is_call
    ]
    members = {
        "reasoning_content": "".join(message.text for message in thoughts),
        "content": "".join(message.text for message in texts),
        "tool_calls": [{"function": call} for call in calls],
    }
    return {"role": "assistant", **{name: value for name, value in members.items() if value}}


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _admits(format: OurFormat, request: dict[str, Any], prompt: Sequence[Piece] = ()) -> str:
    builtins = tuple(request.get("builtins", ()))
    matcher = _compiled(format, _chat(request), builtins, tuple(prompt)).matcher()
    if matcher.consume(encode_pieces(_pieces(request["reply"]), _vocabulary(format)[0])) is not None:
        return "no"
    return "yes" if matcher.accepting else "prefix"


@lru_cache(maxsize=64)
def _compiled(format: OurFormat, chat: str, builtins: tuple[str, ...], prompt: tuple[Piece, ...]) -> CompiledGrammar:
    with extra("local", "a grammar"):
        from antiphon.grammar.compiler import compile_grammar

    turn = _turn(chat)
    shape = ReplyShape(
        tools=turn.conversation.tools,
        builtins=tuple(TRAINED[name] for name in builtins),
        tool_choice=turn.tool_choice,
        response_format=turn.conversation.response_format or ResponseFormat(),
    )
    return compile_grammar(format.grammar(shape, prompt=prompt), _vocabulary(format)[1])
