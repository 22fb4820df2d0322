"""A constrained model may write all that its template writes, and what it then writes is what was asked for (FIELD)."""

from __future__ import annotations

import random

import pytest

from bridge.grammars import UNTOLD, has_grammar_of_its_own, row_of
from bridge.templates import names, source

OWN = [name for name in names(fetched=False) if name.startswith(("own", "tests")) and name not in UNTOLD]
DECLARED = [name for name in names(fetched=False) if name.startswith("declared")]
CASES = [name for some, count in ((OWN, 7), (DECLARED, 2)) for name in sorted(random.Random(34).sample(some, count))]
"""Some: `make grammars` has all."""


@pytest.mark.parametrize("name", CASES)
def test_what_a_template_writes_is_admitted_and_what_is_admitted_is_read_as_what_was_asked_for(name: str) -> None:
    found = source(name)
    if not has_grammar_of_its_own(found):
        return
    row = row_of(found, draws=1, walks=1)
    assert row.faults == []
    assert row.admitted
