"""What the work of a template costs, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.errors import TemplateError
from antiphon.formats.template.budget import SLOT, Budget, Exhausted, Limits
from antiphon.formats.template.methods import joined, padded, replaced, stripped
from antiphon.formats.template.operators import contains, operation, percent, search
from antiphon.formats.template.sandbox import CompiledTemplate

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
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_is_made_may_be_so_long_and_no_longer(name: str) -> None:
    work, most = TOO_LONG[name]
    work(Budget(1_000_000, 1000), most)
    with pytest.raises(Exhausted):
        work(Budget(1_000_000, 1000), most + 1)


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
