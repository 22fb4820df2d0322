"""How a model tags its replies, as data: the parser reads by it, and a grammar can be written from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Tag:
    """A pair of markers; each may be a control of the vocabulary, and is text where it is none."""

    open: str
    close: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTag:
    """How one tool call is written in a reply.

    ``object``: ``open`` {"name": …, "arguments": …} ``close``. ``list``: ``open`` [{…}, {…}] ``close``.
    ``named``: ``open`` ``before_name`` NAME ``after_name`` {arguments} ``before_close`` ``close``. ``bare``: the whole
    reply is such objects, with no marker. An empty ``close``: the JSON value's end is the call's. ``arguments`` is the
    key under which the model writes them.
    """

    style: Literal["object", "list", "named", "bare"] = "object"
    open: str = ""
    close: str = ""
    before_name: str = ""
    after_name: str = ""
    before_close: str = ""
    arguments: str = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTags:
    """The tags of one model: reasoning, calls in each of their spellings, and the ``section`` around several calls."""

    reasoning: Tag | None = None
    calls: tuple[CallTag, ...] = ()
    section: Tag | None = None

    @property
    def spellings(self) -> frozenset[str]:
        """Every marker."""
        pairs = [tag for tag in (self.reasoning, self.section) if tag]
        markers = [marker for tag in pairs for marker in (tag.open, tag.close)]
        for call in self.calls:
            markers += [call.open, call.close, *_separators(call)]
        return frozenset(marker for marker in markers if marker)


def _separators(call: CallTag) -> tuple[str, ...]:
    """What surrounds a name and is a marker of its own (`<｜tool▁sep｜>`, `[ARGS]`)."""
    return tuple(
        marker
        for marker in (call.before_name, call.after_name)
        if marker[:1] in ("<", "[") and marker[-1:] in (">", "]")
    )


PLAIN = ReplyTags()

THINK = Tag("<think>", "</think>")

HERMES_CALL = CallTag(open="<tool_call>", close="</tool_call>")
INTERNLM_CALL = CallTag(
    open="<|action_start|>", before_name="<|plugin|>", close="<|action_end|>", arguments="parameters"
)
LLAMA_CALLS = (
    CallTag(open="<|python_tag|>", arguments="parameters"),
    CallTag(style="named", open="<function=", after_name=">", close="</function>"),
    CallTag(style="bare", arguments="parameters"),
)
MISTRAL_CALLS = (
    CallTag(style="list", open="[TOOL_CALLS]"),
    CallTag(style="named", open="[TOOL_CALLS]", after_name="[ARGS]"),
)
DEEPSEEK_CALLS = (
    CallTag(style="named", open="<｜tool▁call▁begin｜>", after_name="<｜tool▁sep｜>", close="<｜tool▁call▁end｜>"),
)
DEEPSEEK_SECTION = Tag("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")


def detect_tags(source: str) -> ReplyTags:
    """The tags of the model that a Jinja template was written for, detected by the markers in its source."""
    calls: tuple[CallTag, ...] = ()
    section = None
    if "<tool_call>" in source:
        calls = (HERMES_CALL,)
    elif "[TOOL_CALLS]" in source:
        calls = MISTRAL_CALLS
    elif DEEPSEEK_SECTION.open in source:
        calls, section = DEEPSEEK_CALLS, DEEPSEEK_SECTION
    elif "<|python_tag|>" in source or ("ipython" in source and '"parameters": ' in source):
        calls = LLAMA_CALLS
    elif "<|action_start|>" in source:
        calls = (INTERNLM_CALL,)
    return ReplyTags(reasoning=THINK if THINK.close in source else None, calls=calls, section=section)
