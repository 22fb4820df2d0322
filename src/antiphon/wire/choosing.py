"""Which tools a choice names: the caller's own by their names, a server's by their qualified names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon.conversation import FUNCTIONS, ToolNamespace, ToolSpec, described

from .errors import refused


def chosen_tools(
    name: str, path: str, own: Iterable[ToolSpec], served: Sequence[ToolSpec], builtins: Sequence[ToolNamespace] = ()
) -> tuple[str, ...]:
    """The recipients that ``name`` stands for: a tool of the caller's ``own``, else those of the server's.

    One of the server's is named as its calls are addressed (``browser.search``, ``python``) or as answers spell that
    (``browser__search``); ``browser`` is all of them. Raises `RequestError` at ``path`` where nothing is named so.
    """
    mine = [tool.recipient for tool in own if name in (tool.name, tool.recipient)]
    return tuple(mine) or served_by(name, served, builtins) or _unknown(name, path)


def served_by(name: str, specs: Sequence[ToolSpec], builtins: Sequence[ToolNamespace] = ()) -> tuple[str, ...]:
    """The recipients among a server's tools that the name stands for."""
    offered = [spec.recipient for spec in specs]
    offered += [recipient for namespace in map(described, builtins) for recipient in namespace.recipients]
    exact = [recipient for recipient in offered if _spelled(recipient) == _spelled(name)]
    return tuple(exact or [one for one in offered if _spelled(one).startswith(f"{_spelled(name)}__")])


def _spelled(name: str) -> str:
    return name.removeprefix(f"{FUNCTIONS}.").replace(".", "__")


def _unknown(name: str, path: str) -> tuple[str, ...]:
    raise refused(path, f"no tool is named {name[:64]!r}.")
