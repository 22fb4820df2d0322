"""OpenChatML 2.2: transcripts, prompts and replies, events, JSON, HIP-1, the compliance suite's runner."""

from antiphon.conversation import Loss
from antiphon.formats.conformance import (
    Case,
    Implementation,
    Level,
    Outcome,
    Tally,
    read_cases,
    run_conformance,
    tallies,
)

from .body import CallArguments, ToolFailure, ToolReply, canonical_call, read_arguments, read_tool_reply
from .declarations import DeclaredTools, declared_tools, lift_tools, read_declaration, tools_behind
from .document import ANTIPHON_CAPABILITIES, Capabilities, DocumentHeader, HarmonyProfile
from .events import EventReader, EventStream, WireEvent, sse
from .finding import SUMMARIES, Finding
from .frame import Trivia
from .markers import Reflection, reflections, show, shown
from .openchatml import OpenChatML, for_prompt, openchatml
from .projection import from_json, message_from_json, message_to_json, to_json, turn_to_json
from .reader import Reader, TranscriptEnvelope, TranscriptParser, begins_transcript, iter_read, read, repair, validate
from .report import FromHarmony, Translated, check, finding_to_json, from_harmony, message_to_harmony, to_harmony
from .rules import Fix, Fixer
from .schemas import SCHEMAS
from .writer import Writer, envelope_of, fix, format_transcript, iter_write, unwritable, write, write_bytes

__all__ = [
    # transcripts
    "Reader",
    "iter_read",
    "read",
    "repair",
    "validate",
    "Writer",
    "iter_write",
    "unwritable",
    "write",
    "write_bytes",
    "format_transcript",
    "TranscriptParser",
    "begins_transcript",
    # what is in them
    "Capabilities",
    "DocumentHeader",
    "TranscriptEnvelope",
    "Finding",
    "HarmonyProfile",
    "ANTIPHON_CAPABILITIES",
    "SUMMARIES",
    "Trivia",
    "envelope_of",
    # made valid
    "Fix",
    "Fixer",
    "fix",
    # a model's format
    "OpenChatML",
    "for_prompt",
    "openchatml",
    # other forms
    "EventReader",
    "EventStream",
    "WireEvent",
    "sse",
    "FromHarmony",
    "Loss",
    "Translated",
    "from_harmony",
    "message_to_harmony",
    "to_harmony",
    "from_json",
    "message_from_json",
    "message_to_json",
    "to_json",
    "turn_to_json",
    "SCHEMAS",
    # tools
    "declared_tools",
    "lift_tools",
    "read_declaration",
    "tools_behind",
    "DeclaredTools",
    "CallArguments",
    "ToolFailure",
    "ToolReply",
    "canonical_call",
    "read_arguments",
    "read_tool_reply",
    # what people see
    "Reflection",
    "reflections",
    "show",
    "shown",
    # the compliance suite
    "Case",
    "Implementation",
    "Level",
    "Outcome",
    "Tally",
    "check",
    "finding_to_json",
    "read_cases",
    "run_conformance",
    "tallies",
]
