"""The options that `antiphon serve` has alone."""

from __future__ import annotations

from typing import Annotated

import typer

from .panels import ACCESS, DIALECT, NETWORK, OUTPUT

HostOption = Annotated[
    str | None, typer.Option(help="Where to listen.", show_default="127.0.0.1", rich_help_panel=NETWORK)
]
PortOption = Annotated[
    int | None,
    typer.Option("--port", "-p", help="0 takes a free one.", show_default="8080", rich_help_panel=NETWORK),
]
WithoutKeysOption = Annotated[
    bool | None,
    typer.Option(
        "--without-keys", help="Listen beyond this machine though there are no API keys.", rich_help_panel=ACCESS
    ),
]
TlsCertOption = Annotated[
    str | None,
    typer.Option(
        "--tls-cert", "--ssl-certfile", help="Serve HTTPS with this certificate (PEM).", rich_help_panel=ACCESS
    ),
]
TlsKeyOption = Annotated[
    str | None,
    typer.Option("--tls-key", "--ssl-keyfile", help="The certificate's key (PEM).", rich_help_panel=ACCESS),
]
OriginsOption = Annotated[
    str | None,
    typer.Option(
        "--origins",
        "--cors-origins",
        help="Web pages that may call from a browser, between commas (http://localhost:*); * is all.",
        show_default="none",
        rich_help_panel=ACCESS,
    ),
]
ExposeReasoningOption = Annotated[
    bool | None,
    typer.Option("--expose-reasoning", help="Clients see the model's reasoning.", rich_help_panel=ACCESS),
]
OllamaOption = Annotated[
    bool | None,
    typer.Option(
        "--ollama", help="Listen at 127.0.0.1:11434 too, where Ollama's clients look.", rich_help_panel=NETWORK
    ),
]
DialectOption = Annotated[
    str | None,
    typer.Option(
        help="What the plain routes speak: openai, databricks, mindie or lmdeploy.",
        show_default="openai",
        rich_help_panel=DIALECT,
    ),
]
StrictSeedOption = Annotated[
    bool | None,
    typer.Option(
        "--strict-dialect",
        "--strict-seed",
        help="Restrict every dialect to the letter of its document.",
        rich_help_panel=DIALECT,
    ),
]
AccessLogOption = Annotated[
    bool | None,
    typer.Option(
        "--access-log/--no-access-log",
        help="A line a request, without content.",
        show_default="--access-log",
        rich_help_panel=OUTPUT,
    ),
]
LogFormOption = Annotated[
    str | None,
    typer.Option("--log-form", "--log-format", help="text or json.", show_default="text", rich_help_panel=OUTPUT),
]
