"""The tables of docs/errors.md, from the table of codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from antiphon.errors import codes, incidents
from antiphon.errors.incidents import Code

ERRORS: tuple[tuple[str, str, Mapping[str, Code]], ...] = (
    ("Requests", "What a request got wrong.", codes.REQUESTS),
    ("Server", "What the server could not do.", codes.SERVER),
    (
        "Conversations, templates, vocabularies",
        "A conversation or a text does not fit its format, its chat template or its vocabulary.",
        codes.CONVERSATIONS,
    ),
    ("OpenChatML", "A strict reader raises these; the default reader reports them as incidents.", codes.OPENCHATML),
    ("Models", "Files of models and their vocabularies.", codes.MODELS),
    (
        "Configuration and command line",
        "A server does not start with such an error, and a command ends with it; the status is for a model that is\n"
        "opened at its first request.",
        codes.CONFIGURATION,
    ),
    (
        "`antiphon batch`",
        "The command ends with it, and with the line.",
        {code: row for code, row in codes.BATCHES.items() if row.status is not None},
    ),
)
OTHERS: tuple[tuple[str, str, Mapping[str, Code]], ...] = (
    (
        "Failed responses",
        "The `error.code` of a failed [response](responses.md) is `context_length_exceeded`, `rate_limit_exceeded` or\n"
        "one of these.",
        codes.RESPONSES,
    ),
    (
        "Batches",
        "What the `errors` of a [batch](batches.md) that was refused say of its lines, and its error file of\n"
        "lines that were not run.",
        {code: row for code, row in codes.BATCHES.items() if row.status is None},
    ),
    (
        "Calls of tools",
        "What the model reads of a call that failed, beside `E-CALL-SCHEMA`; `retryable` says whether the same call\n"
        "may succeed later.",
        codes.TOOLS,
    ),
    (
        "Incidents",
        "What a parser repaired in the reply of a model: an `Incident` among the events, counted in the metric\n"
        "`antiphon_incidents_total`. The reply is read on, and no text is lost. The header\n"
        "`x-antiphon-incidents` of a whole answer names their codes; a stream's headers come before.\n"
        "Those that begin with `history_` tell of\n"
        "[the prompt's history](templates.md#histories-that-a-template-refuses); streams name them too.",
        incidents.INCIDENTS,
    ),
)


def tables() -> str:
    """A section for each kind of code."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for title, about, rows in ERRORS:
        yield f"## {title}\n\n{about}\n\n| status | code | meaning | class |\n|---|---|---|---|"
        for code, row in rows.items():
            classes = ", ".join(f"`{kind.__name__}`" for kind in row.errors)
            yield f"| {row.status} | `{code}` | {_cell(row.meaning)} | {classes} |"
        yield ""
    for title, about, rows in OTHERS:
        yield f"## {title}\n\n{about}\n\n| code | meaning |\n|---|---|"
        yield from (f"| `{code}` | {_cell(row.meaning)} |" for code, row in rows.items())
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
