"""Whatever writes to a path that a person names: all or nothing, through links, into devices, never in their place."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import antiphon
from antiphon.cli.connect import Merge
from antiphon.cli.talking.session import save
from antiphon.config.load import Tuned, TunedEngine, write_tuned
from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import ConfigError
from antiphon.writing import check_writable, write, written
from kit.program import PROGRAM, environment, in_process
from kit.program import antiphon as program
from kit.waiting import PATIENCE

OLD = "the old content"
TALK = Conversation((Message(role=Role.USER, text="Hi"),))
REQUEST = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})


def convert(path: Path, home: Path) -> None:
    (home / "in.json").write_text(REQUEST)
    done = in_process("convert", str(home / "in.json"), "--to", "harmony", "-o", str(path), "--force", home=home)
    if done.returncode:
        raise ConfigError(str(done.stderr), code="unwritable_output")


WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "convert -o": convert,
    "/save": lambda path, home: save(TALK, path),
    "doctor --tune": lambda path, home: write_tuned(path, Tuned(2, TunedEngine(1))),
    "connect --write": lambda path, home: Merge(path, None, "{}").write(),
    "the function": lambda path, home: write(path, b"new content"),
}


@pytest.fixture(params=WRITERS, ids=lambda name: name.replace(" ", "-"))
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], object]:
    home = tmp_path / "home"
    home.mkdir()
    return lambda path: WRITERS[request.param](path, home)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "out"
    folder.mkdir()
    yield folder
    assert [left.name for left in folder.iterdir() if left.name.endswith(".part")] == []


def test_a_new_file_and_one_that_is_there_are_written(writer: Callable[[Path], object], folder: Path) -> None:
    for path in (folder / "new", folder / "old"):
        if path.name == "old":
            path.write_text(OLD)
            path.chmod(0o640)
        writer(path)
        assert path.read_text() not in ("", OLD)
    assert stat.S_IMODE((folder / "old").stat().st_mode) == 0o640


def test_a_link_stays_one_and_what_it_leads_to_is_written(writer: Callable[[Path], object], folder: Path) -> None:
    (folder / "old").write_text(OLD)
    (folder / "link").symlink_to("old")
    (folder / "second").symlink_to(folder / "link")
    (folder / "dangling").symlink_to("made")
    writer(folder / "second")
    writer(folder / "dangling")
    assert [(folder / name).is_symlink() for name in ("second", "link", "dangling")] == [True] * 3
    assert (folder / "old").read_text() not in ("", OLD)
    assert (folder / "made").read_text()


def test_a_fifo_is_written_into_and_stays_one(writer: Callable[[Path], object], folder: Path) -> None:
    fifo, came = folder / "fifo", list[bytes]()
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: came.append(fifo.read_bytes()))
    reader.start()
    writer(fifo)
    reader.join(PATIENCE)
    assert came != [b""]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def device(folder: Path, name: str, minor: int) -> Path:
    """The machine's device of memory of that number; as root one of our own, for the machine's could be lost."""
    if os.geteuid():
        return Path("/dev") / name
    os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    return folder / name


@pytest.mark.parametrize("linked", [False, True])
def test_a_device_that_is_full_is_an_error_and_stays_a_device(
    writer: Callable[[Path], object], folder: Path, linked: bool
) -> None:
    """As root too, who may put anything in the place of a device."""
    full = device(folder, "full", 7)
    path = folder / "link" if linked else full
    if linked:
        path.symlink_to(full)
    with pytest.raises(ConfigError, match="No space left on device") as caught:
        writer(path)
    assert caught.value.code == "unwritable_output"
    assert stat.S_ISCHR(full.lstat().st_mode)
    assert path.is_symlink() == linked


def test_a_device_that_takes_all_takes_it(writer: Callable[[Path], object], folder: Path) -> None:
    null = device(folder, "null", 3)
    writer(null)
    assert stat.S_ISCHR(null.lstat().st_mode)


def test_folders_sockets_circles_and_names_that_cannot_be_are_errors_in_words(
    writer: Callable[[Path], object], folder: Path
) -> None:
    (folder / "circle").symlink_to("circle")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        for name in ("circle", "folder", "socket", "x" * 300, f"{'x' * 300}/y"):
            with pytest.raises(ConfigError) as caught:
                writer(folder / name)
            assert caught.value.code == "unwritable_output", name
    assert stat.S_ISSOCK((folder / "socket").lstat().st_mode)


def write_half(path: Path, error: BaseException) -> None:
    with written(path) as sink:
        sink.write(b"half")
        raise error


def test_what_fails_midway_leaves_the_old_content(folder: Path) -> None:
    path = folder / "old"
    path.write_text(OLD)
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt(), ConfigError("x")):
        with pytest.raises((ConfigError, KeyboardInterrupt)):
            write_half(path, error)
        assert path.read_text() == OLD


def test_a_disk_that_is_full_leaves_the_old_content(folder: Path) -> None:
    """A process that may write no more than so many bytes, which ends like a full disk: at the last of them."""
    path = folder / "old"
    path.write_text(OLD)
    script = (
        "import resource, signal, sys; from pathlib import Path; from antiphon.writing import write\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write(Path(sys.argv[1]), bytes(5000))\nexcept Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write {path}: File too large\n"
    assert path.read_text() == OLD


def test_a_file_that_may_not_be_written_is_not_replaced_either() -> None:
    """Though its folder may be. Root may write any file, so it becomes somebody else for as long."""
    user = os.geteuid()
    with TemporaryDirectory() as name:
        path = Path(name) / "old"
        path.write_text(OLD)
        path.chmod(0o444)
        Path(name).chmod(0o777)
        os.seteuid(user or 65534)
        try:
            with pytest.raises(ConfigError, match="Permission denied"):
                write(path, b"new")
        finally:
            os.seteuid(user)
        assert path.read_text() == OLD


def write_while_it_comes(path: Path) -> None:
    with written(path, replace=False) as sink:
        sink.write(b"new")
        path.write_text(OLD)


def test_a_file_that_is_there_stays_without_leave_though_it_came_meanwhile(folder: Path) -> None:
    path = folder / "new"
    with pytest.raises(ConfigError, match="is there already") as caught:
        write_while_it_comes(path)
    assert caught.value.hint == "--force replaces it."
    assert path.read_text() == OLD
    with pytest.raises(ConfigError, match="is there already"):
        check_writable(path, replace=False)
    check_writable(Path("/dev/null"), replace=False)
    write(folder / "other", b"x", replace=False, mode=0o600)
    assert stat.S_IMODE((folder / "other").stat().st_mode) == 0o600


def test_force_is_alike_for_one_file_and_for_several(folder: Path) -> None:
    for name in ("a.json", "b.json"):
        (folder / name).write_text(REQUEST)
    (folder / "a.harmony").write_text(OLD)
    one = ("convert", str(folder / "a.json"), "--to", "harmony", "-o", str(folder / "a.harmony"))
    several = ("convert", str(folder / "a.json"), str(folder / "b.json"), "--to", "harmony", "-o", str(folder))
    for command in (one, several):
        refused = in_process(*command, home=folder)
        assert refused.returncode == 2 if command is one else 1
        assert "a.harmony is there already" in refused.stderr
        assert (folder / "a.harmony").read_text() == OLD
        assert in_process(*command, "--force", home=folder).returncode == 0
        assert "Hi" in (folder / "a.harmony").read_text()
        (folder / "a.harmony").write_text(OLD)


def test_our_own_standard_output_has_a_name(folder: Path) -> None:
    (folder / "in.json").write_text(REQUEST)
    whole = in_process("convert", str(folder / "in.json"), "--to", "harmony", home=folder).stdout
    done = program("convert", str(folder / "in.json"), "--to", "harmony", "-o", "/dev/fd/1", home=folder)
    assert (done.returncode, done.stdout) == (0, whole), done.stderr
    with (folder / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        command = [*PROGRAM, "convert", str(folder / "in.json"), "--to", "harmony", "-o", "/dev/stdout"]
        subprocess.run(command, stdout=log, check=True, env=environment(folder))
    assert (folder / "log").read_text() == f"before\n{whole}", "after what the shell's file had"


OWN_FILES = {
    "writing.py": "the one that writes",
    "cli/app.py": "opens /dev/null where a reader is gone",
    "cli/running.py": "records of servers that run, in our own folder",
    "cli/store.py": "an export: a new file for its owner alone, never over another",
    "cli/talking/editor.py": "the history of the chat, in our own folder, through no link",
    "engines/llama_cpp/child.py": "a setting of the kernel's",
    "engines/llama_cpp/vocabulary.py": "a vocabulary for a child of ours, in a folder of its own",
    "isolation/forkserver.py": "a setting of the kernel's",
    "http/gate/keys.py": "the file of keys: a new one for its owner alone takes the place of the old one",
    "library/reload.py": "replaces keys in memory",
    "store/sqlite_file.py": "the store itself, for its owner alone",
    "catalog/files/sources.py": "the store of models, in our own folder",
    "catalog/files/store.py": "the store of models, in our own folder",
    "store/key_file.py": "a new file for its owner alone, never over another",
    "tools/mcp/tokens.py": "tokens in our own folder, for their owner alone",
    "tools/python/worker.py": "runs in the sandbox",
    "api/batches/offline.py": "appends to the answers of a former run, and replaces nothing",
    "cli/connect.py": "a copy for its owner, of a name that is free",
}
"""Modules that open files for writing, or rename, other than by `writing`; each with why."""


WORDS = re.compile(r"\b(f?d?open|re(place|name)|write_(text|bytes)|savefig|touch|\w+link_to|mkstemp|move|copy\w*)\(")


def writes(node: ast.AST) -> bool:
    """Whether a call opens a file for writing, or puts one in the place of another."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = getattr(function.value, "id", "") if isinstance(function, ast.Attribute) else ""
    words = [
        word.value for word in [*node.args, *(one.value for one in node.keywords)] if isinstance(word, ast.Constant)
    ]
    match name:
        case "open" if owner == "os":
            return any(flag in ast.unparse(node) for flag in ("O_WRONLY", "O_RDWR"))
        case "open" | "fdopen":
            return any(isinstance(word, str) and set("wax+") & set(word) and len(word) <= 3 for word in words)
        case "replace" | "rename":
            is_path = isinstance(function, ast.Attribute) and not node.keywords
            return owner == "os" or (is_path and len(node.args) == 1 and not isinstance(node.args[0], ast.Starred))
        case "write_text" | "write_bytes" | "savefig" | "touch" | "symlink_to" | "hardlink_to" | "mkstemp":
            return True
        case "move" | "copy" | "copy2" | "copyfile":
            return owner == "shutil"
    return False


def test_no_other_module_writes_files() -> None:
    root = Path(antiphon.__file__).parent
    found = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        if WORDS.search(text := file.read_text()) and any(map(writes, ast.walk(ast.parse(text))))
    }
    assert found == set(OWN_FILES)
