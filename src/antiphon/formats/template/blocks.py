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
    """How results of tools are written; neighbours share one ``open`` and ``close``.

    ``named``: the marker of a result that names its tool, where it is another than ``each``. ``role``: what a message
    with a result may be called, beside tool.
    """

    open: str = ""
    each: str
    end: str
    close: str = ""
    named: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How an assistant's tool calls are written: ``each`` has places for a call's {name} and its {arguments}, as JSON.

    ``eoa``: what ends a message with calls (None: what ends any answer). ``marks``: texts by which an answer is such a
    message too. ``dropped``: `messages2prompt` leaves calls out, as LMDeploy's does; a rendering for a model has them.
    """

    each: str
    between: str = ""
    eoa: str | None = None
    marks: tuple[str, ...] = ()
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """How the tools are made known at the beginning: ``open``, each of them, ``close``.

    ``each`` has places for a tool's {name}, its {description}, and for the {tool} as JSON, in lines where ``indent`` is
    above 0. ``place``: after the system text or before it (then in every system text), or apart in a system block of
    its own. ``name``: the name in that block's marker. ``framed``: the blocks ``tool`` and ``eotool`` stand around it.
    """

    open: str = ""
    each: str = "{tool}"
    between: str = ""
    close: str = ""
    indent: int = 0
    place: Literal["after", "before", "apart"] = "after"
    name: str = ""
    framed: bool = False


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
    of a single user text; ``strips``: it loses the blanks around it. ``names``: the name in a named message's marker.
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
    strips: bool = False
    names: dict[str, str] = field(default_factory=dict)
    replies: Replies | None = None
    calls: Calls | None = None
    offers: Offers | None = None
    infilling: Infilling | None = None
