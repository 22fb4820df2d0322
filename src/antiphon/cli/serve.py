"""``antiphon serve``: models over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from antiphon import __version__
from antiphon.api import create_app
from antiphon.api.gate.keys import KeyFile
from antiphon.api.http.server import on_loop, serving
from antiphon.api.http.tls import certificate
from antiphon.catalog.loading import open_catalog
from antiphon.catalog.toolbox import open_toolbox, tool_settings
from antiphon.config.config import MEMORY, DialectConfig, SessionsConfig
from antiphon.config.entries import find_entry
from antiphon.config.server import TracesConfig
from antiphon.observe import Exported, Tracing
from antiphon.store import MemoryStore, SessionLimits, SqliteStore, Store
from antiphon.wire.dialect import Dialect
from antiphon.wire.dialects import spoken
from antiphon.wire.sealed import kept_key

from .options import (
    ConfigOption,
    FormatOption,
    JsonOption,
    McpOption,
    ModelOption,
    TemplateOption,
    ToolsOption,
    configure,
    print_json,
)
from .pull import pull_missing
from .reload import Reload, set_up


def command(
    model: ModelOption = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; loopback by default.")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one.")] = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    context: Annotated[int | None, typer.Option(help="Tokens that prompt and answer may have together.")] = None,
    slots: Annotated[int | None, typer.Option(help="Answers that are made at once.")] = None,
    threads: Annotated[int | None, typer.Option(help="Of the engine; 0: as many as help.")] = None,
    without_keys: Annotated[
        bool | None, typer.Option("--without-keys", help="Listen beyond this machine though there are no API keys.")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option(help="Serve HTTPS with this certificate (PEM).")] = None,
    tls_key: Annotated[str | None, typer.Option(help="The certificate's key (PEM).")] = None,
    origins: Annotated[
        str | None, typer.Option(help="Web pages that may call from a browser, between commas; * is all.")
    ] = None,
    expose_reasoning: Annotated[
        bool | None, typer.Option("--expose-reasoning", help="Clients see the model's reasoning.")
    ] = None,
    tools: ToolsOption = None,
    mcp: McpOption = None,
    dialect: Annotated[
        str | None, typer.Option(help="What the plain routes speak: openai, databricks, mindie or lmdeploy.")
    ] = None,
    strict_seed: Annotated[
        bool | None, typer.Option("--strict-seed", help="Hold every dialect to the letter of its document.")
    ] = None,
    access_log: Annotated[
        bool | None, typer.Option("--access-log/--no-access-log", help="A line a request, without content.")
    ] = None,
    log_form: Annotated[str | None, typer.Option(help="text or json.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Serve models over an OpenAI-compatible API until Ctrl-C; the default model is fetched when it is not here."""
    read = partial(
        configure,
        config, model=model, format=format, chat_template=chat_template,
        server__host=host, server__port=port, server__without_keys=without_keys,
        server__expose_reasoning=expose_reasoning, server__tls_cert=tls_cert, server__tls_key=tls_key,
        server__origins=origins,
        engine__context=context, engine__slots=slots, engine__threads=threads, tools__names=tools, tools__mcp=mcp,
        dialect__name=dialect, dialect__strict=strict_seed,
        log__access=access_log, log__form=log_form,
    )  # fmt: skip
    loaded = read().config
    pull_missing(loaded)
    name, _ = find_entry(loaded.model, loaded.catalogue)
    server = loaded.server
    set_up(loaded)
    tls = certificate(server.tls_cert, server.tls_key)
    keys = KeyFile(Path(server.keys)).read()
    store, session_limits = open_store(loaded.sessions)
    seal_key = kept_key(beside_store(loaded.sessions)) if loaded.sessions.store != MEMORY else None
    dialects = dialects_of(loaded.dialect)

    async def run() -> None:
        async with open_toolbox(tool_settings(loaded.tools)) as toolbox, open_traces(loaded.traces) as tracing:
            catalog = open_catalog(loaded)
            app = create_app(
                catalog,
                limits=loaded.limits,
                dialect=dialects[loaded.dialect.name],
                dialects=tuple(dialects.values()),
                expose_reasoning=server.expose_reasoning,
                debug=server.debug,
                preload=True,
                keys=keys,
                public_metrics=server.public_metrics,
                origins=words(server.origins),
                tracing=tracing,
                store=store,
                session_limits=session_limits,
                seal_key=seal_key,
                tools=toolbox if toolbox.sets else None,
                offer_tools=loaded.tools.offer,
            )
            await serving(
                app,
                host=server.host,
                port=server.port,
                drain=server.drain,
                without_keys=server.without_keys,
                tls=tls,
                on_hangup=Reload(app, catalog, loaded, lambda: read().config),
                on_ready=lambda url: print_json({"url": url, "model": name}) if json else greet(url, name),
            )

    on_loop(run())


@asynccontextmanager
async def open_traces(traces: TracesConfig) -> AsyncIterator[Tracing | None]:
    """What makes spans, if the configuration says where they go; in the end, what is left is sent."""
    if not traces.endpoint:
        yield None
        return
    exported = Exported(traces.endpoint, traces.service)
    try:
        yield exported.tracing
    finally:
        await asyncio.to_thread(exported.close)


def words(text: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def open_store(sessions: SessionsConfig) -> tuple[Store, SessionLimits]:
    """Where sessions, responses and conversations are kept, and how long. Raises `ConfigError`."""
    store = MemoryStore() if sessions.store == MEMORY else SqliteStore(Path(sessions.store).expanduser())
    return store, SessionLimits(lifetime=sessions.lifetime)


def beside_store(sessions: SessionsConfig) -> Path:
    """Where the key is that seals what clients keep for us: what is kept and what is sealed live as long."""
    return Path(sessions.store).expanduser().with_name("seal.key")


def dialects_of(own: DialectConfig) -> dict[str, Dialect]:
    """Every dialect by its name."""
    return spoken(
        strict=own.strict,
        max_seq_len=own.max_seq_len,
        max_iter_times=own.max_iter_times,
        endpoint_mode=own.endpoint_mode,
        endpoint_streams=own.endpoint_streams,
    )


def greet(url: str, model: str) -> None:
    """What to do with a server that listens."""
    print(
        f"antiphon {__version__} serves {model} at {url}/v1  (Ctrl-C stops)\n\nTry:\n{curl_line(url, model)}\n",
        flush=True,
    )


def curl_line(url: str, model: str) -> str:
    question = '{"role": "user", "content": "What is the capital of France?"}'
    return (
        f"  curl {url}/v1/chat/completions -H 'content-type: application/json' \\\n"
        f'    -d \'{{"model": "{model}", "messages": [{question}]}}\''
    )
