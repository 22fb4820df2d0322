"""``antiphon lsp``: a language server for OpenChatML transcripts, which editors start."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.errors.extras import extra

from .validate import Profile


def command(
    profile: Annotated[Profile | None, typer.Option(help="Check more: the rules of HIP-1.")] = None,
    json: Annotated[bool, typer.Option("--json", help="An error of the command itself as JSON.")] = False,
) -> None:
    """Serve diagnostics, hovers, completions, formatting and an outline to an editor, over standard streams."""
    with extra("lsp", "the language server"):
        from antiphon.integrations.editors.server import TranscriptServer
    TranscriptServer(harmony=profile is Profile.HARMONY).start_io()
