"""`antiphon config --explain`, `models show` and the start of a server: what a model got, and from where."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from antiphon.cli.config import Explanation, explained
from antiphon.config import load_config
from antiphon.errors import ConfigError
from kit.program import in_process, refused_in_turn, started

CONFIG = """
model = "smollm2"
[models.smollm2]
engine = "scripted"
reply = "Paris."
context = 600
[engine]
context = 500
[server]
port = 1
"""


def why(tmp_path: Path, key: str, **flags: object) -> Explanation:
    (tmp_path / "config.toml").write_text(CONFIG)
    given = {name.replace("__", "."): value for name, value in flags.items()}
    return explained(load_config({"ANTIPHON_HOME": str(tmp_path), "ANTIPHON_SERVER_PORT": "2"}, given), key)


def chain(found: Explanation) -> list[tuple[object, str]]:
    return [(found.value, found.origin), *((one.value, one.origin) for one in found.overrode)]


def test_a_key_of_the_configuration_names_all_that_it_overrode(tmp_path: Path) -> None:
    file = str(tmp_path / "config.toml")
    assert chain(why(tmp_path, "server.port", server__port=3)) == [
        (3, "flag --port"), ("2", "environment ANTIPHON_SERVER_PORT"), (1, file), (8080, "default")
    ]  # fmt: skip
    assert chain(why(tmp_path, "models.smollm2.engine.reply")) == [("Paris.", file)]


@pytest.mark.parametrize("key", ["context", "models.smollm2.context"])
def test_a_setting_of_a_model_names_its_source_and_the_others(tmp_path: Path, key: str) -> None:
    file = str(tmp_path / "config.toml")
    found = why(tmp_path, key)
    assert chain(found) == [
        (600, f"configuration: models.smollm2 ({file})"), (500, f"configuration: engine.context ({file})"),
        (2048, "model: format chatml"),
    ]  # fmt: skip
    flagged = why(tmp_path, key, engine__context=700)
    assert chain(flagged)[0] == (700, "configuration: engine.context (flag --context)")


def test_the_dialect_and_a_template_are_among_the_sources(tmp_path: Path) -> None:
    assert chain(why(tmp_path, "temperature", dialect__name="mindie", dialect__strict=True)) == [
        (1.0, "strict dialect: mindie"), (0.0, "catalogue: smollm2"), (0.8, "model: format chatml"), (1.0, "default")
    ]  # fmt: skip
    template = tmp_path / "my.json"
    template.write_text('{"model_name": "chatml", "temperature": 1.5}')
    found = why(tmp_path, "models.smollm2.sampling.temperature", chat_template=str(template))
    assert (found.value, found.origin) == (1.5, f"your chat template: {template}")
    spoken = why(tmp_path, "format", chat_template=str(template))
    assert chain(spoken) == [("chatml", f"your chat template: {template}")]


@pytest.mark.parametrize("key", ["temperatur", "models.smollm2.contxt", "models.nobody.context"])
def test_a_key_that_nobody_knows_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        why(tmp_path, key)


def test_the_command_prints_what_counts_and_what_does_not(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    done = in_process("config", "--explain", "max_tokens", home=tmp_path)
    assert done.stdout == "max_tokens = 1024  (catalogue: smollm2)\n  not 16384  (default)\n"
    as_json = json.loads(
        in_process("config", "--explain", "engine.context", "--context", "9", "--json", home=tmp_path).stdout
    )
    assert (as_json["value"], as_json["origin"]) == (9, "flag --context")
    assert as_json["overrode"][0]["value"] == 500


def test_a_model_is_shown_with_its_settings(tmp_path: Path, smollm2_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'[models.mine]\nsource = "{smollm2_path}"\ncontext = 99\n')
    lines = in_process("models", "show", "mine", home=tmp_path).stdout.splitlines()
    assert "format mine/chat_template (model: the chat template of its files)" in lines
    assert "context 99 (configuration: models.mine)" in lines
    assert "answers without max_tokens: 1024 (catalogue: smollm2)" in lines
    shown = json.loads(in_process("models", "show", "mine", "--json", home=tmp_path).stdout)
    assert (shown["context"], shown["default_output_tokens"]) == (99, 1024)


def test_a_server_prints_at_its_start_what_its_model_got_and_from_where(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    lines, options = [""], ("--context", "512", "--dialect", "mindie", "--strict-seed")
    with started(tmp_path, *options, stderr=subprocess.PIPE) as (server, printed):
        while "repetition_penalty" not in lines[-1]:
            lines.append(next(printed).strip())
        server.kill()
        _, log = server.communicate()
    assert "format chatml (default: its files have no chat template)" in lines
    assert "context 512 (configuration: engine.context)" in lines
    assert "answers without max_tokens: 512 (strict dialect: mindie)" in lines
    assert "temperature 1.0 (strict dialect: mindie)" in lines
    assert (
        "smollm2: format chatml (default: its files have no chat template); context 512 (configuration: engine.context)"
        in log
    )


UNUSABLE = {
    ("--format", "nosuch"): (2, "unknown format 'nosuch'"),
    ("--chat-template", "nosuch.json"): (2, "nosuch.json"),
    ("--chat-template", "broken.json"): (1, "broken.json"),
    ("--chat-template", "broken.py"): (1, "broken.py"),
    ("--chat-template", "broken.jinja"): (1, "template"),
    ("--model", "nosuch.gguf"): (3, "nosuch.gguf"),
    ("--config", "nosuch.toml"): (2, "nosuch.toml"),
    ("--config", "other.toml"): (2, "models.other.format: unknown format 'nosuch'"),
}


@pytest.mark.spec("LMD-10")
def test_a_server_that_has_no_model_to_speak_to_ends_before_its_banner(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "other.toml").write_text(CONFIG + '[models.other]\nengine = "scripted"\nformat = "nosuch"\n')
    for name, text in {"broken.json": "{", "broken.py": "1/0", "broken.jinja": "{% if %}"}.items():
        (tmp_path / name).write_text(text)
    options = [(option, str(tmp_path / value) if "." in value else value) for option, value in UNUSABLE]
    told = refused_in_turn(tmp_path, *options)
    assert [code for code, _ in told] == [code for code, _ in UNUSABLE.values()], told
    assert [words for (_, text), (_, words) in zip(told, UNUSABLE.values(), strict=True) if words not in text] == []
