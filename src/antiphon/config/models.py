"""Facts of a model before it is loaded: one ``[models.NAME]`` table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from os.path import exists, expanduser, isdir
from typing import Literal

import msgspec

from antiphon.engines import EngineSettings
from antiphon.engines.kind import Task
from antiphon.engines.llama_cpp import LlamaCpp
from antiphon.errors import ModelError, NotFoundError, near
from antiphon.formats import SamplingDefaults
from antiphon.formats.harmony import Dialect, Types

from .found import found_model
from .limits import CountOrNone

# Other names of models: a word, or a pattern of many.


def goes_by(alias: str, name: str) -> bool:
    """Whether ``name`` is the alias, or one of those that it stands for: ``claude-*`` is every name that begins so."""
    first, *others = alias.split("*")
    if not others:
        return name == alias
    *middle, last = others
    if not name.startswith(first):
        return False
    place = len(first)
    for part in middle:
        found = name.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return len(name) - len(last) >= place and name.endswith(last)


def named_by(name: str, aliases: Mapping[str, Iterable[str]]) -> str | None:
    """The model with an alias that is ``name``, else with the longest pattern that it fits; None: there is none."""
    found = [(alias, own) for own, given in aliases.items() for alias in given if goes_by(alias, name)]
    if not found:
        return None
    return max(found, key=lambda one: (one[0] == name, len(one[0].replace("*", ""))))[1]


class SamplingEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sampling defaults of one model, where it has an opinion of its own."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


class HarmonyEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of `Harmony` for a model that speaks it; None: its default."""

    types: Types | None = None
    dialect: Dialect | None = None
    names: bool | None = None
    spelled: bool | None = None


O200K = "o200k_harmony"
"""The vocabulary of gpt-oss, which ships with the package and needs no file."""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model by name: where its file comes from, and how it is to be run.

    ``source`` is a path of a GGUF file, ``wheel:PACKAGE==VERSION/MEMBER``, or ``hf:OWNER/REPO`` with ``/FILE`` or
    ``:QUANT`` or neither; ``mirrors`` are sources of the same file, each tried where those before it give none.
    ``sha256`` and ``size`` (bytes) are of the file that is fetched; ``convert`` makes a GGUF file of it.
    ``memory`` is what it needs, in bytes, with its ``context`` and ``slots``; ``tested`` tells what of it was tried.
    ``tokenizer`` is the
    vocabulary where no such file has it: a GGUF file, a folder with a ``tokenizer.json``, or ``o200k_harmony``.
    ``format`` None: the file's own chat template. ``replies`` is a file (JSON, TOML) that says how the model writes its
    replies; None: what its files and its template say. ``teach_tools``: prompts that offer tools teach a form of
    calls, where its template has none. ``calls``: read in the form that the model was trained on alone
    (``trained``), or in any. ``harmony`` is for a model that speaks it. ``context`` is in tokens; ``slots``
    are replies at once.
    ``default_output_tokens`` is the length of an answer whose request limits none (0: what the context holds), and
    ``max_output_tokens`` of any. ``shortens``: the beginnings of its embeddings are embeddings too, as its authors say.
    ``released`` is when its authors gave it out; None: what the file says. ``thinking_budget`` is in characters, and
    ends each thought of a reply that a grammar constrains (tools, a form of the answer). ``engine`` has the settings of
    its kind of engine.
    ``from_catalogue`` are the dotted keys whose values are those of the model that ships under this name; it is no key
    itself.
    """

    title: str = ""
    aliases: tuple[str, ...] = ()
    task: Task = "chat"
    source: str | None = None
    mirrors: tuple[str, ...] = ()
    sha256: str | None = None
    size: int | None = None
    memory: int | None = None
    tested: str = ""
    convert: Literal["bert"] | None = None
    tokenizer: str = ""
    shortens: bool = False
    licence: str = ""
    format: str | None = None
    chat_template: str | None = None
    replies: str | None = None
    teach_tools: bool = True
    calls: Literal["trained", "any"] = "any"
    harmony: HarmonyEntry = HarmonyEntry()
    context: int | None = None
    slots: int | None = None
    default_output_tokens: CountOrNone | None = None
    max_output_tokens: int | None = None
    thinking_budget: int | None = None
    released: date | None = None
    sampling: SamplingEntry = SamplingEntry()
    engine: EngineSettings = LlamaCpp()
    from_catalogue: frozenset[str] = frozenset()

    def fault(self) -> tuple[str, str] | None:
        """(key, why the entry cannot be meant as it stands); None for one that can."""
        return self._files_fault() or self._engine_fault()

    @property
    def defaults(self) -> SamplingDefaults:
        """Sampling settings that the entry has an opinion about, whoever gave it."""
        sampling = msgspec.structs.asdict(self.sampling)
        return SamplingDefaults(**sampling, max_tokens=self.default_output_tokens, context=self.context)

    def defaults_of(self, *, catalogue: bool) -> SamplingDefaults:
        """Returns the `defaults` of the catalogue; or those of the configuration, or of a program."""
        opinions = self.defaults
        others = (name for name, key in KEYS.items() if (key in self.from_catalogue) is not catalogue)
        return replace(opinions, **dict.fromkeys(others))

    def _files_fault(self) -> tuple[str, str] | None:
        engine = self.engine
        if self.task != "chat" and self.harmony != HarmonyEntry():
            return "harmony", f"a model that {self.task}s speaks no format"
        if self.format and self.chat_template:
            return "chat_template", "a model speaks a format or a chat_template, not both"
        if self.mirrors and not (self.source and self.sha256):
            return "mirrors", "other sources are for a source whose file has a sha256"
        if engine.remote and (self.source or self.convert):
            key = "source" if self.source else "convert"
            return key, f"{key} is the server's own matter"
        if engine.needs_file and self.tokenizer:
            return "tokenizer", f"the engine {engine.kind} takes the vocabulary of its model's file"
        if engine.needs_tokenizer and not self.tokenizer:
            sources = f"a GGUF file, a Hugging Face folder, or {O200K}"
            return "tokenizer", f"the engine {engine.kind} needs a tokenizer: {sources}"
        return None

    def _engine_fault(self) -> tuple[str, str] | None:
        if self.task not in self.engine.tasks:
            what = {"chat": "replies", "embed": "embeddings", "rank": "scores of pairs"}[self.task]
            return "task", f"{what} are not taken from the engine {self.engine.kind}"
        fault = self.engine.fault()
        return (f"engine.{fault[0]}", fault[1]) if fault else None


KEYS = {
    **{name: f"sampling.{name}" for name in SamplingEntry.__struct_fields__},
    "max_tokens": "default_output_tokens",
    "context": "context",
}
"""The key of a model's table that has each of its `SamplingDefaults`."""

Entries = Mapping[str, ModelEntry]
"""Models by name."""


def folder_name(path: str) -> str:
    """The name of a model whose folder is at the path; empty for what is no such path."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    is_path = len(parts) > 1 and not path.endswith(".gguf") and not path.startswith(("hf:", "wheel:"))
    return parts[-1].lower() if is_path and parts[-1].strip(".") else ""


def folder_entries(path: str) -> Entries:
    """The entry of a Hugging Face folder, which no engine here runs; none for another name of a model."""
    from antiphon.engines.none import NoEngine  # it has the engine too, which commands that render need not import

    name = folder_name(path)
    return {name: ModelEntry(tokenizer=path, engine=NoEngine())} if name else {}


WAYS = "hf:OWNER/REPO[:QUANT], the path of a GGUF file, or what `antiphon models` finds of Ollama's and LM Studio's."
"""How else a model may be named, for errors."""


HUB = re.compile(r"^(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co)/")
"""The beginning of an address of the hub."""
FILE_PAGE = re.compile(r"/(?:blob|resolve)/main/")
"""The part of a file's address between its repository and the file."""


def find_entry(name: str, entries: Entries) -> tuple[str, ModelEntry]:
    """The entry called ``name``, or by one of its aliases; a path of a file and an ``hf:`` source are their own entry.

    So is a model that another program has on this machine, by its name there, though the catalogue has it as an alias;
    a name of an entry, and an alias that a user gives, come first. A folder is the entry that
    `folder_entries` makes of it, where that is among them.

    Raises `NotFoundError` with the names that are near.
    """
    if name in entries:
        return name, entries[name]
    names = {own: (own, *entry.aliases) for own, entry in entries.items()}
    own = named_by(name, names) or named_by(name.lower(), names)
    if own is None and (folder := folder_name(name)) in entries and entries[folder].tokenizer == name:
        own = folder
    named = name.startswith(("hf:", "wheel:")) or name.endswith(".gguf")
    if own is not None and "aliases" not in entries[own].from_catalogue:
        return own, entries[own]
    if not named and (found := found_model(name)) is not None:  # which is here, and the catalogue's may not be
        return found.name, ModelEntry(source=str(found.path), title=f"of {found.program}")
    if own is not None:
        return own, entries[own]
    source = HUB.sub("hf:", name).removesuffix("?download=true")
    if named or source != name:
        stem = source.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf")
        if not stem.strip("."):
            hint = "Give the path of a GGUF file, or hf:OWNER/REPO[:QUANT]."
            raise ModelError(f"{name!r} names no file", hint=hint)
        repository, _, quant = stem.lower().partition(":")
        own = "-".join(filter(None, (repository.removesuffix("-gguf"), quant)))
        return own, ModelEntry(source=FILE_PAGE.sub("/", source))
    raise NotFoundError(f"unknown model {name!r}", code="model_not_found", hint=_other_names(name, entries))


def _other_names(name: str, entries: Entries) -> str:
    """Names the near models, and the other ways to name one."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+-gguf(?::[\w.-]+)?", name, re.IGNORECASE):
        return f"Of Hugging Face's hub it is hf:{name}. Other models: {WAYS}"
    from antiphon.formats.template import builtin_templates  # a table that a name which is right need not wait for

    if exists(here := expanduser(name)):
        return f"{name} is a {'folder' if isdir(here) else 'file'} here, and no GGUF file. Models: {WAYS}"
    known = {*entries, *(alias for entry in entries.values() for alias in entry.aliases)}
    formats = {"harmony", "openchatml", *builtin_templates().names}
    of_format = f"{name} is a format, for `--format` or the table of a model. " if name in formats else ""
    hint = near(name.lower(), known)
    return f"{of_format}{hint if hint.startswith('Did') else near(name, entries.keys())} Other models: {WAYS}"
