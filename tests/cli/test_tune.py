"""`antiphon doctor --tune` measures the real engine, and what it stores counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli import tune
from antiphon.engines.machine import usable_cores
from kit.program import in_process


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "SECONDS", 0.05)
    monkeypatch.setattr(tune, "ROUNDS", 1)


@pytest.fixture
def home(tmp_path: Path, smollm2_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(f'model = "{smollm2_path}"\n[engine]\ncontext = 512\n')
    return tmp_path


def test_the_fastest_number_of_threads_is_stored_and_counts(home: Path) -> None:
    done = in_process("doctor", "--tune", "--json", home=home)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    measured = {one["threads"]: one["one"] * one["all"] for one in report["measured"]}
    assert set(measured) == set(tune.candidates(usable_cores()))
    assert report["best"] == report["in_use"] == max(measured, key=measured.__getitem__)
    explained = json.loads(in_process("config", "--explain", "engine.threads", "--json", home=home).stdout)
    assert (explained["value"], explained["origin"]) == (report["best"], report["file"])


def test_what_the_configuration_sets_still_counts_and_that_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "candidates", lambda cores: [1])  # whichever is best, another is set
    done = in_process("doctor", "--tune", home=home, ANTIPHON_ENGINE_THREADS="99")
    assert "Not in use: environment ANTIPHON_ENGINE_THREADS sets engine.threads = 99." in done.stdout


def test_a_model_that_runs_elsewhere_is_not_measured(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        'model = "far"\n[models.far]\nformat = "chatml"\n[models.far.engine]\nkind = "scripted"\n'
    )
    done = in_process("doctor", "--tune", home=tmp_path)
    assert done.returncode == 2
    assert "far is no chat model that the embedded engine runs" in done.stderr
    assert not (tmp_path / "tuned.toml").exists()
