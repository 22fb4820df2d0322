"""What a chat template may name stands in a table with a price, paid beforehand and no less than the work."""

from __future__ import annotations

import json
import time
import tracemalloc
from random import Random
from typing import Any

import jinja2.filters
import jinja2.tests
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import TemplateError
from antiphon.formats.template import Limits
from antiphon.formats.template import filters as tables
from antiphon.formats.template.budget import Budget
from antiphon.formats.template.jinja_values import strftime_for
from antiphon.formats.template.methods import METHODS
from antiphon.formats.template.sandbox import CompiledTemplate
from kit.hostile_templates import TABLE, hostile_template, hostile_templates
from kit.plain_jinja import TODAY

LIMITS = Limits(source=65_536, output=400_000, steps=20_000)
"""Those of a template that comes with a request, but for a fifth of its steps: all steps cost alike."""
SECONDS_A_STEP, SECONDS_AT_LEAST = 100e-6, 0.5
"""Measured: 1 µs a step, 20 µs where each step is traced. A template that does what it does not pay takes minutes."""
BYTES_A_CHARACTER, BYTES_AT_LEAST = 24, 4_000_000
"""Measured: 5 bytes. A character has up to four, a place of a dictionary counts as 16 of them."""
CODES = {"bad_template", "template_too_large", "template_limit", "template_failed", "template_refused"}
VARIABLES = {"messages": [{"role": "user", "content": "x"}], "strftime_now": strftime_for(TODAY)}


class Watched(CompiledTemplate):
    """A template whose last render can be asked for what it paid."""

    def budget(self, size: int = 0, steps: int | None = None) -> Budget:
        self.paid = super().budget(size, steps)
        self.given = self.paid.steps, self.paid.characters
        return self.paid

    @property
    def charged(self) -> tuple[int, int]:
        """Steps and characters."""
        return self.given[0] - self.paid.steps, self.given[1] - self.paid.characters


def work(source: str) -> str | None:
    """The code of the error, if the template ends with one; fails where it did more than it paid."""
    try:
        template = Watched(source, LIMITS)
    except TemplateError as error:
        return error.code
    code = None
    tracemalloc.start()
    start = time.thread_time()
    try:
        template.render(VARIABLES)
    except TemplateError as error:
        code = error.code
    finally:
        seconds = time.thread_time() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    steps, characters = template.charged
    assert seconds <= SECONDS_AT_LEAST + SECONDS_A_STEP * steps, source[:400]
    assert peak <= BYTES_AT_LEAST + BYTES_A_CHARACTER * characters, source[:400]
    return code


@pytest.mark.parametrize("name", TABLE)
def test_a_hostile_template_does_no_more_than_it_pays(name: str) -> None:
    assert work(TABLE[name]) in {None, *CODES}


def test_hostile_templates_that_are_made_of_parts_do_no_more_than_they_pay() -> None:
    codes = [work(source) for name, source in hostile_templates() if name not in TABLE]
    assert len(codes) >= 300
    assert set(codes) <= {None, *CODES}
    assert codes.count("template_limit") >= 100


@given(st.integers(0, 2**64))
@settings(max_examples=17, deadline=None)
def test_whatever_a_template_is_made_of_it_does_no_more_than_it_pays(seed: int) -> None:
    assert work(hostile_template(Random(seed))) in {None, *CODES}


def refusal(source: str) -> TemplateError:
    with pytest.raises(TemplateError) as raised:
        CompiledTemplate("\n" + source).render({**VARIABLES, "text": "x"})
    assert raised.value.position is not None
    assert raised.value.position.line == 2
    return raised.value


VALUES: dict[type, str] = {str: "'x'", list: "[1]", tuple: "(1,)", dict: "{'a': 1}"}
OTHERS = {int: "1", float: "1.5", bool: "true", bytes: "'x'.encode()"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (*VALUES, int, float) for name in dir(kind) if callable(getattr(kind, name))],
)
def test_a_method_that_has_no_price_is_refused_by_its_name(kind: type, name: str) -> None:
    if name in METHODS.get(kind, ()):
        assert not name.startswith("_")
        return
    value = (VALUES | OTHERS)[kind]
    for source in (f"{{{{ ({value}).{name}() }}}}", f"{{{{ ({value})['{name}']() }}}}"):
        error = refusal(source)
        assert error.code == "template_failed"
        assert f"'{name}'" in error.message
        assert error.hint is not None
        assert "strip" in error.hint


@pytest.mark.parametrize("kind", ["filter", "test"])
def test_what_has_no_price_is_refused_when_the_template_is_compiled(kind: str) -> None:
    known: dict[str, Any] = dict(jinja2.filters.FILTERS if kind == "filter" else jinja2.tests.TESTS)
    priced = (
        tables.filters_of(lambda context: Budget(0, 0))
        if kind == "filter"
        else tables.tests_of(lambda context: Budget(0, 0))
    )
    names = {name for name in known if name.isidentifier()} - set(priced)
    assert "attr" in names or kind == "test"
    for name in (*names, "no_such"):
        error = refusal(f"{{{{ 'x'{'|' if kind == 'filter' else ' is '}{name} }}}}")
        assert error.code == "bad_template"
        assert f"'{name}'" in error.message
        assert f"{kind}s" in str(error.hint)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ['x']|map('attr', 'y')|list }}",
        "{{ ['x']|map('charge turns', -1000)|list }}",
        "{{ ['x']|map('charge work')|list }}",
        "{{ ['x']|select('no such')|list }}",
        "{{ namespace()() }}",
        "{{ messages() }}",
        "{{ namespace(a=1)._Namespace__attrs.a }}",
        "{{ self }}{{ self.x() }}",
        "{{ namespace }}",
        "{{ range }}",
        "{{ [namespace()] }}",
        "{{ {'a': cycler(1)}|tojson }}",
        "{{ {(1, 2): 3} }}",
        "{{ {2305843009213693951: 3} }}",
        "{{ dict([((1, 2), 3)]) }}",
        "{{ [(1, 2)]|unique|list }}",
        "{{ [[(1, 2)]]|unique(attribute=0)|list }}",
        "{{ messages[0].items() - messages[0].keys() }}",
        "{{ ('<'|e).format('x') }}",
        "{{ ('<'|e).join(['x']) }}",
        "{{ ('%s'|e) % 'x' }}",
    ],
)
def test_what_is_no_part_of_the_tables_is_refused_where_the_rendering_comes_to_it(source: str) -> None:
    assert refusal(source).code in {"bad_template", "template_failed", "template_limit"}


def test_escaping_of_its_own_is_no_part_of_a_chat_template() -> None:
    error = refusal("{% autoescape true %}{{ 1 }}{% endautoescape %}")
    assert error.code == "bad_template"


def test_a_template_has_so_many_nodes_and_no_more() -> None:
    with pytest.raises(TemplateError, match="10000 expressions") as raised:
        CompiledTemplate("{{ a }}" * 10_000)
    assert raised.value.code == "template_too_large"


def test_an_error_is_as_long_as_one_reads() -> None:
    assert len(refusal("{{ raise_exception(text * 100000) }}").message) < 2_000


@pytest.mark.parametrize(
    ("expression", "rendered"),
    [
        ("'a-b'.split(sep='-')", "['a', 'b']"),
        ("'x'.replace('', '-', 1)", "-x"),
        ("'{0} {a:>3} {b[0]}'.format('x', a=1, b=[2])", "x   1 2"),
        ("'{a}'.format_map({'a': 1})", "1"),
        ("'%s %(a)s' % {'a': 1}", "{'a': 1} 1"),
        ("'%5.2f|%-3d|%r|%%' % (1.5, 2, 'x')", " 1.50|2  |'x'|%"),
        ("', '.join({'a': 1, 'b': 2})", "a, b"),
        ("'-'.join(['a', 'b']|map('upper'))", "A-B"),
        ("(('<b>'|safe) + '<i>').split('&')[0]", "<b>"),
        ("('<b>'|e).strip('&').upper()", "LT;B&GT;"),
        ("1 < 2 < 3 != 4 in [4]", "True"),
        ("'a' in 'ab' == true", "False"),
        ("2 in range(3) and 'b' not in {'a': 1}", "True"),
        ("2 in [1, 2]|map('int')", "True"),
        ("7 // 2 * 3 - 2 ** 3 % 5", "6"),
        ("[3, 1, 2]|sort|list", "[1, 2, 3]"),
        ("[{'a': 1}, {'a': 2}]|sum(attribute='a')", "3"),
        ("['a', 'A', 'b']|unique|list", "['a', 'b']"),
        ("([{'a': 'x', 'b': 1}]|groupby('a'))[0].list", "[{'a': 'x', 'b': 1}]"),
        ("dict(a=1, **{'b': 2})|tojson(indent=2)", '{\n  "a": 1,\n  "b": 2\n}'),
        ("cycler('a', 'b').next() ~ joiner(',')() ~ range(3)|list", "a[0, 1, 2]"),
        ("'x' is in(['x']) and 4 is even and 9 is divisibleby(3) and 'a' is lower", "True"),
    ],
)
def test_what_has_a_price_does_what_it_does_in_jinja(expression: str, rendered: str) -> None:
    source = f"{{{{ {expression} }}}}"
    environment = jinja2.Environment()
    environment.filters["tojson"] = json.dumps
    assert CompiledTemplate(source).render({}) == rendered
    assert environment.from_string(source).render() == rendered
