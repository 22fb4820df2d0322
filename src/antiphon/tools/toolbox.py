"""Tool sets that are open together, and how they are offered to a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from antiphon.conversation import FUNCTIONS, ToolNamespace, ToolSpec
from antiphon.conversation.tools import is_named

from .call import DescribedTool, Tool, ToolCall, ToolOutput, ToolSet
from .checked import ToolLimits
from .router import Router

if TYPE_CHECKING:  # the browser has libraries that a toolbox without it does not need
    from .browser import Citation


# Built-ins under the names of functions, for models whose format knows functions only (``browser__search``).

_CODE = "code"
_BODY: dict[str, Any] = {
    "type": "object",
    "properties": {_CODE: {"type": "string", "description": "What to run."}},
    "required": [_CODE],
    "additionalProperties": False,
}


class FunctionAlias(DescribedTool):
    """A tool as a function: ``functions.browser__search`` for ``browser.search``; ``python``'s code is an argument."""

    def __init__(self, tool: Tool, description: str) -> None:
        self._tool = tool
        namespace, _, name = tool.recipient.partition(".")
        self.spec = ToolSpec(
            f"{namespace}__{name or 'exec'}",
            description,
            _BODY if tool.parameters is None else tool.parameters,
            namespace=FUNCTIONS,
        )

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        body = arguments[_CODE] if self._tool.parameters is None else call.body
        own = replace(call, recipient=self._tool.recipient, body=body)
        return await self._tool.run(own, {} if self._tool.parameters is None else arguments)


def as_functions(tools: Sequence[Tool], builtins: Sequence[ToolNamespace]) -> list[FunctionAlias]:
    """The tools of ``builtins`` under functions' names, in the words that describe them."""
    words: dict[str, str] = {}
    for namespace in builtins:
        words[namespace.name] = namespace.description or ""
        words |= {spec.recipient: spec.description for spec in namespace.tools}
    return [FunctionAlias(tool, words[tool.recipient]) for tool in tools if tool.recipient in words]


class Offer(msgspec.Struct, frozen=True):
    """How the tools are described to a model, and the router that answers its calls to them."""

    specs: tuple[ToolSpec, ...]
    builtins: tuple[ToolNamespace, ...]
    router: Router

    def has(self, name: str) -> bool:
        """Whether a function or a namespace (``browser``) goes by the name."""
        return any(_goes_by(spec, name) for spec in self.specs) or any(name == one.name for one in self.builtins)

    def only(self, names: Collection[str]) -> Offer:
        """The part of the offer that goes by these names."""
        specs = tuple(spec for spec in self.specs if any(_goes_by(spec, name) for name in names))
        builtins = tuple(namespace for namespace in self.builtins if namespace.name in names)
        recipients = {spec.recipient for spec in specs}
        for namespace in builtins:
            recipients |= {one for one in self.router.recipients if f"{one}.".startswith(f"{namespace.name}.")}
        return Offer(specs, builtins, self.router.only(recipients))


def _goes_by(spec: ToolSpec, name: str) -> bool:
    """``browser`` is ``functions.browser__search`` too, which it has become for a model that knows functions alone."""
    return is_named(spec.recipient, name) or spec.name.partition("__")[0] == name


@runtime_checkable
class Citing(Protocol):
    """Tools whose answers may be cited: the browser."""

    def citations(self, session: str, text: str) -> Sequence[Citation]: ...


class Toolbox:
    """Open tool sets. ``offer`` for a format that knows built-ins, ``functions`` for one that knows functions only.

    Raises ValueError when two tools have one name.
    """

    def __init__(self, sets: Sequence[ToolSet], limits: ToolLimits | None = None) -> None:
        self.sets: tuple[ToolSet, ...] = tuple(sets)
        tools = [tool for one in self.sets for tool in one.tools]
        specs = tuple(spec for one in self.sets for spec in one.specs)
        builtins = tuple(namespace for one in self.sets for namespace in one.builtins)
        self.offer: Offer = Offer(specs, builtins, Router(tools, limits))
        aliases = as_functions(tools, builtins)
        functions = [tool for tool in tools if tool.recipient in {spec.recipient for spec in specs}]
        self.functions: Offer = Offer(
            (*specs, *(alias.spec for alias in aliases)), (), Router([*functions, *aliases], limits)
        )

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
