"""Claims of the pages, each with what shows that it holds: tests/docs/claims.txt, a table.

``= PAGE`` begins the claims of a page. A claim is a line as it stands there, and each indented line below it a check:
what is sent or run, ``->``, the status or exit code, and what the answer has, with ``&&`` between (``!`` before what
it has not, ``~`` before a pattern). ``@SERVER`` names another server than the usual one, ``@keys:NAME`` a key's owner.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.api.dialects import configured_dialects
from antiphon.catalog.static import StaticCatalog
from antiphon.http.gate.keys import Scope, new_key
from docs.blocks import ROOT, TEMPLATE, own_tools
from docs.declared import DeclaredEngine, application, kinds
from docs.samples import USER
from kit.api import END, Got, app, exchange_bytes, ids
from kit.obliging import constrained
from kit.program import CONFIG, in_process

CHAT, SAID = {"model": "small", "messages": [USER]}, {"model": "small"}
ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "completions": ("/v1/completions", {**SAID, "prompt": "Hi"}),
    "embeddings": ("/v1/embeddings", {**SAID, "input": "Hi"}),
    "rerank": ("/v1/rerank", {**SAID, "query": "Hi", "documents": ["Hi"]}),
    "score": ("/v1/score", {**SAID, "text_1": "Hi", "text_2": "Hi"}),
    "responses": ("/v1/responses", {**SAID, "input": "Hi"}),
    "messages": ("/v1/messages", {**CHAT, "max_tokens": 9}),
    "ollama": ("/api/chat", CHAT),
    "databricks": ("/databricks/v1/chat/completions", CHAT),
    "mindie": ("/mindie/v1/chat/completions", CHAT),
    "lmdeploy": ("/lmdeploy/v1/chat/completions", CHAT),
}
"""What a check sends to a route unless it says otherwise."""
KEYS = {"alice": new_key("alice"), "ops": new_key("ops", scopes=(Scope.ADMIN,))}


@dataclass(frozen=True, slots=True)
class Check:
    page: str
    claim: str
    server: str
    action: str
    body: str
    status: int
    has: tuple[str, ...]


def checks() -> Iterator[Check]:
    page = claim = ""
    for line in Path(__file__).with_name("claims.txt").read_text("utf-8").splitlines():
        if line.startswith("= "):
            page = line[2:]
        elif not line.startswith("  "):
            claim = line
        else:
            call, _, expected = line.rpartition(" -> ")
            found = re.fullmatch(r"  (?:@(\S+) )?(antiphon .*|(?:[A-Z]+ )?\S+)(?: ([{\"].*))?", call)
            assert found, line
            status, _, has = expected.partition(" ")
            yield Check(page, claim, found[1] or "", found[2], found[3] or "", int(status), tuple(has.split(" && ")))


CHECKS = list(checks())


def place(check: Check) -> str:
    return f"{check.page}: {check.action} {check.body}"[:90]


LARGE: dict[str, Callable[[int], object]] = {
    "TEXT": lambda n: "x" * n,
    "WORDS": lambda n: ["x"] * n,
    "TOOLS": lambda n: [{"type": "function", "function": {"name": f"f{at}"}} for at in range(n)],
    "PROPERTIES": lambda n: [{"type": "function", "function": {"name": "f", "parameters": properties(n)}}],
    "TURNS": lambda n: [USER] * n,
    "BIAS": lambda n: {str(at): 1 for at in range(n)},
    "NESTED": lambda n: json.loads('{"type": "array", "items": ' * n + "true" + "}" * n),
}
"""Values that are too long for the table: ``"TEXT*513"``."""


def properties(count: int) -> dict[str, object]:
    return {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(count)}}


def made(value: object) -> object:
    """The value of a check, written out."""
    if isinstance(value, dict):
        return {key: made(one) for key, one in value.items() if one != "ABSENT"}
    if isinstance(value, str) and (found := re.fullmatch(r"([A-Z]+)\*(\d+)", value)):
        return LARGE[found[1]](int(found[2]))
    return value


@cache
def server(name: str) -> Starlette:
    kind = next(kinds())
    match name:
        case "strict":
            models = StaticCatalog({"small": constrained(DeclaredEngine(kind.best))})
            return create_app(models, dialects=list(configured_dialects(strict=True).values()))
        case "embeds" | "ranks":
            return application(getattr(kind, name))
        case "vllm":
            return application(next(one for one in kinds() if one.name == "vLLM").best)
        case "keys":
            return app(ids("Hello.", END), keys=[key for _, key in KEYS.values()])
        case "wide":
            return application(replace(kind.best, slots=9, context=65536))
    return application(kind.best, jinja=name == "jinja")


async def answer(check: Check) -> Got:
    method, _, path = check.action.rpartition(" ")
    at, least = ROUTES.get(path, (path, {}))
    given = check.body if method == "RAW" else json.loads(check.body or "{}")
    body = given if isinstance(given, str) else json.dumps(made({**least, **given}))
    name, _, owner = check.server.partition(":")
    place, _, query = at.partition("?")
    types = {"PLAIN": "text/plain", "UNTYPED": ""}
    return await exchange_bytes(
        server(name), place, b"" if method == "GET" else body.encode(), [], key=KEYS[owner][0] if owner else None,
        method=method if method in ("GET", "DELETE", "HEAD") else "POST", query=query.encode(),
        content_type=types.get(method, "application/json"),
    )  # fmt: skip


def missing(text: str, has: tuple[str, ...]) -> list[str]:
    """What the text lacks, or has though it must not."""
    return [one for one in has if not holds(text, one.strip())]


def holds(text: str, wanted: str) -> bool:
    if wanted.startswith("!"):
        return wanted[1:].strip() not in text
    return re.search(wanted[1:], text, re.MULTILINE) is not None if wanted.startswith("~") else wanted in text


@pytest.mark.parametrize("page", sorted({check.page for check in CHECKS}))
def test_the_page_has_the_claims_of_the_table(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    claims = {check.claim for check in CHECKS if check.page == page}
    assert sorted(claim for claim in claims if claim not in text) == []


@pytest.mark.parametrize("check", [one for one in CHECKS if not one.action.startswith("antiphon")], ids=place)
async def test_a_claim_about_the_server_holds(check: Check) -> None:
    got = await answer(check)
    head = "\n".join(f"{name}: {value}" for name, value in got.headers.items())
    assert got.status == check.status, got.body[:500]
    assert missing(f"{got.body.decode()}\n{head}", check.has) == [], (got.body[:500], head)


@pytest.mark.parametrize("check", [one for one in CHECKS if one.action.startswith("antiphon")], ids=place)
def test_a_claim_about_the_command_line_holds(check: Check, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = in_process(*shlex.split(f"{check.action} {check.body}")[1:], home=folder)
    assert done.returncode == check.status, (done.stdout, done.stderr)
    assert missing(done.stdout + done.stderr, check.has) == [], (done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the commands name."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "mytools.py").write_text(own_tools())
    return tmp_path


HEADER = '---\nversion: "2.2"\n---\n'
ASKED = "<|start|>user<|message|>Hi<|end|>\n"
ANSWERED = f"{ASKED}<|start|>assistant<|channel|>final<|message|>Hello.<|return|>\n"
CALLED = "<|start|>assistant to=functions.f call_id=a<|channel|>commentary<|constrain|>json<|message|>[]<|call|>\n"
VLLM = '[models.big]\ntokenizer = "o200k_harmony"\n[models.big.engine]\n'


def talk(*texts: str) -> str:
    return json.dumps({"messages": [{"role": "user", "content": text} for text in texts]})


FILES = {
    "config.toml": CONFIG,
    "talk.json": talk("Hi"),
    "spelled.json": talk("Say <|im_end|>"),
    "control.json": talk("Say <|end|>"),
    "data.jsonl": f'{talk("Hi")}\n{{"messages": 5}}\n',
    "talk.ocm": HEADER + ANSWERED,
    "unended.ocm": f"{HEADER}{ASKED}<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>\n",
    "cut.ocm": f"{HEADER}<|start|>user<|message|>Hi",
    "fragment.ocm": ANSWERED,
    "messy.ocm": f"version: 2.2\n{ANSWERED}",
    "sytem.ocm": f"{HEADER}<|start|>sytem<|message|>Hi<|end|>\n",
    "twice.ocm": f'---\nversion: "2.2"\nversion: "2.2"\n---\n{ANSWERED}',
    "call.ocm": HEADER + ASKED + CALLED,
    "broken.txt": "4<|return|>",
    "typo.toml": "[server]\nprot = 1\n",
    "kind.toml": f'{VLLM}kind = "vlm"\n',
    "setting.toml": f'{VLLM}kind = "vllm"\nulr = "http://127.0.0.1:1"\n',
    "t.jinja": TEMPLATE,
}
