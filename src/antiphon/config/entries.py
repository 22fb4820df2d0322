"""What is known about a model before it is loaded: the catalogue that ships with the package, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from antiphon.errors import ModelError, NotFoundError, near
from antiphon.formats import SamplingDefaults


class SamplingEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sampling defaults of one model, where it has an opinion of its own."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


O200K = "o200k_harmony"
"""The vocabulary of gpt-oss, which ships with the package and needs no file."""

EngineKind = Literal["llama_cpp", "scripted", "llama_server", "vllm"]
REMOTE: frozenset[EngineKind] = frozenset({"llama_server", "vllm"})
"""The engines that are servers of somebody's."""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model by name: where its file comes from, and how it is to be run.

    ``source`` is a path of a GGUF file, ``wheel:PACKAGE==VERSION/MEMBER``, or ``hf:OWNER/REPO/FILE``. ``sha256`` and
    ``size`` (bytes) are of the file that is fetched; ``convert`` makes a GGUF file of it. ``format`` None: the file's
    own chat template. ``context`` is in tokens. ``shortens``: the beginnings of its embeddings are embeddings too, as
    its authors say. ``engine`` "scripted" says ``reply`` and needs no file; ``delay`` is the seconds before each of its
    steps. ``released`` is when its authors gave it out; None: what the file says.
    ``thinking_budget`` is in characters, and ends each thought of a reply that is held (tools, a form of the answer).

    The engines "llama_server" and "vllm" are servers that run already, at ``url``. ``served_name`` is what vLLM calls
    the model (empty: the first that it has). Their key is in the environment variable ``key_variable`` or the file
    ``key_file``. ``tokenizer`` is the vocabulary, by a GGUF file, a folder with a ``tokenizer.json``, or
    ``o200k_harmony``. ``grammar``: whether the server holds llguidance's grammars; None asks it.
    """

    title: str = ""
    aliases: tuple[str, ...] = ()
    task: Literal["chat", "embed"] = "chat"
    engine: EngineKind = "llama_cpp"
    source: str | None = None
    sha256: str | None = None
    size: int | None = None
    convert: Literal["bert"] | None = None
    shortens: bool = False
    licence: str = ""
    format: str | None = None
    chat_template: str | None = None
    context: int | None = None
    slots: int | None = None
    threads: int | None = None
    max_output_tokens: int | None = None
    thinking_budget: int | None = None
    released: date | None = None
    sampling: SamplingEntry = SamplingEntry()
    reply: str = ""
    delay: float = 0.0
    url: str = ""
    served_name: str = ""
    key_variable: str = ""
    key_file: str = ""
    tokenizer: str = ""
    grammar: bool | None = None

    @property
    def remote(self) -> bool:
        return self.engine in REMOTE

    def fault(self) -> str | None:
        """Why the entry cannot be meant as it stands."""
        if not self.remote:
            given = [key for key in REMOTE_KEYS if getattr(self, key) not in ("", None)]
            return f"{given[0]} is for the engines {' and '.join(sorted(REMOTE))}" if given else None
        others = [key for key in ("source", "convert", "threads") if getattr(self, key) is not None]
        if others:
            return f"{others[0]} is the server's own matter"
        if self.key_variable and self.key_file:
            return "key_variable and key_file cannot both be said"
        if self.key_variable.startswith("ANTIPHON_"):
            return "key_variable begins with ANTIPHON_, as only keys of the configuration do"
        if self.engine == "vllm" and self.task == "embed":
            return "embeddings are not taken from vLLM"
        if self.engine == "llama_server" and self.served_name:
            return "served_name is for vLLM; a llama_server has one model"
        if not self.tokenizer:
            return f"the engine {self.engine} needs a tokenizer: a GGUF file, a Hugging Face folder, or o200k_harmony"
        return url_fault(self.url)

    @property
    def defaults(self) -> SamplingDefaults:
        """What this model has an opinion about. A context that is given counts before the format's session length."""
        return SamplingDefaults(
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
            top_k=self.sampling.top_k,
            min_p=self.sampling.min_p,
            repetition_penalty=self.sampling.repetition_penalty,
            session_len=self.context,
        )


def url_fault(url: str) -> str | None:
    """Why this is not the root of a server. What may be a secret in it is not repeated."""
    try:
        address = urlsplit(url)
    except ValueError:
        return "url is no URL"
    if address.scheme not in ("http", "https") or not address.hostname:
        return "it needs a url, as in http://127.0.0.1:8000"
    if address.username or address.password or address.query or address.fragment:
        return "url has more than an address; a key goes into key_variable or key_file"
    if address.path not in ("", "/"):
        return "url is the server's root, as in http://127.0.0.1:8000, without /v1"
    return None


REMOTE_KEYS = ("url", "served_name", "key_variable", "key_file", "tokenizer", "grammar")

Catalogue = Mapping[str, ModelEntry]


@cache
def builtin_catalogue() -> Catalogue:
    """The models that the package knows by name."""
    text = files("antiphon.config").joinpath("catalogue.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, ModelEntry])


def find_entry(name: str, catalogue: Catalogue) -> tuple[str, ModelEntry]:
    """The entry called ``name``, or by one of its aliases; a path of a file and an ``hf:`` source are their own entry.

    Raises `NotFoundError` with the names that are near.
    """
    if name in catalogue:
        return name, catalogue[name]
    for own, entry in catalogue.items():
        if name in entry.aliases:
            return own, entry
    if name.startswith(("hf:", "wheel:")) or name.endswith(".gguf"):
        return local_name(name), ModelEntry(source=name)
    known = {*catalogue, *(alias for entry in catalogue.values() for alias in entry.aliases)}
    raise NotFoundError(f"unknown model {name!r}", code="model_not_found", hint=near(name, known))


def local_name(source: str) -> str:
    """A name for a model that is given by its source alone: the file's name without the ending."""
    stem = source.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf")
    if not stem.strip("."):
        raise ModelError(f"{source!r} names no file", hint="Give the path of a GGUF file, or hf:OWNER/REPO/FILE.gguf.")
    return stem.lower()
