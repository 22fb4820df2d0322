"""A loop of tools with a real model, the first of many."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_models.loops import judged


async def test_prompts_of_a_real_model_go_on_with_the_ids_before(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("real_models.loops.TURNS", 2)
    rows = (await judged(smollm2_path, 1, 1)).values()
    assert not [what for row in rows for what in (*row.refused, *row.breaks)]
    assert sum(row.kept for row in rows) > 0
