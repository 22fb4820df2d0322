"""Tool sets that are open together, and how they are offered to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from antiphon.conversation import ToolNamespace, ToolSpec

from .alias import as_functions
from .router import Router, ToolLimits
from .tool import ToolSet

if TYPE_CHECKING:  # the browser has libraries that a toolbox without it does not need
    from .browser import Citation


@dataclass(frozen=True, slots=True)
class Offer:
    """How the tools are described to a model, and the router that answers its calls to them."""

    specs: tuple[ToolSpec, ...]
    builtins: tuple[ToolNamespace, ...]
    router: Router


@runtime_checkable
class Citing(Protocol):
    """Tools whose answers may be cited: the browser."""

    def citations(self, session: str, text: str) -> Sequence[Citation]: ...


class Toolbox:
    """Open tool sets. ``offer`` for a format that knows built-ins, ``functions`` for one that knows functions only.

    Raises ValueError when two tools have one name.
    """

    def __init__(self, sets: Sequence[ToolSet], limits: ToolLimits | None = None) -> None:
        self.sets = tuple(sets)
        tools = [tool for one in self.sets for tool in one.tools]
        specs = tuple(spec for one in self.sets for spec in one.specs)
        builtins = tuple(namespace for one in self.sets for namespace in one.builtins)
        self.offer = Offer(specs, builtins, Router(tools, limits))
        aliases = as_functions(tools, builtins)
        functions = [tool for tool in tools if tool.recipient in {spec.recipient for spec in specs}]
        self.functions = Offer((*specs, *(alias.spec for alias in aliases)), (), Router([*functions, *aliases], limits))

    @property
    def router(self) -> Router:
        return self.offer.router

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.offer.specs

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return self.offer.builtins

    def offered(self, *, builtins: bool) -> Offer:
        """As built-ins where the format knows them (Harmony, OpenChatML), else as functions."""
        return self.offer if builtins else self.functions

    def citations(self, session: str, text: str) -> list[Citation]:
        """The pages that an answer in this session names."""
        return [cited for one in self.sets if isinstance(one, Citing) for cited in one.citations(session, text)]

    async def aclose(self) -> None:
        for one in self.sets:
            await one.aclose()
