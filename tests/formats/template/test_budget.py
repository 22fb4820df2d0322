"""What the work of a template costs, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.formats.template.budget import Budget, Exhausted

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
    "what a loop runs over": (lambda budget: list(budget.each(range(5))), 5),
    "with a body": (lambda budget: list(budget.each(range(5), 3)), 15),
    "a sum": (lambda budget: budget.binop("+", 1, 2), 1),
    "texts joined": (lambda budget: budget.binop("+", "x" * 64, "y" * 64), 3),
    "lists joined": (lambda budget: budget.binop("+", [1] * 64, [2] * 64), 4),
    "a text repeated": (lambda budget: budget.binop("*", "ab", 64), 4),
    "a list repeated": (lambda budget: budget.binop("*", 3, [1, 2]), 1 + 6 + 1),
    "repeated less than once": (lambda budget: budget.binop("*", "ab", -5), 2),
    "a text formatted": (lambda budget: budget.binop("%", "%5d", 1), 1),
    "replaced": (lambda budget: budget.replace("a-b-c", "-", "x" * 64), 1 + (5 + 128) // 64),
    "joined": (lambda budget: budget.joined(["x" * 60, 1], "--"), 1 + (60 + 16 + 4) // 64),
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
    "a text": (lambda budget, n: budget.value("x" * n), 1000),
    "texts joined": (lambda budget, n: budget.binop("+", "x" * 500, "y" * (n - 500)), 1000),
    "lists joined": (lambda budget, n: budget.binop("+", [1] * 500, [2] * (n - 500)), 1000),
    "a text repeated": (lambda budget, n: budget.binop("*", "x", n), 1000),
    "a list repeated": (lambda budget, n: budget.binop("*", [1], n), 1000 // 64),
    "replaced": (lambda budget, n: budget.method("-".replace, ("-", "x" * (n - 1))), 1000),
    "joined": (lambda budget, n: budget.method("-".join, (["x" * (n - 1)],)), 1000),
    "padded": (lambda budget, n: budget.method("x".center, (n,)), 10_000),
    "tabs": (lambda budget, n: budget.method("x".expandtabs, (n,)), 10_000),
    "a number's bits": (lambda budget, n: budget.binop("*", 1 << (n - 2), 1), 4096),
    "a power": (lambda budget, n: budget.binop("**", 1, n), 4096 - 12),
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


WIDTHS = [("%9999d", True), ("%10000d", False), ("%*d", False), ("{:{w}}", False)]


@pytest.mark.parametrize(("pattern", "taken"), WIDTHS)
def test_a_width_is_a_number_of_four_digits(pattern: str, taken: bool) -> None:
    budget = Budget(100, 100)
    if taken:
        budget.width(pattern)
    else:
        with pytest.raises(Exhausted):
            budget.width(pattern)


def test_values_nest_to_a_depth() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]
    Budget(1_000_000, 100).value(value)
    with pytest.raises(Exhausted, match="deeply"):
        Budget(1_000_000, 100).value([value])


def test_other_methods_and_those_of_others_cost_nothing() -> None:
    budget = Budget(0, 0)
    budget.method("x".upper, ())
    budget.method([1].index, (1,))
    budget.method("-".replace, ("-",))
    assert budget.steps == 0
