"""Runs a model's Jinja template with bounded work: what bounds it is a budget of steps, not a clock.

A thread cannot be killed and a clock makes results depend on the machine. So every loop turn, call, filter and value
that a template makes is charged to the render's budget before or as it is made, and a render that overdraws it stops.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from types import CodeType
from typing import Any

import jinja2
from jinja2 import pass_context
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon.errors import Position, TemplateError

from .budget import CHARS_A_STEP, Budget, Exhausted, Limits
from .rewriting import Charged, Generation

_CALL_STEPS = 5
_CHANGES: dict[type, tuple[str, ...]] = {
    list: ("append", "clear", "extend", "insert", "pop", "remove", "reverse"),
    dict: ("clear", "pop", "setdefault", "update"),
}
"""Methods that a template may call on a list or a dictionary of its own."""
_SCOPES = ("_loop_vars", "_block_vars")
"""What Jinja itself adds to the arguments of a call."""
REFUSED = "This is a rule of the model's own chat template: change the messages, or configure another chat_template."
_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "format", "groupby"),
    *("indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr"),
    *("replace", "reverse", "round", "safe", "select", "selectattr", "sort", "string", "sum", "title", "trim"),
    *("truncate", "unique", "upper", "wordcount"),
)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as Hugging Face sets it up for chat templates, immutable, sandboxed and charged."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            cache_size=0,
            extensions=["jinja2.ext.loopcontrols", Generation],
        )
        self.budget = Budget(0, 0)
        charged = {name: _charged(name, self.filters[name]) for name in _FILTERS}
        self.filters.clear()
        self.filters.update(charged)
        self.filters.update(_each=_each, _concat=_concat, _out=_out, _made=_made, _seen=_seen, tojson=_tojson)
        self.globals.pop("lipsum", None)
        self.globals["raise_exception"] = _raise_exception

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = __self.budget
        budget.charge(_CALL_STEPS + sum(len(arg) // CHARS_A_STEP for arg in args if isinstance(arg, str)))
        budget.charge(sum(len(arg) for arg in args if isinstance(arg, (list, tuple, range, dict))))
        budget.method(__obj, args)
        __self._check_change(__obj, (*args, *(kwargs[name] for name in kwargs if name not in _SCOPES)))
        made = super().call(__context, __obj, *args, **kwargs)
        if isinstance(made, (str, list, tuple, dict)):
            budget.value(made)
        return made

    def _check_change(self, function: object, args: Sequence[object]) -> None:
        """A method that changes a value is called only on the template's own, and pays for what it adds."""
        value = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        if not isinstance(value, (list, dict)) or name not in _CHANGES[type(value)]:
            return
        for arg in args:
            self.budget.value(arg, depth=1)
            self.budget.charge(len(arg) if isinstance(arg, Sized) else 0)
        if not self.budget.owns(value):
            raise SecurityError(f"{name} of a {type(value).__name__} that is not the template's own is unsafe")

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Methods that change a list or a dictionary are there for those that the template itself made."""
        changes = attr in _CHANGES.get(type(obj), ()) and self.budget.owns(obj)
        return changes or super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self.budget.binop(operator, left, right)
        made = super().call_binop(context, operator, left, right)
        if isinstance(made, (list, tuple)):
            self.budget.made(made)
        return made


def _budget(context: Context) -> Budget:
    environment = context.environment
    assert isinstance(environment, TemplateEnvironment)
    return environment.budget


@pass_context
def _each(context: Context, values: Any, weight: int) -> Any:
    """What a loop runs over. Undefined stays, so that its own error is raised; sized things keep their length.

    A list that may grow meanwhile is gone through as it was: each turn is charged beforehand.
    """
    budget = _budget(context)
    if isinstance(values, (Undefined, str)):
        return values if isinstance(values, Undefined) else list(budget.each(values, weight))
    if isinstance(values, Sized) and not isinstance(values, Mapping):
        budget.charge(len(values) * weight)
        return list(values) if isinstance(values, list) and budget.owns(values) else values
    return budget.each(values, weight)


@pass_context
def _concat(context: Context, values: list[Any]) -> str:
    texts = [str(value) for value in values]
    _budget(context).chars(sum(map(len, texts)))
    return "".join(texts)


@pass_context
def _out(context: Context, value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    _budget(context).out(text)
    return text


@pass_context
def _made(context: Context, value: Any) -> Any:
    """A value that the template wrote: a literal or a part of a sequence."""
    _budget(context).made(value)
    return value


@pass_context
def _seen(context: Context, value: Any) -> Any:
    _budget(context).value(value)
    return value


@pass_context
def _tojson(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As Hugging Face has it: plain JSON, no HTML escapes. Private-use marks stay as they are in any case."""
    budget = _budget(context)
    budget.value(value)
    if isinstance(indent, int) and indent > 64:
        raise Exhausted("the chat template indents too far")
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_plain
    )
    budget.chars(len(text))
    return re.sub(r"\\u(e[0-9a-f]{3}|f[0-8][0-9a-f]{2})", _private_use, text) if ensure_ascii else text


def _private_use(escape: re.Match[str]) -> str:
    return chr(int(escape.group(1), 16))


def _plain(value: Any) -> Any:
    if isinstance(value, (str, Undefined)):
        raise TypeError(f"{type(value).__name__} is no JSON value")
    return list(value)


def _charged(name: str, filter: Callable[..., Any]) -> Callable[..., Any]:
    """A built-in filter that is charged for what it gets and what it makes."""
    wants = str(getattr(getattr(filter, "jinja_pass_arg", None), "name", ""))

    @pass_context
    def charged(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        _before(budget, name, value, args)
        if name == "join" and not isinstance(value, (str, list, tuple, Undefined)):
            value = list(budget.each(value))
            budget.joined(value, str(args[0]) if args else "")
        first = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}
        made = filter(*first.get(wants, ()), value, *args, **kwargs)
        if isinstance(made, (str, list, tuple, dict)):
            budget.value(made)
        elif isinstance(made, Iterator):
            return budget.each(made)
        return made

    return charged


def _before(budget: Budget, name: str, value: Any, args: Sequence[Any]) -> None:
    budget.charge()
    if isinstance(value, str):
        budget.chars(len(value))
    if name == "replace" and isinstance(value, str) and len(args) > 1:
        budget.replace(value, args[0], args[1])
    elif name == "join":
        budget.joined(value, str(args[0]) if args else "")
    elif name == "format":
        budget.width(str(value))
    elif name == "indent" and args and (not isinstance(args[0], int) or args[0] > 64):
        raise Exhausted("the chat template indents too far")


def _raise_exception(message: object = "") -> str:
    raise jinja2.TemplateError(str(message))


class CompiledTemplate:
    """A template that is ready to be rendered. Safe to share: each render has an environment and budget of its own."""

    def __init__(self, source: str, limits: Limits | None = None) -> None:
        """Raises `TemplateError` with the line where the source is no template, or too long."""
        self.source = source
        self.limits = limits or Limits()
        if len(source) > self.limits.source:
            raise TemplateError(
                f"the chat template has {len(source)} characters; at most {self.limits.source} are possible",
                code="template_too_large",
            )
        self._environment = TemplateEnvironment()
        try:
            parsed = Charged().visit(self._environment.parse(source))
            self._code: CodeType = self._environment.compile(parsed)
            self.variables = frozenset(find_undeclared_variables(parsed))  # last: it folds constants in the tree
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"the chat template is malformed: {error.message}",
                code="bad_template",
                position=Position(line=error.lineno),
            ) from error
        except (RecursionError, MemoryError, ValueError, OverflowError, SyntaxError) as error:
            raise TemplateError("the chat template cannot be compiled", code="bad_template") from error

    def render(self, variables: Mapping[str, Any], *, size: int = 0, steps: int | None = None) -> str:
        """The text. ``size``: how many characters are in the variables, for which more work is allowed.

        ``steps`` in place of the template's own limit. Raises `TemplateError` with the line where the template stopped:
        code ``template_limit`` for too much work, ``template_refused`` when the template itself raised,
        ``template_failed`` otherwise.
        """
        environment = self._environment.overlay()
        environment.budget = Budget(
            (self.limits.steps if steps is None else steps) + size, self.limits.output + 4 * size
        )
        template = environment.template_class.from_code(environment, self._code, dict(environment.globals))
        try:
            return "".join(template.root_render_func(template.new_context(dict(variables))))
        except Exception as error:
            raise _stopped(error, _line(template, error)) from error


def _line(template: jinja2.Template, error: BaseException) -> int | None:
    """The innermost line of the template's source at which it stopped."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == "<template>"]
    return template.get_corresponding_lineno(lines[-1]) if lines else None


def _stopped(error: Exception, line: int | None) -> TemplateError:
    """What the caller is told: the template's own words, and where in it they stand."""
    if isinstance(error, TemplateError):
        return error
    position = Position(line=line) if line is not None else None
    if isinstance(error, (Exhausted, OverflowError, MemoryError, RecursionError)):
        reason = str(error) if isinstance(error, Exhausted) else "the chat template asks for too much"
        return TemplateError(reason, code="template_limit", position=position)
    if type(error) is jinja2.TemplateError:
        message = f"the chat template refuses this: {error.message}"
        return TemplateError(message, code="template_refused", position=position, hint=REFUSED)
    named = str(error) if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"
    return TemplateError(f"the chat template failed: {named}", code="template_failed", position=position)
