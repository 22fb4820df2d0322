"""APIs that others add: a wire with its routes, handed to `create_app` or named in the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.routing import Route

from antiphon.errors import ConfigError, near
from antiphon.http.errors import OPENAI_ERRORS, ErrorShape
from antiphon.plugins import WIRES, load_plugin, plugin_names

from .openapi.parts import UNDESCRIBED, Described

if TYPE_CHECKING:  # a context has what the application's settings say, and they name wires
    from antiphon.http.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One API. ``routes`` makes its routes, whose paths are used as given; most are a `PostRoute` each.

    ``errors`` writes errors at ``places`` and below them, those of keys and unknown paths included; and at
    ``shared_places``, which other wires have too, for requests that have the header ``mark``. ``described`` is what
    ``/openapi.json`` says of it, or where that is (``module:NAME``), which is imported for it.
    """

    name: str
    routes: Callable[[Context], Sequence[Route]]
    places: Sequence[str] = ()
    shared_places: Sequence[str] = ()
    mark: str = ""
    errors: ErrorShape = OPENAI_ERRORS
    described: Described | str = UNDESCRIBED


def load_wires(names: Iterable[str]) -> tuple[Wire, ...]:
    """The wires of installed packages that are named; a package that is not named is not imported.

    A package has an entry point of the group ``antiphon.wires`` for each of its wires, whose object is a `Wire`.
    Raises `ConfigError` (``wire_not_found``, ``plugin_unusable``, ``plugin_ambiguous``).
    """
    return tuple(map(_loaded, names))


def _loaded(name: str) -> Wire:
    wire = load_plugin(WIRES, name)
    if wire is None:
        hint = near(name, plugin_names(WIRES)) or "No installed package brings one of that name."
        raise ConfigError(f"server.wires: there is no wire {name!r}", code="wire_not_found", hint=hint)
    if not isinstance(wire, Wire):
        raise ConfigError(f"the {WIRES} entry {name!r} is no Wire", code="plugin_unusable")
    return wire
