"""Settings that each client needs to use Antiphon: variables of the environment, or its settings file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from antiphon.config import Config
from antiphon.errors import RequestError

# Where a server is: what a user types, or what the configuration says.


def local_url(settings: Config) -> str:
    """The address at which `antiphon serve` listens by the configuration, as a client of this machine names it."""
    server = settings.server
    anywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
    host = anywhere.get(server.host, server.host)
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if server.tls_cert else 'http'}://{host}:{server.port}"


def root_of(url: str) -> str:
    """An address without ``/v1`` at its end. Raises `RequestError` for what is no address."""
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise RequestError(f"{url!r} is no address of a server", hint="--url http://HOST:PORT")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def check_variable(name: str | None) -> None:
    """Raises `RequestError` for what cannot be the name of a variable of the environment: a key itself, for example."""
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise RequestError("this is no name of a variable", hint="A name, like ANTIPHON_KEY, and not the key itself.")


ANY_KEY = "any"
"""Key of a client that wants one, for a server without keys."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and one of its models. ``url`` has no ``/v1``; ``key_variable`` names the variable with the API key."""

    url: str
    model: str
    key_variable: str | None = None
    context: int | None = None

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    @property
    def key(self) -> str:
        """The key for a variable of the environment: a reference in a shell's spelling, never the key itself."""
        return f"${{{self.key_variable}}}" if self.key_variable else ANY_KEY

    def keyed(self, reference: str = "{}", otherwise: str | None = ANY_KEY) -> str | None:
        """The key for a file: a reference to its variable, or ``otherwise`` without keys."""
        return reference.format(self.key_variable) if self.key_variable else otherwise

    @property
    def no_key(self) -> str | None:
        """For a field in which a file could only have the key itself: None where there is one."""
        return None if self.key_variable else ANY_KEY


class Form(StrEnum):
    """How a settings file is written."""

    JSON = "json"
    TOML = "toml"
    YAML = "yaml"


def present(content: Any) -> Any:
    """The content without fields that are None, which must not be there."""
    if isinstance(content, dict):
        return {key: present(value) for key, value in content.items() if value is not None}
    return [present(item) for item in content] if isinstance(content, list) else content


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A client's file, its form, and what must be in it; None: this field must not be there.

    Items of lists are known by their first field.
    """

    path: Path
    form: Form
    content: Any
    head: Mapping[str, str] = field(default_factory=dict)
    """Beginning of a new file; one that is there keeps its own."""

    @property
    def whole(self) -> Any:
        """A new file's content."""
        return present({**self.head, **self.content} if self.head else self.content)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """``environment`` values may refer to ``${VARIABLE}``; ``run`` starts the client, ``notes`` say what else to do."""

    environment: Mapping[str, str] = field(default_factory=dict)
    file: SettingsFile | None = None
    run: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Client:
    title: str
    settings: Callable[[Endpoint], ClientSettings]


def _home(variable: str, default: str) -> Path:
    """A folder that the client's own variable names, or the default below the home folder."""
    named = os.environ.get(variable)
    return Path(named) if named else Path.home() / default


def _claude_code(endpoint: Endpoint) -> ClientSettings:
    models = {f"ANTHROPIC_DEFAULT_{kind}_MODEL": endpoint.model for kind in ("OPUS", "SONNET", "HAIKU")}
    environment = {
        "ANTHROPIC_BASE_URL": endpoint.url,
        "ANTHROPIC_AUTH_TOKEN": endpoint.no_key,
        "ANTHROPIC_MODEL": endpoint.model,
        **models,
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(endpoint.context) if endpoint.context else None,
    }
    content = {"env": environment, "apiKeyHelper": endpoint.keyed("printenv {}", otherwise=None)}
    path = _home("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    notes = ("It needs a model of a long context: its first request has some 20,000 tokens.",)
    return ClientSettings(file=SettingsFile(path, Form.JSON, content), run="claude", notes=notes)


def _codex(endpoint: Endpoint) -> ClientSettings:
    provider = {
        "name": "Antiphon",
        "base_url": endpoint.v1,
        "wire_api": "responses",
        "env_key": endpoint.keyed(otherwise=None),
    }
    content = {
        "model": endpoint.model,
        "model_provider": "antiphon",
        "model_context_window": endpoint.context,
        "model_providers": {"antiphon": provider},
    }
    path = _home("CODEX_HOME", ".codex") / "config.toml"
    return ClientSettings(file=SettingsFile(path, Form.TOML, content), run="codex")


def _opencode(endpoint: Endpoint) -> ClientSettings:
    limit = {"context": endpoint.context, "output": endpoint.context // 4} if endpoint.context else None
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Antiphon",
        "options": {"baseURL": endpoint.v1, "apiKey": endpoint.keyed("{{env:{}}}")},
        "models": {endpoint.model: {"name": endpoint.model, "limit": limit}},
    }
    content = {"provider": {"antiphon": provider}, "model": f"antiphon/{endpoint.model}"}
    head = {"$schema": "https://opencode.ai/config.json"}
    path = _home("XDG_CONFIG_HOME", ".config") / "opencode" / "opencode.json"
    return ClientSettings(file=SettingsFile(path, Form.JSON, content, head), run="opencode")


def _aider(endpoint: Endpoint) -> ClientSettings:
    model = f"openai/{endpoint.model}"
    content = {"model": model, "openai-api-base": endpoint.v1, "openai-api-key": endpoint.no_key}
    environment = {"OPENAI_API_KEY": endpoint.key} if endpoint.key_variable else {}
    file = SettingsFile(Path.home() / ".aider.conf.yml", Form.YAML, content)
    return ClientSettings(environment, file, run="aider")


def _continue(endpoint: Endpoint) -> ClientSettings:
    model = {
        "name": f"{endpoint.model} (Antiphon)",
        "provider": "openai",
        "model": endpoint.model,
        "apiBase": endpoint.v1,
        "apiKey": endpoint.keyed("${{{{ secrets.{} }}}}"),
        "roles": ["chat", "edit", "apply"],
        "defaultCompletionOptions": {"contextLength": endpoint.context} if endpoint.context else None,
    }
    head = {"name": "Local", "version": "0.0.1", "schema": "v1"}
    path = _home("CONTINUE_GLOBAL_DIR", ".continue") / "config.yaml"
    notes = (f"Put {endpoint.key_variable} into {path.parent / '.env'}.",) if endpoint.key_variable else ()
    return ClientSettings(file=SettingsFile(path, Form.YAML, {"models": [model]}, head), notes=notes)


def _zed(endpoint: Endpoint) -> ClientSettings:
    model = {"name": endpoint.model, "display_name": endpoint.model, "max_tokens": endpoint.context or 8192}
    provider = {"api_url": endpoint.v1, "available_models": [model]}
    content = {"language_models": {"openai_compatible": {"Antiphon": provider}}}
    path = _home("XDG_CONFIG_HOME", ".config") / "zed" / "settings.json"
    return ClientSettings({"ANTIPHON_API_KEY": endpoint.key}, SettingsFile(path, Form.JSON, content), run="zed")


def _llm(endpoint: Endpoint) -> ClientSettings:
    model = {
        "model_id": f"antiphon/{endpoint.model}",
        "model_name": endpoint.model,
        "api_base": endpoint.v1,
        "supports_tools": True,
        "supports_schema": True,
        "api_key_name": "antiphon" if endpoint.key_variable else None,
    }
    folder = _home("LLM_USER_PATH", typer.get_app_dir("io.datasette.llm"))
    file = SettingsFile(folder / "extra-openai-models.yaml", Form.YAML, [model])
    notes = (f'llm keys set antiphon --value "${endpoint.key_variable}"',) if endpoint.key_variable else ()
    return ClientSettings(file=file, run=f"llm -m antiphon/{endpoint.model} 'Hi'", notes=notes)


def _litellm(endpoint: Endpoint) -> ClientSettings:
    key = endpoint.keyed("os.environ/{}")
    parameters = {"model": f"openai/{endpoint.model}", "api_base": endpoint.v1, "api_key": key}
    content = {"model_list": [{"model_name": endpoint.model, "litellm_params": parameters}]}
    path = Path("litellm_config.yaml")
    return ClientSettings(file=SettingsFile(path, Form.YAML, content), run=f"litellm --config {path}")


def _open_webui(endpoint: Endpoint) -> ClientSettings:
    environment = {"OPENAI_API_BASE_URL": endpoint.v1, "OPENAI_API_KEY": endpoint.key}
    notes = ("Open WebUI reads them at its first start; later the connection is in its admin settings.",)
    return ClientSettings(environment, run="open-webui serve", notes=notes)


def _openai(endpoint: Endpoint) -> ClientSettings:
    environment = {"OPENAI_BASE_URL": endpoint.v1, "OPENAI_API_KEY": endpoint.key}
    notes = (
        f"Python: OpenAI().chat.completions.create(model={endpoint.model!r}, messages=[…])",
        f"Node: new OpenAI().chat.completions.create({{ model: {endpoint.model!r}, messages: […] }})",
    )
    return ClientSettings(environment, notes=notes)


def _anthropic(endpoint: Endpoint) -> ClientSettings:
    environment = {"ANTHROPIC_BASE_URL": endpoint.url, "ANTHROPIC_API_KEY": endpoint.key}
    notes = (
        f"Python: Anthropic().messages.create(model={endpoint.model!r}, max_tokens=…, messages=[…])",
        f"Node: new Anthropic().messages.create({{ model: {endpoint.model!r}, max_tokens: …, messages: […] }})",
    )
    return ClientSettings(environment, notes=notes)


def _langchain(endpoint: Endpoint) -> ClientSettings:
    environment = {"OPENAI_API_BASE": endpoint.v1, "OPENAI_API_KEY": endpoint.key}
    notes = (
        f"Python: ChatOpenAI(model={endpoint.model!r})",
        "OpenAIEmbeddings needs check_embedding_ctx_length=False: else it sends ids of another tokenizer.",
    )
    return ClientSettings(environment, notes=notes)


def _ollama(endpoint: Endpoint) -> ClientSettings:
    key = {"OLLAMA_API_KEY": endpoint.key} if endpoint.key_variable else {}
    notes = ("With `antiphon serve --ollama` its clients find the server without it.",)
    return ClientSettings({"OLLAMA_HOST": endpoint.url, **key}, notes=notes)


CLIENTS: Mapping[str, Client] = {
    "aider": Client("aider", _aider),
    "anthropic": Client("Anthropic's libraries (Python, Node)", _anthropic),
    "claude-code": Client("Claude Code", _claude_code),
    "codex": Client("Codex", _codex),
    "continue": Client("Continue", _continue),
    "langchain": Client("LangChain (langchain-openai)", _langchain),
    "litellm": Client("LiteLLM's proxy", _litellm),
    "llm": Client("llm", _llm),
    "ollama": Client("Ollama's Python library", _ollama),
    "open-webui": Client("Open WebUI", _open_webui),
    "openai": Client("OpenAI's libraries (Python, Node)", _openai),
    "opencode": Client("OpenCode", _opencode),
    "zed": Client("Zed", _zed),
}
"""Every client that `antiphon connect` knows, by the name that the command takes."""
