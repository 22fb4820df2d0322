"""One precedence: defaults, file, environment, flags; and every value knows where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import load_config
from antiphon.errors import ConfigError


def write(folder: Path, text: str) -> dict[str, str]:
    (folder / "config.toml").write_text(text, "utf-8")
    return {"ANTIPHON_HOME": str(folder)}


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    environ = write(tmp_path, 'model = "from-file"\n[server]\nport = 1\nhost = "from-file"\n[limits]\nmax_queue = 1\n')
    environ |= {"ANTIPHON_SERVER_PORT": "2", "ANTIPHON_SERVER_HOST": "from-environment"}
    loaded = load_config(environ, {"server.port": 3, "server.host": None})
    server, limits = loaded.config.server, loaded.config.limits
    assert (server.port, server.host, limits.max_queue, server.drain) == (3, "from-environment", 1, 30.0)
    origins = {key: origin for key, _, origin in loaded.rows()}
    assert origins["server.port"] == "flag --port"
    assert origins["server.host"] == "environment ANTIPHON_SERVER_HOST"
    assert origins["limits.max_queue"] == str(tmp_path / "config.toml")
    assert origins["server.drain"] == "default"
    assert origins["store.folder"] == "environment ANTIPHON_HOME"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[limits]\nmax_queue = -1", "limits.max_queue"),
        ("[limits]\nbody_timeout = 0", "limits.body_timeout"),
        ("[limits]\nturn_timeout = -0.5", "limits.turn_timeout"),
        ("[limits]\nkeep_alive = nan", "limits.keep_alive"),
        ("[limits]\nqueue_timeout = inf", "limits.queue_timeout"),
        ("[server]\nport = 70000", "server.port"),
    ],
)
def test_a_limit_that_limits_nothing_in_this_world_is_refused(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        load_config(write(tmp_path, text))


def test_an_empty_environment_gives_the_defaults() -> None:
    config = load_config({}).config
    assert config.model == "smollm2"
    assert config.server.host == "127.0.0.1"
    assert config.store.folder.endswith("models")


def test_models_of_the_file_join_those_of_the_package(tmp_path: Path) -> None:
    text = """
        [models."qwen2.5"]
        source = "qwen.gguf"
        chat_template = "mine.py"
        sampling = { temperature = 0.5 }
        [models.smollm2]
        context = 100
    """
    config = load_config(write(tmp_path, text)).config
    mine = config.entries["qwen2.5"]
    assert mine.source == str(tmp_path / "qwen.gguf")
    assert mine.chat_template == str(tmp_path / "mine.py")
    assert mine.defaults.temperature == 0.5
    assert config.entries["smollm2"].context == 100


def test_a_table_of_a_known_model_changes_only_what_it_says(tmp_path: Path) -> None:
    entry = load_config(write(tmp_path, "[models.smollm2]\nslots = 2\n")).config.entries["smollm2"]
    assert (entry.slots, entry.context) == (2, 8192)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modle = 'x'", ["modle", "model"]),
        ("[server]\nprot = 1", ["server.prot", "server.port"]),
        ("[models.a]\ncontxt = 1", ["contxt", "context"]),
        ("[servr]\nport = 1", ["servr.port", "server.port"]),
        ("[models.a.sampling]\ntemprature = 1", ["temprature", "sampling.temperature"]),
        ("models = 3", ["models"]),
        ("[models]\na = 3", ["models.a"]),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_near_ones(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert caught.value.code == "unknown_key"
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("flag", "near"), [("server.prot", "server.port"), ("server", "server.port"), ("modle", "model")]
)
def test_an_unknown_flag_is_an_error_that_names_the_near_ones(flag: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown key {flag!r} in flags.*{near}") as caught:
        load_config({}, {flag: 1})
    assert caught.value.code == "unknown_key"


def test_an_unknown_variable_is_an_error_too() -> None:
    with pytest.raises(ConfigError, match="ANTIPHON_SERVER_PORT"):
        load_config({"ANTIPHON_SERVER_PROT": "1"})


@pytest.mark.parametrize(
    "environ", [{"ANTIPHON_SERVER_PORT": "many"}, {"ANTIPHON_SERVER_DRAIN": ""}, {"ANTIPHON_ENGINE_SLOTS": "1.5"}]
)
def test_a_value_of_another_type_is_reported_with_its_key_and_origin(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(environ)
    (name,) = environ
    assert name in str(caught.value)
    assert caught.value.position is not None


def test_a_file_that_is_no_toml_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(write(tmp_path, "model ="))


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_config({"ANTIPHON_CONFIG": str(tmp_path / "absent.toml")})


def test_as_many_requests_run_as_the_models_servers_are_asked_for(tmp_path: Path) -> None:
    server = (
        '[models.{}]\ntokenizer = "o200k_harmony"\n{}\n[models.{}.engine]\nkind = "vllm"\nurl = "http://127.0.0.1:1"\n'
    )
    two = server.format("a", "", "a") + server.format("b", "slots = 40", "b")

    def concurrent(text: str) -> int:
        (tmp_path / "config.toml").write_text(text)
        return load_config({"ANTIPHON_HOME": str(tmp_path)}).config.limits.concurrent

    assert concurrent("") == 64
    assert concurrent(server.format("a", "slots = 3", "a")) == 64
    assert concurrent(two) == 256 + 40
    assert concurrent("[limits]\nmax_concurrent = 7\n" + two) == 7
