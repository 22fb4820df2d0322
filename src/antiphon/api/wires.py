"""APIs that others add: a wire with its routes, handed to `create_app` or named in the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from starlette.routing import Route

from antiphon.errors import ConfigError, near
from antiphon.wire.errors import OPENAI_ERRORS, ErrorShape

if TYPE_CHECKING:  # a context has what the application's settings say, and they name wires
    from .context import Context

GROUP = "antiphon.wires"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One API. ``routes`` makes its routes, whose paths stand as they are; most are a `PostRoute` each.

    ``errors`` is how errors are told at ``places`` and below them, those of keys and unknown paths included.
    """

    name: str
    routes: Callable[[Context], Sequence[Route]]
    places: Sequence[str] = ()
    errors: ErrorShape = OPENAI_ERRORS


def load_wires(names: Iterable[str]) -> tuple[Wire, ...]:
    """The wires of installed packages that are named; a package that is not named is not imported.

    A package has an entry point of the group ``antiphon.wires`` for each of its wires, whose object is a `Wire`.
    Raises `ConfigError` (``wire_not_found``, ``wire_broken``).
    """
    known = {point.name: point for point in entry_points(group=GROUP)}
    return tuple(_loaded(name, known) for name in names)


def _loaded(name: str, known: dict[str, EntryPoint]) -> Wire:
    if name not in known:
        hint = near(name, list(known)) or "No installed package brings one of that name."
        raise ConfigError(f"server.wires: there is no wire {name!r}", code="wire_not_found", hint=hint)
    try:
        wire = known[name].load()
    except Exception as error:
        raise ConfigError(f"the wire {name!r} cannot be imported: {error}", code="wire_broken") from error
    if not isinstance(wire, Wire):
        raise ConfigError(f"{known[name].value}, the wire {name!r}, is no Wire", code="wire_broken")
    return wire
