"""Chat templates that no author means well: a table of them by name, and a generator that makes more of their parts.

``hostile_templates(generated=300, seed=30)`` yields ``(name, template)``: the table, then ``generated`` more, the same
for the same seed. Each has at most 65,536 characters and reads no variable but ``messages``; so it can be sent as
``{"template": template, "messages": [{"role": "user", "content": "x"}]}`` or rendered with ``{"messages": [...]}``.
Some end well (what they ask for is dear and still possible), most are refused; none may cost more than its budget.
``hostile_template(random)`` makes one of a source of random numbers, for property tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

_TURNS = "{%% for i in range(20000) %%}%s{%% endfor %%}"
_DOUBLED = (
    "{%% set n = namespace(x=%s) %%}{%% for i in range(1000) %%}{%% set n.x = %s %%}{%% endfor %%}{{ n.x|length }}"
)


def _each_turn(body: str) -> str:
    return _TURNS % body


def _doubled(start: str, step: str) -> str:
    return _DOUBLED % (start, step)


NUMBERS = {
    "round up": "{{ 1.5|round(6000000,'ceil') }}",
    "round down, by name": "{{ 1.5|round(precision=3000000, method='floor') }}",
    "round to minus": "{{ 5|round(-6000000) }}",
    "round a text": "{{ ('ab'*1000)|round(9,'ceil') }}",
    "a power": "{{ 10**1000000000 }}",
    "a power of a power": "{{ ((10**30)**30)**2 }}",
    "a number that squares itself": _doubled("7", "n.x * n.x"),
    "to_bytes": "{{ (1).to_bytes(1000000000,'big')|length }}",
    "bit_length": "{{ (10**9).bit_length() }}",
    "a text as a number": "{{ (('f'*390000)|int(0,16)) // 3 }}",
    "a text as a number, by name": "{{ ('7'*390000)|int(base=8, default=0) % 7 }}",
    "a text as a float": "{{ ('1'*390000)|float }}",
    "binary digits": _each_turn("{{ ('1'*100000)|int(0,2) * 3 }}"),
    "a number of many digits": "{{ " + "9" * 4000 + " * " + "9" * 4000 + " }}",
    "a hexadecimal number": "{{ 0x" + "f" * 60000 + " // 3 }}",
    "a float made whole": "{{ 1e308|int * 10**17 }}",
    "no end of shifts": _doubled("1", "n.x * 18446744073709551616"),
    "numbers of one hash": "{% set d = {} %}" + _each_turn("{% set _ = d.update({(i * 2305843009213693951): 1}) %}"),
    "pairs of one hash": "{% set d = {} %}" + _each_turn("{% set _ = d.update({(i, -i): 1}) %}"),
    "a complex number": "{{ ((0-8)**0.5)|string }}",
}
TEXTS = {
    "join": "{{ ('a'*30000).join('b'*30000)|length }}",
    "join of a text by a filter": "{{ ('b'*30000)|join('a'*30000)|length }}",
    "join, by name": "{{ (['a']*30000)|join(d='b'*30000)|length }}",
    "join of what is made": "{{ range(90000)|map('string')|join('b'*30000)|length }}",
    "join of keys": "{{ ('b'*200000).join({'a':1,'b':2,'c':3,'d':4}) ~ ('b'*200000).join(range(2000)|map('string')) }}",
    "join of an attribute": "{{ (messages*20000)|join('b'*3000, attribute='content')|length }}",
    "translate": "{{ ('a'*40000).translate({97: 'b'*40000})|length }}",
    "expandtabs": "{{ '\\t'.expandtabs(1000000000)|length }}",
    "expandtabs, by name": "{{ '\\t'.expandtabs(tabsize=1000000000)|length }}",
    "many tabs": "{{ ('\\t'*300000).expandtabs(9999)|length }}",
    "bytes": "{{ 'a'.encode().center(1000000000)|length }}",
    "bytes in a loop": _each_turn("{{ ('a'*300000).encode('utf-32')|length }}"),
    "center": "{{ 'x'.center(1000000000)|length }}",
    "center in a loop": _each_turn("{{ 'x'.center(9999)|length }}"),
    "ljust": "{{ 'x'.ljust(300000000, 'é')|length }}",
    "zfill": "{{ 'x'.zfill(300000000)|length }}",
    "replace": "{{ ('a'*300000).replace('a', 'b'*300000)|length }}",
    "replace of nothing": "{{ ('a'*300000).replace('', 'b'*300000)|length }}",
    "replace by a filter, by name": "{{ ('a'*30000)|replace(old='a', new='b'*30000)|length }}",
    "replace of a list": "{{ ([1]*30000)|replace('1', new='b'*30000)|length }}",
    "repeated": "{{ 'x' * 1000000000 }}",
    "repeated from the left": "{{ 1000000000 * 'x' }}",
    "a list repeated": "{{ ([1] * 1000000000)|length }}",
    "doubled by tilde": _doubled("'ab'", "n.x ~ n.x"),
    "doubled by plus": _doubled("'ab'", "n.x + n.x"),
    "doubled by a block": "{% set n = namespace(x='ab') %}{% for i in range(1000) %}"
    "{% set s %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = s %}{% endfor %}{{ n.x|length }}",
    "doubled by join": _doubled("'ab'", "[n.x, n.x]|join"),
    "doubled by json": _doubled("'\"'", "n.x|tojson"),
    "doubled by escapes": _doubled("'&'", "n.x|e|string|replace('&', '&&')"),
    "indent": "{{ ('a\\n'*100000)|indent(1000000)|length }}",
    "indent by a text": "{{ ('\\n'*100000)|indent(width='b'*100000)|length }}",
    "indent, by name": "{{ ('\\n'*300000)|indent(width=64, first=true, blank=true)|length }}",
    "tojson with wide separators": "{{ ([1]*3000)|tojson(separators=('b'*30000,':'))|length }}",
    "tojson, indented": "{{ ([1]*3000)|tojson(indent=1000000)|length }}",
    "tojson, indented by a text": "{{ ([1]*3000)|tojson(indent='b'*30000)|length }}",
    "tojson of what is made": "{% set b = 'x'*300000 %}"
    "{{ range(90000)|map('default', b)|map(attribute='x', default=b)|tojson }}",
    "percent, wide": "{{ '%1000000000d' % 1 }}",
    "percent with a star": "{{ '%*d' % (1000000000, 1) }}",
    "percent, precise": "{{ '%.1000000000f' % 1.5 }}",
    "percent, many widths": _each_turn("{{ (('%(a)9999d'*2000) % {'a': 1})|length }}"),
    "percent, one text many times": "{{ (('%(a)s'*60000) % {'a': 'x'*60000})|length }}",
    "percent by a filter": "{{ ('%9999d'*2000)|format(*range(2000))|length }}",
    "percent is even": "{{ '%999999999d' is even }}",
    "percent is divisible": "{{ '%999999999d' is divisibleby(7) }}",
    "format, wide": "{{ '{:>1000000000}'.format(1) }}",
    "format, nested width": "{{ '{:>{w}}'.format(1, w=1000000000) }}",
    "format, many widths": "{{ ('{0:9999}'*48000).format(1)|length }}",
    "format, one text many times": "{{ ('{0}'*100000).format('x'*100000)|length }}",
    "format, precise": "{{ '{:.999999999f}'.format(1.5)|length }}",
    "format of a dictionary": "{{ ('{a:9999}'*40000).format_map({'a': 1})|length }}",
    "strip of a long set": _each_turn("{{ ('a'*300000).strip('b'*150000 ~ 'a')|length }}"),
    "strip by a filter": _each_turn("{{ ('a'*30000)|trim(chars='b'*30000 ~ 'a') }}"),
    "a needle in hay": _each_turn("{{ ('a'*29000).find('a'*7000 ~ 'b' ~ 'a'*7000) }}"),
    "a needle from the right": "{{ ('a'*380000).rfind('b' ~ 'a'*190000) }}",
    "in a text": _each_turn("{{ ('a'*7000 ~ 'b' ~ 'a'*7000) in 'a'*29000 }}"),
    "split": _each_turn("{{ ('ab'*150000).split('b')|length }}"),
    "split from the right": _each_turn("{{ ('a'*29000).rsplit('a'*7000 ~ 'b' ~ 'a'*7000)|length }}"),
    "count": _each_turn("{{ ('a'*29000).count('a'*7000 ~ 'b' ~ 'a'*7000) }}"),
    "wordcount": _each_turn("{{ ('a '*150000)|wordcount }}"),
    "title": _each_turn("{{ ('a '*150000)|title|length }}"),
    "upper grows": _each_turn("{{ ('ΐ'*300000)|upper|length }}"),
    "truncate": _each_turn("{{ ('a '*150000)|truncate(299999, end='b'*200000)|length }}"),
    "the date": "{{ strftime_now('%c' * 150000)|length }}",
    "a wide date": "{{ strftime_now('%999999999d')|length }}",
    "a long refusal": "{{ raise_exception('x' * 300000) }}",
    "Markup": "{{ (('<'*300000)|safe + '<'*300000)|length }}",
    "Markup joined": "{{ (('<'*30000)|safe).join(['<'*30]*30000)|length }}",
    "striptags": "{{ ('<'*60000)|striptags }}",
    "urlize": "{{ ('http://a.b '*30000)|urlize }}",
    "wordwrap": "{{ ('a '*150000)|wordwrap(1) }}",
    "xmlattr": "{{ {'a': '<'*300000}|xmlattr }}",
    "pprint": "{{ ([[1]]*30000)|pprint }}",
    "center by a filter": "{{ 'x'|center(1000000000) }}",
    "attr": "{{ 'a'|attr('center')(1000000000) }}",
}
VALUES = {
    "a loop of loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a loop of many statements": _each_turn("{% set a = i %}" * 4000),
    "a long macro": "{% macro m() %}" + "{% set a = 1 %}" * 4000 + "{% endmacro %}" + _each_turn("{% set _ = m() %}"),
    "a recursive loop": "{% for x in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "a recursive loop over a text": "{% for x in [1, 2] recursive %}{{ loop('a'*390000) if x == 1 }}{% endfor %}",
    "a macro that calls itself": "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
    "a macro that calls itself twice": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}"
    "{{ m(60) }}",
    "arguments by a star": "{% macro m() %}{{ varargs|length }}{% endmacro %}" + _each_turn("{{ m(*range(90000)) }}"),
    "a nest of lists": _doubled("[1]", "[n.x, n.x]"),
    "a nest of dictionaries": _doubled("{}", "{'a': n.x, 'b': n.x}"),
    "a nest of namespaces": "{% set n = namespace(x=namespace(a=1)) %}{% for i in range(60) %}"
    "{% set n.x = namespace(a=[n.x, n.x]) %}{% endfor %}{{ n.x }}",
    "a nest of namespaces, as an error": "{% set n = namespace(x=namespace(a=1)) %}{% for i in range(60) %}"
    "{% set n.x = namespace(a=[n.x, n.x]) %}{% endfor %}{{ [1].index(n.x) }}",
    "a namespace in itself": "{% set n = namespace() %}{% set n.x = [n] %}{{ n }}",
    "a nest of views": "{% set n = namespace(x={'a': 1}) %}{% for i in range(60) %}"
    "{% set n.x = {'a': [n.x.items(), n.x.items()]} %}{% endfor %}{{ n.x }}",
    "a nest of views, as json": "{% set n = namespace(x={'a': 1}) %}{% for i in range(60) %}"
    "{% set n.x = {'a': [n.x.items(), n.x.items()]} %}{% endfor %}{{ n.x|tojson }}",
    "a list that grows": "{% set l = [] %}" + _each_turn("{% set _ = l.extend('x' * 300000) %}"),
    "a list of long texts": "{% set l = [] %}"
    + _each_turn("{% set _ = l.append('x' * 300000 ~ i) %}")
    + "{{ l|length }}",
    "a list in front": "{% set l = [1] * 90000 %}" + _each_turn("{% set _ = l.insert(0, i) %}"),
    "a dictionary that grows": "{% set d = {} %}" + _each_turn("{% set _ = d.update({i: 'x' * 300000 ~ i}) %}"),
    "a sum of lists": "{{ ([[1]*100]*20000)|sum(start=[])|length }}",
    "a sum of texts": "{{ (['x'*1000]*9000)|sum(start='') }}",
    "sorted texts": _each_turn("{{ (['a'*3000 ~ i, 'a'*3000]*300)|sort|length }}"),
    "sorted by a long path": "{{ (['x']*3000)|sort(attribute='0.'*30000 ~ '0')|length }}",
    "mapped by a long path": "{{ (['x']*3000)|map(attribute='0.'*30000 ~ '0')|list|length }}",
    "unique": _each_turn("{{ range(20000)|unique|list|length }}"),
    "grouped": _each_turn("{{ (messages*2000)|groupby('content')|list|length }}"),
    "a chain of maps": "{{ range(90000)" + "|map('string')" * 3000 + "|list|length }}",
    "a chain of filters": "{{ 'a'" + "|replace('a','aa')" * 3000 + "|length }}",
    "in a range": _each_turn("{{ 1.5 in range(100000) }}"),
    "in a list": _each_turn("{{ 2 in [1] * 50000 }}"),
    "in a list, as a test": _each_turn("{{ 2 is in([1] * 50000) }}"),
    "compared": "{% set b = 'x' * 300000 %}{% set c = 'x' * 300000 %}" + _each_turn("{% if b == c %}{% endif %}"),
    "compared in a chain": "{% set b = ['x'] * 9000 %}{% set c = ['x'] * 9000 %}" + _each_turn("{{ 1 < 2 != b == c }}"),
    "compared by a test": "{% set b = ['x'] * 9000 %}{% set c = ['x'] * 9000 %}" + _each_turn("{{ b is eq(c) }}"),
    "loop.changed": "{% set b = ['x'] * 9000 %}" + _each_turn("{{ loop.changed(b, i) }}"),
    "sliced": "{% set b = 'x' * 300000 %}" + _each_turn("{{ b[1:]|length }}"),
    "a list sliced": "{% set b = [1] * 90000 %}" + _each_turn("{{ b[::-1]|length }}"),
    "the budget's own filter": "{{ 'abc'|_each(-1000000000)|length }}" + _each_turn("{{ 'x' * 300000 }}"),
    "the budget's own filter, mapped": "{{ ['abc']|map('_each', -1000000000)|list }}"
    + _each_turn("{{ 'x' * 300000 }}"),
    "text in a set block": _each_turn("{% set s %}" + "y" * 60000 + "{{ i }}{% endset %}"),
    "text in a loop": _each_turn("y" * 60000),
    "cycler": "{% set c = cycler(*range(90000)) %}" + _each_turn("{{ c.next() }}{% set c = cycler(*range(90000)) %}"),
    "Python's insides": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "a format's insides": "{{ '{0.__class__.__mro__}'.format('') }}",
    "autoescape": "{% autoescape '%999999999d' is odd %}{{ 1 }}{% endautoescape %}",
    "a block of its own": "{% block b %}{{ self.b() }}{% endblock %}",
}
TABLE: dict[str, str] = {**NUMBERS, **TEXTS, **VALUES}

# Parts of which more are made: `T` a text, `N` a number, `L` a list, `D` a dictionary, `A` anything.
_PARTS = {
    "T": (
        "'a'", "'\\t\\n'", "'😀'", "'%9999d'", "'%(a)s'", "'{0:9999}'", "'{a}'", "('ab '*9999)", "('a'*300000)",
        "('\\n'*9999)",
        "('<&'*9999)", "('%s'*3000)", "('{0}'*3000)", "(T ~ T)", "(T + T)", "(T * N)", "(L|join(T))",
        "(A|string)", "(A|tojson)",
        "(T|safe)", "(T|e)", "T[N:N]", "T[::N]", "messages[0].content",
    ),
    "N": (
        "0", "1", "-1", "3", "64", "9999", "100000", "1000000000", "(10**18)", "1.5", "1e308", "true", "(N * N)",
        "(N ** N)",
        "(N // N)", "(N % N)", "(N - N)", "(N / N)", "(T|int(N, N))", "(T|float)", "(L|length)", "(T|length)",
        "(N|round(N, 'ceil'))",
        "-N",
    ),
    "L": (
        "[]", "[A]", "[A, A]", "([A] * N)", "(L + L)", "T.split(T)", "(T|list)", "range(N)",
        "(range(99999)|list)", "(D|items|list)",
        "(L|map('string')|list)", "(L|sort)", "L[N:N]", "messages", "(A, A)", "D.values()", "(L|map('replace', T, T))",
    ),
    "D": ("{}", "{'a': A}", "{T: A, T: A}", "{N: A}", "dict(a=A)", "messages[0]", "dict(L)"),
    "A": ("T", "N", "L", "D", "none", "namespace(a=A)", "nothing", "cycler(A, A)", "range"),
}  # fmt: skip
_WORK = (
    *(f"T.{name}(T)" for name in ("join", "strip", "rstrip", "lstrip", "split", "rsplit", "partition", "find",
    "rfind", "count")),
    *(f"T.{name}(N)" for name in ("center", "ljust", "rjust", "zfill", "expandtabs", "encode", "to_bytes")),
    *(f"A|{name}" for name in ("string", "tojson", "list", "sort", "unique|list", "sum", "min", "max", "title",
    "upper", "trim")),
    *(f"A|{name}(A)" for name in ("join", "default", "round", "int", "indent", "format", "map", "select",
    "truncate", "sort")),
    *(f"A is {name}(A)" for name in ("in", "eq", "lt", "divisibleby", "sameas")),
    *(f"A is {name}" for name in ("odd", "even", "lower", "upper", "iterable", "sequence", "string", "nothing")),
    *(f"A {operator} A" for operator in ("+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "not in", "and")),
    "L.index(A)", "L.count(A)", "D.get(A, A)", "D.pop(A)", "T.join(L)", "T.replace(T, T)", "T.replace(T, T, N)",
    "T.translate(D)",
    "T.format(A, A, a=A)", "T.format_map(D)", "T.startswith(T)", "T.startswith((T, T))", "T|replace(old=T, new=T)",
    "T|replace(T, T, count=N)", "T|indent(width=T)", "T|indent(N, first=true, blank=true)", "L|join(d=T, attribute=T)",
    "A|tojson(indent=N)", "A|tojson(separators=(T, T))", "A|tojson(ensure_ascii=true, sort_keys=true, indent=T)",
    "N|round(precision=N, method='floor')", "N|round(N)", "T|int(default=N, base=N)", "L|map(attribute=T)|list",
    "L|sort(attribute=T)",
    "L|map(T, A)|list", "L|select('in', A)|list", "L|selectattr(T, 'eq', A)|list", "L|sum(start=A)",
    "L|groupby(T)", "D|dictsort(by=T)",
    "L|unique(attribute=N)|list", "T % A", "T % D", "T % (A, A, A)", "T|format(A, A)", "T|format(a=A)",
    "T|trim(T)", "T|truncate(N, true, T, N)",
    "A[A]", "A[N:N:N]", "loop.cycle(A)", "joiner(T)()", "raise_exception(A)", "strftime_now(T)",
    "cycler(*L).next()", "A|_each(N)",
    "A < A < A == A", "dict(L, a=A)|length", "namespace(D).a",
)  # fmt: skip
_FRAMES = (
    "{{ W }}",
    "{{ (W)|length }}",
    "{% set x = W %}{{ x }}",
    "{% if W %}{% endif %}",
    "{% for x in (W) %}{{ x }}{% endfor %}",
    "{% for x in (W) %}{{ loop.length }}{{ loop.nextitem }}{% endfor %}",
    "{% for i in range(99999) %}{% set x = W %}{% endfor %}",
    "{% for i in range(99999) %}{{ W }}{% endfor %}",
    "{% set l = [] %}{% for i in range(99999) %}{% set _ = l.append(W) %}{% endfor %}{{ l }}",
    "{% set d = {} %}{% for i in range(99999) %}{% set _ = d.update({i: W}) %}{% endfor %}{{ d|tojson }}",
    "{% set n = namespace(x=W) %}{% for i in range(99999) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
    "{% set n = namespace(x=T) %}{% for i in range(99999) %}{% set n.x = n.x ~ (W) %}{% endfor %}{{ n.x|length }}",
    "{% macro m(x) %}{{ x }}{{ W }}{% endmacro %}{% for i in range(99999) %}{{ m(A) }}{% endfor %}",
    "{% macro m(x) %}{{ m(W) }}{% endmacro %}{{ m(A) }}",
    "{% set s %}{{ W }}{% endset %}{% for i in range(99999) %}{% set s %}{{ s }}{{ W }}{% endset %}{% endfor %}",
    "{% filter upper %}{{ W }}{% endfilter %}",
    "{% for x in [A] recursive %}{{ loop(W) }}{% endfor %}",
)
_DEPTH = 4


def hostile_template(random: Random) -> str:
    """A template of parts taken at random: one piece of work with hostile arguments, in a frame that may repeat it."""
    return _written(random.choice(_FRAMES).replace("W", f"({random.choice(_WORK)})"), random, 0)


def _written(text: str, random: Random, depth: int) -> str:
    """The text with each place of a part written out; deep down only the first parts, which have no places."""
    return "".join(_part(letter, random, depth) if letter in _PARTS else letter for letter in text)


def _part(letter: str, random: Random, depth: int) -> str:
    parts = _PARTS[letter] if depth < _DEPTH else ("'ab'",) if letter in "TA" else _PARTS[letter][:1]
    return _written(random.choice(parts), random, depth + 1)


def hostile_templates(generated: int = 300, seed: int = 30) -> Iterator[tuple[str, str]]:
    """``(name, template)``: the table, and ``generated`` more that are the same for the same ``seed``."""
    yield from TABLE.items()
    random = Random(seed)
    for number in range(generated):
        yield f"generated {number}", hostile_template(random)
