"""The code in the pages runs, and so do the examples."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import ollama
import openai
import pytest

import antiphon
from docs.blocks import ADDRESS, PAGES, ROOT, Block, blocks, wrong
from kit.datasets import called, jsonl
from kit.program import in_process

GUIDE = sorted((ROOT / "docs" / "internals").glob("*.md"))
PACKED = ("--format", "harmony", "--to", "parquet", "--length", "1000")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A page whose code asks the server at its usual address finds one there; its ``client`` is closed in the end."""
    monkeypatch.setenv("ANTIPHON_CONFIG", str(home / "config.toml"))
    monkeypatch.chdir(tmp_path)
    put_files(page, tmp_path, request)
    names: dict[str, object] = {"__name__": "docs"}
    found = list(blocks(page, "python"))
    address = request.getfixturevalue("server") if any(one.asks_the_server and one.runs for one in found) else ADDRESS
    for block in found:
        source = "\n" * (block.line - 1) + block.code.replace(ADDRESS, address)
        code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if not block.runs:
            continue
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, names))
        else:
            exec(code, names)
        if "print(" in block.code:
            printed = capsys.readouterr().out
            assert wrong(block.code, printed) == [], printed
    if isinstance(client := names.get("client"), openai.OpenAI | ollama.Client):
        client.close()


def put_files(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    """The files that the page's code reads."""
    code = "".join(block.code for block in blocks(page, "python") if block.runs)
    if '"model.gguf"' in code:
        (folder / "model.gguf").symlink_to(request.getfixturevalue("smollm2_path"))
    if '"batches/part-00000.parquet"' in code:
        (folder / "chats.jsonl").write_bytes(jsonl([called()] * 20))
        in_process("dataset", "pack", "chats.jsonl", "-o", "batches", *PACKED, home=folder)
    if '"in.jsonl"' in code:
        (folder / "in.jsonl").write_text(next(blocks(page, "json")).code)


NOT_RUN_HERE = [block for page in PAGES for block in blocks(page, "python") if not block.runs]


@pytest.mark.parametrize("block", NOT_RUN_HERE, ids=lambda block: f"{block.page.name}:{block.line}")
def test_the_calls_of_a_block_that_cannot_run_fit_their_signatures(block: Block) -> None:
    """It is imported, and each call of what it imports takes these arguments."""
    tree = ast.parse(block.code)
    names: dict[str, object] = {"antiphon": antiphon}
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            exec(compile(ast.Module([statement], []), str(block.page), "exec"), names)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        try:
            function = eval(compile(ast.Expression(call.func), str(block.page), "eval"), names)
        except NameError:
            continue  # what the block itself has made
        if inspect.isroutine(function) and not inspect.isbuiltin(function):
            inspect.signature(function).bind(*call.args, **{word.arg: word.value for word in call.keywords if word.arg})


def test_a_program_whose_import_cannot_be_changed_gets_ours(tmp_path: Path) -> None:
    (shown,) = (block.code for block in NOT_RUN_HERE if block.page.name == "coming-from-openai-harmony.md")
    (tmp_path / "openai_harmony.py").write_text(shown)
    code = "import openai_harmony as h; print(h.load_harmony_encoding('HarmonyGptOss').name, h.__name__)"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, timeout=120)
    assert (done.stdout, done.stderr) == ("HarmonyGptOss antiphon.compat.oss_harmony\n", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([\w./-]+?)(?:#[\w-]+)?\)", re.sub(r"`[^`\n]*`", "", page.read_text("utf-8")))
    assert [target for target in targets if not (page.parent / target).exists()] == []


INSTALLING = [
    page for page in PAGES if re.search(r"^pip install|pip install 'antiphon.local", page.read_text("utf-8"), re.M)
]


@pytest.mark.parametrize("page", INSTALLING, ids=lambda page: page.name)
def test_a_page_that_begins_with_pip_leads_to_how_one_installs_from_a_clone(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "(index.md#install)" in text or "\n## Install\n" in text


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.name)
def test_the_files_that_the_guide_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.\w+)`", page.read_text("utf-8"))
    roots = (ROOT, ROOT / "src" / "antiphon")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(
    example: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTIPHON_CONFIG", str(home / "config.toml"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    printed = capfd.readouterr()
    assert printed.out
    assert printed.err == ""
