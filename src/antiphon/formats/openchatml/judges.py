"""Judges of frames: what a rule finds in a frame behind those before it (§5 … §8; A-O01, A-O03, A-O16, A-O30)."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.conversation import Channel, End, Message, Role
from antiphon.errors import Position

from .body import (
    body_problem,
    body_type,
    constraint_problem,
    deadline_problem,
    is_function,
    is_object,
    reply_problem,
)
from .declarations import TITLE
from .finding import E_CALL, E_CHANNEL_MISSING, E_HEADER, E_VISIBILITY, Finding, Problem, RuleName
from .frame import Frame
from .head_reader import places_of
from .spelling import CALL, CHANNEL, CONSTRAIN, ENDLITERAL, LITERAL, START
from .state import RuleState, form_of

Found = Iterable[Finding]


def place(frame: Frame, word: str) -> Position:
    """The place of a word of the head, or, without it, of the author; ``end``: that of the head's end."""
    head, spelled = frame.head, frame.head_text
    offset = head.length if word == "end" else places_of(head, spelled).get(word, 0)
    return frame.places.start.after(START.spelling + spelled[:offset]).position()


def _wrong(
    rule: RuleName, frame: Frame, word: str, message: str, hint: str | None = None, *, code: str = E_HEADER,
    warning: bool = False,
) -> tuple[Finding]:  # fmt: skip
    return (Finding(code, message, place(frame, word), hint, warning, rule=rule),)


def in_body(frame: Frame, problem: Problem) -> Finding:
    """The finding for a problem in a body: at its place when the body is written as it reads, else at its start."""
    plain = frame.trivia is None or frame.trivia.body is None
    at = frame.places.body.after(frame.message.text[: problem.offset] if plain else "").position()
    return Finding(problem.code, problem.message, at, problem.hint, problem.warning, rule=problem.rule)


# -- channels, marks, footers -----------------------------------------------------------------------------------------


def channel_missing(frame: Frame, state: RuleState) -> Found:
    message = frame.message
    if message.channel is not None or message.role not in (Role.ASSISTANT, Role.TOOL):
        return ()
    hint = "The harmony profile requires one of analysis, commentary and final."
    wrong = f"the {message.role} message has no channel"
    return _wrong("channel-missing", frame, "end", wrong, hint, code=E_CHANNEL_MISSING)


def call_channel(frame: Frame, state: RuleState) -> Found:
    message = frame.message
    allowed = state.call_channels(message)
    if message.effective_channel in allowed or (message.channel is None and state.require_channels):
        return ()
    what = "functions" if is_function(message) else "built-in tools"
    wrong = f"{what} are called on {' or '.join(allowed)}, not on {message.effective_channel}"
    return _wrong("call-channel", frame, "channel" if message.channel else "end", wrong)


def call_unmarked(frame: Frame, state: RuleState) -> Found:
    """HIP-1.4: JSON arguments say that they are JSON."""
    if not is_unmarked_json(frame.message):
        return ()
    hint = "HIP-1.4: <|constrain|>json before <|message|>."
    return _wrong("call-unmarked", frame, "end", "the JSON arguments of the call are not marked as JSON", hint)


def plan_unmarked(frame: Frame, state: RuleState) -> Found:
    """HIP-1.6: a plan on commentary says that it is one."""
    if not is_unmarked_plan(frame.message):
        return ()
    hint = "HIP-1.6: intent=preamble for a plan that may be shown; status or debug for what is none."
    return _wrong("plan-unmarked", frame, "channel", "the commentary to nobody has no intent", hint)


def call_footer(frame: Frame, state: RuleState) -> Found:
    """A-O03: ``call`` ends calls and only them."""
    message, end = frame.message, frame.message.end
    if end is End.NONE or (end is End.CALL) is (message.role is Role.ASSISTANT and message.is_call):
        return ()
    if end is End.CALL:
        wrong, hint = "<|call|> ends a message that is no call", "Only an assistant's message to a tool ends so."
    else:
        wrong, hint = f"the call ends with <|{end}|>", f"A call ends with {CALL}."
    return (Finding(E_HEADER, wrong, frame.places.footer.position(), hint, rule="call-footer"),)


def return_footer(frame: Frame, state: RuleState) -> Found:
    """A-O03: ``return`` ends final answers; a role that is unknown is an error already."""
    message = frame.message
    if message.end is not End.RETURN or message.is_call or frame.head.is_unknown:
        return ()
    if message.role is Role.ASSISTANT and message.effective_channel == Channel.FINAL:
        return ()
    wrong = "<|return|> ends a message that is no final answer"
    return (Finding(E_HEADER, wrong, frame.places.footer.position(), warning=True, rule="return-footer"),)


def is_unmarked_json(message: Message) -> bool:
    """Whether the message is a call with JSON arguments and without ``<|constrain|>json`` (HIP-1.4)."""
    if not message.is_call or message.constrained:
        return False
    return body_type(message.content_type) == "json" or (message.content_type is None and is_object(message.text))


def is_unmarked_plan(message: Message) -> bool:
    """Whether the message is commentary to nobody without an intent, as Harmony's plans are (HIP-1.6)."""
    commentary = message.role is Role.ASSISTANT and message.channel == Channel.COMMENTARY
    return commentary and message.recipient is None and message.intent is None


# -- calls and replies ------------------------------------------------------------------------------------------------


def call_id_missing(frame: Frame, state: RuleState) -> Found:
    if frame.message.call_id is not None or state.harmony:
        return ()
    return _wrong("call-id-missing", frame, "end", "the call has no call_id", "Each call carries a unique call_id=.")


def call_id_twice(frame: Frame, state: RuleState) -> Found:
    call_id = frame.message.call_id
    if call_id is None or not state.calls.used(call_id):
        return ()
    wrong = f"the call_id {call_id!r} is used twice"
    return _wrong("call-id-twice", frame, "call_id", wrong, "Unique in the transcript.")


def tool_undeclared(frame: Frame, state: RuleState) -> Found:
    """§16.2: calls are of the tools that are declared; of built-in tools that the header leaves out it is doubtful."""
    recipient = frame.message.recipient or ""
    undeclared = state.tools.undeclared(recipient)
    near = undeclared or state.tools.unlisted(recipient)
    if not near:
        return ()
    wrong = f"{recipient} is not declared"
    return _wrong("tool-undeclared", frame, "to", wrong, near, code=E_CALL, warning=not undeclared)


def reply_id_missing(frame: Frame, state: RuleState) -> Found:
    if frame.message.call_id is not None or frame.head.is_legacy_reply or state.harmony:
        return ()
    hint = "A reply echoes the call_id of its call."
    return _wrong("reply-id-missing", frame, "end", "the tool's reply has no call_id", hint)


def reply_to_nothing(frame: Frame, state: RuleState) -> Found:
    call_id = frame.message.call_id
    if call_id is None:
        if state.implied_id(frame.message) is not None:
            return ()
        wrong = f"no open call of {frame.message.name} for this reply"
        return _wrong("reply-to-nothing", frame, "role", wrong, code=E_CALL)
    if state.calls.used(call_id):
        return ()
    wrong = f"the reply to {call_id!r} answers no call"
    return _wrong("reply-to-nothing", frame, "call_id", wrong, code=E_CALL)


def reply_twice(frame: Frame, state: RuleState) -> Found:
    call_id = frame.message.call_id
    if call_id is None or not state.calls.used(call_id) or state.calls.recipient(call_id) is not None:
        return ()
    wrong = f"{call_id!r} was answered before"
    return _wrong("reply-twice", frame, "call_id", wrong, code=E_CALL, warning=True)


def reply_of_another(frame: Frame, state: RuleState) -> Found:
    called, name = state.calls.recipient(frame.message.call_id), frame.message.name
    if called is None or name in (None, called):
        return ()
    wrong = f"{name} answers a call of {called}"
    return _wrong("reply-of-another", frame, "name", wrong, code=E_CALL, warning=True)


def calls_mixed(frame: Frame, state: RuleState) -> Found:
    """§6: a turn calls with ``<|call|>`` or with JSON's ``tool_calls``, never both; a body may look so."""
    form = form_of(frame.message)
    if form is None or (not form) not in state.forms:
        return ()
    hint = "A turn never mixes <|call|> and tool_calls; write each call as a frame."
    wrong = "the turn calls with <|call|> and with tool_calls"
    return _wrong("calls-mixed", frame, "role", wrong, hint, code=E_CALL, warning=True)


# -- bodies -----------------------------------------------------------------------------------------------------------


def body_of_type(frame: Frame, state: RuleState) -> Found:
    if not frame.head.constrained or frame.bodiless:
        return ()
    problem = constraint_problem(frame.message)
    return (in_body(frame, problem),) if problem else ()


def call_arguments(frame: Frame, state: RuleState) -> Found:
    """The type of a call's body, its shape, and what the tool's declaration says of it."""
    message = frame.message
    if frame.bodiless:
        return ()
    # HIP-1.4: in Harmony, arguments that are JSON say so, so others need not be.
    shaped = message.constrained or not state.harmony
    problem = body_problem(message, state.tools.get(message.recipient or ""), shaped=shaped)
    return (in_body(frame, problem),) if problem else ()


def call_deadline(frame: Frame, state: RuleState) -> Found:
    """A-O16: of a tool that is declared the deadline is checked with the arguments."""
    declared = frame.bodiless or state.tools.get(frame.message.recipient or "") is not None
    problem = None if declared else deadline_problem(frame.message)
    return (in_body(frame, problem),) if problem else ()


def reply_envelope(frame: Frame, state: RuleState) -> Found:
    problem = None if frame.bodiless else reply_problem(frame.message)
    return (in_body(frame, problem),) if problem else ()


def declaration_unread(frame: Frame, state: RuleState) -> Found:
    """§16.2: the tools that calls behind this message are checked against."""
    if TITLE not in frame.message.text:
        return ()
    return tuple(
        in_body(frame, Problem(0, f"the arguments of {recipient} are declared in a way that is not read: {problem}",
                               "Its calls are not checked.", E_CALL, True, "declaration-unread"))
        for recipient, problem in state.declaration(frame.message.text).unread
    )  # fmt: skip


def reflection_outside(frame: Frame, state: RuleState) -> Found:
    if frame.marker is None:
        return ()
    message, hint = "a reflection marker stands outside analysis", "Reasoning belongs to analysis, with its markers."
    return (Finding(E_VISIBILITY, message, frame.marker.position(), hint, True, rule="reflection-outside"),)


# -- what the header excludes -----------------------------------------------------------------------------------------


def capability(frame: Frame, state: RuleState) -> Found:
    """A-O30: what the header's capabilities leave out may not be used."""
    capabilities, head = state.capabilities, frame.head
    found: list[Finding] = []
    if not capabilities.allows_role(head.author):
        found += _unlisted(frame, "role", f"the role {head.author!r}")
    channels = capabilities.channels
    if head.channel is not None and channels is not None and head.channel not in channels:
        found += _unlisted(frame, "channel", f"the channel {head.channel!r}")
    if capabilities.tokens is None:
        return found
    used = [CHANNEL] * (head.channel is not None) + [CONSTRAIN] * head.constrained
    used += [LITERAL, ENDLITERAL] if frame.literal else []
    spelled = [control.spelling for control in used]
    spelled += ["<|start|>", "<|message|>"] + [f"<|{frame.message.end}|>"] * (frame.message.end is not End.NONE)
    missing = [token for token in spelled if token not in capabilities.tokens]
    return found + [finding for token in missing[:1] for finding in _unlisted(frame, "role", token)]


def _unlisted(frame: Frame, word: str, what: str) -> Found:
    return _wrong("capability", frame, word, f"{what} is not among the header's capabilities")


def version_1(frame: Frame, state: RuleState) -> Found:
    """A-O37: a transcript that says 1.x cannot use what 2.0 brought."""
    head = frame.head
    used = [
        ("channel", head.channel is not None), ("constrain", head.constrained), ("to", head.recipient is not None),
        ("call_id", head.call_id is not None), ("intent", head.intent is not None),
        ("role", head.role in (Role.DEVELOPER, Role.TOOL)),
        ("end", frame.literal or frame.message.end in (End.CALL, End.RETURN)),
    ]  # fmt: skip
    word = next((word for word, is_used in used if is_used), None)
    if word is None:
        return ()
    wrong = "a feature of version 2 in a transcript of version 1"
    return _wrong("version-1", frame, word, wrong, 'Write version: "2.2" in the header.')
