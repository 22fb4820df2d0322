"""docs/reference-python.md and docs/reference-packages.md: the public names, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from typing import Any, is_typeddict

import msgspec

import antiphon
from docs.rooms import ROOMS, ROOT, module_of
from docs.text import code, docstring

HEAD = """\
# The public names of `antiphon`

Written by `python tests/docs/reference.py` from signatures and docstrings. [Antiphon in Python](python.md) shows how
they are used; [the packages below](reference-packages.md) have the parts. What goes is in the changelog.
"""
PACKAGES = """\
# The public names of the packages

Written by `python tests/docs/reference.py` from signatures and docstrings: what the packages below `antiphon` export.
Most programs need only [`import antiphon`](reference-python.md). [Architecture](architecture.md) says what each is for.
"""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
LONGEST = 96
"""Of a signature in one line."""


def python_page() -> str:
    lines = [HEAD]
    for name in antiphon.__all__:
        lines += described(name, getattr(antiphon, name), members=True)
    return "\n".join(lines).rstrip() + "\n"


def packages_page() -> str:
    lines = [PACKAGES]
    for room in ROOMS:
        if room == ROOT:
            continue
        module = module_of(room)
        lines += [f"## antiphon.{room}\n", f"{docstring(module)}\n"]
        for name in sorted(module.__all__, key=str.lower):
            lines += described(name, getattr(module, name), depth=3)
    return "\n".join(lines).rstrip() + "\n"


def described(name: str, thing: Any, *, depth: int = 2, members: bool = False) -> Iterator[str]:
    """The section of one name; ``members``: with the public methods of a class."""
    yield f"{'#' * depth} {name}\n"
    if written := declaration(name, thing):
        yield f"```py\n{written}\n```\n"
    about = docstring(thing) if documented(thing) else ""
    if about:
        yield f"{about}\n"
    if members and inspect.isclass(thing):
        for method, function in public_methods(thing):
            yield from described(f"{name}.{method}", function, depth=depth + 1)


def documented(thing: Any) -> bool:
    """Whether a docstring is its own: not that of its type, nor what ``dataclass`` writes."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or isinstance(thing, property)):
        return False
    return not (inspect.isclass(thing) and (thing.__doc__ or "").startswith(f"{thing.__name__}("))


def declaration(name: str, thing: Any) -> str:
    if isinstance(thing, property):
        return f"{name}: {annotation(inspect.signature(thing.fget).return_annotation) if thing.fget else ''}"
    if inspect.isclass(thing):
        return class_line(name, thing)
    if inspect.isroutine(thing):
        kind = "async def" if inspect.iscoroutinefunction(thing) else "def"
        return signature_of(f"{kind} {name}", thing)
    shown = code(thing)[1:-1] if isinstance(thing, str | int | float | bool) else ""
    return f"{name} = {shown}" if shown else ""


def class_line(name: str, kind: Any) -> str:
    if issubclass(kind, enum.Enum):
        return f"class {name}: " + ", ".join(member.name for member in kind)
    if issubclass(kind, BaseException):
        bases = ", ".join(base.__name__ for base in kind.__bases__)
        return f"class {name}({bases})"
    if is_typeddict(kind) or getattr(kind, "_is_protocol", False):
        fields = "".join(f"\n    {field}: {annotation(type)}" for field, type in own_annotations(kind).items())
        return f"class {name}:{fields}" if fields else f"class {name}"
    try:
        return signature_of(f"class {name}", kind)
    except ValueError:  # a class in C says nothing of its arguments
        return f"class {name}"


def own_annotations(kind: type) -> dict[str, object]:
    return inspect.get_annotations(kind)


def annotation(given: object) -> str:
    return given if isinstance(given, str) else inspect.formatannotation(given)


def signature_of(head: str, thing: Any) -> str:
    """``def name(…)``, in one line, or a parameter a line."""
    signature = inspect.signature(thing)
    if inspect.isclass(thing) and issubclass(thing, msgspec.Struct):
        signature = as_written(signature, thing)
    shown = [param for name, param in signature.parameters.items() if name not in ("self", "cls")]
    signature = signature.replace(parameters=[unquoted(param) for param in shown])
    if inspect.isclass(thing):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    text = ADDRESS.sub("", f"{head}{signature}").replace("'", "")
    if len(text) <= LONGEST:
        return text
    inner = "".join(f"    {line},\n" for line in parts(signature))
    tail = ADDRESS.sub("", str(signature.replace(parameters=[]))).removeprefix("()").replace("'", "")
    return f"{head}(\n{inner}){tail}"


def as_written(signature: inspect.Signature, kind: type) -> inspect.Signature:
    """A struct's signature with the annotations of its source: its own has them resolved."""
    written = {name: text for owner in reversed(kind.__mro__) for name, text in own_annotations(owner).items()}
    fields = [param.replace(annotation=written[name]) for name, param in signature.parameters.items()]
    return signature.replace(parameters=fields)


def parts(signature: inspect.Signature) -> Iterator[str]:
    """The parameters, and the stars and slashes between them."""
    former = None
    for param in signature.parameters.values():
        if former is param.POSITIONAL_ONLY and param.kind is not param.POSITIONAL_ONLY:
            yield "/"
        if param.kind is param.KEYWORD_ONLY and former not in (param.KEYWORD_ONLY, param.VAR_POSITIONAL):
            yield "*"
        yield ADDRESS.sub("", str(param)).replace("'", "")
        former = param.kind


def unquoted(param: inspect.Parameter) -> inspect.Parameter:
    """The parameter with a default that reads as its source does."""
    if param.default is inspect.Parameter.empty or isinstance(param.default, str | int | float | bool | None):
        return param
    return param.replace(default=Shown(param.default))


class Shown:
    """A default whose text is short, and the same on every machine."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        if inspect.isroutine(self._value) or inspect.isclass(self._value):
            return str(self._value.__name__)
        text = ADDRESS.sub("", repr(self._value))
        return text if len(text) <= 40 and "/" not in text else "…"


def public_methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that the class defines, by name, in the order of its source."""
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    for owner in reversed(kind.__mro__[:-1]):
        if not owner.__module__.startswith("antiphon"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in fields or getattr(kind, name, None) is None:
                continue
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.isroutine(function) or isinstance(function, property):
                yield name, function
