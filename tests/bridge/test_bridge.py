"""The ids of a next prompt are those of the prompt before, what was sampled, and what is new (FIELD: no break)."""

from __future__ import annotations

import asyncio

import pytest

from bridge.talk import KINDS, SPELLINGS, Talk
from bridge.templates import names, source

ALL = names(fetched=False)
SOME = [name for i, name in enumerate(ALL) if i % 6 == 0 or not name.startswith("declared")]
CASES = [(name, i % len(SPELLINGS)) for i, name in enumerate(SOME)]


@pytest.mark.parametrize(("name", "spelling"), CASES, ids=[name for name, _ in CASES])
def test_each_next_prompt_goes_on_with_the_ids_or_says_what_its_template_means(name: str, spelling: int) -> None:
    found = source(name)
    kind, spelled = SPELLINGS[spelling]
    row = asyncio.run(Talk(found, kind, spelled, thinks=found.thinks and spelling % 3 > 0).run(len(KINDS)))
    assert not row.breaks
    assert row.kept or row.meant
