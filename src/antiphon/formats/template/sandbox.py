"""Runs a model's Jinja template with bounded work: what bounds it is a budget of steps, not a clock.

A thread cannot be killed and a clock makes results depend on the machine. So every loop turn, call, filter and value
that a template makes is charged to the render's budget before or as it is made, and a render that overdraws it stops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from types import CodeType
from typing import Any

import jinja2
from jinja2 import nodes, pass_context
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from antiphon.errors import Position, TemplateError

from .budget import CHARS_A_STEP, Budget, Exhausted, Limits

_CALL_STEPS = 5
_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "format", "groupby"),
    *("indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr"),
    *("replace", "reverse", "round", "safe", "select", "selectattr", "sort", "string", "sum", "title", "trim"),
    *("truncate", "unique", "upper", "wordcount"),
)


class _Generation(Extension):
    """`{% generation %}` … `{% endgeneration %}` marks what the assistant wrote; a prompt shows it as it is."""

    tags = {"generation"}  # noqa: RUF012 - declared so by the base class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Charged(NodeTransformer):
    """Rewrites a template so that what it does without a call is charged too."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        node.iter = _filtered(node.iter, "_each", nodes.Const(1 + text // CHARS_A_STEP))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes), "_concat")

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        self.generic_visit(node)
        expressions = [n for n in node.nodes if isinstance(n, nodes.Expr)]
        node.nodes = [n if isinstance(n, nodes.TemplateData) else _filtered(n, "_out") for n in expressions]
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "_made")

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "_made")

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "_made") if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "_made") if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _filtered(node.expr, "_seen")
        return node


def _filtered(node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as Hugging Face sets it up for chat templates, immutable, sandboxed and charged."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            cache_size=0,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        self.budget = Budget(0, 0)
        charged = {name: _charged(name, self.filters[name]) for name in _FILTERS}
        self.filters.clear()
        self.filters.update(charged)
        self.filters.update(_each=_each, _concat=_concat, _out=_out, _made=_made, _seen=_made, tojson=_tojson)
        self.globals.pop("lipsum", None)
        self.globals["raise_exception"] = _raise_exception

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = __self.budget
        budget.charge(_CALL_STEPS + sum(len(arg) // CHARS_A_STEP for arg in args if isinstance(arg, str)))
        budget.charge(sum(len(arg) for arg in args if isinstance(arg, (list, tuple, range, dict))))
        budget.method(__obj, args)
        made = super().call(__context, __obj, *args, **kwargs)
        if isinstance(made, (str, list, tuple, dict)):
            budget.value(made)
        return made

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self.budget.binop(operator, left, right)
        made = super().call_binop(context, operator, left, right)
        if isinstance(made, (list, tuple)):
            self.budget.value(made)
        return made


def _budget(context: Context) -> Budget:
    environment = context.environment
    assert isinstance(environment, TemplateEnvironment)
    return environment.budget


@pass_context
def _each(context: Context, values: Any, weight: int) -> Any:
    """What a loop runs over. Undefined stays, so that its own error is raised; sized things keep their length."""
    budget = _budget(context)
    if isinstance(values, (Undefined, str)):
        return values if isinstance(values, Undefined) else list(budget.each(values, weight))
    if isinstance(values, Sized) and not isinstance(values, Mapping):
        budget.charge(len(values) * weight)
        return values
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
        self.limits = limits or Limits()
        if len(source) > self.limits.source:
            raise TemplateError(
                f"the chat template has {len(source)} characters; at most {self.limits.source} are possible",
                code="template_too_large",
            )
        self._environment = TemplateEnvironment()
        try:
            parsed = self._environment.parse(source)
            self.variables = frozenset(find_undeclared_variables(parsed))
            parsed = _Charged().visit(parsed)
            self._code: CodeType = self._environment.compile(parsed)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"the chat template is malformed: {error.message}",
                code="bad_template",
                position=Position(line=error.lineno),
            ) from error
        except (RecursionError, MemoryError, ValueError, OverflowError, SyntaxError) as error:
            raise TemplateError("the chat template cannot be compiled", code="bad_template") from error

    def render(self, variables: Mapping[str, Any], *, size: int = 0) -> str:
        """The text. ``size``: how many characters are in the variables, for which more work is allowed.

        Raises `TemplateError`: code ``template_limit`` for too much work, ``template_refused`` when the template itself
        raised, ``template_failed`` otherwise.
        """
        environment = self._environment.overlay()
        environment.budget = Budget(self.limits.steps + size, self.limits.output + 4 * size)
        template = environment.template_class.from_code(environment, self._code, environment.make_globals(None))
        try:
            return "".join(template.root_render_func(template.new_context(dict(variables))))
        except (Exhausted, OverflowError, MemoryError, RecursionError) as error:
            reason = str(error) if isinstance(error, Exhausted) else "the chat template asks for too much"
            raise TemplateError(reason, code="template_limit") from error
        except jinja2.TemplateError as error:
            refused = type(error) is jinja2.TemplateError
            raise TemplateError(
                f"the chat template {'refuses this' if refused else 'failed'}: {error.message or error}",
                code="template_refused" if refused else "template_failed",
            ) from error
        except Exception as error:
            raise TemplateError(
                f"the chat template failed: {type(error).__name__}: {error}", code="template_failed"
            ) from error
