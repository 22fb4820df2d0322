"""What the work of a template costs, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jinja2.runtime import LoopContext

from antiphon.errors import TemplateError
from antiphon.formats.template.budget import SLOT, Budget, Exhausted, Limits
from antiphon.formats.template.filters import FILTERS, TESTS
from antiphon.formats.template.methods import METHODS, Price, joined, padded, replaced, stripped
from antiphon.formats.template.operators import contains, operation, percent, search
from antiphon.formats.template.sandbox import CompiledTemplate

PRICED = {name: price for name, price in TESTS.items() if price is not None}
STR, LIST, DICT, LOOP = (METHODS[kind] for kind in (str, list, dict, LoopContext))
COSTS: dict[str, tuple[Callable[[Budget], Any], int]] = {
    "a step": (lambda budget: budget.charge(), 1),
    "no text": (lambda budget: budget.chars(0), 1),
    "63 characters": (lambda budget: budget.chars(63), 1),
    "64 characters": (lambda budget: budget.chars(64), 2),
    "1,000 characters": (lambda budget: budget.chars(1000), 16),
    "a number": (lambda budget: budget.value(5), 1),
    "a text": (lambda budget: budget.value("x" * 128), 3),
    "a list": (lambda budget: budget.value([1, 2, 3]), 7),
    "a tuple of texts": (lambda budget: budget.value(("x" * 64,)), 4),
    "a mapping": (lambda budget: budget.value({"a": [1, 2], "b": None}), 3 + 2 + 5 + 1),
    "a view of it": (lambda budget: budget.value({"a": 1}.items()), 2 + 3 + 2),
    "what a loop runs over": (lambda budget: list(budget.each(range(5))), 5),
    "with a body": (lambda budget: list(budget.each(range(5), 3)), 15),
    "turns": (lambda budget: budget.turns([1] * 5, 3, 0), 15),
    "turns over a text": (lambda budget: budget.turns("abcde", 3, 0), 15),
    "places": (lambda budget: budget.slots(5), 6),
    "a sum": (lambda budget: operation(budget, "+", 1, 2), 1),
    "texts joined": (lambda budget: operation(budget, "+", "x" * 64, "y" * 64), 1 + 3),
    "lists joined": (lambda budget: operation(budget, "+", [1] * 5, [2] * 5), 1 + 11),
    "a text repeated": (lambda budget: operation(budget, "*", "ab", 64), 1 + 3),
    "a list repeated": (lambda budget: operation(budget, "*", 3, [1, 2]), 1 + 7),
    "repeated less than once": (lambda budget: operation(budget, "*", "ab", -5), 2),
    "a text formatted": (lambda budget: percent(budget, "%100d", 1), 1 + 1 + 1 + 1 + (5 + 100 + 5) // 64),
    "a text in another": (lambda budget: percent(budget, "%s", "x" * 128), 1 + 1 + 3 + 1 + 130 // 64),
    "replaced": (lambda budget: replaced(budget, "a-b-c", "-", "x" * 64), 1 + 1 + (5 + 126) // 64),
    "joined": (lambda budget: joined(budget, "--", ["x" * 60, "y"]), 3 + 1 + (61 + 2) // 64),
    "stripped": (lambda budget: stripped(budget, "x" * 64), 2),
    "stripped of many": (lambda budget: stripped(budget, "x" * 64, "y" * 64), 2 + 1 + 64 * 64 // 8 // 64),
    "searched": (lambda budget: search(budget, "x" * 640, "yy"), 1 + 639 * 2 // 512 + 1 + 648 // 64),
    "searched in a long text": (lambda budget: search(budget, "x" * 6400, "yy"), 1 + 6408 // 64),
    "searched from the right": (
        lambda budget: search(budget, "x" * 6400, "yy", backwards=True),
        1 + 6399 * 2 // 512 + 1 + 6408 // 64,
    ),
    "in a list": (lambda budget: contains(budget, [1, 2, 3], 3), 1 + (1 + 1) * 4),
    "in a range": (lambda budget: contains(budget, range(99), 1.5), 1 + (1 + 1) * 100),
}


@pytest.mark.parametrize("name", COSTS)
def test_work_costs_so_many_steps_and_stops_when_there_are_fewer(name: str) -> None:
    work, cost = COSTS[name]
    budget = Budget(cost, 1000)
    work(budget)
    assert budget.steps == 0
    with pytest.raises(Exhausted):
        work(Budget(cost - 1, 1000))


TOO_LONG: dict[str, tuple[Callable[[Budget, int], Any], int]] = {
    "a text": (lambda budget, n: budget.chars(n), 1000),
    "texts joined": (lambda budget, n: operation(budget, "+", "x" * 500, "y" * (n - 500)), 1000),
    "lists joined": (lambda budget, n: operation(budget, "+", [1] * 100, [2] * (n - 100)), 4000 // SLOT),
    "a text repeated": (lambda budget, n: operation(budget, "*", "x", n), 1000),
    "a list repeated": (lambda budget, n: operation(budget, "*", [1], n), 4000 // SLOT),
    "replaced": (lambda budget, n: replaced(budget, "-", "-", "x" * n), 1000),
    "joined": (lambda budget, n: joined(budget, "-" * (n - 2), ["x", "y"]), 1000),
    "padded": (lambda budget, n: padded(budget, "x", n), 1000),
    "formatted": (lambda budget, n: percent(budget, "%480d%480d%" + str(n) + "d", (1, 2, 3)), 11),
    "places": (lambda budget, n: budget.room(n), 4000 // SLOT),
    "a number": (lambda budget, n: budget.number(10**n - 1), 18),
    "a power": (lambda budget, n: operation(budget, "**", 2, n), 64),
    "lines": (lambda budget, n: STR["splitlines"](budget, "\n" * n), 234),
    "words": (lambda budget, n: STR["split"](budget, "x" * n), 443),
    "pieces": (lambda budget, n: STR["split"](budget, "-" * n, "-"), 234),
    "some of many pieces": (lambda budget, n: STR["rsplit"](budget, "-" * 900, "-", n), 192),
    "titles": (lambda budget, n: FILTERS["title"](budget, "x" * n), 445),
    "lines that are indented": (lambda budget, n: FILTERS["indent"](budget, "\n" * n, 0), 248),
    "replaced often": (lambda budget, n: STR["replace"](budget, "-" * n, "-", ""), 250),
    "replaced so often": (lambda budget, n: STR["replace"](budget, "-" * 900, "-", "", n), 250),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_is_made_may_be_so_long_and_no_longer(name: str) -> None:
    work, most = TOO_LONG[name]
    work(Budget(1_000_000, 1000), most)
    with pytest.raises(Exhausted):
        work(Budget(1_000_000, 1000), most + 1)


PRICES: list[tuple[Price, tuple[Any, ...], int, int]] = [
    (FILTERS["abs"], (-1,), 1, 0),
    (FILTERS["title"], ("x" * 640,), 91, 640),
    (FILTERS["truncate"], ("x" * 640, 9, False, "y" * 60), 11, 700),
    (FILTERS["reverse"], ("x" * 640,), 11, 640),
    (FILTERS["reverse"], ([1, 2, 3],), 4, 48),
    (FILTERS["round"], (1.5, 15), 1, 0),
    (FILTERS["list"], ([1, 2, 3],), 4, 48),
    (FILTERS["sort"], ([3, 1, 2],), 35, 544),
    (FILTERS["dictsort"], ({"a": 1},), 15, 288),
    (FILTERS["groupby"], ([{"a": 1}] * 3, "a"), 84, 1312),
    (FILTERS["max"], ([1, 2, 3],), 35, 544),
    (FILTERS["unique"], ([1, 2, 3],), 35, 544),
    (FILTERS["sum"], ([1, 2, 3],), 7, 0),
    (FILTERS["map"], ([1], "upper"), 1, 0),
    (FILTERS["select"], ([1],), 1, 0),
    (FILTERS["selectattr"], ([1], "a"), 1, 0),
    (FILTERS["escape"], ("<" * 100,), 10, 600),
    (FILTERS["indent"], ("x\n" * 100, 2), 7, 404),
    (FILTERS["int"], ("9" * 256,), 1, 0),
    (FILTERS["length"], ([1],), 1, 0),
    (FILTERS["string"], ("x" * 640,), 11, 640),
    (FILTERS["trim"], ("x" * 640, "y" * 64), 92, 640),
    (FILTERS["replace"], ("a-b-c", "-", "x" * 64, 1), 3, 68),
    (FILTERS["upper"], ("x" * 640,), 11, 640),
    (FILTERS["upper"], ("ü" * 640,), 31, 1920),
    (FILTERS["format"], ("%s", "x"), 4, 3),
    (PRICED["eq"], ("x" * 640, 1), 11, 0),
    (PRICED["odd"], (1,), 1, 0),
    (PRICED["lower"], (10**9,), 2, 12),
    (STR["isalpha"], ("x" * 640,), 11, 0),
    (STR["expandtabs"], ("\t" * 99, 9), 16, 990),
    (STR["find"], ("x" * 640, "yy"), 14, 0),
    (STR["rfind"], ("x" * 2500, "yy"), 50, 0),
    (STR["startswith"], ("x", "y" * 640), 11, 0),
    (STR["removeprefix"], ("x" * 640, "y"), 11, 640),
    (STR["split"], ("x" * 640, "yy"), 25, 640),
    (STR["split"], ("x" * 640,), 11, 640),
    (STR["rsplit"], ("x" * 2500, "yy"), 90, 2500),
    (STR["splitlines"], ("x" * 640,), 11, 640),
    (STR["partition"], ("x" * 640, "yy"), 25, 640),
    (STR["rpartition"], ("x" * 2500, "yy"), 90, 2500),
    (STR["zfill"], ("x", 640), 11, 640),
    (STR["format"], ("{}", 1), 0, 0),
    (LIST["append"], ([1], 2), 0, 16),
    (LIST["insert"], ([1] * 64, 0, 1), 9, 16),
    (LIST["pop"], ([1] * 64,), 9, 0),
    (LIST["extend"], ([1], [2, 3]), 3, 32),
    (LIST["index"], ([1] * 64, [2]), 198, 0),
    (LIST["copy"], ([1] * 64,), 65, 1024),
    (DICT["get"], ({}, "x" * 640), 11, 0),
    (DICT["items"], ({"a": 1},), 0, 0),
    (DICT["setdefault"], ({}, "a"), 2, 16),
    (DICT["update"], ({}, {"a": 1}), 2, 16),
    (DICT["clear"], ({"a": 1},), 2, 16),
    (LOOP["changed"], (None, [1], 2), 4, 0),
]  # fmt: skip


@pytest.mark.parametrize(("price", "arguments", "steps", "characters"), PRICES)
def test_a_filter_a_test_and_a_method_cost_so_much(
    price: Price, arguments: tuple[Any, ...], steps: int, characters: int
) -> None:
    budget = Budget(100_000, 100_000)
    price(budget, *arguments)
    assert (100_000 - budget.steps, 400_000 - budget.characters) == (steps, characters)


REFUSED: list[tuple[Price, tuple[Any, ...]]] = [
    (FILTERS["abs"], ("x",)), (FILTERS["round"], ("x",)), (FILTERS["round"], (1.5, 16)), (FILTERS["round"], (1.5, -16)),
    (FILTERS["int"], ("9" * 257,)), (FILTERS["sum"], ([], None, [])), (FILTERS["sum"], ([], [])),
    (FILTERS["indent"], ("x", 65)),
    (FILTERS["sort"], ([], False, False, [])), (FILTERS["max"], ([], False, "a.a.a.a.a.a.a.a.a")),
    (FILTERS["min"], ([], False, "a" * 257)), (FILTERS["selectattr"], ([], [])),
    (FILTERS["unique"], ([(1, 2)],)), (FILTERS["unique"], ([], False, [])),
    (FILTERS["unique"], ([{"a": [(1, 2)]}], False, "a")),
    (FILTERS["groupby"], ([], [])), (PRICED["odd"], ("x",)), (PRICED["divisibleby"], (1, "x")),
    (STR["expandtabs"], ("x", 10_001)), (STR["center"], ("x", 10_001)),
    (DICT["setdefault"], ({}, (1, 2))), (DICT["update"], ({}, {(1, 2): 3})), (DICT["update"], ({}, [((1, 2), 3)])),
]  # fmt: skip


@pytest.mark.parametrize(("price", "arguments"), REFUSED)
def test_what_would_take_too_long_or_is_no_value_has_no_price(price: Price, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((Exhausted, TypeError)):
        price(Budget(100_000, 100_000), *arguments)


def test_output_is_counted_over_the_whole_render() -> None:
    budget = Budget(1_000_000, 1000)
    budget.out("x" * 600)
    budget.out("x" * 400)
    with pytest.raises(Exhausted, match="too long"):
        budget.out("x")


def test_what_is_made_is_counted_over_the_whole_render() -> None:
    budget = Budget(1_000_000, 1000)
    for _ in range(4):
        budget.chars(1000)
    list(budget.each(range(5)))
    for more in (lambda: budget.chars(1), lambda: list(budget.each(range(5), 1, 1)), lambda: budget.turns([1], 1, 1)):
        with pytest.raises(Exhausted, match="too much"):
            more()


WIDTHS = [("%9999d", True), ("%10000d", False), ("%*d", False), ("%.10000f", False), ("%5000d%5000d", True)]


@pytest.mark.parametrize(("pattern", "taken"), WIDTHS)
def test_a_width_is_a_number_of_four_digits(pattern: str, taken: bool) -> None:
    budget = Budget(1000, 20_000)
    if taken:
        percent(budget, pattern, (1, 2))
    else:
        with pytest.raises(Exhausted, match="wide"):
            percent(budget, pattern, (1, 2))


def test_values_nest_to_a_depth() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]
    Budget(1_000_000, 100).value(value)
    with pytest.raises(Exhausted, match="deeply"):
        Budget(1_000_000, 100).value([value])


@pytest.mark.parametrize(
    "value", ["é'\"\n", ["é'\"\n\0", 1.5e300, -(10**17)], {"a": (None, True)}, {"a": 1}.items(), 10**400, range(9)]
)
def test_a_value_is_written_in_no_more_characters_than_are_paid(value: Any) -> None:
    assert len(str(value)) <= Budget(1000, 1000).written(value)


def test_all_renders_of_a_request_do_so_much_work_together() -> None:
    template = CompiledTemplate("{% for i in range(n) %}{% endfor %}{{ n }}", Limits(steps=1000, total=2000))
    for size in (1000, 0, 0):
        assert template.render({"n": 900}, size=size) == "900"
    with pytest.raises(TemplateError, match="too much work"):
        template.render({"n": 900})
    assert template.render({"n": 900}, size=1000) == "900"


def test_keys_are_texts_and_usual_numbers() -> None:
    budget = Budget(10, 10)
    budget.keys(["a", 1, 1.5, True, None, 10**18 - 1])
    for key in ((1, 2), 10**18, -(10**18)):
        with pytest.raises(Exhausted, match="key"):
            budget.keys([key])
