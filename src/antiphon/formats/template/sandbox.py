"""Runs a model's Jinja template with bounded work: what bounds it is a budget of steps, not a clock.

A thread cannot be killed and a clock makes results depend on the machine. So all that a template can name stands in a
table with a price: methods, filters, tests, operators, functions. It is paid before it is done, from all its arguments,
and a render that overdraws its budget stops. What has no price is refused by its name.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from types import BuiltinMethodType, CodeType, MethodType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup

from antiphon.errors import Position, TemplateError

from .budget import CHARS_A_STEP, Budget, Exhausted, Limits
from .filters import filters_of, tests_of
from .methods import ATTRIBUTES, CHANGES, METHODS, Function, allowed, dictionary, kept, whole, written
from .operators import PricedFormatter, contains, operation
from .rewriting import CHARGES, CONCAT, IN, MADE, OUT, SEARCHED, SEEN, SPREAD, TURNS, WORK, Charged, Generation

_CALL_STEPS = 5
_SCOPES = ("_loop_vars", "_block_vars")
"""Arguments that Jinja itself adds to a call."""
REFUSED = "This is a rule of the model's own chat template: change the messages, or configure another chat_template."
_FORMATS = ("format", "format_map")
_ESCAPING = (*_FORMATS, "center", "join", "ljust", "replace", "rjust")
"""Methods of an escaped text that escape their arguments too: they have another price, and nobody uses them."""
_TAKES = ("get", "pop", "setdefault", "next", "cycle")
"""Methods that give what is there already."""
_METHODS = "Templates may call " + "; ".join(
    f"of a {kind.__name__} {', '.join(methods)}"
    for kind, methods in METHODS.items()
    if kind in (str, list, tuple, dict)
)
_LONGEST_MESSAGE = 1_000
_OF_DICTIONARIES = frozenset(dir(dict))
_ALLOWED = {kind: frozenset(allowed(kind)) for kind in (*METHODS, *ATTRIBUTES)}


class Room(Namespace):
    """A namespace that is written without what is in it: that may hold the namespace itself."""

    def __repr__(self) -> str:
        return "<namespace>"


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as Hugging Face sets it up for chat templates, immutable, sandboxed and charged."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)
    intercepted_unops = frozenset(ImmutableSandboxedEnvironment.default_unop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            cache_size=0,
            extensions=["jinja2.ext.loopcontrols", Generation],
        )
        self.budget = Budget(0, 0)
        self.heaviest = 1, 0
        self.filters = filters_of(_budget)
        self.filters.update(dict.fromkeys(CHARGES, _unbound))
        self.tests = tests_of(_budget)
        self.globals = {
            "range": Function(safe_range, kept),
            "dict": Function(dict, dictionary),
            "namespace": Function(Room, dictionary),
            "cycler": Function(Cycler, kept),
            "joiner": Function(Joiner, kept),
            "raise_exception": Function(_raise_exception, written),
        }

    def paid(self, budget: Budget) -> TemplateEnvironment:
        """The environment of one render, whose work the budget pays."""
        own = self.overlay()
        own.budget = budget
        own.filters = {
            **self.filters,
            OUT: budget.out,
            MADE: budget.made,
            SEEN: budget.seen,
            SEARCHED: budget.searched,
            TURNS: budget.turns,
            CONCAT: budget.concat,
            IN: lambda value, container: contains(budget, container, value),
            SPREAD: budget.spread,
            WORK: budget.work,
        }
        return own

    def call_filter(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A filter that another one names."""
        if name in CHARGES:
            raise jinja2.TemplateRuntimeError(f"No filter named {name!r}.")
        return super().call_filter(name, *args, **kwargs)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget, kind = __self.budget, type(__obj)
        for name in _SCOPES:
            kwargs.pop(name, None)
        budget.charge(_CALL_STEPS + len(args) + len(kwargs))
        if kind is Macro:
            text = __context.call(__obj, *args, **kwargs)
            budget.chars(len(text))
            return text
        if kind in (BuiltinMethodType, MethodType):
            return __self._method(__obj, [whole(budget, arg) for arg in args], kwargs)
        if kind is Function:
            given = [whole(budget, arg) for arg in args]
            __obj.price(budget, *given, **kwargs)
            made = __obj.call(*given, **kwargs)
            return budget.grown(made) if isinstance(made, dict) else made
        if kind is LoopContext:
            return __obj(*(budget.turns(arg, *__self.heaviest) for arg in args), **kwargs)
        if kind is Joiner or issubclass(kind, Undefined):
            return __obj(*args, **kwargs)
        raise SecurityError(f"a call of a {kind.__name__} is unsafe and not possible in a chat template")

    def _method(self, method: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        budget, value, name = self.budget, method.__self__, method.__name__
        price = METHODS.get(str if isinstance(value, str) else type(value), {}).get(name)
        if price is None or (isinstance(value, Markup) and name in _ESCAPING):
            raise SecurityError(f"{name!r} of a {type(value).__name__} is unsafe and not possible in a chat template")
        if name in CHANGES.get(type(value), ()):
            for arg in (*args, *kwargs.values()):  # what changes a value pays for all that it adds
                budget.value(arg, depth=1)
            if not budget.owns(value):
                raise SecurityError(f"{name} of a {type(value).__name__} that is not the template's own is unsafe")
        price(budget, value, *args, **kwargs)
        if isinstance(value, str) and name in _FORMATS:
            mapped = name == "format_map"
            formatter = PricedFormatter(self, budget)
            return formatter.vformat(value, () if mapped else args, args[0] if mapped else kwargs)
        made = method(*args, **kwargs)
        return budget.grown(made) if isinstance(made, (list, tuple, dict)) and name not in _TAKES else made

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Methods that change a list or a dictionary are there for those that the template itself made."""
        kind = type(obj)
        if kind is Room:
            return not attr.startswith("_")
        if attr in CHANGES.get(kind, ()):
            return self.budget.owns(obj)
        known = str if isinstance(obj, str) else tuple if isinstance(obj, tuple) else kind
        return attr in _ALLOWED.get(known, ()) or attr in getattr(kind, "_fields", ())

    def wrap_str_format(self, value: Any) -> None:
        """Nothing: `call` writes a format's fields itself."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is not dict or attribute in _OF_DICTIONARIES:
            return super().getattr(obj, attribute)
        try:
            return obj[attribute]
        except KeyError:
            return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(argument) is str:  # it may be compared with a key of the same length
            if len(argument) > CHARS_A_STEP:
                self.budget.read(len(argument))
        elif type(argument) is not int:
            self.budget.value(argument)
        return super().getitem(obj, argument)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        message = f"{attribute!r} of a {type(obj).__name__} is unsafe and not possible in a chat template"
        return self.undefined(message, obj=obj, name=attribute, exc=SecurityError)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = self.budget
        if operator == "+" and type(left) is str and type(right) is str:  # as nearly all are
            budget.chars(len(left) + len(right))
            return left + right
        operation(budget, operator, left, right)
        made = self.binop_table[operator](left, right)
        return budget.made(made) if isinstance(made, (list, tuple)) else budget.number(made)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        self.budget.charge()
        return self.unop_table[operator](arg)


def _budget(context: Context) -> Budget:
    environment = context.environment
    assert isinstance(environment, TemplateEnvironment)
    return environment.budget


def _unbound(*args: object) -> object:
    raise jinja2.TemplateRuntimeError("a template is rendered with a budget")


def _raise_exception(message: object = "") -> str:
    raise jinja2.TemplateError(str(message))


class CompiledTemplate:
    """A template that is ready to be rendered. Each render has an environment and budget of its own.

    Safe to share, unless its limits have a total: then it belongs to one request.
    """

    def __init__(self, source: str, limits: Limits | None = None) -> None:
        """Raises `TemplateError` with the line where the source is no template, or too long."""
        self.source = source
        self.limits = limits or Limits()
        if len(source) > self.limits.source:
            raise TemplateError(
                f"the chat template has {len(source)} characters; at most {self.limits.source} are possible",
                code="template_too_large",
            )
        self._left = self.limits.total
        self._environment = TemplateEnvironment()
        try:
            charged = Charged()
            parsed = charged.visit(self._environment.parse(source))
            self._environment.heaviest = charged.heaviest
            self._code: CodeType = self._environment.compile(parsed)
            self.variables = frozenset(find_undeclared_variables(parsed))  # last: it folds constants in the tree
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"the chat template is malformed: {error.message}",
                code="bad_template",
                position=Position(line=error.lineno),
                hint=self._known(error),
            ) from error
        except Exhausted as error:
            raise TemplateError(str(error), code="template_too_large") from error
        except (RecursionError, MemoryError, ValueError, OverflowError, SyntaxError) as error:
            raise TemplateError("the chat template cannot be compiled", code="bad_template") from error

    def _known(self, error: jinja2.TemplateSyntaxError) -> str | None:
        """A hint with the filters or tests there are, where the template names another."""
        if not isinstance(error, jinja2.TemplateAssertionError):
            return None
        names = {
            "filters": sorted(set(self._environment.filters) - set(CHARGES)),
            "tests": sorted(name for name in self._environment.tests if name.isidentifier()),
        }
        kind = "tests" if "test" in str(error.message).split(" ")[:2] else "filters"
        return f"These {kind} are there: {', '.join(names[kind])}."

    def render(self, variables: Mapping[str, Any], *, size: int = 0, steps: int | None = None) -> str:
        """The text. ``size``: how many characters are in the variables, for which more work is allowed.

        ``steps`` in place of the template's own limit. Raises `TemplateError` with the line where the template stopped:
        code ``template_limit`` for too much work, ``template_refused`` when the template itself raised,
        ``template_failed`` otherwise.
        """
        budget = self.budget(size, steps)
        environment, allowed = self._environment.paid(budget), budget.steps
        template = environment.template_class.from_code(environment, self._code, dict(environment.globals))
        try:
            return "".join(template.root_render_func(template.new_context(dict(variables))))
        except Exception as error:
            raise _stopped(error, _line(template, error)) from error
        finally:
            if self._left is not None:
                self._left -= max(allowed - budget.steps - size, 0)

    def budget(self, size: int = 0, steps: int | None = None) -> Budget:
        """The budget of one render, by the parameters of `render`, and by what the renders before it have left."""
        allowed = self.limits.steps if steps is None else steps
        left = allowed if self._left is None else min(allowed, max(self._left, 0))
        return Budget(left + size, self.limits.output + 4 * size)


def _line(template: jinja2.Template, error: BaseException) -> int | None:
    """The innermost line of the template's source at which it stopped."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == "<template>"]
    return template.get_corresponding_lineno(lines[-1]) if lines else None


def _stopped(error: Exception, line: int | None) -> TemplateError:
    """The error for the caller: the template's own words, and their place in it."""
    if isinstance(error, TemplateError):
        return error
    code, message, hint = _words(error)
    message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]} …"
    position = Position(line=line) if line is not None else None
    return TemplateError(message, code=code, position=position, hint=hint)


def _words(error: Exception) -> tuple[str, str, str | None]:
    """Code, message and hint."""
    if isinstance(error, Exhausted):
        return "template_limit", str(error), None
    if isinstance(error, (OverflowError, MemoryError, RecursionError)):
        return "template_limit", "the chat template asks for too much", None
    if type(error) is jinja2.TemplateError:
        return "template_refused", f"the chat template refuses this: {error.message}", REFUSED
    named = str(error) if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"
    hint = _METHODS if isinstance(error, SecurityError) else None
    return "template_failed", f"the chat template failed: {named}", hint
