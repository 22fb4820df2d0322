"""The documentation as a site, in ``site/``: ``make docs``. Needs no network, and asks for none when it is read.

The pages of ``docs/`` are plain Markdown, as a code host shows it; those of reference are printed from the code. They
are staged (blocks that differ by client become tabs), built by zensical, which fails for a warning, and finished:
scripts leave the pages, so that a strict Content-Security-Policy serves them; each page has its Markdown beside it;
``llms.txt`` lists them. Then every link of every built page is followed, and nothing may be fetched from elsewhere.
The whole is packed into ``src/antiphon/playground/pages.zip``, from where `antiphon serve` has it under ``/docs``.
Exit code 1, with what was found, for anything that is not so.

Zensical and not Sphinx with furo: it builds Markdown as it is (Sphinx needs MyST's, which a code host shows otherwise),
all pages in three seconds, with a search that needs no server.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from os.path import normpath, relpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent))

from docs.printed import completed
from docs.reference import PAGES as REFERENCE

ROOT = Path(__file__).parents[2]
DOCS, WORK, SITE = ROOT / "docs", ROOT / ".docs", ROOT / "site"
CONFIGURATION = ROOT / "zensical.toml"
PACKED = ROOT / "src" / "antiphon" / "playground" / "pages.zip"
ADDED = tuple(Path(__file__).with_name(name) for name in ("site.css", "site.js"))
"""What the pages have beside the theme's own style and scripts."""
SCRIPT = re.compile(r"<script>(.+?)</script>", re.DOTALL)
ALIGNED = re.compile(r'(<t[hd])( style="text-align: (\w+);?")')
EMPTY_HEAD = re.compile(r"<th([^>]*)></th>")
LINE_ANCHOR = re.compile(r'<a id="__codelineno-[^>]*></a>')
TAB = re.compile(r"\*\*(.+?)\*\*\n\n(```.*?^```\n)", re.MULTILINE | re.DOTALL)
TABS = re.compile(r"<!-- tabs -->\n\n(.*?)\n*<!-- end of tabs -->\n", re.DOTALL)
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""What a browser fetches by itself, and the attribute that says from where. (A link may be ``canonical`` only.)"""
Nav = list["str | dict[str, Nav]"]
BLURB = 240
"""Of what a list says of a page, in characters; its first sentence may be longer."""
EPOCH = (1980, 1, 1, 0, 0, 0)


def built(work: Path) -> Path:
    """The finished site, in ``work/site``; ``work`` is made anew. Raises `SystemExit` for a warning of zensical's."""
    stage(work)
    build(work)
    finish(work / "site", work / "pages")
    return work / "site"


def stage(work: Path) -> None:
    """The configuration, the pages and those of reference, the files beside them, and what is added to the theme.

    The pages as they are read by programs are in ``work/pages``.
    """
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(DOCS, work / "pages")
    for name, printed in REFERENCE.items():
        (work / "pages" / name).write_text(printed(), "utf-8")
    for page in (work / "pages").rglob("*.md"):
        page.write_text(completed(page.read_text("utf-8")), "utf-8")
    shutil.copytree(work / "pages", work / "docs")
    shutil.copy(CONFIGURATION, work)
    for added in ADDED:
        shutil.copy(added, work / "docs")
    for page in (work / "docs").rglob("*.md"):
        page.write_text(TABS.sub(lambda found: tabs(found[1]), page.read_text("utf-8")), "utf-8")


def tabs(blocks: str) -> str:
    """``**curl**`` and its block, ``**Python**`` and its block, as the tabs of pymdownx."""
    return "\n".join(
        f'=== "{name}"\n\n' + "".join(f"    {line}\n" if line else "\n" for line in block.splitlines())
        for name, block in TAB.findall(blocks)
    )


def build(work: Path) -> None:
    zensical = str(Path(sys.executable).with_name("zensical"))
    command = [zensical, "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode or "No issues found" not in said:
        raise SystemExit(said)


def finish(site: Path, written: Path) -> None:
    """No script is left in a page, nor a link or a head without a word; each page has its Markdown beside it."""
    for page in pages(site):
        text = SCRIPT.sub(partial(moved, page, site), page.read_text("utf-8"))
        text = ALIGNED.sub(r'\1 class="aligned-\3"', LINE_ANCHOR.sub("", text))
        page.write_text(EMPTY_HEAD.sub(r"<td\1></td>", text), "utf-8")
    shutil.rmtree(site / "assets/stylesheets/classic")
    shutil.copytree(written, site, dirs_exist_ok=True)
    (site / "llms.txt").write_text(llms(written), "utf-8")


def moved(page: Path, site: Path, found: re.Match[str]) -> str:
    """A script of a page as a file: it runs where it stood."""
    file = site / f"assets/javascripts/inline-{hashlib.sha256(found[1].encode()).hexdigest()[:12]}.js"
    file.write_text(found[1], "utf-8")
    return f'<script src="{relpath(file, page.parent)}"></script>'


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def named(page: Path, root: Path) -> str:
    return page.relative_to(root).as_posix()


def sections() -> Iterator[tuple[str, list[str]]]:
    """The navigation: (section, its pages)."""
    for section in tomllib.loads(CONFIGURATION.read_text("utf-8"))["project"]["nav"]:
        for name, entries in section.items():
            yield name, list(flat(entries))


def flat(entries: Nav) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from flat(inner)


def llms(written: Path) -> str:
    """The list of pages for programs that read Markdown, as llmstxt.org has it."""
    lines = ["# Antiphon", "", f"> {paragraph(written / 'index.md')}"]
    for section, names in sections():
        lines += ["", f"## {section}", ""]
        titles = {name: (written / name).read_text("utf-8").partition("\n")[0].removeprefix("# ") for name in names}
        lines += [f"- [{title}]({name}): {blurb(written / name)}" for name, title in titles.items()]
    return "\n".join(lines) + "\n"


def paragraph(page: Path) -> str:
    """The page's first paragraph of prose, in one line."""
    text = re.sub(r"<!--.*?-->|^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    blocks = [block.strip() for block in text.split("\n\n")[1:]]
    return " ".join(next(block for block in blocks if block and block[0] not in "|#!<-*").split())


def blurb(page: Path) -> str:
    """What a list says of a page: the first sentences of its first paragraph, as many as there is place for."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", paragraph(page))
    first, *others = re.split(r"(?<=[.!?]) (?=[A-Z`])", plain)
    for sentence in others:
        if len(first) + len(sentence) >= BLURB:
            break
        first += f" {sentence}"
    return first.removesuffix(":")


class Document(HTMLParser):
    """The places of a page, where its links lead, and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        self.fetched += [given[FETCHED[tag]]] if tag in FETCHED and FETCHED[tag] in given else []
        self.inline += [f"{tag} {name}" for name in given if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in given and given.get("type") != "application/json"):
            self.inline.append(tag)


def faults(site: Path) -> Iterator[str]:
    """What is wrong with the built pages."""
    documents = {named(page, site): Document(page.read_text("utf-8")) for page in pages(site)}
    for name, document in documents.items():
        yield from (f"{name}: fetches {url}" for url in document.fetched if urlsplit(url).netloc)
        yield from (f"{name}: inline {what}" for what in document.inline)
        links = document.links if name != "404.html" else []  # it is shown anywhere: its links begin at the site's root
        yield from (f"{name}: {link} leads nowhere" for link in links if not leads(link, name, documents, site))
    for style in site.rglob("*.css"):
        yield from (f"{style.name}: fetches {url}" for url in re.findall(r"url\(.?(https?:[^)]*)", style.read_text()))


def unlisted() -> list[str]:
    """The pages that are not in the navigation, or more than once."""
    listed = [name for _, names in sections() for name in names]
    every = {*REFERENCE, *(named(page, DOCS) for page in DOCS.rglob("*.md"))}
    return [name for name in sorted(every) if listed.count(name) != 1]


def leads(link: str, page: str, documents: dict[str, Document], site: Path) -> bool:
    """Whether a link of that page leads to a file of the site, and its fragment to a place there."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = normpath(Path(page).parent / unquote(parts.path)) if parts.path else page
    target = "index.html" if target == "." else target
    if target not in documents:
        return (site / target).is_file()
    return not parts.fragment or unquote(parts.fragment) in documents[target].ids


def pack(site: Path, packed: Path) -> None:
    """Every file but the sitemap, in one archive that is the same byte by byte each time."""
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(path for path in site.rglob("*") if path.is_file() and path.name != "sitemap.xml"):
            name = zipfile.ZipInfo(file.relative_to(site).as_posix(), EPOCH)
            archive.writestr(name, file.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def main() -> int:
    site = built(WORK)
    found = [f"{name}: not once in the navigation" for name in unlisted()] + list(faults(site))
    if found:
        print("\n".join(found), file=sys.stderr)
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(site, SITE)
    pack(site, PACKED)
    size = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    print(
        f"site/index.html: {len(pages(SITE))} pages, {size / 1e6:.1f} MB; packed {PACKED.stat().st_size / 1e6:.2f} MB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
