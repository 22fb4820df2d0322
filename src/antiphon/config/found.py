"""GGUF files that other programs have on this machine: Ollama, LM Studio, llama.cpp, and Hugging Face's cache."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

MODEL_LAYER = "application/vnd.ollama.image.model"
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
LARGEST_MANIFEST = 2**20
ELSEWHERE = ("mmproj", "-of-")
"""Words in names of files that are no whole model: projectors, and pieces."""


class FoundModel(msgspec.Struct, frozen=True):
    """A model by the ``name`` that ``program`` has for it; ``size`` in bytes."""

    name: str
    path: Path
    program: str
    size: int


class _Layer(msgspec.Struct):
    digest: str
    mediaType: str = ""


class _Manifest(msgspec.Struct):
    layers: list[_Layer] = []


def found_models(environ: Mapping[str, str] = os.environ) -> Iterator[FoundModel]:
    """Yields the models of the other programs' folders, as the environment or their defaults place them."""
    home = Path(environ.get("HOME") or Path.home())
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    hub = Path(environ.get("HF_HUB_CACHE") or Path(environ.get("HF_HOME") or cache / "huggingface") / "hub")
    for folder in (environ.get("OLLAMA_MODELS") or home / ".ollama/models", "/usr/share/ollama/.ollama/models"):
        yield from _of_ollama(Path(folder))
    for folder in (home / ".lmstudio/models", cache / "lm-studio/models"):
        yield from _files(folder, "LM Studio", "*/*/*.gguf")
    yield from _files(Path(environ.get("LLAMA_CACHE") or cache / "llama.cpp"), "llama.cpp", "*.gguf")
    yield from _files(hub, "Hugging Face", "models--*/snapshots/*/**/*.gguf")


def found_model(name: str, environ: Mapping[str, str] = os.environ) -> FoundModel | None:
    """The model that another program has under the name, in small or large letters; Ollama's may leave out its tag."""
    wanted = {name.lower(), f"{name.lower()}:latest"}
    return next((model for model in found_models(environ) if model.name.lower() in wanted), None)


def _of_ollama(folder: Path) -> Iterator[FoundModel]:
    """Yields the models of which Ollama's folder has a manifest and the file that it names.

    A manifest lies at ``manifests/REGISTRY/NAMESPACE/MODEL/TAG``; what Ollama leaves out of a name is left out here.
    """
    for path in sorted((folder / "manifests").glob("*/*/*/*")):
        try:
            if path.stat().st_size > LARGEST_MANIFEST:
                continue
            layers = msgspec.json.decode(path.read_bytes(), type=_Manifest).layers
            digest = next((DIGEST.fullmatch(one.digest) for one in layers if one.mediaType == MODEL_LAYER), None)
            if digest is None:
                continue
            file = folder / "blobs" / f"sha256-{digest[1]}"
            size = file.stat().st_size
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        registry, namespace, model, tag = path.parts[-4:]
        words = [registry] * (registry != "registry.ollama.ai") + [namespace] * (namespace != "library") + [model]
        yield FoundModel(f"{'/'.join(words)}:{tag}", file, "Ollama", size)


def _files(folder: Path, program: str, pattern: str) -> Iterator[FoundModel]:
    """Yields whole models by their files' names."""
    for path in sorted(folder.glob(pattern)):
        with suppress(OSError):  # a link to what is gone
            if not any(word in path.stem.lower() for word in ELSEWHERE):
                yield FoundModel(path.stem, path, program, path.stat().st_size)
