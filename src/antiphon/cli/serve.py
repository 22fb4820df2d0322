"""``antiphon serve``: models over HTTP."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

from antiphon.catalog.capabilities import capability_fields, capability_lines
from antiphon.config import Config, find_entry
from antiphon.engines.none import NoEngine
from antiphon.http.gate.keys import LAST_REMOVED, Key, KeyFile
from antiphon.http.server.server import bound, certificate, is_loopback, on_loop, serving
from antiphon.library.app import ModelSummary, assembled
from antiphon.library.reload import Reload, set_up
from antiphon.version import __version__

from .options import (
    ConfigOption,
    ContextOption,
    FormatOption,
    JsonOption,
    McpOption,
    ModelOption,
    PlaygroundOption,
    SlotsOption,
    TemplateOption,
    ThreadsOption,
    ToolsOption,
    WorkersOption,
    access_option,
    configure,
    dialect_option,
    engine_option,
    network_option,
    output_option,
    print_json,
)
from .pull import pull_missing
from .running import Announce, check_free, registered
from .terminal import StatusLine, tell

# The options that `antiphon serve` has alone.

HostOption = Annotated[str | None, network_option(help="Where to listen.", show_default="127.0.0.1")]
PortOption = Annotated[int | None, network_option("--port", "-p", help="0 takes a free one.", show_default="8080")]
WithoutKeysOption = Annotated[
    bool | None, access_option("--without-keys", help="Listen beyond this machine though there are no API keys.")
]
TlsCertOption = Annotated[
    str | None, access_option("--tls-cert", "--ssl-certfile", help="Serve HTTPS with this certificate (PEM).")
]
TlsKeyOption = Annotated[str | None, access_option("--tls-key", "--ssl-keyfile", help="The certificate's key (PEM).")]
OriginsOption = Annotated[
    str | None,
    access_option(
        "--origins",
        "--cors-origins",
        help="Web pages that may call from a browser, between commas (http://localhost:*); * is all.",
        show_default="none",
    ),
]
ExposeReasoningOption = Annotated[
    bool | None, access_option("--expose-reasoning", help="Clients see the model's reasoning.")
]
OllamaOption = Annotated[
    bool | None, network_option("--ollama", help="Listen at 127.0.0.1:11434 too, where Ollama's clients look.")
]
DialectOption = Annotated[
    str | None,
    dialect_option(help="What the plain routes speak: openai, databricks, mindie or lmdeploy.", show_default="openai"),
]
StrictSeedOption = Annotated[
    bool | None,
    dialect_option("--strict-dialect", "--strict-seed", help="Restrict every dialect to the letter of its document."),
]
NoEngineOption = Annotated[
    bool | None,
    engine_option("--no-engine", help="Open no engine: prompts are rendered and replies parsed, of a folder too."),
]
AccessLogOption = Annotated[
    bool | None,
    output_option(
        "--access-log/--no-access-log", help="A line a request, without content.", show_default="--access-log"
    ),
]
LogFormOption = Annotated[
    str | None, output_option("--log-form", "--log-format", help="text or json.", show_default="text")
]


def command(
    model: ModelOption = None,
    host: HostOption = None,
    port: PortOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    context: ContextOption = None,
    slots: SlotsOption = None,
    threads: ThreadsOption = None,
    no_engine: NoEngineOption = None,
    without_keys: WithoutKeysOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    origins: OriginsOption = None,
    expose_reasoning: ExposeReasoningOption = None,
    ollama: OllamaOption = None,
    workers: WorkersOption = None,
    playground: PlaygroundOption = None,
    tools: ToolsOption = None,
    mcp: McpOption = None,
    dialect: DialectOption = None,
    strict_seed: StrictSeedOption = None,
    access_log: AccessLogOption = None,
    log_form: LogFormOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Serve models over an OpenAI-compatible API until Ctrl-C; the default model is fetched when it is not here."""
    read = partial(
        configure,
        config, model=model, format=format, chat_template=chat_template,
        server__host=host, server__port=port, server__without_keys=without_keys,
        server__expose_reasoning=expose_reasoning, server__tls_cert=tls_cert, server__tls_key=tls_key,
        server__origins=origins, server__ollama=ollama, server__workers=workers, server__playground=playground,
        engine__context=context, engine__slots=slots, engine__threads=threads,
        engine__open=False if no_engine else None, tools__names=tools, tools__mcp=mcp,
        dialect__name=dialect, dialect__strict=strict_seed,
        log__access=access_log, log__form=log_form,
    )  # fmt: skip
    loaded = read()
    if loaded.config.server.port:
        check_free(loaded.config.server.host, loaded.config.server.port)  # before a model is fetched and loaded
    pull_missing(loaded.config)
    set_up(loaded.config)
    began, status = time.monotonic(), StatusLine()

    def announced(url: str, also: str | None, summary: ModelSummary) -> None:
        status.end()
        announce_to(loaded.config, url, also, summary, as_json=json, began=began)

    with ExitStack() as stack:
        stack.callback(status.end)
        announce = stack.enter_context(registered(loaded.config, announced))
        if loaded.config.server.workers > 1:
            from antiphon.workers.supervisor import supervise  # Here and not above: one process needs none.

            on_loop(supervise(loaded, read, announce))
        else:
            status.begin(f"loading {find_entry(loaded.config.model, loaded.config.entries)[0]}")
            on_loop(run(loaded.config, lambda: read().config, announce))


async def run(config: Config, read: Callable[[], Config], announce: Announce) -> None:
    """Serves ``config`` until the program is stopped; ``read`` reads the configuration anew at each SIGHUP."""
    server = config.server
    tls = certificate(server.tls_cert, server.tls_key)
    beside = bound(server.ollama_port) if server.ollama else None
    also = "http://{}:{}".format(*beside.getsockname()) if beside is not None else None
    async with assembled(config) as parts:
        await serving(
            parts.app,
            host=server.host,
            port=server.port,
            drain=server.drain,
            without_keys=server.without_keys,
            tls=tls,
            beside=beside,
            own_process=True,
            on_hangup=partial(Reload(parts.app, parts.catalog, config), read),
            on_ready=lambda url: announce(url, also, parts.summary(config)),
        )


def announce_to(
    config: Config, url: str, also: str | None, summary: ModelSummary, *, as_json: bool, began: float
) -> None:
    """Says where the server listens, to people or to programs."""
    name, entry = find_entry(config.model, config.entries)
    if as_json:
        able = capability_fields(summary.capabilities)
        print_json({"url": url, "model": name} | ({"ollama": also} if also else {}) | able)
        return
    keys = KeyFile(Path(config.server.keys)).read()
    tell(f"antiphon {__version__} serves {name} at {url}/v1  (Ctrl-C stops)\n")
    body = f'{{"model": "{name}", "messages": [{{"role": "user", "content": "What is the capital of Japan?"}}]}}'
    key = "    -H 'authorization: Bearer YOUR_KEY' \\\n" if keys is not None else ""
    route = "chat/completions" if config.engine.open else "render"
    tell(f"Try:\n  curl {url}/v1/{route} -H 'content-type: application/json' \\\n{key}    -d '{body}'\n")
    tell("\n".join(places(config, url, also, keys=keys)) + "\n")
    tell(f"Ready in {time.monotonic() - began:.1f} s.\n")
    if summary.settings:
        kind = entry.engine.kind if config.engine.open else NoEngine().kind
        tell(f"{name}, by the engine {kind} (antiphon config --explain KEY says more):")
        tell("".join(f"  {line}\n" for line in summary.settings))
    if lines := list(capability_lines(summary.capabilities)):
        tell("What it can do here:")
        tell("".join(f"  {line}\n" for line in lines))
    sys.stdout.flush()


def places(config: Config, url: str, also: str | None, *, keys: list[Key] | None) -> Iterator[str]:
    """Yields the places that answer, and who may ask: a line each."""
    if config.server.playground:
        yield f"playground  {url}"
    yield f"API         {url}/v1, described in {url}/openapi.json"
    yield f"health      {url}/health, metrics {url}/metrics"
    if also is not None:
        yield f"Ollama      {also}, for its clients"
    tools = [*filter(None, [config.tools.names, config.tools.mcp])]
    yield f"tools       {', '.join(tools)}" if tools else "tools       none (--tools browser, --mcp FILE)"
    open_to = "this machine" if is_loopback(config.server.host) else "everybody who reaches it"
    if keys is None:
        yield f"keys        none: open to {open_to}"
    else:
        yield (
            "keys        needed: antiphon keys list"
            if keys
            else f"keys        {LAST_REMOVED.format(config.server.keys)}"
        )
