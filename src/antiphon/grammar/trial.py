"""Programs of clients compiled by themselves, in a process of its own: so it is known that they come to an end.

A piece of work is a list of programs as JSON; its answer is what was found of each. JSON of Python's own, because a
schema may hold integers of any size and halves of characters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from antiphon.errors import ConfigError
from antiphon.errors.extras import extra

from .grammar import Json, NamedRules, Regex
from .schema import Enforced, Relaxation, is_plain, is_plain_pattern
from .source.read import read_grammar

if TYPE_CHECKING:  # llguidance is an extra
    from .compiler import Vocabulary

Program = Json | Regex | NamedRules


def dear(programs: Sequence[Program]) -> list[Json | Regex]:
    """The schemas and patterns of clients, which have a path, of which it is not known that they take a moment."""
    return [one for one in programs if not isinstance(one, NamedRules) and one.path and not _is_plain(one)]


def _is_plain(program: Json | Regex) -> bool:
    match program:
        case Json(schema):
            return is_plain(schema)
        case Regex(pattern):
            return is_plain_pattern(pattern)
        case _:
            assert_never(program)


def piece_of(programs: Sequence[Json | Regex]) -> bytes:
    """The piece of work that tries schemas and patterns."""
    return json.dumps([_spelled(one) for one in programs]).encode()


def rules_piece(text: str, path: str) -> bytes:
    """The piece of work that tries a grammar."""
    return json.dumps([{"grammar": text, "path": path}]).encode()


class Tried(msgspec.Struct, frozen=True):
    """Findings of the schemas, by their path, and the bytes that compiling the programs took.

    Of a pattern or a grammar it is found that it can be compiled.
    """

    enforced: Mapping[str, Enforced] = MappingProxyType({})
    taken: int = 0


def tried_of(answer: bytes, programs: Sequence[Json | Regex] = ()) -> Tried:
    """Reads the findings of the piece of work of ``programs``, or of a grammar."""
    done = json.loads(answer)
    enforced = {
        program.path: Enforced(one["engine"], tuple(Relaxation(*each) for each in one["relaxed"]))
        for program, one in zip(programs, done["found"], strict=False)
        if isinstance(program, Json)
    }
    return Tried(enforced, done["taken"])


def work(piece: bytes) -> bytes:
    """Compiles each program alone. Raises `RequestError` with its place."""
    before = _memory()
    found = [_tried(one) for one in json.loads(piece)]
    return json.dumps({"found": found, "taken": max(0, _memory() - before)}).encode()


def _memory() -> int:
    """Bytes that this process has of its own, without the pages of libraries, which it only reads as it goes.

    It is a fresh one, whose heap gives little back. Where that is not known: the most that it ever had in all.
    """
    import resource  # Windows has no such module, and no such processes

    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with open("/proc/self/statm", "rb") as file:
        resident, shared = map(int, file.read().split()[1:3])
    return (resident - shared) * resource.getpagesize()


def prepare() -> None:
    """Makes what every trial needs; where an extra is not installed each of them says so."""
    with suppress(ConfigError):
        _vocabulary()


@cache
def _vocabulary() -> Vocabulary:
    with extra("local", "a grammar"):
        from .admitted import byte_vocabulary

    return byte_vocabulary()


def _spelled(program: Json | Regex) -> dict[str, Any]:
    match program:
        case Json(schema, path, strict):
            return {"schema": schema, "path": path, "strict": strict}
        case Regex(pattern, path):
            return {"pattern": pattern, "path": path}
        case _:
            assert_never(program)


def _tried(given: dict[str, Any]) -> dict[str, Any] | None:
    vocabulary = _vocabulary()
    from .compiler import compile_grammar  # llguidance is an extra

    path: str = given["path"]
    if "grammar" in given:
        compile_grammar(read_grammar(given["grammar"], path), vocabulary)
        return None
    if "pattern" in given:
        compile_grammar(Regex(given["pattern"], path), vocabulary)
        return None
    schema = compile_grammar(Json(given["schema"], path, given["strict"]), vocabulary).schemas[path]
    return {"engine": schema.engine, "relaxed": [[each.keyword, each.path] for each in schema.relaxed]}
