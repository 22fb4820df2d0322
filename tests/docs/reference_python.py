"""reference-python.md and reference-packages.md: the public names, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ForwardRef, is_typeddict

import msgspec

import antiphon
from docs.declarations import assigned, fields_of
from docs.rooms import ROOMS, ROOT, module_of
from docs.text import docstring, markdown

HEAD = """\
# The public names of `antiphon`

What `import antiphon` offers, with signatures and docstrings. [Antiphon in Python](python.md) shows how it is used,
[the packages below](reference-packages.md) have the parts. A name that is removed is announced in the changelog. The
page is made from the code (`make docs`).
"""
PACKAGES = """\
# The public names of the packages

What the packages below `antiphon` export, with signatures and docstrings. Most programs need only
[`import antiphon`](reference-python.md). [Architecture](internals/architecture.md) says what each package is for. The
page is made from the code (`make docs`).
"""
LONGEST = 96
"""Of a signature in one line."""


def python_page() -> str:
    lines = [HEAD]
    for name in antiphon.__all__:
        lines += described(name, getattr(antiphon, name), home="antiphon", members=True)
    return "\n".join(lines).rstrip() + "\n"


def packages_page() -> str:
    lines = [PACKAGES]
    for room in ROOMS:
        if room == ROOT:
            continue
        module = module_of(room)
        lines += [f"## antiphon.{room}\n", f"{docstring(module)}\n"]
        for name in sorted(module.__all__, key=str.lower):
            lines += described(name, getattr(module, name), home=module.__name__, depth=3)
    return "\n".join(lines).rstrip() + "\n"


def described(name: str, thing: Any, *, home: str, depth: int = 2, members: bool = False) -> Iterator[str]:
    """The section of one name of the module ``home``; ``members``: with the public methods of a class."""
    yield f"{'#' * depth} {name}\n"
    if written := declaration(name, thing, home):
        yield f"```py\n{written}\n```\n"
    if about := about_name(name, thing, home):
        yield f"{about}\n"
    if inspect.isclass(thing) and (fields := fields_of(thing)):
        yield "\n".join(f"* `{field}`: {' '.join(markdown(said).split())}" for field, said in fields.items()) + "\n"
    if members and inspect.isclass(thing):
        for method, function in public_methods(thing):
            yield from described(f"{name}.{method}", function, home=home, depth=depth + 1)


def about_name(name: str, thing: Any, home: str) -> str:
    """What is said of a name: by its docstring, or by the string behind its assignment. Empty: nothing."""
    if documented(thing):
        return docstring(thing)
    found = None if inspect.isroutine(thing) or isinstance(thing, property) else assigned(home, name)
    return markdown(found.about) if found else ""


def documented(thing: Any) -> bool:
    """Whether a docstring is its own: not that of its type or its base, nor what ``dataclass`` writes."""
    if inspect.isclass(thing):
        own = vars(thing).get("__doc__") or ""
        return bool(own) and not own.startswith(f"{thing.__name__}(")
    return bool(thing.__doc__) and (inspect.isroutine(thing) or isinstance(thing, property))


def declaration(name: str, thing: Any, home: str) -> str:
    if isinstance(thing, property):
        return f"{name}: {annotation(inspect.signature(thing.fget).return_annotation) if thing.fget else ''}"
    if found := None if "." in name else assigned(home, name):
        return found.text
    if inspect.isclass(thing):
        return class_line(name, thing)
    kind = "async def" if inspect.iscoroutinefunction(thing) else "def"
    return signature_of(f"{kind} {name}", thing)


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
    """An annotation as its source has it."""
    text = given.__forward_arg__ if isinstance(given, ForwardRef) else given
    text = text if isinstance(text, str) else inspect.formatannotation(text)
    return text if '"' in text else text.replace("'", '"')


def signature_of(head: str, thing: Any) -> str:
    """``def name(…)``, in one line, or a parameter a line."""
    signature = inspect.signature(thing)
    if inspect.isclass(thing) and issubclass(thing, msgspec.Struct):
        signature = as_written(signature, thing)
    made = factories(thing)
    shown = [param for name, param in signature.parameters.items() if name not in ("self", "cls") and name[0] != "_"]
    written = list(parts(shown, made))
    returned = "" if inspect.isclass(thing) else returns(signature)
    text = f"{head}({', '.join(written)}){returned}"
    if len(text) <= LONGEST:
        return text
    inner = "".join(f"    {line},\n" for line in written)
    return f"{head}(\n{inner}){returned}"


def returns(signature: inspect.Signature) -> str:
    given = signature.return_annotation
    return "" if given is inspect.Signature.empty else f" -> {annotation(given)}"


def as_written(signature: inspect.Signature, kind: type) -> inspect.Signature:
    """A struct's signature with the annotations of its source: its own has them resolved."""
    written = {name: text for owner in reversed(kind.__mro__) for name, text in own_annotations(owner).items()}
    fields = [param.replace(annotation=written[name]) for name, param in signature.parameters.items()]
    return signature.replace(parameters=fields)


def factories(kind: Any) -> dict[str, str]:
    """The fields of a class whose default is made anew for each value, and what is made."""
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        made = {field.name: field.default_factory for field in msgspec.structs.fields(kind)}
        return {name: call_of(make) for name, make in made.items() if make is not msgspec.NODEFAULT}
    if inspect.isclass(kind) and dataclasses.is_dataclass(kind):
        made = {field.name: field.default_factory for field in dataclasses.fields(kind)}
        return {name: call_of(make) for name, make in made.items() if make is not dataclasses.MISSING}
    return {}


def call_of(make: Any) -> str:
    """A factory as the value that it makes: ``{}``, ``Settings()``; ``…`` for one without a name."""
    if make in (dict, list, tuple):
        return repr(make())
    return f"{make.__name__}()" if inspect.isclass(make) else "…"


def parts(params: Sequence[inspect.Parameter], made: Mapping[str, str]) -> Iterator[str]:
    """The parameters, and the stars and slashes between them."""
    former = None
    for param in params:
        if former is param.POSITIONAL_ONLY and param.kind is not param.POSITIONAL_ONLY:
            yield "/"
        if param.kind is param.KEYWORD_ONLY and former not in (param.KEYWORD_ONLY, param.VAR_POSITIONAL):
            yield "*"
        yield parameter(param, made)
        former = param.kind


def parameter(param: inspect.Parameter, made: Mapping[str, str]) -> str:
    stars = "*" * (param.kind is param.VAR_POSITIONAL) + "**" * (param.kind is param.VAR_KEYWORD)
    typed = param.annotation is not param.empty
    name = f"{stars}{param.name}" + (f": {annotation(param.annotation)}" if typed else "")
    if param.default is param.empty:
        return name
    default = made.get(param.name) or shown(param.default)
    return f"{name} = {default}" if typed else f"{name}={default}"


def shown(value: object) -> str:
    """A default as its source has it, where that is short and the same on every machine; else ``…``."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple) and type(value) is tuple:
        inner = ", ".join(map(shown, value))
        return "…" if "…" in inner else f"({inner}{',' if len(value) == 1 else ''})"
    if inspect.isroutine(value) or inspect.isclass(value):
        return value.__name__ if value.__name__.isidentifier() else "…"
    text = f"{type(value).__name__}()" if empty(value) else repr(value)
    return text if len(text) <= 40 and not {"/", "<"} & set(text) else "…"


def empty(value: object) -> bool:
    """Whether it is what its class gives without arguments."""
    kind = type(value)
    if not (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
        return False
    try:
        return bool(kind() == value)
    except TypeError:
        return False


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
