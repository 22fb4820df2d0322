"""What a newcomer gets wrong is said in one line with a hint, and ends with the exit code that the manual gives."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.cli.options import fits
from kit.program import CONFIG, antiphon, environment, in_process, serving
from kit.terminal import at_terminal, typed

ENGINE = """
[models.odd]
engine = "vlm"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "story.gguf").write_bytes(b"no model at all" * 10)
    (tmp_path / "note.txt").write_text("Once upon a time.")
    (tmp_path / "latin.json").write_bytes(b'{"messages":[{"content":"\xff"}]}')
    (tmp_path / "quote.json").write_text('{"messages": [{"role": "user", "text": "Hi}]}\n')
    (tmp_path / "flat.toml").write_text("prot = 8080\n")
    (tmp_path / "latin.ocm").write_bytes(b'version: "\xff"\n')
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "a.jsonl").write_text("{}\n")
    (tmp_path / "usr.json").write_text('{"model_name": "chatml", "usr": "x"}')
    (tmp_path / "chatmll.json").write_text('{"model_name": "chatmll"}')
    (tmp_path / "plain.jinja").write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    (tmp_path / "ancor.toml").write_text('ancor = "a"\n')
    (tmp_path / "bare.py").write_text("def bare(x):\n    return x\n")
    (tmp_path / "none.py").write_text("def _hidden() -> str:\n    return ''\n")
    for name, server in {
        "cmd": {"cmd": "x"},
        "ends": {"command": "true"},
        "gone": {"command": "no-such-command"},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"mcpServers": {"one": server}}))
    (tmp_path / "deep.json").write_text('{"messages":' * 50_000)
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5_000 + "]" * 5_000)
    return tmp_path


WRONG: dict[str, tuple[int, *tuple[str, ...]]] = {
    "chat -m {home}/stroy.gguf Hi": (3, "there is no file {home}/stroy.gguf", "Did you mean {home}/story.gguf?"),
    "serve --port 0 -m {home}/gone/gone.gguf": (3, "there is no file", "antiphon models"),
    "chat -m {home}/story.gguf Hi": (3, "is not a GGUF file", "first bytes"),
    "chat -m {home}/note.txt Hi": (3, "is not called *.gguf", "one GGUF file"),
    "chat -m {home} Hi": (3, "is a folder", "story.gguf"),
    "chat -m demon Hi": (2, "unknown model 'demon'", "Did you mean demo"),
    "chat --format chatm Hi": (2, "chatm", "chatml"),
    "chat --file {home}/not.txt Hi": (2, "cannot read", "note.txt"),
    "chat --load {home}/note.txt Hi": (1, "no form of a conversation", "note.txt"),
    "chat --schema {home}/note.txt Hi": (2, "not JSON", ""),
    "chat --tools brwser Hi": (2, "unknown tool 'brwser'", "browser"),
    "chat --effort hgh Hi": (2, "hgh", "high"),
    "chat --max-tokens 100000 Hi": (0, "", ""),
    "serve --host 10.255.255.1 --without-keys": (2, "no address of this machine", "--host"),
    "parse {home}/not.txt --from chatml": (2, "cannot read", "not.txt", "note.txt"),
    "parse - --from chatm": (2, "chatml"),
    "parse - --from harmony --tokens <<< [200005, x]": (1, "not_an_id", "$[1]"),
    "parse - --from harmony --tokens <<< [200005, -5]": (1, "not_an_id", "$[1]"),
    "parse - --from harmony <<< [200005, 999999999, 200002]": (1, "unknown_id", "999999999"),
    "parse - --from chatml --dialect b <<< []": (2, "--dialect"),
    "render - --to chatml --dialect b <<< []": (2, "--dialect"),
    "render - --to harmony --model smollm2 --types full <<< []": (2, "--types"),
    "render - --to harmony --pretty --json <<< []": (2, "--pretty"),
    "render - --to harmony --mask --tokens <<< []": (2, "--tokens", "--json"),
    "render - --to harmony --history none <<< []": (2, "--history"),
    "render - --format chatml <<< {": (1, "not JSON"),
    'render - --format chatml <<< {"messages": [{"role": "emperor"}]}': (1, "emperor", "$.messages[0].role"),
    'render - --format chatml <<< {"messages": [{"role": "user", "txet": "x"}]}': (1, "txet", "$.messages[0]"),
    "render - --format chatml <<< [1]": (1, "$.messages[0]"),
    'render - --from harmony-json --to harmony <<< {"messages": [{"role": "emperor", "content": "x"}]}': (
        1,
        "$.messages[0].role",
    ),
    'render - --from openai --to harmony <<< {"messages": [{"role": "user", "content": 5}]}': (
        1,
        "messages[0].content",
    ),
    "render - --from openai --to harmony <<< 5": (1, "$"),
    "render - --from openai --to harmony <<< {": (1, ""),
    "validate {home}/not.txt": (2, "cannot read", "No such file", "note.txt"),
    "convert {home}/note.txt --to harmony": (1, "no form of a conversation", "--from"),
    'convert - --to harmony <<< version: "2.2"\n<|start|>x<|message|>a<|end|>': (1, "2:10  [E-PARSE-HEADER]"),
    "convert - --to harmony <<< just words": (1, "--from"),
    'convert - --to harmony <<< {"messages": [{"role": "user"}]}': (1, "messages[0].content"),
    'convert - --to harmony <<< {"messages": [': (1, "not_json"),
    "convert - --to nothing <<< <|start|>user<|message|>a<|end|>": (2, "unknown form"),
    "convert - --sidecar --to chat <<< <|start|>user<|message|>a<|end|>": (2, "-o"),
    "convert {home} --to chat": (2, "Name one with -o"),
    "convert {home} --to chat -o -": (2, "Name one with -o"),
    "convert {home} --to chat -o {home}/note.txt": (2, "Name one with -o"),
    "convert {home}/note.txt - --to chat -o {home}/out": (2, "standard input"),
    "connect claude-cod": (2, "Did you mean claude-code"),
    "connect codex --url localhost": (2, "no address"),
    "connect codex --url http://h/?a=b": (2, "no address"),
    "connect codex --key-variable ak-1234": (2, "no name of a variable"),
    "conformance -- no-such-program": (2, "no-such-program"),
    "conformance --lines -- no-such-program": (2, "no-such-program"),
    "pull smolm2": (2, "model_not_found", "Did you mean smollm2"),
    "pull {home}/absent.gguf": (3, "there is no file"),
    "pull --josn": (2, "--josn"),
    "tools list --tools brwser": (2, "browser"),
    "tools shwo": (2, "'show'"),
    "keys lst": (2, "'list'"),
    "keys rm": (2, "Missing"),
    "store exprot": (2, "'export'"),
    "modls": (2, "'models'"),
    "pul": (2, "pul"),
    "rm": (2, "Missing"),
    "config extra": (2, "extra"),
    "serve --port 0 --host 0.0.0.0": (2, "antiphon keys add"),
    "serve --port 0 --host 0.0.0.0 --workers 2": (2, "antiphon keys add"),
    "serve --port 0 --model demon": (2, "Did you mean demo"),
    "--config {home}/config.toml": (2, "No such option", "--help"),
    "chatt": (2, "No such command 'chatt'", "chat"),
    "serve --prot 1": (2, "--prot", "--port"),
    "template check {home}/nte.jinja": (2, "nte.jinja: No such file", ""),
    "convert {home}/note.txt --to openchatm": (2, "unknown form 'openchatm'", "Did you mean openchatml, chatml"),
    "convert {home}/note.txt --to openai": (2, "unknown form 'openai'", "are the form chat"),
    "bench": (2, "No such command 'bench'", "batch"),
    "serve --port 99999": (2, "server.port", "got 99999", "flag --port"),
    "serve --port 0 --slots -1": (2, "engine.slots", "got -1", "flag --slots"),
    "serve --port 0 --threads -5": (2, "engine.threads", "got -5"),
    "serve --config {home}/confg.toml": (2, "does not exist", "Did you mean config.toml"),
    "serve --config /nowhere/at.toml": (2, "does not exist", "No .toml file is in /nowhere"),
    "chat -m chatml Hi": (2, "chatml is a format"),
    "template check chatml": (2, "chatml is a format"),
    "tools list --tools {home}/absent.py": (2, "there is no file"),
    "tools list --mcp {home}/note.txt": (2, "note.txt: the MCP configuration"),
    "tools list --mcp {home}/absent.json": (2, "absent.json cannot be read: No such file or directory  ["),
    "keys remove ada": (2, "No such command 'remove'. Known: add, list, set, rm."),
    "render {home}/not.txt --to harmony": (2, "No such file", "note.txt"),
    "render --format smollm2 - <<< []": (2, "It is a model: --model smollm2"),
    'render --to chatml - <<< {"messages": [{"role": "usr", "text": "a"}]}': (1, "unknown value", "Known: assistant, "),
    'render --to chatml - <<< {"messages":\n [}': (1, "not JSON", "at 2:3", "in standard input"),
    "render --to chatml {home}/deep.json": (1, "nested too deeply", "in {home}/deep.json"),
    "render --to harmony --from harmony-json {home}/deep.json": (1, "not_json"),
    "convert {home}/deep.json --to openchatml": (1, "not_json"),
    "chat --load {home}/deep.json Hi": (1, "nested too deeply", "deep.json"),
    "chat --schema {home}/deep.json Hi": (2, "the schema is not JSON"),
    "chat --max-tokens 0 Hi": (2, "--max-tokens"),
    "grammar --format chatml --schema {home}/deep.json": (2, "deep.json: maximum recursion depth"),
    "tools list --mcp {home}/deep.json": (2, "deep.json: the MCP configuration"),
    "render --to chatml - <<< ": (1, "not JSON: it is empty", "in standard input"),
    "render --to chatml {home}/latin.json": (1, "the byte 0xff is no UTF-8 at 1:26"),
    "render --to chatml {home}/quote.json": (1, "Invalid control character at 1:"),
    'render --to chatml - <<< {"mesages": []}': (1, "unknown field `mesages`", "Did you mean messages?"),
    'render --to chatml - <<< {"messages": [{"role": "user", "content": "Hi"}], "temprature": 1}': (2, "temperature?"),
    'render --to chatml - <<< {"messages": [{"role": "user", "content": "Hi"}], "colour": 1}': (0, "colour: not known"),
    "convert - --to chatml <<< ": (1, "this is empty"),
    "convert {home}/latin.json --to harmony": (1, "the byte 0xff is no UTF-8 at 1:26"),
    "convert - --to sharegpt <<< []": (2, "is read, not written", "chat is the form"),
    "parse - --from harmony <<< ": (0, "warning: the input is empty"),
    "parse {home}/latin.json --from harmony": (0, "no UTF-8"),
    "chat -m pyproject.toml Hi": (2, "pyproject.toml is a file here, and no GGUF file"),
    f"chat -m {'x' * 5000} Hi": (2, "unknown model"),
    "pull {home}/story.gguf": (3, "is not a GGUF file", "first bytes"),
    "pull {home}/stroy.gguf": (3, "there is no file", "Did you mean {home}/story.gguf?"),
    "dataset render {home}/sets --format harmony -o {home}/note.txt": (2, "note.txt is a file", "a folder"),
    "chat -m . Hi": (2, ". is a folder here"),
    "template check {home}/latin.json": (2, "no file with a chat template", ".jinja"),
    "serve smollm2": (2, "is named with --model"),
    "serve --config {home}/flat.toml": (2, "unknown key 'prot'", "Did you mean server.port?"),
    "tools list --tools {home}/bare.py": (2, "bare.py cannot be tools", "'x' has no annotation", "str, list[int]"),
    "chat --tools {home}/bare.py Hi": (2, "bare.py cannot be tools"),
    "tools list --tools {home}/none.py": (2, "none.py has no public function", "_"),
    "tools list --tools {home}/bear.py": (2, "there is no file", "Did you mean {home}/bare.py"),
    "tools list --mcp {home}/cmd.json": (2, "unknown field `cmd`", "command"),
    "serve --port 8099 --host no.such.host.invalid": (2, "cannot listen at no.such.host.invalid", "--host 127.0.0.1"),
    "stop http://127.0.0.1:9/": (2, "no server of port or process 9"),
    "stop mine": (2, "no port, process or address", "antiphon ps"),
    "store check --store {home}": (2, "is a folder, and a store is a file"),
    "render --to chatml --chat-template {home}/usr.json - <<< []": (2, "--format"),
    "template check {home}/plain.jinja --replies {home}/ancor.toml": (1, "unknown key '$.ancor'", "anchor"),
    "convert {home}/sets --to harmony -o {home}/out": (2, "no *.ocm", "named itself: {home}/sets/a.jsonl"),
    "fmt {home}/latin.ocm": (1, "the header has bytes that are no UTF-8 at 1:1", ""),
    "chat --temperature 9 Hi": (2, "temperature is 9.0; it must be in [0, 2]  [invalid_value]"),
    "serve --config {home}/deep.toml": (2, "deep.toml is not TOML"),
}
"""By the words that are typed, and behind ``<<<`` the standard input: the exit code, and words of the error."""


@pytest.mark.parametrize("line", WRONG)
def test_a_mistake_is_said_in_words(line: str, home: Path) -> None:
    code, *words = WRONG[line]
    typed_words, _, stdin = line.replace("{home}", str(home)).partition(" <<< ")
    done = in_process(*typed_words.split(), home=home, stdin=stdin)
    assert (done.returncode, done.stdout if code else "") == (code, ""), done.stderr
    assert [word for word in words if word.replace("{home}", str(home)) not in done.stderr] == []
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") <= 1


@pytest.mark.parametrize(
    ("command", "server", "words"),
    [
        (("tools", "list"), "ends", ("its process ended", "standard input and output")),
        (("serve", "--port", "0"), "gone", ("'no-such-command' cannot be run", "PATH")),
    ],
)
def test_an_mcp_server_that_does_not_run_is_told_by_its_cause(
    command: tuple[str, ...], server: str, words: tuple[str, ...], home: Path
) -> None:
    done = antiphon(*command, "--mcp", str(home / f"{server}.json"), home=home)
    assert done.returncode == 2
    assert [word for word in words if word not in done.stderr] == [], done.stderr


def test_an_engine_that_there_is_not_is_named_with_its_model_and_the_near_ones(home: Path) -> None:
    (home / "config.toml").write_text(CONFIG + ENGINE)
    done = in_process("chat", "Hi", home=home)
    assert done.returncode == 2
    assert all(word in done.stderr for word in ("odd", "'vlm'", "Did you mean vllm", "llama_cpp"))


def test_a_port_that_is_taken_is_said_before_a_model_is_loaded_with_who_has_it_and_a_free_one(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = in_process("serve", "--port", str(port), home=home)
    assert done.returncode == 2
    assert f"port {port} of 127.0.0.1 is taken by " in done.stderr
    assert "--port" in done.stderr
    assert done.stdout == ""


def test_the_program_alone_says_what_to_do_next(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    new = in_process(home=tmp_path_factory.mktemp("new"))
    assert new.returncode == 0
    assert "antiphon chat" in new.stdout
    assert "fetches smollm2" in new.stdout
    assert "antiphon serve" not in new.stdout
    with serving(home) as (_, url):
        port = url.rpartition(":")[2]
        there = in_process(home=home, ANTIPHON_SERVER_PORT=port)
        elsewhere = in_process(home=home)
    assert (there.returncode, url in there.stdout, "antiphon serve" in there.stdout) == (0, True, False)
    assert (f"a server runs at {url}" in elsewhere.stdout, elsewhere.returncode) == (True, 0)
    assert max(map(len, in_process(home=home).stdout.splitlines())) <= 80
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        gone = in_process(home=home, ANTIPHON_SERVER_PORT=port)
    assert (gone.returncode, "antiphon serve" in gone.stdout) == (0, True)
    broken = in_process(home=home, ANTIPHON_SERVER_PORT="x")
    assert (broken.returncode, "server.port" in broken.stdout) == (0, True)


IMPORTING = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "antiphon.cli.serve":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from antiphon.cli import main
main()
"""


def test_ctrl_c_while_the_program_imports_ends_it_without_a_word(home: Path) -> None:
    command = [sys.executable, "-c", IMPORTING, "serve"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(home), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_line_that_a_server_with_keys_prints_has_a_place_for_one(home: Path) -> None:
    assert in_process("keys", "add", "ada", home=home).returncode == 0
    command = ("serve", "--port", "0")
    with at_terminal(*command, environ=environment(home)) as terminal:
        terminal.until("authorization: Bearer YOUR_KEY")
        terminal.until("playground  http://127.0.0.1:")
        terminal.until("keys        needed")


@pytest.mark.parametrize(
    ("alias", "value"),
    [("--parallel", "2"), ("--ctx-size", "512"), ("--log-format", "json"), ("--cors-origins", "*"),
     ("--strict-dialect", "")],
)  # fmt: skip
def test_other_programs_names_of_options_are_taken(alias: str, value: str, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = in_process("serve", "--port", port, alias, *filter(None, [value]), home=home)
    assert "is taken" in done.stderr


@pytest.mark.parametrize("command", ["serve", "chat", "parse", "pull", "models", "batch"])
def test_help_shows_no_type_behind_a_flag(command: str, home: Path) -> None:
    done = in_process(command, "--help", home=home, COLUMNS="200")
    assert done.returncode == 0
    assert "<bool>" not in done.stdout


def test_a_file_that_is_pulled_has_a_labelled_bar_on_a_terminal_and_nothing_elsewhere(home: Path) -> None:
    big = home / "big.gguf"
    with big.open("wb") as file:
        file.write(b"GGUF")
        file.truncate(50_000_000)
    with at_terminal("pull", str(big), environ=environment(home)) as terminal:
        terminal.until("copy big")
        assert terminal.ended() == 0
        assert "left" in terminal.text
    assert in_process("rm", "big", home=home).returncode == 0
    with at_terminal("pull", str(big), "--json", environ=environment(home)) as terminal:
        assert terminal.ended() == 0
        assert "copy" not in terminal.text
    quiet = in_process("pull", str(big), home=home)
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_a_form_that_is_written_when_all_is_read_has_a_clock_meanwhile(home: Path) -> None:
    messages = [{"role": "user", "content": "hello " * 100}] * 15_000
    (home / "big.json").write_text(json.dumps({"messages": messages}))
    command = ("convert", f"{home}/big.json", "--to", "openchatml", "-o", f"{home}/big.ocm")
    with at_terminal(*command, environ=environment(home)) as terminal:
        terminal.until("converting")
        assert terminal.ended() == 0
    quiet = in_process(*command, "--json", "--force", home=home)
    assert (quiet.returncode, "converting" in quiet.stderr) == (0, False)


def test_many_files_say_how_many_are_done(home: Path) -> None:
    program = (
        "import time; from pathlib import Path; from antiphon.cli.terminal import each_of, say\n"
        "for file in each_of([Path('a'), Path('b')], 'converting'):\n"
        "    time.sleep(1.3); say(f'warning: {file}')\n"
    )
    shown = typed((sys.executable, "-c", program), environment(home))
    assert shown.returncode == 0
    assert "converting: 0 of 2 files" in shown.screen
    assert "\x1b[Kwarning: a" in shown.screen


def test_a_server_says_which_model_it_loads_and_a_log_line_erases_that(home: Path) -> None:
    with at_terminal("serve", "--port", "0", "--log-form", "text", environ=environment(home)) as terminal:
        terminal.until("Ready in")
        assert b"\r\x1b[K" in terminal.raw


def test_what_goes_to_a_file_goes_there_though_a_bar_is_on_the_terminal(home: Path) -> None:
    out = home / "out.txt"
    program = (
        "from antiphon.cli.terminal import progress_bar\n"
        "with progress_bar('work', 10, patience=0) as bar:\n"
        "    bar(1, None); print('to the file', flush=True); bar(2, None)\n"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} > {shlex.quote(str(out))}"
    shown = typed(("sh", "-c", command), environment(home))
    assert shown.returncode == 0
    assert "work" in shown.screen
    assert "to the file" not in shown.screen
    assert out.read_text() == "to the file\n"


def test_a_batch_says_on_a_terminal_how_far_it_is(home: Path) -> None:
    slow = '[models.slow]\nengine = "scripted"\nformat = "chatml"\nreply = "one two three four"\ndelay = 0.05\n'
    (home / "config.toml").write_text(CONFIG + slow)
    body = {"model": "slow", "messages": [{"role": "user", "content": "Hi"}]}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    (home / "in.jsonl").write_text(json.dumps(line))
    with at_terminal("batch", "run", f"{home}/in.jsonl", "-o", f"{home}/o.jsonl", environ=environment(home)) as shown:
        shown.until("0 of 1 lines, 0 failed")
        shown.until("completed 1")
        assert shown.ended() == 0


def test_a_table_that_is_too_wide_for_its_terminal_has_a_line_a_cell() -> None:
    head, row = ("url", "pid", "models"), ("http://127.0.0.1:8080", "12345", "smollm2 (0 of 4 slots busy)")
    assert fits(head, [row], 80)
    assert not fits(head, [row], 40)
    assert fits(("name", "what"), [("a", "b" * 200)], 40)
    program = f"from antiphon.cli.options import print_table; print_table({head}, [{row}, {row}])"
    shown = typed((sys.executable, "-c", program), {**os.environ, "COLUMNS": "40"})
    assert shown.screen.startswith("url: http://127.0.0.1:8080\npid: 12345\nmodels: smollm2 (0 of")
    assert shown.screen.count("\n\n") == 1
