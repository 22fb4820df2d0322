"""The file that names MCP servers, and how far these are trusted and may ask."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from antiphon.errors import ConfigError, near_field
from antiphon.structs import ready
from antiphon.tools.network import Network
from antiphon.tools.pool import PoolSize

# Questions that MCP servers may ask of the program that calls them, and who answers there.

Action = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Question of a server to the user: values for ``schema``, an object; or a visit of ``url``, then no values.

    All texts are the server's.
    """

    server: str
    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """``content`` satisfies the schema where ``action`` is accept."""

    action: Action
    content: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SamplingMessage:
    """A message of the prompt that an MCP server wants a model to answer."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """A text that a server wants a model to write, within limits that were checked."""

    server: str
    messages: tuple[SamplingMessage, ...]
    system: str | None
    max_tokens: int
    temperature: float | None
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SamplingAnswer:
    """``complete``: the model ended by itself; else its text reached ``max_tokens``."""

    text: str
    model: str
    complete: bool


Elicit = Callable[[Elicitation], Awaitable[ElicitationAnswer]]
Sample = Callable[[SamplingRequest], Awaitable[SamplingAnswer]]
ShowAddress = Callable[[str, str], Awaitable[None]]
"""Called with the name of a server and an address, where its user signs in with a browser."""


@dataclass(frozen=True, slots=True)
class McpHost:
    """Answers to the questions of servers; what is None is refused, and not offered to servers.

    ``sample`` is for servers whose table has ``sampling``. ``sign_in``: a person is there, who can sign in.
    """

    elicit: Elicit | None = None
    sample: Sample | None = None
    sign_in: ShowAddress | None = None


NOBODY = McpHost()
"""Over HTTP nobody can be asked: the one who asks a model is not the one who runs the server."""


# How many sessions there are with an MCP server.


@dataclass(frozen=True, slots=True)
class McpLimits:
    """``sessions`` with one server, one an owner; ``wait`` is for how many seconds a call waits for room.

    An owner's session that no call used for ``idle`` seconds is closed; that of the nameless owner stays.
    """

    sessions: int = 8
    idle: float = 600.0
    wait: float = 10.0

    @property
    def size(self) -> PoolSize:
        return PoolSize(total=self.sessions, per_owner=1, wait=self.wait, users=1024, idle=self.idle)


# How far a server's answers are trusted: one that the operator configured, or one that a client named.

START_SECONDS = 30.0
LARGEST_BODY = 32 << 20
"""Bytes of a body that is no stream of events, and of one event."""
MAX_TOOLS = 256
MAX_LISTING = 2_000_000
"""Bytes of the names, descriptions and schemas of a server's tools."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """``public``: only public addresses are connected to, and ``networks``; else any.

    ``body``: bytes of a body, and of one event; ``stream``: of all events of one stream (0: any number). ``start``:
    seconds for connecting. ``tools``: how many of its tools are taken; ``listing``: bytes of their names, descriptions
    and schemas. ``checked``: results are compared with the schemas that the server gives of them. ``media``:
    they may have images.
    """

    public: bool = False
    networks: tuple[Network, ...] = ()
    body: int = LARGEST_BODY
    stream: int = 0
    start: float = START_SECONDS
    tools: int = MAX_TOOLS
    listing: int = MAX_LISTING
    checked: bool = True
    media: bool = True


OPERATOR = Reach()
"""A server of the configuration."""


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class McpOAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Registration at a server's authorization server. Without a ``client_id`` we register ourselves (RFC 7591).

    ``client_metadata_url``: the address of a document that describes the client, for servers that take it as an id.
    ``grant``: a person signs in (``authorization_code``), or the client itself does, by its secret or by what
    ``private_key`` (a PEM file) signs. ``issuer``: the only authorization server that these credentials go to.
    ``callback_port``: where the browser comes back to on this machine; 0 is any free port.
    """

    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    private_key: str | None = None
    algorithm: str = "ES256"
    issuer: str | None = None
    callback_port: int = 0


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach a server: a ``command`` to start (stdio) or a ``url`` (streamable HTTP). From the operator only.

    ``headers`` go with every request to ``url``. ``oauth``: how we sign in there, where that is not by the defaults.
    ``stateless``: it remembers nothing between calls, so that all owners may share one session with it.
    ``sampling``: it may ask our default model for text. ``type`` (http, stdio) is what other clients write; the
    ``command`` or the ``url`` says it.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: McpOAuth = McpOAuth()
    stateless: bool = False
    sampling: bool = False
    type: Literal["stdio", "http", "streamable-http"] | None = None


class McpConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The JSON file that MCP clients share: ``{"mcpServers": {"name": {"command": …, "args": […]}}}``."""

    mcp_servers: dict[str, McpServer]


def read_mcp_config(text: str, environ: Mapping[str, str] | None = None) -> dict[str, McpServer]:
    """The servers that a configuration names; ``${NAME}`` in headers and client secrets is a variable of ``environ``,
    by default of this process. Raises `ConfigError` with the place of the mistake.
    """
    try:
        servers = msgspec.json.decode(text, type=ready(McpConfig)).mcp_servers
    except (msgspec.DecodeError, RecursionError) as error:
        what = str(error) if text.strip() else "it is empty"
        hint = near_field(what, *McpServer.__struct_encode_fields__, *McpOAuth.__struct_encode_fields__)
        hint = hint or 'It is {"mcpServers": {"NAME": {"command": …}}}, as other MCP clients have it.'
        raise ConfigError(f"the MCP configuration cannot be read: {what}", code="mcp_config", hint=hint) from error
    variables = os.environ if environ is None else environ
    return {name: _with_secrets(name, _checked(name, server), variables) for name, server in servers.items()}


def _checked(name: str, server: McpServer) -> McpServer:
    if (server.command is None) == (server.url is None):
        raise _wrong(name, "needs a command or a url, one of them")
    if server.type is not None and (server.type == "stdio") != (server.command is not None):
        raise _wrong(name, f"is of type {server.type!r}, which its {'url' if server.url else 'command'} is not")
    if server.url is None and (server.headers or server.oauth != McpOAuth()):
        raise _wrong(name, "has headers or oauth, which are for a url")
    oauth = server.oauth
    if oauth.grant == "client_credentials" and not (oauth.client_id and (oauth.client_secret or oauth.private_key)):
        raise _wrong(name, "needs a clientId, and a clientSecret or a privateKey, for client_credentials")
    if oauth.grant == "client_credentials" and not oauth.issuer:
        raise _wrong(name, "needs an issuer for client_credentials: the authorization server that may see them")
    if not 0 <= oauth.callback_port < 65536:
        raise _wrong(name, "has a callbackPort that is no port")
    return server


def _with_secrets(name: str, server: McpServer, variables: Mapping[str, str]) -> McpServer:
    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise _wrong(name, f"needs the environment variable {match[1]}")
        return variables[match[1]]

    headers = {key: _VARIABLE.sub(value, text) for key, text in server.headers.items()}
    secret = server.oauth.client_secret and _VARIABLE.sub(value, server.oauth.client_secret)
    oauth = msgspec.structs.replace(server.oauth, client_secret=secret)
    return msgspec.structs.replace(server, headers=headers, oauth=oauth)


def _wrong(name: str, what: str) -> ConfigError:
    return ConfigError(f"the MCP server {name!r} {what}", code="mcp_config")
