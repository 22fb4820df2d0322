"""The table of the rules of a transcript, and the loops over it: frames are checked, and messages mended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from antiphon.conversation import Channel, End, Message, Role, ToolSpec, visible_to_user
from antiphon.errors import Position

from . import judges, mends
from .document import DocumentHeader
from .finding import E_TRUNCATED, Finding, Severity
from .frame import Frame
from .judges import Found
from .state import RuleState

Judge = Callable[[Frame, RuleState], Found]
Mend = Callable[[Message, RuleState], Message | None]


KINDS = ("call", "unknown", *Role)
"""Kinds of frames: calls, those of a role that there is not, and the roles of all others."""


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule: its name, the clause of the format's page and the specification's section, and what it requires.

    ``judge`` finds where a frame breaks it; None: the machine, the head's parser or the header's reader does.
    ``mend`` gives the message that keeps it, where one is surely meant, and ``resort`` what is written otherwise; both
    None for a message that keeps it. ``of`` are the kinds of frames that are judged, under headers with ``needs``.
    """

    name: str
    clause: str
    section: str
    what: str
    judge: Judge | None = None
    mend: Mend | None = None
    resort: Mend | None = None
    level: Severity = Severity.ERROR
    of: tuple[str, ...] = KINDS
    needs: str | None = None


CALLS, REPLIES = ("call",), (Role.TOOL,)
NO_CALLS = KINDS[1:]
WARNING = Severity.WARNING
_TABLE = (
    # The header.
    TextRule("other-form", "2.1", "§2", "The text is a transcript of version 2, not a conversation of another form."),
    TextRule("header-missing", "1.2", "§2", "A transcript begins with a YAML header."),
    TextRule("header-endless", "2.2", "", "A header has at most 65,536 characters."),
    TextRule("header-version-missing", "2.3", "§2", "The header names the version."),
    TextRule("header-version", "2.3", "§2", "The version is major.minor, of version 1 or 2."),
    TextRule("header-form", "2.2", "§2",
         "The header is a mapping of plain data: no anchors, tags or repeated keys, at most 16 levels."),
    TextRule("header-yaml", "2.1", "§2", "The header is YAML."),
    # Text and frames.
    TextRule("text-outside", "1.1", "§15", "All text is in frames."),
    TextRule("head-endless", "5.1", "", "A head has at most 4,096 characters."),
    TextRule("control-in-head", "4.1", "§15", "No frame begins or ends inside a head."),
    TextRule("control-in-body", "4.2", "§15", "A control that is text is escaped; frames do not nest."),
    TextRule("body-not-utf8", "3.5", "§6", "Bytes that are not UTF-8 are in literal blocks."),
    TextRule("truncated", "4.4", "§9", "The last frame ends.", resort=mends.end_open),
    TextRule("turn-unfinished", "9.4", "§9", "An assistant's turn ends with an answer or a call.", level=WARNING),
    # Heads.
    TextRule("role-missing", "5.1", "§15", "A role follows <|start|> at once.", mend=mends.respell),
    TextRule("role-form", "5.1", "§15", "Nothing but blanks and tabs follows a role.", mend=mends.respell),
    TextRule("attribute-value", "5.5", "§15",
         "A value is visible ASCII without controls; other characters are percent-encoded.", mend=mends.respell),
    TextRule("role-unknown", "5.2", "§4", "The role is system, developer, user, assistant, tool, or a tool's name.",
         mend=mends.name_role),
    TextRule("channel-unknown", "5.9", "§5", "The channel is analysis, commentary or final.",
         mend=mends.name_channel, resort=mends.hide_unknown),
    TextRule("channel-form", "5.1", "§15", "The channel follows its control at once, and precedes <|constrain|>.",
         mend=mends.respell),
    TextRule("section-twice", "5.1", "§15", "A head has one channel and one type."),
    TextRule("section-empty", "5.1", "§15", "<|channel|> and <|constrain|> are followed by a word."),
    TextRule("recipient-unknown", "5.6", "§6", "to= names the assistant or a tool, with its namespace.",
         resort=mends.qualify_recipient),
    TextRule("intent-unknown", "5.8", "§6", "The intent is preamble, status or debug.",
         mend=mends.name_intent, resort=mends.drop_intent),
    TextRule("attribute-unknown", "5.3", "§15", "Attributes are to, call_id, name, intent and content_type."),
    TextRule("attribute-place", "5.4", "§6", "An attribute is where the grammar has it.", mend=mends.respell),
    TextRule("attribute-twice", "5.3", "§15", "An attribute is there once.", mend=mends.respell),
    TextRule("attribute-conflict", "5.4", "§6", "What a head says twice it says alike."),
    # What the header excludes, and what its profile requires.
    TextRule("version-1", "12.1", "§13", "A transcript of version 1 uses nothing of version 2.",
         judges.version_1,
         resort=mends.as_version_1, needs="legacy"),
    TextRule("channel-missing", "11.1", "HIP-1.2", "Where the profile of Harmony holds, messages have channels.",
         judges.channel_missing, mends.add_channel, mends.require_channel, needs="require_channels"),
    TextRule("call-unmarked", "11.2", "HIP-1.4", "Where the profile of Harmony holds, JSON arguments are marked.",
         judges.call_unmarked, mends.mark_json, mends.mark_required, of=CALLS, needs="require_channels"),
    TextRule("plan-unmarked", "11.3", "HIP-1.6",
             "Where the profile of Harmony holds, commentary to nobody has an intent.",
         judges.plan_unmarked, resort=mends.mark_status, needs="require_channels"),
    # Calls and their replies.
    TextRule("call-id-missing", "7.2", "§8", "A call has a call_id.",
             judges.call_id_missing, mends.add_call_id, of=CALLS),
    TextRule("call-id-twice", "7.2", "§8", "A call_id is unique in the transcript.",
         judges.call_id_twice, resort=mends.number_call_id, of=CALLS),
    TextRule("call-channel", "7.1", "§8", "Functions are called on commentary, built-in tools on analysis too.",
         judges.call_channel, mends.place_call, mends.move_call, of=CALLS),
    TextRule("call-footer", "4.3", "§3", "<|call|> ends calls, and nothing else does.",
         judges.call_footer, mends.set_footer),
    TextRule("tool-undeclared", "7.9", "§16", "A call is of a tool that is declared, where its namespace is.",
         judges.tool_undeclared, of=CALLS),
    TextRule("reply-id-missing", "7.5", "§8", "A tool's reply has the call_id of its call.",
         judges.reply_id_missing, mends.add_reply_id, mends.add_oldest_id, of=REPLIES),
    TextRule("reply-name-missing", "5.7", "§6", "A tool's reply names its tool.", mend=mends.name_tool),
    TextRule("reply-to-nothing", "7.5", "§8", "A tool's reply answers a call before it.",
         judges.reply_to_nothing, of=REPLIES),
    TextRule("reply-twice", "7.5", "§8", "A call has one reply.", judges.reply_twice, level=WARNING, of=REPLIES),
    TextRule("reply-of-another", "7.5", "§8", "A reply comes from the tool that was called.",
         judges.reply_of_another, level=WARNING, of=REPLIES),
    # Bodies.
    TextRule("body-type", "6.1", "§6", "A body is of the type behind <|constrain|>: json, yaml, toml or xml.",
         judges.body_of_type, resort=mends.promise_nothing, of=NO_CALLS),
    TextRule("call-arguments", "7.4", "§8", "A call's arguments are an object that fits its tool.",
         judges.call_arguments, resort=mends.call_text, of=CALLS),
    TextRule("call-deadline", "7.4", "§8", "deadline_ms is a positive whole number.",
         judges.call_deadline, level=WARNING, of=CALLS, needs="warnings"),
    TextRule("reply-envelope", "7.6", "§8", "A reply's envelope says ok, or what went wrong.",
         judges.reply_envelope, level=WARNING, of=REPLIES, needs="warnings"),
    TextRule("declaration-unread", "7.9", "§16", "A declaration of tools is one that is read.",
         judges.declaration_unread, level=WARNING, of=(Role.SYSTEM, Role.DEVELOPER)),
    TextRule("calls-mixed", "7.10", "§6", "A turn calls with frames, and not with JSON's tool_calls too.",
         judges.calls_mixed, level=WARNING, of=("call", Role.ASSISTANT), needs="warnings"),
    TextRule("reflection-outside", "6.5", "§7", "The markers of reflection are in analysis alone.",
         judges.reflection_outside, level=WARNING, of=("call", Role.ASSISTANT), needs="warnings"),
    TextRule("return-footer", "4.3", "§3", "<|return|> ends final answers.",
         judges.return_footer, mends.end_plainly, level=WARNING, of=NO_CALLS),
    TextRule("capability", "2.5", "§2", "What the header's capabilities leave out is not used.",
         judges.capability, resort=mends.without_excluded, needs="limited"),
    TextRule("other", "1.3", "§14", "The transcript is valid in whatever no other rule names."),
)  # fmt: skip
RULES: dict[str, TextRule] = {rule.name: rule for rule in _TABLE}
"""Every rule that a reader finds broken, by its name."""


def cited(finding: Finding) -> str | None:
    """The finding's hint, and the clause of the format's page that says so."""
    if finding.rule == "other":
        return finding.hint
    return f"{finding.hint or ''} See {RULES[finding.rule].clause} of the format.".lstrip()


def kind_of(frame: Frame) -> str:
    role = frame.message.role
    if role is Role.ASSISTANT:
        return "call" if frame.message.is_call else role
    return "unknown" if frame.head.is_unknown else role


class Rules:
    """Checks frames in their order; `check_frame` also fills in what legacy and Harmony text leaves out.

    ``warnings`` False: what is allowed, and perhaps not meant, is not looked for.
    """

    def __init__(
        self, header: DocumentHeader | None, *, harmony: bool = False, tools: Mapping[str, ToolSpec] | None = None,
        warnings: bool = True, taken: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.state = state = RuleState(header, harmony=harmony, tools=tools, warnings=warnings, taken=taken)
        held = [rule for rule in _TABLE if rule.judge and (rule.needs is None or getattr(state, rule.needs))]
        self._judges = {kind: [rule.judge for rule in held if rule.judge and kind in rule.of] for kind in KINDS}

    @property
    def is_free(self) -> bool:
        """Whether a frame that neither calls nor answers nor promises a type can break no rule."""
        return not (self.state.legacy or self.state.limited or self.state.require_channels)

    def check_frame(self, frame: Frame) -> list[Finding]:
        """Returns the frame's findings; ``frame.message`` gets the ids that it lacks."""
        found = self.judge(frame)
        self.state.follow(frame)
        return found

    def judge(self, frame: Frame) -> list[Finding]:
        """Returns what is wrong with the frame behind those that the state followed."""
        state, kind = self.state, kind_of(frame)
        found: list[Finding] = []
        for judge in self._judges[kind]:
            if some := judge(frame, state):
                found += some
        return found

    def close(self, end: Position) -> Iterator[Finding]:
        """§9: a turn that stops in the middle is incomplete. An answer that was cut can be sent back: a warning.

        A caller who asks for Harmony's profile asks for the last answer's ``<|return|>`` too (HIP-1.8).
        """
        state, last = self.state, self.state.last
        if last is None or last.message.role is not Role.ASSISTANT or last.message.end is not End.END:
            return
        answers = last.message.effective_channel == Channel.FINAL and not state.whole_turns
        if last.message.is_call or answers:
            return
        yield Finding(
            E_TRUNCATED, "no <|return|> or <|call|> at the end", end,
            "An assistant's turn ends with a final answer or a call.", not state.whole_turns, rule="turn-unfinished",
        )  # fmt: skip


# Messages made such as a transcript can have, and what was changed for that.

FIELDS = tuple(field.name for field in fields(Message) if field.compare)
_MENDS: tuple[Mend, ...] = tuple(
    mend
    for rule in RULES.values()
    if rule.level is Severity.ERROR
    for mend in ((rule.resort,) if rule.needs else (rule.mend, rule.resort))
    if mend is not None
)
"""The mends of the rules that `write` asks for; one that a header asks for looks at it first."""
_ROUNDS = 5
"""Rounds of mending: each mend is behind those that it waits for, but for a few."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One field of a message that was changed: ``path`` is ``messages[3].call_id``."""

    path: str
    had: object
    has: object

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.had)} becomes {_shown(self.has)}"


class Fixer:
    """Fixes the messages of one transcript, in their order; ``fixes`` is what was changed so far.

    What was hidden stays hidden, no text is changed, and no message is added or left out. ``texts``: where the header
    excludes literal blocks, a text that takes one is written nearly as it is.
    """

    def __init__(self, header: DocumentHeader | None, *, texts: bool = False) -> None:
        self._texts = texts
        self.fixes: list[Fix] = []
        self._number = 0
        self._state = RuleState(header)
        self._renamed: dict[str | None, deque[str | None]] = {}
        """The ids of calls that wait, by the ids that they had."""

    def message(self, message: Message) -> Message:
        """The message, fixed; the one that came in where nothing was to be done."""
        fixed = self._answering(message) if message.role is Role.TOOL else message
        for _ in range(_ROUNDS):
            before = fixed
            for mend in _MENDS:
                fixed = mend(fixed, self._state) or fixed
            if visible_to_user(fixed) and not visible_to_user(message):
                fixed = _hidden(fixed)
            if fixed is before or fixed == before:
                break
        if self._texts:
            fixed = mends.without_literals(fixed, self._state)
        if fixed.is_call:
            self._renamed.setdefault(message.call_id, deque()).append(fixed.call_id)
        self._state.calls.follow(fixed)
        changes = [Fix(f"messages[{self._number}].{name}", had, has) for name, had, has in differences(message, fixed)]
        self.fixes += changes
        self._number += 1
        return fixed if changes else message

    def _answering(self, reply: Message) -> Message:
        """Replies to calls that had one id answer them in their order."""
        waiting = self._renamed.get(reply.call_id) if reply.call_id is not None else None
        if not waiting:
            return reply
        call_id = waiting.popleft()
        return reply if call_id == reply.call_id else replace(reply, call_id=call_id)


def _hidden(message: Message) -> Message:
    """A message that nobody was shown is on a channel that nobody is shown; `write` refuses it where there is none."""
    end = End.END if message.end is End.RETURN else message.end
    return replace(message, channel=Channel.ANALYSIS, intent=None, end=end)


def differences(before: Message, after: Message) -> Iterator[tuple[str, object, object]]:
    """The fields in which two messages differ, with both values."""
    if before is after:
        return
    for name in FIELDS:
        had, has = getattr(before, name), getattr(after, name)
        if had != has:
            yield name, had, has


def _shown(value: object) -> str:
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
