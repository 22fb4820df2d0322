"""The rules that span frames: ids, channels, footers, capabilities (§5 … §8; A-O01, A-O03, A-O12 … A-O15, A-O30)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from antiphon.conversation import FUNCTIONS, Channel, End, Message, Role, ToolSpec
from antiphon.conversation.calls import OpenCalls
from antiphon.errors import Position

from .body import body_problem, deadline_problem, has_tool_calls, is_object, reply_problem
from .declarations import AUTHORS, TITLE, DeclaredTools, read_declaration
from .document import Capabilities, DocumentHeader, HarmonyProfile
from .finding import E_CALL, E_CHANNEL_MISSING, E_HEADER, E_TRUNCATED, Finding, Problem, RuleName
from .frame import Frame, Trivia
from .head_reader import places_of
from .markers import marker_finding
from .spelling import CALL, CHANNEL, CONSTRAIN, ENDLITERAL, LITERAL, START


class Rules:
    """Checks frames in their order; `check_frame` also fills in what legacy and Harmony text leaves out.

    ``warnings`` False: what is allowed, and perhaps not meant, is not looked for.
    Memory: the call ids of the transcript, since they are unique in all of it (A-O14).
    """

    def __init__(
        self, header: DocumentHeader | None, *, harmony: bool = False, tools: Mapping[str, ToolSpec] | None = None,
        warnings: bool = True,
    ) -> None:  # fmt: skip
        profile = header.harmony if header else HarmonyProfile()
        self.harmony = harmony or profile.enabled
        self._whole_turns = harmony
        self._warnings = warnings
        self._require_channels = harmony or (profile.enabled and bool(profile.require_channels))
        self._tool_calls_in = profile.tool_calls_in if profile.enabled else (Channel.COMMENTARY,)
        self._builtins_in = profile.builtins_in
        self._legacy = header is not None and header.version.startswith("1.")
        self._capabilities = header.capabilities if header else Capabilities()
        self._limited = self._capabilities != Capabilities()
        self._tools = DeclaredTools(header.builtin_tools if header else (), tools or {})
        self._calls = OpenCalls()
        self._last: Frame | None = None
        self._forms: set[bool] = set()
        """How the turn calls so far: with ``<|call|>`` (True), with JSON's ``tool_calls`` (False)."""

    @property
    def is_free(self) -> bool:
        """Whether a frame that neither calls nor answers nor promises a type can break no rule."""
        return not (self._legacy or self._limited or self._require_channels)

    def check_frame(self, frame: Frame) -> list[Finding]:
        """Returns the frame's findings, in the order of its text; ``frame.message`` gets the ids that it lacks."""
        role, is_call = frame.message.role, frame.message.is_call
        found: list[Finding] = []
        if self._legacy:
            found += self._version_1(frame)
        if is_call or self._require_channels:
            found += self._channels(frame)
        if self._require_channels:
            found += self._marks(frame)
        if is_call:
            found += self._call(frame)
        elif role is Role.TOOL and not frame.head.is_unknown:
            found += self._reply(frame)
        if self._limited:
            found += self._allowed(frame)
        if frame.head.needs_body and (problem := self._problem_of_body(frame)):
            found.append(in_body(frame, problem))
        if role in AUTHORS and TITLE in frame.message.text:
            found += self._declaration(frame)
        if self._warnings:
            found += self._doubtful(frame, is_call)
        found += _footer_findings(frame, is_call)
        self._last = frame
        return found

    def close(self, end: Position) -> Iterator[Finding]:
        """§9: a turn that stops in the middle is incomplete. An answer that was cut can be sent back: a warning."""
        last = self._last
        if last is None or last.message.role is not Role.ASSISTANT or last.message.end is not End.END:
            return
        if last.message.is_call or last.message.effective_channel == Channel.FINAL:
            return
        yield Finding(
            E_TRUNCATED, "no <|return|> or <|call|> at the end", end,
            "An assistant's turn ends with a final answer or a call.", not self._whole_turns, rule="turn-unfinished",
        )  # fmt: skip

    @staticmethod
    def _at(frame: Frame, place: str) -> Position:
        head, spelled = frame.head, frame.head_text
        offset = head.length if place == "end" else places_of(head, spelled).get(place, 0)
        return frame.places.start.after(START.spelling + spelled[:offset]).position()

    def _wrong(
        self, rule: RuleName, frame: Frame, place: str, message: str, hint: str | None = None, *, code: str = E_HEADER,
        warning: bool = False,
    ) -> Finding:  # fmt: skip
        return Finding(code, message, self._at(frame, place), hint, warning, rule=rule)

    def _channels(self, frame: Frame) -> Iterator[Finding]:
        message = frame.message
        if message.channel is None and self._require_channels and message.role in (Role.ASSISTANT, Role.TOOL):
            hint = "The harmony profile requires one of analysis, commentary and final."
            wrong = f"the {message.role} message has no channel"
            yield self._wrong("channel-missing", frame, "end", wrong, hint, code=E_CHANNEL_MISSING)
            return
        if not message.is_call:
            return
        allowed = self.call_channels(message)
        if message.effective_channel not in allowed:
            what = "functions" if _is_function(message) else "built-in tools"
            place = "channel" if message.channel else "end"
            wrong = f"{what} are called on {' or '.join(allowed)}, not on {message.effective_channel}"
            yield self._wrong("call-channel", frame, place, wrong)

    def call_channels(self, call: Message) -> tuple[str, ...]:
        """The channels on which such a tool is called, the usual one first."""
        return self._tool_calls_in if _is_function(call) else self._builtins_in

    def _marks(self, frame: Frame) -> Iterator[Finding]:
        """HIP-1.4, HIP-1.6: JSON arguments say that they are JSON, and a plan on commentary that it is one."""
        message = frame.message
        if is_unmarked_json(message):
            hint = "HIP-1.4: <|constrain|>json before <|message|>."
            yield self._wrong("other", frame, "end", "the JSON arguments of the call are not marked as JSON", hint)
        elif is_unmarked_plan(message):
            hint = "HIP-1.6: intent=preamble for a plan that may be shown; status or debug for what is none."
            yield self._wrong("other", frame, "channel", "the commentary to nobody has no intent", hint)

    def _call(self, frame: Frame) -> Iterator[Finding]:
        call_id = frame.message.call_id
        if call_id is None:
            if not self.harmony:
                hint = "Each call carries a unique call_id= (§8)."
                yield self._wrong("call-id-missing", frame, "end", "the call has no call_id", hint)
            call_id = self._calls.free_id()
            _set_synthetic_id(frame, call_id)
        elif self._calls.used(call_id):
            hint = "Unique in the transcript (§8)."
            yield self._wrong("call-id-twice", frame, "call_id", f"the call_id {call_id!r} is used twice", hint)
        recipient = frame.message.recipient or ""
        self._calls.follow(frame.message)
        undeclared = self._tools.undeclared(recipient)
        if near := undeclared or self._tools.unlisted(recipient):
            wrong = f"{recipient} is not declared"
            yield self._wrong("other", frame, "to", wrong, near, code=E_CALL, warning=not undeclared)

    def implied_id(self, message: Message) -> str | None:
        """The id with which a call or a reply is read that has none (A-O12, A-O15); None: it is a reply to nothing."""
        if message.role is Role.TOOL:
            return self._calls.oldest(message.name)
        return self._calls.free_id()

    def _reply(self, frame: Frame) -> Iterator[Finding]:
        message = frame.message
        call_id = message.call_id
        if call_id is None:
            if not (frame.head.is_legacy_reply or self.harmony):
                hint = "A reply echoes the call_id of its call (§8)."
                yield self._wrong("reply-id-missing", frame, "end", "the tool's reply has no call_id", hint)
            call_id = self.implied_id(message)
            if call_id is None:
                wrong = f"no open call of {message.name} for this reply"
                yield self._wrong("reply-to-nothing", frame, "role", wrong, code=E_CALL)
                return
            _set_synthetic_id(frame, call_id)
        if not self._calls.used(call_id):
            wrong = f"the reply to {call_id!r} answers no call"
            yield self._wrong("reply-to-nothing", frame, "call_id", wrong, code=E_CALL)
            return
        called = self._calls.answer(call_id)
        if called is None:
            wrong = f"{call_id!r} was answered before"
            yield self._wrong("reply-twice", frame, "call_id", wrong, code=E_CALL, warning=True)
        elif message.name is None:
            frame.message = replace(frame.message, name=called)
        elif called != message.name:
            wrong = f"{message.name} answers a call of {called}"
            yield self._wrong("reply-of-another", frame, "name", wrong, code=E_CALL, warning=True)

    def _allowed(self, frame: Frame) -> Iterator[Finding]:
        """A-O30: what the header's capabilities leave out may not be used."""
        capabilities, head = self._capabilities, frame.head
        if not capabilities.allows_role(head.author):
            yield self._unlisted(frame, "role", f"the role {head.author!r}")
        channels = capabilities.channels
        if head.channel is not None and channels is not None and head.channel not in channels:
            yield self._unlisted(frame, "channel", f"the channel {head.channel!r}")
        if capabilities.tokens is None:
            return
        used = [CHANNEL] * (head.channel is not None) + [CONSTRAIN] * head.constrained
        used += [LITERAL, ENDLITERAL] if frame.literal else []
        spelled = [control.spelling for control in used]
        spelled += ["<|start|>", "<|message|>"] + [f"<|{frame.message.end}|>"] * (frame.message.end is not End.NONE)
        missing = [token for token in spelled if token not in capabilities.tokens]
        if missing:
            yield self._unlisted(frame, "role", missing[0])

    def _unlisted(self, frame: Frame, place: str, what: str) -> Finding:
        return self._wrong("capability", frame, place, f"{what} is not among the header's capabilities")

    def author(self, message: Message) -> str | None:
        """The role to write for a reply of a tool where the header's capabilities exclude ``tool``; else None."""
        if message.role is not Role.TOOL or message.name is None or self._capabilities.allows_role(Role.TOOL):
            return None
        return message.name if self._capabilities.allows_role(message.name) else None

    def _version_1(self, frame: Frame) -> Iterator[Finding]:
        """A-O37: a transcript that says 1.x cannot use what 2.0 brought."""
        head = frame.head
        used = [
            ("channel", head.channel is not None), ("constrain", head.constrained), ("to", head.recipient is not None),
            ("call_id", head.call_id is not None), ("intent", head.intent is not None),
            ("role", head.role in (Role.DEVELOPER, Role.TOOL)),
            ("end", frame.literal or frame.message.end in (End.CALL, End.RETURN)),
        ]  # fmt: skip
        for place, is_used in used:
            if is_used:
                hint = 'Write version: "2.2" in the header.'
                wrong = "a feature of version 2 in a transcript of version 1"
                yield self._wrong("version-1", frame, place, wrong, hint)
                return

    def _declaration(self, frame: Frame) -> Iterator[Finding]:
        """§16.2: the tools that calls behind this message are checked against."""
        declaration = read_declaration(frame.message.text)
        self._tools.add(declaration.namespaces)
        for recipient, problem in declaration.unread:
            message = f"the arguments of {recipient} are declared in a way that is not read: {problem}"
            yield in_body(frame, Problem(0, message, "Its calls are not checked.", E_CALL, True, "call-arguments"))

    def _doubtful(self, frame: Frame, is_call: bool) -> list[Finding]:
        """Warnings: what a body may say, and perhaps does not mean."""
        found = [] if frame.marker is None else [marker_finding(frame.marker)]
        if self._mixes(frame.message, is_call):
            hint = "A turn never mixes <|call|> and tool_calls (§6); write each call as a frame."
            wrong = "the turn calls with <|call|> and with tool_calls"
            found.append(self._wrong("other", frame, "role", wrong, hint, code=E_CALL, warning=True))
        return found

    def _mixes(self, message: Message, is_call: bool) -> bool:
        """§6: a turn calls with ``<|call|>`` or with JSON's ``tool_calls``, never both; a body may look so."""
        if message.role is not Role.ASSISTANT:
            if message.role is not Role.TOOL:
                self._forms.clear()
            return False
        if not (is_call or has_tool_calls(message.text)):
            return False
        self._forms.add(is_call)
        if len(self._forms) < 2:
            return False
        self._forms.clear()
        return True

    def _problem_of_body(self, frame: Frame) -> Problem | None:
        if frame.bodiless:
            return None
        message = frame.message
        # HIP-1.4: in Harmony, arguments that are JSON say so, so others need not be.
        shaped = message.constrained or not self.harmony
        tool = self._tools.get(message.recipient or "") if message.is_call else None
        problem = body_problem(message, tool, shaped=shaped)
        if problem is not None or not self._warnings:
            return problem
        if message.role is Role.TOOL:
            return reply_problem(message)
        return deadline_problem(message) if tool is None else None


def is_unmarked_json(message: Message) -> bool:
    """Whether the message is a call with JSON arguments and without ``<|constrain|>json`` (HIP-1.4)."""
    if not message.is_call or message.constrained:
        return False
    return message.content_type == "json" or (message.content_type is None and is_object(message.text))


def is_unmarked_plan(message: Message) -> bool:
    """Whether the message is commentary to nobody without an intent, as Harmony's plans are (HIP-1.6)."""
    commentary = message.role is Role.ASSISTANT and message.channel == Channel.COMMENTARY
    return commentary and message.recipient is None and message.intent is None


def _footer_findings(frame: Frame, is_call: bool) -> Iterable[Finding]:
    """A-O03: ``call`` ends calls and only them; ``return`` ends final answers."""
    end, at = frame.message.end, frame.places.footer
    if end is End.CALL and not is_call:
        hint = "Only an assistant's message to a tool ends with <|call|>."
        message = "<|call|> ends a message that is no call"
        return [Finding(E_HEADER, message, at.position(), hint, rule="call-footer")]
    if is_call and end in (End.END, End.RETURN):
        hint = f"A call ends with {CALL} (§6)."
        return [Finding(E_HEADER, f"the call ends with <|{end}|>", at.position(), hint, rule="call-footer")]
    if end is End.RETURN and not _is_final(frame) and not frame.head.is_unknown:  # whose role is an error already
        message = "<|return|> ends a message that is no final answer"
        return [Finding(E_HEADER, message, at.position(), warning=True, rule="return-footer")]
    return ()


def _is_function(call: Message) -> bool:
    return (call.recipient or "").startswith(FUNCTIONS + ".")


def _is_final(frame: Frame) -> bool:
    return frame.message.role is Role.ASSISTANT and frame.message.effective_channel == Channel.FINAL


def _set_synthetic_id(frame: Frame, call_id: str) -> None:
    """Gives the message a call id that its text does not carry; written again, it is left out."""
    trivia = replace(frame.trivia or Trivia(), synthetic=call_id)
    frame.trivia = trivia
    frame.message = replace(frame.message, call_id=call_id, extra={**frame.message.extra, "openchatml": trivia})


def in_body(frame: Frame, problem: Problem) -> Finding:
    """The finding for a problem in a body: at its place when the body is written as it reads, else at its start."""
    plain = frame.trivia is None or frame.trivia.body is None
    at = frame.places.body.after(frame.message.text[: problem.offset] if plain else "").position()
    return Finding(problem.code, problem.message, at, problem.hint, problem.warning, rule=problem.rule)
