"""A declared template's data: marker strings, and a rule for how they are joined (docs/templates.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The marker strings, by LMDeploy's names: ``user`` U ``eoh`` ``assistant`` A ``eoa`` ``separator``.

    ``meta_instruction`` None: no system block where the conversation has no system text; "": an empty one.
    """

    system: str = ""
    meta_instruction: str | None = ""
    eosys: str = ""
    user: str = ""
    eoh: str = ""
    assistant: str = ""
    eoa: str = ""
    separator: str = ""
    tool: str = ""
    eotool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """How results of tools are written; neighbours share one ``open`` and ``close``."""

    open: str = ""
    each: str
    end: str
    close: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How an assistant's tool calls are written: JSON with the arguments under the key ``arguments``."""

    open: str
    close: str
    between: str = ""
    arguments: str = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """How the tools are made known, after the system text and in its block."""

    open: str
    each: str
    end: str
    close: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Infilling:
    """CodeLlama's fill-in-the-middle: ``mark`` in the user's text marks where text is to be filled in."""

    mark: str
    prefix_first: str
    suffix_first: str
    stop_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Where a template departs from the common rule.

    ``start``: before a first turn. ``resume``: before a follow-up turn (None: the separator). ``cue``: after the last
    assistant marker of a history; ``cue_after_prefix``: even after an open answer. ``preface``: before the default
    system text of a history. ``meta`` always: the default system text stays although the history has one.
    ``prefill``: what a last assistant message becomes: an open answer (``strip``: where it has an end to strip;
    ``open``: always), or a whole one after which a new one is opened (``reopen``). ``clip``: the last character is
    dropped, of the assistant ``marker`` only, or of whatever ends the ``prompt``. ``reading``: message by message, or
    paired in rounds (of which some are ``numbered``). ``system`` dropped: a system text is left out. ``alone``: blocks
    of a single user text. ``names``: the name in a named message's marker.
    """

    start: str = ""
    resume: str | None = None
    cue: str = ""
    cue_after_prefix: bool = False
    preface: str = ""
    meta: Literal["default", "always"] = "default"
    prefill: Literal["strip", "open", "reopen"] = "strip"
    clip: Literal["none", "marker", "prompt"] = "none"
    reading: Literal["sequence", "rounds", "numbered", "jinja"] = "sequence"
    system: Literal["written", "dropped"] = "written"
    alone: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    replies: Replies | None = None
    calls: Calls | None = None
    offers: Offers | None = None
    infilling: Infilling | None = None
