"""Conversations from form to form as JSON: what is converted, and what came of it."""

from __future__ import annotations

import msgspec


class ConvertRequest(msgspec.Struct, kw_only=True):
    """``input`` is the text of a conversation; ``from`` its form, found out where it is not named.

    Without ``to`` the input is only read and checked. ``lenient`` takes the best reading of a faulty input.
    """

    input: str
    to: str | None = None
    source: str | None = msgspec.field(default=None, name="from")
    lenient: bool | None = None


class ConversionForms(msgspec.Struct, frozen=True, kw_only=True):
    """What can be read (``from``) and written (``to``), and the ``templates`` that can be written too, by name."""

    source: list[str] = msgspec.field(name="from")
    to: list[str]
    templates: list[str]


class FoundLoss(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not in the output: its ``path`` in the conversation, and what it is or ``becomes``.

    ``kind``: ``semantic``, ``derivable`` (a rule restores it) or ``spelling`` (only how it was written).
    """

    path: str
    what: str
    becomes: str | None
    kind: str


class ConversionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the input, or why the other form cannot have it.

    ``line`` and ``column`` count from 1, ``offset`` characters from 0; ``path`` is a place in JSON. Null: not known.
    """

    code: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    offset: int | None = None
    path: str | None = None
    warning: bool = False


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``: the input was read, and written where that was requested; else ``output`` is null and a finding says why.

    ``from`` is null where no form is known to be that of the input. ``lost`` counts the losses, of which ``losses``
    has the first.
    """

    ok: bool
    source: str | None = msgspec.field(name="from")
    to: str | None
    output: str | None
    lost: int
    losses: list[FoundLoss]
    warnings: list[str]
    findings: list[ConversionFinding]
