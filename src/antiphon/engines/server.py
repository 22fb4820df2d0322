"""The settings that all engines behind HTTP share: where the server is, its key, and whether it takes grammars."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from antiphon.errors import ConfigError, EngineError, EngineLostError, OverloadedError, RequestError
from antiphon.tokens import Tokenizer, decode

from .engine import Sampling, Step
from .kind import EngineSettings, ModelSpec

# Whether a server takes llguidance's grammars: found out with one that no model would follow by itself.

WORDS = ("~Qx7~", "~Zk4~")
TOKENS = 24
"""More than any vocabulary needs for a word of the grammar, which five single bytes would spell."""

Generate = Callable[[list[int], Sampling, str], AsyncGenerator[Step, None]]
"""(prompt, sampling, grammar) → the steps."""


async def takes_grammars(generate: Generate, tokenizer: Tokenizer, end_ids: Collection[int]) -> bool:
    """False for a server that ignores such a grammar, or refuses it. Raises when the server is not there.

    The grammar names an end of the model by its id, as those of replies do: a server that refuses that takes none.
    """
    ids: list[int] = []
    end = f"<[{','.join(map(str, sorted(end_ids)))}]>" if end_ids else ""
    grammar = f'%llguidance {{}}\nstart: ("{WORDS[0]}" | "{WORDS[1]}") {end}\n'
    try:
        async with aclosing(generate(tokenizer.encode("Hello"), Sampling(max_tokens=TOKENS), grammar)) as steps:
            async for step in steps:
                ids += step.ids
    except (OverloadedError, EngineLostError):
        raise
    except (RequestError, EngineError):
        return False
    return decode(tokenizer, ids).startswith(WORDS)


STREAMS = 256
"""Replies requested at once of a server that makes many at a time, where nobody says how many."""


class ServerSettings(EngineSettings, frozen=True, kw_only=True):
    """``url`` is the server's root, which may have a path. Its key is in the environment variable ``key_variable`` or
    the file ``key_file``; neither: it takes none. ``grammar``: whether the server takes llguidance's grammars; None:
    found out. ``share_cache``: whether owners may find each other's prompts in its cache; None: what ``[engine]`` says.
    ``schemes`` are those that a ``url`` may have, the usual one first."""

    url: str = ""
    key_variable: str = ""
    key_file: str = ""
    grammar: bool | None = None
    share_cache: bool | None = None

    remote: ClassVar[bool] = True
    streams: ClassVar[int] = STREAMS
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    needs_tokenizer: ClassVar[bool] = True
    paths: ClassVar[frozenset[str]] = frozenset({"key_file"})

    def shares_cache(self, model: ModelSpec) -> bool:
        """Whether owners share the server's cache of prompts."""
        return model.share_cache if self.share_cache is None else self.share_cache

    @property
    def address(self) -> str:
        return self.url

    def fault(self) -> tuple[str, str] | None:
        if self.key_variable and self.key_file:
            return "key_file", "key_variable and key_file cannot both be given"
        if self.key_variable.startswith("ANTIPHON_"):
            return "key_variable", "it begins with ANTIPHON_, as only keys of the configuration do"
        wrong = url_fault(self.url, self.schemes)
        return ("url", wrong) if wrong else None

    async def key(self, model: ModelSpec) -> str | None:
        """The server's key; never in a message or a log. Raises `ConfigError` when it is not where the settings say."""
        if self.key_variable:
            key, place = model.environ.get(self.key_variable, ""), f"the environment variable {self.key_variable}"
        elif self.key_file:
            key, place = await asyncio.to_thread(_read, self.key_file), f"the file {self.key_file}"
        else:
            return None
        key = key.strip()
        if not key or not key.isprintable() or not key.isascii():
            raise ConfigError(f"there is no key for {model.name!r} in {place}", code="engine_key")
        return key


def url_fault(url: str, schemes: Collection[str]) -> str | None:
    """Why this is not the root of a server. What may be a secret in it is not repeated."""
    example = f"{next(iter(schemes))}://127.0.0.1:8000"
    try:
        address = urlsplit(url)
    except ValueError:
        return "it is no URL"
    if address.scheme not in schemes or not address.hostname:
        return f"it needs a url, as in {example}"
    if address.username or address.password or address.query or address.fragment:
        return "it has more than an address; a key goes into key_variable or key_file"
    if address.path.rstrip("/").endswith("/v1"):
        return f"it is the server's root, as in {example} or {example}/engines/a, without /v1"
    return None


def _read(file: str) -> str:
    try:
        return Path(file).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
