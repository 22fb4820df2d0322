"""A client's Lark grammar: terminals are lexemes, rules are rules, and what is not held is refused by its line."""

from __future__ import annotations

import pytest

from antiphon.errors import RequestError
from antiphon.grammar import EndOfTurn, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.grammar.source.read import read_grammar
from antiphon.tokens import ByteTokenizer, Control

END = Control("<|im_end|>")
TOKENIZER = ByteTokenizer([END])
ENDS = [TOKENIZER.controls[END]]
VOCABULARY = Vocabulary(TOKENIZER, ENDS)
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


def compiled(text: str) -> CompiledGrammar:
    return compile_grammar(chain(read_grammar(text, "grammar"), EndOfTurn()), VOCABULARY)


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    return matcher.consume([*TOKENIZER.encode(text), *ENDS]) is None and matcher.accepting


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
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
    ids=lambda value: value[:40],
)  # fmt: skip
def test_what_cannot_be_held_is_refused_with_its_rule_and_line(text: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        compiled(text)
    assert words in refused.value.message
    assert refused.value.position is not None
    assert refused.value.position.path == "grammar"
