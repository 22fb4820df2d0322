"""What was measured on a machine is a layer of the configuration, weaker than all that is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import load_config
from antiphon.config.load import Tuned, TunedEngine, tuned_file, write_tuned
from antiphon.engines.machine import usable_cores
from antiphon.errors import ConfigError


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"ANTIPHON_HOME": str(home), **more}


def test_what_was_measured_counts_over_the_default_and_under_all_that_is_set(tmp_path: Path) -> None:
    file = tuned_file(environ(tmp_path))
    write_tuned(file, Tuned(usable_cores(), TunedEngine(7)))
    loaded = load_config(environ(tmp_path))
    assert (loaded.config.engine.threads, loaded.origin(("engine", "threads"))) == (7, str(file))
    assert load_config(environ(tmp_path, ANTIPHON_ENGINE_THREADS="3")).config.engine.threads == 3
    (tmp_path / "config.toml").write_text("[engine]\nthreads = 2\n")
    assert load_config(environ(tmp_path)).config.engine.threads == 2


def test_it_says_nothing_of_another_number_of_cores(tmp_path: Path) -> None:
    write_tuned(tuned_file(environ(tmp_path)), Tuned(usable_cores() + 1, TunedEngine(7)))
    assert load_config(environ(tmp_path)).config.engine.threads == 0


@pytest.mark.parametrize(
    "text",
    ["cores = 2", 'cores = 2\n[engine]\nthreads = "2"', "cores = ", "cores = 2\n[engine]\nthreads = 2\nslots = 1",
     "cores = 2\n[engine]\nthreads = 0", "\xff"],
)  # fmt: skip
def test_a_file_of_another_form_is_an_error_and_not_ignored(tmp_path: Path, text: str) -> None:
    tuned_file(environ(tmp_path)).write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"tuned\.toml"):
        load_config(environ(tmp_path))
