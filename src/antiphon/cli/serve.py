"""``antiphon serve``: models over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from antiphon.config import Config, find_entry
from antiphon.http.server.server import bound, on_loop, serving
from antiphon.http.tls import certificate
from antiphon.library.app import assembled
from antiphon.library.reload import Reload, set_up
from antiphon.version import __version__
from antiphon.workers.supervisor import Announce, supervise

from .options import (
    ConfigOption,
    FormatOption,
    JsonOption,
    McpOption,
    ModelOption,
    PlaygroundOption,
    TemplateOption,
    ToolsOption,
    WorkersOption,
    configure,
    print_json,
)
from .pull import pull_missing
from .running import registered


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
    ollama: Annotated[
        bool | None, typer.Option("--ollama", help="Listen at 127.0.0.1:11434 too, where Ollama's clients look.")
    ] = None,
    workers: WorkersOption = None,
    playground: PlaygroundOption = None,
    tools: ToolsOption = None,
    mcp: McpOption = None,
    dialect: Annotated[
        str | None, typer.Option(help="What the plain routes speak: openai, databricks, mindie or lmdeploy.")
    ] = None,
    strict_seed: Annotated[
        bool | None, typer.Option("--strict-seed", help="Restrict every dialect to the letter of its document.")
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
        server__origins=origins, server__ollama=ollama, server__workers=workers, server__playground=playground,
        engine__context=context, engine__slots=slots, engine__threads=threads, tools__names=tools, tools__mcp=mcp,
        dialect__name=dialect, dialect__strict=strict_seed,
        log__access=access_log, log__form=log_form,
    )  # fmt: skip
    loaded = read()
    pull_missing(loaded.config)
    set_up(loaded.config)
    with registered(loaded.config, partial(announce_to, loaded.config, as_json=json)) as announce:
        if loaded.config.server.workers > 1:
            on_loop(supervise(loaded, read, announce))
        else:
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
            on_hangup=Reload(parts.app, parts.catalog, config, read),
            on_ready=lambda url: announce(url, also, parts.described(config)),
        )


def announce_to(config: Config, url: str, also: str | None, described: Sequence[str], *, as_json: bool) -> None:
    """Says where the server listens, to people or to programs."""
    name, _ = find_entry(config.model, config.entries)
    if as_json:
        print_json({"url": url, "model": name} | ({"ollama": also} if also else {}))
    else:
        greet(url, name, described, also, page=config.server.playground)


def greet(url: str, model: str, described: Sequence[str], also: str | None = None, *, page: bool = False) -> None:
    """What to do with a server that listens, ``also`` for Ollama's clients, and what its model got from where."""
    print(f"antiphon {__version__} serves {model} at {url}/v1  (Ctrl-C stops)\n\nTry:\n{curl_line(url, model)}\n")
    if page:
        print(f"In a browser: {url}\n")
    if also is not None:
        print(f"For Ollama's clients: {also}\n")
    if described:
        print(f"{model} (antiphon config --explain KEY says more):")
        print("".join(f"  {line}\n" for line in described))
    sys.stdout.flush()


def curl_line(url: str, model: str) -> str:
    question = '{"role": "user", "content": "What is the capital of France?"}'
    return (
        f"  curl {url}/v1/chat/completions -H 'content-type: application/json' \\\n"
        f'    -d \'{{"model": "{model}", "messages": [{question}]}}\''
    )
