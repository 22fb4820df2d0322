"""`make package`: the wheel and the sdist, built twice and byte by byte the same, and used as people use them.

In environments of their own, on every Python that is supported and here: without extras (each way in says which extra
it needs), with ``local`` by pip and by `uv tool install` (the default model is fetched and answers), from the sdist;
the types of all public names; and what every extra brings: a bill of materials, and its known vulnerabilities.
The packages stay in ``dist/``, the bill in ``release/``. Exit code 1, with what was run and what it printed, for the
first thing that fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
BILLS = ROOT / "release"
"""The packages, and what lies beside them on the page of a release: an index takes nothing but packages."""
VERSIONS = ("3.11", "3.12", "3.13")
TOOLS = ("build>=1.2", "twine>=6", "basedpyright>=1.31", "uv>=0.5", "pip-audit>=2.10", "cyclonedx-bom>=7")
QUESTION, ANSWER = "What is the capital of Japan?", "Tokyo"
CHAT = '{"messages": [{"role": "user", "content": "Hi"}]}'
NEEDS = {
    ("grammar", "--format", "harmony"): "local",
    ("chat", "--model", "smollm2", QUESTION): "local",
    ("pull", "hf:owner/model/file.gguf"): "hf",
    ("lsp",): "lsp",
    ("mcp", "serve"): "mcp",
    ("store", "check", "--store", "postgresql://127.0.0.1:1/nobody"): "postgres",
    ("chat", "--config", "{home}/grpc.toml", QUESTION): "grpc",
    ("serve", "--port", "0", "--config", "{home}/traces.toml"): "traces",
}
"""Commands without extras, and the extra that each says it needs."""
CONFIGURATIONS = {
    "grpc.toml": 'model = "far"\n[models.far]\ntokenizer = "o200k_harmony"\n'
    '[models.far.engine]\nkind = "grpc"\nurl = "grpc://127.0.0.1:1"\n',
    "traces.toml": 'model = "near"\n[models.near]\nengine = "scripted"\nformat = "chatml"\nreply = "Hi"\n'
    '[traces]\nendpoint = "http://127.0.0.1:1"\n',
}
"""Files that commands of `NEEDS` name."""
LIBRARY = ("app", "model", "opening", "options", "reply", "sync", "text")
PUBLIC = ("antiphon.conversation.", "antiphon.errors.", *(f"antiphon.library.{name}." for name in LIBRARY))
"""Where that which ``import antiphon`` offers is defined."""


class Failed(Exception):
    """Something that must hold does not."""


class Environment:
    """A virtual environment that has nothing but what is installed here."""

    def __init__(self, folder: Path, python: str) -> None:
        self._bin = folder / "bin"
        # Our own environment and settings must not be seen in it.
        self._environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANTIPHON", "PYTHON"))
        }
        ran([python, "-m", "venv", str(folder)], self._environ)

    def install(self, *requirements: str) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        self.run("python", "-m", "pip", "check")

    def run(self, program: str, *arguments: str, stdin: str = "", codes: Sequence[int] = (0,), **environ: str) -> str:
        """What the program prints. Raises `Failed` for another exit code than ``codes``."""
        return ran([str(self._bin / program), *arguments], self._environ | environ, stdin=stdin, codes=codes)


def ran(command: Sequence[str], environ: dict[str, str], *, stdin: str = "", codes: Sequence[int] = (0,)) -> str:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        env=environ,
        check=False,
        timeout=1800,
        cwd=tempfile.gettempdir(),
    )
    if done.returncode not in codes:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)
    print(f"  {what}", flush=True)


def interpreters() -> Iterator[tuple[str, str | None]]:
    """Each supported version, and a Python of it; None where none is here."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        found = [
            sys.executable,
            f"python{version}",
            *map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)),
        ]
        yield version, next((python for python in found if version_of(python) == version), None)


def version_of(python: str) -> str | None:
    """``3.12``, or None for what cannot be run: a launcher may stand for a version that is not installed."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def built(tools: Environment, folder: Path) -> list[Path]:
    """The sdist, and the wheel that is built from it, with the time of the last commit as the time of their files."""
    git = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or git.stdout.strip() or "315532800"
    tools.run("python", "-m", "build", "--quiet", "--outdir", str(folder), str(ROOT), SOURCE_DATE_EPOCH=epoch)
    return sorted(folder.iterdir())


def build(tools: Environment, work: Path) -> tuple[Path, Path]:
    """The wheel and the sdist in ``dist/``. Raises `Failed` where two builds differ."""
    first, second = built(tools, work / "first"), built(tools, work / "second")
    for one, other in zip(first, second, strict=True):
        require(one.read_bytes() == other.read_bytes(), f"{one.name} is the same byte by byte when it is built again")
    tools.run("twine", "check", "--strict", *map(str, first))
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(work / "first", DIST)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def check_plain(bare: Environment, wheel: Path, home: str) -> None:
    """Without extras: what needs none works, and the rest says which it needs."""
    bare.install(str(wheel))
    version = wheel.name.split("-")[1]
    for program in (("antiphon",), ("python", "-m", "antiphon")):
        require(bare.run(*program, "--version").strip() == f"antiphon {version}", f"{' '.join(program)} --version")
    bare.run("python", "-c", "import antiphon; antiphon.open_model, antiphon.open_app, antiphon.render")
    rendered = bare.run("antiphon", "render", "-", "--to", "harmony", stdin=CHAT, ANTIPHON_HOME=home)
    require("<|start|>user<|message|>Hi<|end|>" in rendered, "antiphon render writes a prompt")
    bare.run("antiphon", "pull", "smollm2", ANTIPHON_HOME=home)
    for name, text in CONFIGURATIONS.items():
        (Path(home) / name).write_text(text)
    for words, extra in NEEDS.items():
        command = [word.format(home=home) for word in words]
        said = bare.run("antiphon", *command, codes=(2, 3), ANTIPHON_HOME=home)
        named = f"pip install 'antiphon[{extra}]'" in said and "Traceback" not in said
        require(named, f"antiphon {' '.join(words)} says that it needs antiphon[{extra}]")


def check_local(local: Environment, wheel: Path, home: str) -> None:
    """With the extra ``local``: the default model answers."""
    local.install(f"antiphon[local] @ {wheel.as_uri()}")
    local.run("antiphon", "pull", "smollm2", ANTIPHON_HOME=home)
    answer = local.run("antiphon", "chat", QUESTION, ANTIPHON_HOME=home)
    require(ANSWER in answer, f"antiphon[local] answers {ANSWER}")


def check_uv(tools: Environment, wheel: Path, python: str, work: Path) -> None:
    """As a tool of uv, whose environments have no pip of their own: the default model is fetched and answers."""
    install = ("tool", "install", "--python", python, f"antiphon[local] @ {wheel.as_uri()}")
    tools.run("uv", *install, UV_TOOL_DIR=str(work / "tools"), UV_TOOL_BIN_DIR=str(work / "bin"))
    answer = tools.run(str(work / "bin" / "antiphon"), "chat", QUESTION, ANTIPHON_HOME=str(work / "home"))
    require(ANSWER in answer, f"uv tool install antiphon[local]: answers {ANSWER}")


def check_types(tools: Environment, installed: Path) -> None:
    """What a type checker of others sees of `import antiphon`: the type of every name is known, without guessing."""
    path = f"{installed / 'bin'}:{os.environ['PATH']}"  # where pyright looks for the Python that has the package
    options = ("--verifytypes", "antiphon", "--ignoreexternal", "--outputjson")
    report = json.loads(tools.run("basedpyright", *options, codes=(0, 1), PATH=path))
    public = [one for one in report["typeCompleteness"]["symbols"] if one["isExported"] and is_public(one["name"])]
    vague = [one["name"] for one in public if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    require(len(public) > len(PUBLIC) and not vague, f"{len(public)} public names, of unknown type: {vague or 'none'}")


def check_supply(tools: Environment, wheel: Path, work: Path) -> Path:
    """The bill of materials of the wheel with every extra (CycloneDX), none of which has a known vulnerability."""
    supplied = Environment(work / "supplied", sys.executable)
    with ZipFile(wheel) as files:
        metadata = next(name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        extras = Parser().parsestr(files.read(metadata).decode()).get_all("Provides-Extra", [])
    supplied.install(f"antiphon[{','.join(extra for extra in extras if extra != 'dev')}] @ {wheel.as_uri()}")
    python = str(work / "supplied" / "bin" / "python")
    BILLS.mkdir(exist_ok=True)
    bill = BILLS / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    tools.run("cyclonedx-py", "environment", "--output-reproducible", "--output-file", str(bill), python)
    contents = json.loads(bill.read_text())
    for component in contents["components"]:  # where the wheel lay while it was installed is nobody's concern
        component["externalReferences"] = [
            each for each in component.get("externalReferences", ()) if not each["url"].startswith("file:")
        ]
    bill.write_text(json.dumps(contents, indent=2) + "\n")
    named = {component["name"].lower() for component in contents["components"]}
    require({"antiphon", "msgspec", "starlette"} <= named, f"{bill.name} names {len(named)} packages")
    check_vulnerabilities(tools, supplied, work)
    return bill


def check_vulnerabilities(tools: Environment, supplied: Environment, work: Path) -> None:
    """That no package of the environment is in the advisories that can be read from here."""
    frozen = work / "supplied.txt"
    frozen.write_text(supplied.run("python", "-m", "pip", "freeze", "--exclude", "antiphon"))
    report = work / "audit.json"
    options = ("--no-deps", "--disable-pip", "--format", "json", "--output", str(report), "--requirement", str(frozen))
    tools.run("pip-audit", *options, codes=(0, 1))
    packages = json.loads(report.read_text())["dependencies"]
    audited = [package for package in packages if "vulns" in package]
    found = [f"{package['name']} {one['id']}" for package in audited for one in package["vulns"]]
    require(not found, f"{len(audited)} of {len(packages)} packages audited, known vulnerabilities: {found or 'none'}")
    if len(audited) < len(packages):
        print("  NOT audited: the rest, of which the advisory service could say nothing from here", flush=True)


def is_public(name: str) -> bool:
    """Whether ``import antiphon`` offers the name, or it is of a module where one of those is defined."""
    return name.count(".") == 1 or name.startswith(PUBLIC)


def main() -> int:
    absent = [version for version, python in interpreters() if python is None]
    with tempfile.TemporaryDirectory(prefix="antiphon-package-") as name:
        work = Path(name)
        home = str(work / "home")
        try:
            tools = Environment(work / "tools", sys.executable)
            tools.install(*TOOLS)
            wheel, sdist = build(tools, work)
            for version, python in interpreters():
                if python is None:
                    continue
                print(f"Python {version}", flush=True)
                check_plain(Environment(work / f"plain-{version}", python), wheel, home)
                check_local(Environment(work / f"local-{version}", python), wheel, home)
                check_uv(tools, wheel, python, work / f"uv-{version}")
            print("from the sdist", flush=True)
            Environment(work / "sdist", sys.executable).install(str(sdist))
            check_types(tools, work / "sdist")
            print("what every extra brings", flush=True)
            bill = check_supply(tools, wheel, work)
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 1
    for version in absent:
        print(f"Python {version} is not on this machine: not checked on it")
    print(", ".join(str(path.relative_to(ROOT)) for path in (wheel, sdist, bill)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
