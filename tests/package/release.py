"""`make release-check TAG=v0.2.0`: a release, rehearsed from the last commit; the tag may be left out.

Builds, checks and uses the packages in a clean clone, as `make package` does, and prints each file with its size and
its digest: the packages for the index, whose digests the workflow attests, and for the page of the release the notes
(from the changelog), the bill of materials and the digests. Exit code 1 with whatever is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from antiphon.version import __version__
from package.run import BILLS, DIST, ROOT

CHANGELOG = ROOT / "CHANGELOG.md"
WORKFLOW = ROOT / ".github" / "workflows" / "publish.yml"
UNRELEASED = "not on a package index yet"
"""How `docs/index.md` says that there is no release."""


def versions() -> dict[str, str]:
    """The version that each file has which names one."""
    readme = re.search(r"^antiphon (\S+) serves", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    named = [ROOT / folder / "package.json" for folder in ("editors/vscode", "js/openchatml")]
    return {
        "CITATION.cff": yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"],
        "README.md": readme[1] if readme else "none",
        **{str(path.relative_to(ROOT)): json.loads(path.read_text("utf-8"))["version"] for path in named},
    }


def section(changelog: str, version: str = __version__) -> tuple[str, str]:
    """What stands in brackets behind the version, and the notes below it; nothing where there is no such section."""
    found = re.search(rf"^## {re.escape(version)} \(([^)\n]*)\)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return (found[1], found[2].strip() + "\n") if found else ("", "")


def missing(tag: str, changelog: str) -> Iterator[str]:
    """What keeps the commit from being released under the tag; without one, under that of its version."""
    if tag and tag != f"v{__version__}":
        yield f"the tag is {tag!r}, and the version {__version__}"
    for name, version in versions().items():
        if version != __version__:
            yield f"{name} has the version {version}, and src/antiphon/version.py {__version__}"
    day, notes = section(changelog)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
        yield f"CHANGELOG.md has no section '## {__version__} (YYYY-MM-DD)'"
    if not notes.strip():
        yield f"CHANGELOG.md says nothing of {__version__}"
    if UNRELEASED in (ROOT / "docs" / "index.md").read_text("utf-8"):
        yield f"docs/index.md says that the package is {UNRELEASED}"
    publish = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["publish"]
    steps = [step for step in publish["steps"] if step.get("uses", "").startswith("pypa/gh-action-pypi-publish@")]
    if publish["permissions"].get("id-token") != "write" or [step.get("with", {}) for step in steps] != [{}]:
        yield "the workflow does not publish with an identity, by which the index has attestations"


def rehearse() -> None:
    """Fills ``dist`` from a clone of the last commit. Raises `SystemExit` where a check of the packages fails."""
    with tempfile.TemporaryDirectory(prefix="antiphon-release-") as name:
        clone = Path(name) / "antiphon"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environ = os.environ | {"PYTHONPATH": os.pathsep.join((str(clone / "src"), str(clone / "tests")))}
        for program in ("tests/docs/build_site.py", "tests/package/run.py"):
            done = subprocess.run([sys.executable, program], cwd=clone, env=environ, check=False)
            if done.returncode:
                raise SystemExit(done.returncode)
        for folder in (DIST, BILLS):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(clone / folder.relative_to(ROOT), folder)


def lines(folder: Path) -> Iterator[str]:
    """Each file with its size in bytes, as people read it, and its digest."""
    for path in sorted(folder.iterdir()):
        yield f"{path.stat().st_size:>12,}  {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"


def main(tag: str) -> int:
    changelog = CHANGELOG.read_text("utf-8")
    rehearse()
    (BILLS / "notes.md").write_text(section(changelog)[1], "utf-8")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir())]
    (BILLS / "SHA256SUMS").write_text("".join(sums))
    print("For the index (bytes, sha256, name); the workflow's identity attests each of these digests:")
    print("\n".join(lines(DIST)))
    print("For the page of the release:")
    print("\n".join(lines(BILLS)))
    reasons = list(missing(tag, changelog))
    print("\n".join(f"missing: {reason}" for reason in reasons) or f"{__version__} can be released.")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
