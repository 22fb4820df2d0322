"""The ids of a next prompt are those of the prompt before, what was sampled, and what is new (FIELD: no break)."""

from __future__ import annotations

import asyncio

import pytest

from bridge.talk import SPELLINGS, Talk
from bridge.templates import names, source

CASES = [(name, i % len(SPELLINGS)) for i, name in enumerate(names(fetched=False))]


@pytest.mark.parametrize(("name", "spelling"), CASES, ids=[name for name, _ in CASES])
def test_each_next_prompt_goes_on_with_the_ids_or_says_what_its_template_means(name: str, spelling: int) -> None:
    found = source(name)
    kind, spelled = SPELLINGS[spelling]
    for thinks in (False, True) if found.thinks else (False,):
        row = asyncio.run(Talk(found, kind, spelled, thinks=thinks).run(len(SPELLINGS) // 2))
        assert not row.breaks
        assert row.kept or row.meant
