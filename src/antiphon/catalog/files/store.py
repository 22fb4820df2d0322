"""The model files of this machine: one folder a model, whole or not there at all."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from antiphon.config import ModelEntry
from antiphon.errors import ModelError

from .sources import MAKE_ROOM, Fetched, FileSource, Progress, parse_source, weight

log = logging.getLogger("antiphon.catalog")

RECORD = "model.json"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class InstalledModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model in the store: ``file`` is a name in its folder, ``size`` is in bytes.

    ``sha256`` is of the file that was fetched; one that was converted has another."""

    name: str
    file: str
    source: str
    sha256: str
    size: int


class ModelStore(msgspec.Struct, frozen=True):
    """``folder/NAME/`` holds a whole model and its record. A pull works in ``folder/.partial/NAME`` under a lock and
    ends with one rename, so that several processes may pull, run and remove models at once."""

    folder: Path

    def installed(self) -> Iterator[InstalledModel]:
        """The models that are here, by name."""
        for record in sorted(self.folder.glob(f"*/{RECORD}")):
            if (here := self.find(record.parent.name)) is not None:
                yield here

    def find(self, name: str) -> InstalledModel | None:
        """The model of that name, when it is here."""
        if not NAME.fullmatch(name):
            return None
        try:
            return msgspec.json.decode((self.folder / name / RECORD).read_bytes(), type=InstalledModel)
        except FileNotFoundError:
            return None

    def path(self, name: str, entry: ModelEntry) -> Path | None:
        """The model's file when it is on this machine: in the store, or in its own place (a source that is a path)."""
        here = self.find(name)
        if here:
            return self.folder / name / here.file
        source = parse_source(entry.source) if entry.source else None
        return source.path if isinstance(source, FileSource) and source.path.is_file() else None

    @contextmanager
    def reading(self, name: str, entry: ModelEntry) -> Iterator[None]:
        """Raises the error of a model that is not here where its file is deleted while it is read."""
        try:
            yield
        except FileNotFoundError:
            if entry.source is None or self.path(name, entry) is not None:
                raise  # It is another file that there is not.
            raise not_here(name) from None

    def pull(
        self,
        name: str,
        entry: ModelEntry,
        progress: Progress = lambda done, total: None,
        *,
        waiting: Callable[[], None] = lambda: None,
    ) -> InstalledModel:
        """Fetches the model unless it is here. ``waiting`` is called once when another process pulls it already.

        Raises `ModelError` when the source fails, or gives another file than the catalog says.
        """
        if entry.source is None:
            raise ModelError(f"{name!r} has no file to fetch: its engine is {entry.engine.kind}")
        with self._locked(name, waiting):
            here = self.find(name)
            if here and (entry.sha256 is None or here.sha256 == entry.sha256):
                return here
            return self._fetch(name, entry, entry.source, progress)

    def remove(self, name: str) -> bool:
        """Deletes the model's files; False when there were none. A process that runs the model keeps its open file."""
        with self._locked(name, lambda: None):
            shutil.rmtree(self._work(name, ""), ignore_errors=True)
            here = self.find(name) is not None
            self._discard(name)
            return here

    def _fetch(self, name: str, entry: ModelEntry, source: str, progress: Progress) -> InstalledModel:
        partial = self._work(name, "")
        partial.mkdir(exist_ok=True)
        here, free = weight(partial), shutil.disk_usage(partial).free
        if entry.size and entry.size > here + free:
            what = f"{name} has {entry.size / 10**6:.0f} MB, and {free / 10**6:.0f} MB are free in {self.folder}"
            raise ModelError(what, code="model_store", hint=MAKE_ROOM)
        companions = ("config.json", "vocab.txt") if entry.convert == "bert" else ()  # which its conversion needs
        source, fetched = first_fetched((source, *entry.mirrors), companions, partial, progress)
        file, digest = fetched.file, file_digest(fetched.file)
        expected = entry.sha256 or fetched.sha256
        if expected and digest != expected:
            shutil.rmtree(partial)
            what = f"{source} gave another file than expected: sha256 {digest}, not {expected}"
            hint = "Nothing was stored. Pull again; if it stays so, the source has changed."
            raise ModelError(what, code="model_digest", hint=hint)
        file = converted(entry, file)
        whole = self._work(name, ".whole")
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        file.rename(whole / file.name)
        size = (whole / file.name).stat().st_size
        model = InstalledModel(name=name, file=file.name, source=source, sha256=digest, size=size)
        (whole / RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(model)))
        self._discard(name)
        whole.rename(self.folder / name)
        shutil.rmtree(partial)
        return model

    def _discard(self, name: str) -> None:
        """A folder cannot be replaced or deleted in one step, so the old one steps aside first."""
        if (self.folder / name).exists():
            aside = self._work(name, ".old")
            shutil.rmtree(aside, ignore_errors=True)
            (self.folder / name).rename(aside)
            shutil.rmtree(aside)

    def _work(self, name: str, ending: str) -> Path:
        return self.folder / ".partial" / f"{name}{ending}"

    @contextmanager
    def _locked(self, name: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Holds the lock of one model's folders. Errors of the disk name the folder."""
        if not NAME.fullmatch(name):
            raise ModelError(f"{name!r} is not a model's name", hint="Letters, digits, '.', '_' and '-'.")
        from filelock import FileLock, Timeout  # Here and not above: a server whose models are here locks nothing.

        lock = FileLock(self._work(name, ".lock"))
        try:
            (self.folder / ".partial").mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                waiting()
                lock.acquire()
            with lock:
                lock.release()  # the first acquire; the second, of `with`, holds
                yield
        except OSError as error:
            what = f"the model store {self.folder} cannot be written: {error.strerror or error}"
            hint = "Set ANTIPHON_HOME to a folder with room that you may write."
            raise ModelError(what, code="model_store", hint=hint) from None


def not_here(name: str, otherwise: str = "") -> ModelError:
    """The error of a model whose file is not on this machine."""
    hint = f"Run antiphon pull {name}{otherwise}."
    return ModelError(f"the model {name!r} is not on this machine", code="model_not_here", hint=hint)


def first_fetched(
    sources: Sequence[str], companions: Sequence[str], folder: Path, progress: Progress
) -> tuple[str, Fetched]:
    """The first of the sources that gives its file, and the file. Raises `ModelError` with what each of them said."""
    faults: list[ModelError] = []
    for source in sources:
        try:
            return source, parse_source(source, companions=companions).fetch(folder, progress)
        except ModelError as error:
            faults.append(error)
            log.info("%s", error.message)
    what = "; ".join(fault.message for fault in faults)
    raise ModelError(what, code=faults[0].code, hint=faults[0].hint)


def converted(entry: ModelEntry, file: Path) -> Path:
    """The GGUF file that the fetched one is made into, or the file as it is. Raises `ModelError`."""
    if entry.convert is None:
        return file
    try:
        # An optional extra with a slow import, and seldom needed.
        from .bert_gguf import bert_to_gguf
    except ImportError:
        hint = "pip install 'antiphon[local]'"
        raise ModelError(f"{file.name} needs gguf to convert it", code="model_not_converted", hint=hint) from None
    return bert_to_gguf(file)


def file_digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def existing(folder: Path) -> Path:
    """The folder, or the first of its parents that exists."""
    return next(p for p in (folder, *folder.parents) if p.exists())


def writable(folder: Path) -> bool:
    """Whether models can be stored in ``folder``."""
    return os.access(existing(folder), os.W_OK)
