"""A client's grammar, GBNF or Lark, holds a reply to just its own texts, whatever of it became a lexeme."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random

import pytest

from antiphon.errors import RequestError
from antiphon.grammar import EndOfTurn, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.grammar.source.expression import Chars, Either, Expression, Named, Repeated, RuleSet, Sequence, Text
from antiphon.grammar.source.lexemes import Alphabet
from antiphon.grammar.source.read import read_gbnf, read_grammar
from antiphon.tokens import ByteTokenizer, Control

END = Control("<|im_end|>")
TOKENIZER = ByteTokenizer([END])
ENDS = [TOKENIZER.controls[END]]
VOCABULARY = Vocabulary(TOKENIZER, ENDS)
JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
# Blanks are allowed after each sign.
ws ::= | " " | "\n" [ \t]{0,20}
"""
SUMS = """
// sums, as a manual has them
?start: expr
?expr: term
     | expr ("+" | "-") term -> add
term.2: NUMBER | "(" expr ")"
%import common.NUMBER
%import common (WS, CNAME)
%ignore WS
"""
LONGEST = 4
Texts = frozenset[str]


def compiled(text: str) -> CompiledGrammar:
    return compile_grammar(chain(read_grammar(text, "grammar"), EndOfTurn()), VOCABULARY)


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    return matcher.consume([*TOKENIZER.encode(text), *ENDS]) is None and matcher.accepting


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ('root ::= "yes" | "no"', ["yes", "no"], ["", "maybe", "yesno"]),
        ('root ::= "(" root ")" | ""', ["", "((()))"], ["(", "())"]),
        (
            'root ::= a "b" | "(" a ")"\na ::= "x" c | "y"\nc ::= [a-c]+ | "(" root ")"',
            ["xab", "(xa)", "x(yb)b"],
            ["xa", "xb", "(xab"],
        ),
        ('root ::= root "x" | "y"', ["y", "yxxx"], ["x", "yy"]),
        (r'root ::= [^a-c\]\n] "\x41\u00e9\U0001F600" .', ["dAé😀\n", "€Aé😀x"], ["aAé😀x", "]Aé😀x"]),
        ('root ::= ("a" | "b"){2,3} [-+]?\n# the end', ["ab", "bba-"], ["a", "abab"]),
        ("root ::= a\n  | b\na ::=\n  (\n  'x'\n)".replace("'", '"') + '\nb ::= "z"+', ["x", "zz"], ["xz"]),
        ('root ::= "true" r | r\nr ::= [a-z] r | "!"', ["true!", "trx!", "tr!", "truetrue!"], ["true"]),
        ('root ::= "<|im_end|>" root | "."', ["<|im_end|>."], ["<|im_end|>"]),
        (JSON, ['{"a": [1, true, {"b": "x\\n\\u00e4ö"}], "c": -1.5e1}', "{}"], ['{"a":}', '{"a": tru}', '{"a" 1}']),
        ('start: GREETING " " NAME\nGREETING: "Hi" | "Ho"\nNAME: /[a-z]+/', ["Hi bob"], ["Hey bob", "Hi "]),
        (SUMS, ["1", "1 + 2", " (1+ 2.5 ) - 3"], ["1+", "a", "1 2"]),
        ('start: "a"~2..3 ["b"] C\nC: "c"i "0".."9"+', ["aabC1", "aaac12"], ["ac1", "aabc"]),
        ("start: item*\nitem: /x.z/s | /Y/i\n", ["", "x\nzy"], ["xz"]),
        ('start: "<|im_end|>" "."', ["<|im_end|>."], ["."]),
        ('start: (_A | "\\u00e9" | "\\x41\\n")\n_A: /[a&&b]/ "-"', ["é", "A\n", "&-"], ["0"]),
        ("start: ESCAPED_STRING\n%import common.ESCAPED_STRING", ['"a\\"b"'], ['"a']),
        ("start: N\n%import common.INT -> N", ["12"], ["x"]),
    ],
)  # fmt: skip
def test_a_grammar_takes_its_own_texts_and_no_others(text: str, right: list[str], wrong: list[str]) -> None:
    grammar = compiled(text)
    assert [accepts(grammar, one) for one in right] == [True] * len(right)
    assert [accepts(grammar, one) for one in wrong] == [False] * len(wrong)


def test_a_text_that_spells_a_control_stays_a_text() -> None:
    matcher = compiled('root ::= "<|im_end|>" root | "."').matcher()
    assert matcher.consume(ENDS) is not None


def test_a_common_grammar_of_json_is_made_of_lexemes_and_not_of_characters() -> None:
    """A mask over a real vocabulary would cost a hundred times as much."""
    assert len(compiled(JSON).lark) < 3000


@pytest.mark.parametrize("seed", range(30))
def test_whatever_its_rules_are_the_texts_are_theirs(seed: int) -> None:
    random = Random(seed)
    names = ["root", "a", "b"]
    text = "\n".join(f"{name} ::= {either(random, names, 2)}" for name in names)
    expected = texts_of(read_gbnf(text, "grammar"))["root"]
    if not ends(text):
        assert not expected, text
        return
    grammar = compiled(text)
    for word in ("".join(letters) for n in range(LONGEST + 1) for letters in product("xyz", repeat=n)):
        assert accepts(grammar, word) == (word in expected), (text, word)


def ends(text: str) -> bool:
    """Whether a grammar has a text that ends; it may have none that is short."""
    try:
        compiled(text)
    except RequestError as error:
        if "no text of it ever ends" not in error.message:
            raise
        return False
    return True


def either(random: Random, names: list[str], depth: int) -> str:
    return " | ".join(sequence(random, names, depth) for _ in range(random.randint(1, 3)))


def sequence(random: Random, names: list[str], depth: int) -> str:
    return " ".join(part(random, names, depth) + random.choice(["", "", "", "?", "*", "+", "{0,2}"]) for _ in "ab")


def part(random: Random, names: list[str], depth: int) -> str:
    parts = ['"x"', '"xy"', '"xyz"', "[xy]", "[^x]", "[x-z]", *names]
    if depth:
        parts += [f"({either(random, names, depth - 1)})"] * 3
    return random.choice(parts)


def texts_of(rules: RuleSet) -> Mapping[str, Texts]:
    """The texts of each rule up to a length, found by adding to them until nothing is new."""
    known: dict[str, Texts] = dict.fromkeys(rules, frozenset())
    while True:
        found = {name: texts(body, known) for name, body in rules.items()}
        if found == known:
            return known
        known = found


def texts(expression: Expression, known: Mapping[str, Texts]) -> Texts:
    match expression:
        case Text(text):
            return frozenset({text})
        case Chars(ranges):
            return frozenset(c for c in "xyz" if any(low <= ord(c) <= high for low, high in ranges))
        case Named(name):
            return known[name]
        case Either(options):
            return frozenset().union(*(texts(option, known) for option in options))
        case Sequence(parts):
            joined: Texts = frozenset({""})
            for one in parts:
                joined = after(joined, texts(one, known))
            return joined
        case Repeated(item, least, most):
            return repeated(texts(item, known), least, LONGEST + 1 if most is None else most)


def repeated(item: Texts, least: int, most: int) -> Texts:
    found: Texts = frozenset({""}) if least == 0 else frozenset()
    row: Texts = frozenset({""})
    for times in range(1, most + 1):
        row = after(row, item)
        found |= row if times >= least else frozenset()
    return found


def after(before: Texts, more: Texts) -> Texts:
    fits = [[b for b in more if len(b) <= room] for room in range(LONGEST + 1)]
    return frozenset(a + b for a in before for b in fits[LONGEST - len(a)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("root ::= missing", "'missing'"), ('a ::= "x"', "no rule 'root'"), ('root ::= "x', "line 1, rule 'root'"),
        ('root ::= "x"\n\na ::= [', "line 3, rule 'a'"), ('root ::= "a"\nroot ::= "b"', "line 2, rule 'root'"),
        ("root ::= <think>", "tokens cannot be named"), ("root ::= <[1000]>", "tokens cannot be named"),
        ('root ::= (="x") "x"', "look-ahead"), ('root ::= ("x"', "not closed"), ('root ::= "x")', "unexpected"),
        ("root ::= [z-a]", "backwards"), ("root ::= []", "no character"), ('root ::= "x"{3,1}', "wrong way round"),
        ('root ::= "x"{99999}', "more than 10000"), ('root ::= "x"{a}', "{n}"), ("root ::= root", "ever ends"),
        ('root ::= "x" root', "ever ends"), (r'root ::= "\ud800"', "no character"),
        ('root ::= "x"****', "3 repetitions"), ("root ::= TagDispatch((", "not closed"),
        ("root ::= " + "(" * 30 + '"x"' + ")" * 30, "20 deep"), (f'root ::= "{"x" * 5000}"', "4096"),
        ('root ::= "x" ' + "#" * 70_000, "65536"), ("\n".join(f'r{i} ::= "x"' for i in range(600)), "500 rules"),
        ("root ::= " + '"x" ' * 11_000, "10000 parts"), ("root ::= \ud800", "no character"),
        ('root ::= "\0"', "no character"),
        ('root ::= "x" = 3', "unexpected"), ('root ::= "x"\n= 3', "unexpected"),
        ("", "no rule 'start'"), ("x", "a name and a colon"), ('root: "x"', "no rule 'start'"),
        ("start: a", "line 1, rule 'start': there is no rule 'a'"), ("start: A", "there is no terminal 'A'"),
        ('start: A\nA: B\nB: A "x"', "leads back to itself"), ("start: A\nA: b\nb: /x/", "a terminal cannot hold"),
        ("start: start", "ever ends"), ('start: "x" start', "ever ends"), ('start: a{1}\na: "x"', "line 1"),
        ('start: "x"\n%declare X', "line 2: %declare is not possible"), ('%llguidance {}\nstart: "x"', "%llguidance"),
        ('start: "x"\n%import common.NOPE', "no terminal 'NOPE'"), ('%import other.X\nstart: "x"', "%import"),
        ("start: <|im_end|>", "unexpected"), ("start: /x/m", "flags 'm'"), ('start: "z".."a"', "a range"),
        ('start: "x" ~ 3..1', "wrong way round"), ('start: "x" ~ 100000', "more than 10000"),
        ('start: ("x"', "is missing"), ("start: A\nA: %json {}", "unexpected"),
        ('start: "x" & "y"', "unexpected"), ('start[lazy]: "x"', "a name and a colon"), ('start: "\\q"', "no text"),
        ('start: "x"\nstart: "y"', "line 2, rule 'start'"), ("start: " + "(" * 30 + '"x"' + ")" * 30, "20 deep"),
        ("start: " + "[" * 50_000, "20 deep"), (f'start: "{"x" * 5000}"', "4096"),
        ("start: A0\n" + "\n".join(f"A{i}: A{i + 1} A{i + 1}" for i in range(18)) + '\nA18: "x"', "longer than 2000"),
        ("start: " + '"x" ' * 11_000, "10000 parts"), ("\n".join(f'r{i}: "x"' for i in range(600)), "500 rules"),
        ("start: /(?=x)/", "cannot be enforced"),
    ],
    ids=lambda value: value[:40].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_what_cannot_be_held_is_refused_with_its_rule_and_line(text: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        compiled(text)
    assert words in refused.value.message
    assert (refused.value.code, refused.value.position and refused.value.position.path) == (
        "invalid_grammar",
        "grammar",
    )


def test_a_class_has_its_own_characters_and_no_others() -> None:
    first, other = Chars(((97, 99),)), Chars(((65, 90), (100, 122)))
    alphabet = Alphabet([first, other, Text("b")])
    assert [bool(alphabet.bits(first) & alphabet.of(char)) for char in "Aabd"] == [False, True, True, False]
    assert [bool(alphabet.bits(other) & alphabet.of(char)) for char in "Aabd"] == [True, False, False, True]
