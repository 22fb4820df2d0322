"""`antiphon connect`: the configuration of clients, printed and written into their files."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.cli.clients import CLIENTS, Endpoint, local_url
from antiphon.config import load_config
from kit.program import in_process

READ: Mapping[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
FOREIGN = {
    "json": '{\n  "theme": "dark",\n  "env": {"OTHER": "1"},\n  "model": "before",\n  "last": [1, 2]\n}\n',
    "toml": '# mine\nmodel = "before"\n\n[model_providers.other]\nname = "Other"  # stays\n\n[tui]\ntheme = "dark"\n',
    "yaml": "# mine\nname: Mine\ntheme: dark  # stays\nmodels:\n- name: other\n  model: x\nlast: 'yes'\n",
}
"""Files that a user has already, one of each form."""
SETTINGS = {name: client.settings(Endpoint("http://h", "m")).file for name, client in CLIENTS.items()}
FILES = [name for name, file in SETTINGS.items() if file]
BY_FORM = {file.form: name for name, file in SETTINGS.items() if file}
VARIABLES = [name for name in CLIENTS if name not in FILES]


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `antiphon connect` with a home folder of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CONTINUE_GLOBAL_DIR", "LLM_USER_PATH"):
        monkeypatch.delenv(name, raising=False)
    return lambda *words: in_process("connect", *words, home=tmp_path, HOME=str(tmp_path))


def contains(found: Any, part: Any) -> bool:
    """Whether all of ``part`` is in ``found``, at its place; items of lists at any."""
    if isinstance(part, dict):
        return isinstance(found, dict) and all(key in found and contains(found[key], part[key]) for key in part)
    if isinstance(part, list):
        return isinstance(found, list) and all(any(contains(one, item) for one in found) for item in part)
    return bool(found == part)


@pytest.mark.parametrize("client", FILES)
def test_what_is_written_is_what_is_printed_and_parses(client: str, at: Any) -> None:
    printed = json.loads(at(client, "--url", "http://h:1/v1", "--model", "m", "--json").stdout)
    shown = at(client, "--url", "http://h:1", "--model", "m")
    assert READ[printed["form"]](shown.stdout) == printed["content"]
    assert at(client, "--url", "http://h:1", "--model", "m", "--write").returncode == 0
    file = Path(printed["file"])
    assert READ[printed["form"]](file.read_text()) == printed["content"]
    assert "http://h:1" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("client", [name for name in FILES if name != "llm"])
def test_what_else_is_in_the_file_stays_with_its_order_and_a_copy(client: str, at: Any) -> None:
    printed = json.loads(at(client, "--json").stdout)
    file, read, before = Path(printed["file"]), READ[printed["form"]], FOREIGN[printed["form"]]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before)
    written = json.loads(at(client, "--write", "--json").stdout)
    after = read(file.read_text())
    head = {"name", "version", "schema", "$schema"}
    assert contains(after, {key: value for key, value in printed["content"].items() if key not in head})
    ours = {"model", "env"}
    assert [key for key in after if key in read(before)] == list(read(before))
    assert {key: value for key, value in read(before).items() if key not in ours} == {
        key: [one for one in after[key] if one in value] if isinstance(value, list) else
        {name: after[key][name] for name in value} if isinstance(value, dict) else after[key]
        for key, value in read(before).items() if key not in ours
    }  # fmt: skip
    assert all(line in file.read_text() for line in before.splitlines() if "#" in line)
    assert Path(written["backup"]).read_text() == before
    assert written["difference"].startswith("---")


@pytest.mark.parametrize("client", FILES)
def test_writing_again_changes_nothing_and_another_model_one_thing(client: str, at: Any) -> None:
    first = json.loads(at(client, "--model", "one", "--write", "--json").stdout)
    file = Path(first["file"])
    written = file.read_bytes()
    again = json.loads(at(client, "--model", "one", "--write", "--json").stdout)
    assert (again["changed"], again["backup"], again["difference"]) == (False, None, "")
    assert file.read_bytes() == written
    assert not list(file.parent.glob("*.bak*"))
    other = json.loads(at(client, "--model", "two", "--write", "--json").stdout)
    assert other["changed"]
    assert contains(READ[first["form"]](file.read_text()), other["content"])


@pytest.mark.parametrize("client", FILES)
def test_the_key_is_a_reference_and_an_older_one_goes(client: str, at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "ak-secret")
    at(client, "--write")
    done = at(client, "--key-variable", "MY_KEY", "--write", "--json")
    report = json.loads(done.stdout)
    text = Path(report["file"]).read_text()
    assert "ak-secret" not in text + done.stdout + done.stderr
    assert READ[report["form"]](text) == report["content"]
    assert '"any"' not in json.dumps(report["content"])


@pytest.mark.parametrize("client", BY_FORM.values())
@pytest.mark.parametrize("content", ["{ // mine\n", "a = \n[", "\t- : {", '["x"', "7"])
def test_a_file_that_cannot_be_read_stays_as_it_is(client: str, content: str, at: Any) -> None:
    file = Path(json.loads(at(client, "--json").stdout)["file"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    done = at(client, "--write")
    assert done.returncode == 2
    assert "stays as it is" in done.stderr
    assert file.read_text() == content
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(file.name)] == [file.name]


def test_a_key_that_is_there_twice_is_not_lost(at: Any, tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"a": 1, "a": 2}')
    assert "twice" in at("claude-code", "--write").stderr
    assert file.read_text() == '{"a": 1, "a": 2}'


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("client", VARIABLES)
def test_a_shell_takes_the_variables(client: str, at: Any) -> None:
    lines = at(client, "--url", "http://h:1", "--key-variable", "MY_KEY").stdout
    environment = json.loads(at(client, "--url", "http://h:1", "--key-variable", "MY_KEY", "--json").stdout)[
        "environment"
    ]
    script = f"MY_KEY='a $b'\n{lines}\n" + "".join(f'printf "%s\\0" "${name}"\n' for name in environment)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    expected = [value.replace("${MY_KEY}", "a $b") for value in environment.values()]
    assert done.stdout.split("\0")[:-1] == expected
    assert "a $b" in expected
    assert at(client, "--write").returncode == 2


def test_a_configured_server_is_the_default(at: Any, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        'model = "mine"\n[server]\nhost = "0.0.0.0"\nport = 81\n[models.mine]\nengine = "scripted"\ncontext = 5000\n'
    )
    content = json.loads(at("codex", "--json").stdout)["content"]
    assert (content["model"], content["model_context_window"]) == ("mine", 5000)
    assert content["model_providers"]["antiphon"]["base_url"] == "http://127.0.0.1:81/v1"
    listed = json.loads(at("--json").stdout)
    assert len(listed) >= 12
    assert {client["name"] for client in listed} == set(CLIENTS)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"), ("0.0.0.0", "http://127.0.0.1:8080"), ("", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:8080"), ("::1", "http://[::1]:8080"), ("fd00::7", "http://[fd00::7]:8080"),
        ("box", "http://box:8080"),
    ],
)  # fmt: skip
def test_the_address_of_the_configuration_is_one_that_a_client_can_call(host: str, url: str) -> None:
    assert local_url(load_config({}, {"server.host": host}).config) == url
