"""One table has every code that is raised, reported or sent; the API answers with its status; the page is its print."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import antiphon.errors
from antiphon.errors.codes import CODES
from antiphon.http.errors import answer_to
from docs.errors import ERRORS, OTHERS, page
from kit.codes import SOURCE, codes_in

DOCS = Path(__file__).parents[2] / "docs"


def test_every_code_in_the_source_stands_in_the_table() -> None:
    assert not codes_in().unreadable, "what is given as a code must be a text, a name of one, or another error's code"
    assert sorted(set(codes_in().raised) - set(CODES)) == [], "add a row to antiphon/errors/codes.py"


def test_every_row_of_the_table_is_used() -> None:
    texts = {
        node.value
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "errors" / "codes.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
    }
    assert [code for code in CODES if code not in texts] == [], "remove the row from antiphon/errors/codes.py"


def test_a_row_names_every_class_that_is_raised_with_its_code() -> None:
    wrong = []
    for code, raisers in codes_in().raised.items():
        kinds = [kind for name in raisers if isinstance(kind := getattr(antiphon.errors, name, None), type)]
        wrong += [(code, kind.__name__) for kind in kinds if kind not in CODES[code].errors]
    assert wrong == []


def test_the_api_answers_with_the_status_of_the_table() -> None:
    answered = {(code, kind): answer_to(kind("No.", code=code)).status for code in CODES for kind in CODES[code].errors}
    assert answered == {(code, kind): row.status for code, row in CODES.items() for kind in row.errors}


def test_a_row_says_in_one_sentence_what_its_code_means() -> None:
    assert [row.meaning for row in CODES.values() if not re.fullmatch(r"[A-Z`].*\.", row.meaning)] == []
    assert [code for code, row in CODES.items() if (row.status is not None) is not bool(row.errors)] == []


def test_a_code_from_outside_has_the_status_of_its_class() -> None:
    class Strange(antiphon.errors.ConflictError):
        default_code = "strange"

    assert answer_to(Strange("It failed.")).status == 409


def test_the_page_of_errors_is_the_print_of_the_table() -> None:
    assert (DOCS / "errors.md").read_text("utf-8") == page(), "run: python tests/docs/errors.py > docs/errors.md"
    shown = [code for _, _, rows in (*ERRORS, *OTHERS) for code in rows]
    assert sorted(shown) == sorted(CODES), "every code once"


def test_the_page_of_the_api_names_every_status() -> None:
    section = (DOCS / "api.md").read_text("utf-8").partition("## Errors")[2].partition("\n## ")[0]
    named = {int(status) for row in re.findall(r"(?m)^\| ([\d, ]+) \|", section) for status in row.split(",")}
    assert named == {row.status for row in CODES.values() if row.status is not None}


def test_a_code_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        'WRONG = {1: "first", 2: "second"}\n'
        "class Fault(AntiphonError):\n"
        '    default_code = "fault"\n'
        "def made(code: str, other: Fault) -> Fault:\n"
        "    return Fault('x', code=code) or Fault('x', code=other.code)\n"
        "def raised(n: int) -> None:\n"
        '    made("by_place", Fault("x"))\n'
        '    raise Fault("x", code="one" if n else f"two{n}")\n'
        "def looked_up(n: int) -> None:\n"
        "    if code := WRONG[n]:\n"
        '        made(code, Fault("x"))\n'
    )
    found = codes_in(tmp_path)
    assert set(found.raised) == {"fault", "by_place", "one", "first", "second"}
    assert found.unreadable == ["module.py:8 f'two{n}'"]
