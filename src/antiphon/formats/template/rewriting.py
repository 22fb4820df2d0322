"""Rewrites a Jinja template before it is compiled, so that all its work is charged."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.visitor import NodeTransformer

from .budget import CHARS_A_STEP, LARGEST, Exhausted


class Generation(Extension):
    """`{% generation %}` … `{% endgeneration %}` marks what the assistant wrote; a prompt shows it as it is."""

    tags = {"generation"}  # noqa: RUF012 - declared so by the base class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


OUT, MADE, SEEN, SEARCHED = "charge output", "charge what is made", "charge what is compared", "charge what is searched"
TURNS, CONCAT, IN, SPREAD, WORK = "charge turns", "charge concatenation", "charge in", "charge arguments", "charge work"
CHARGES = (OUT, MADE, SEEN, SEARCHED, TURNS, CONCAT, IN, SPREAD, WORK)
"""Filters of the budget. No template's `|` can name them, and a filter that takes another's name refuses them."""
NODES_A_STEP = 16
MOST_NODES = 10_000
"""Nodes of a template's syntax: seven times those of the largest that is known. Compiling one takes up to 0.1 ms."""
_ALLOWED = (
    *(
        nodes.Template,
        nodes.Output,
        nodes.TemplateData,
        nodes.Extends,
        nodes.For,
        nodes.If,
        nodes.Macro,
        nodes.CallBlock,
    ),
    *(nodes.FilterBlock, nodes.With, nodes.Block, nodes.Include, nodes.Import, nodes.FromImport, nodes.Assign),
    *(
        nodes.AssignBlock,
        nodes.Continue,
        nodes.Break,
        nodes.Scope,
        nodes.BinExpr,
        nodes.UnaryExpr,
        nodes.Name,
        nodes.NSRef,
    ),
    *(nodes.Const, nodes.Tuple, nodes.List, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Filter),
    *(nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand),
)
"""Nodes that a template may have. Other templates are not there: to include one fails where a rendering comes to it."""


class Charged(NodeTransformer):
    """Rewrites a template so that what it does without a call is charged too.

    Raises `TemplateSyntaxError` for what no template may be made of, `Exhausted` for too many nodes.
    """

    heaviest = 1, 0
    """Steps and characters of a turn at most, of whichever loops."""
    _nodes = 0

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise Exhausted(f"the chat template has more than {MOST_NODES} expressions and statements")
        if not isinstance(node, _ALLOWED):
            raise TemplateSyntaxError(f"{type(node).__name__} is not possible in a chat template", node.lineno)
        return super().visit(node, *args, **kwargs)

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        if isinstance(node.value, int) and abs(node.value) >= LARGEST:
            raise TemplateSyntaxError("a number of more than 18 digits is not possible in a chat template", node.lineno)
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        steps, text = _weight(node)
        self.heaviest = max(self.heaviest[0], steps), max(self.heaviest[1], text)
        self.generic_visit(node)
        node.iter = _filtered(node.iter, TURNS, nodes.Const(steps), nodes.Const(text))
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        """A body that is run by a call begins with what it costs."""
        steps, text = _weight(node)
        self.generic_visit(node)
        if steps > 1:
            paid = _filtered(nodes.Const(steps, lineno=node.lineno), WORK, nodes.Const(text))
            node.body.insert(0, nodes.ExprStmt(paid, lineno=node.lineno))
        return node

    visit_CallBlock = visit_Macro

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        self.generic_visit(node)
        node.filter = nodes.Filter(node.filter, MADE, [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), CONCAT)

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        self.generic_visit(node)
        expressions = [n for n in node.nodes if isinstance(n, nodes.Expr)]
        node.nodes = [n if isinstance(n, nodes.TemplateData) else _filtered(n, OUT) for n in expressions]
        return node

    def visit_List(self, node: nodes.List | nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, MADE)

    visit_Dict = visit_List

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, MADE) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        if isinstance(node.node, nodes.Const):  # Python warns of a constant that cannot be cut
            node.node = _filtered(node.node, SEEN)
        return _filtered(node, MADE)

    def visit_Call(self, node: nodes.Call | nodes.Filter | nodes.Test) -> nodes.Node:
        """Arguments by `*` and `**` are paid before Python lays them out."""
        self.generic_visit(node)
        if node.dyn_args is not None:
            node.dyn_args = _filtered(node.dyn_args, SPREAD)
        if node.dyn_kwargs is not None:
            node.dyn_kwargs = _filtered(node.dyn_kwargs, SPREAD)
        return node

    visit_Filter = visit_Test = visit_Call

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        if len(node.ops) == 1 and node.ops[0].op in ("in", "notin"):
            found = _filtered(node.expr, IN, node.ops[0].expr)
            return found if node.ops[0].op == "in" else nodes.Not(found, lineno=node.lineno)
        node.expr = _filtered(node.expr, SEEN)
        for each in node.ops:
            if each.op in ("in", "notin"):
                each.expr = _filtered(each.expr, SEARCHED)
            elif each is not node.ops[-1]:
                each.expr = _filtered(each.expr, SEEN)
        return node


def _weight(node: nodes.Node) -> tuple[int, int]:
    """Steps and characters of a body that is run once: its text and nodes, but for bodies that pay for themselves."""
    text = count = 0
    waiting = list(node.iter_child_nodes())
    while waiting:
        each = waiting.pop()
        count += 1
        text += len(each.data) if isinstance(each, nodes.TemplateData) else 0
        if not isinstance(each, (nodes.For, nodes.Macro)):
            waiting.extend(each.iter_child_nodes())
    return 1 + text // CHARS_A_STEP + count // NODES_A_STEP, text


def _filtered(node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)
