"""What ``options`` says, and the same names beside it, as one; errors keep the client's own path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from antiphon.errors import Position, RequestError
from antiphon.wire.errors import refused
from antiphon.wire.json import decode, encode
from antiphon.wire.names.translate import Names

from .schema import KeepAlive, OllamaOptions, OllamaRequest

PLACE = "options"
_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)((ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*)?")
_USUAL_PENALIZED = 64
"""Ollama's own ``repeat_last_n``."""


def merged_options(wire: OllamaRequest, names: Names) -> tuple[OllamaOptions, Names]:
    """The settings of a request from both places, and how the client named them.

    ``names`` are those of the body. Raises `RequestError` for what cannot be honoured, and for two values of one name.
    """
    inner, within = _decoded(wire.options or {})
    outer = {name: getattr(wire, name) for name in OllamaOptions.__struct_fields__}
    given = {name: value for name in outer if (value := getattr(inner, name)) is not None}
    restored = dict(_restored(given, within))
    for name, value in given.items():
        if outer[name] is not None and outer[name] != value:
            other = names.restored.get(name, name)
            raise refused(restored.get(name, f"{PLACE}.{name}"), f"{other} is there with another value.")
    ignored = [f"{PLACE}.{name}" for name in within.ignored]
    settings = OllamaOptions(**{**outer, **given})
    if settings.repeat_last_n not in (None, _USUAL_PENALIZED):
        ignored.append(restored.get("repeat_last_n", "repeat_last_n"))
    # The body's own ignored fields were noted as it was read.
    return settings, replace(names, restored={**names.restored, **restored}, ignored=tuple(ignored))


def warnings_of(settings: OllamaOptions, context: int) -> tuple[str, ...]:
    """What a client asks of the loading of a model and does not get."""
    if settings.num_ctx is None or settings.num_ctx <= context:
        return ()
    return (f"num_ctx is {settings.num_ctx} and the model's context is {context}",)


def check_keep_alive(keep_alive: KeepAlive) -> None:
    """Raises `RequestError` for what is no duration."""
    if isinstance(keep_alive, str) and not _DURATION.fullmatch(keep_alive):
        raise refused("keep_alive", f"{keep_alive[:40]!r} is no duration.", hint="Send seconds, or 5m.")


def unloads(keep_alive: KeepAlive) -> bool:
    """Whether the duration is nothing."""
    if isinstance(keep_alive, str):
        return not re.search(r"[1-9]", keep_alive)
    return keep_alive == 0 and keep_alive is not None


def _decoded(options: Mapping[str, msgspec.Raw]) -> tuple[OllamaOptions, Names]:
    try:
        return decode(encode(dict(options)), OllamaOptions)
    except RequestError as error:
        raise _within(error) from None


def _within(error: RequestError) -> RequestError:
    """The error with the path of the whole body."""
    path = error.position.path if error.position else None
    if path is None:
        return error
    place = f"{PLACE}.{path}"
    if error.message.startswith(path):
        error.message = place + error.message[len(path) :]
        error.args = (error.message,)
    error.position = Position(path=place)
    return error


def _restored(given: Mapping[str, object], within: Names) -> Iterator[tuple[str, str]]:
    """Paths as the routes know them, and as the client wrote them; the longest that is known comes first."""
    for ours, theirs in within.restored.items():
        yield ours, f"{PLACE}.{theirs}"
    for name in given:
        if name not in within.restored:
            yield name, f"{PLACE}.{name}"
