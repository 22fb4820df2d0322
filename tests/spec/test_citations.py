"""Every id that the repository cites can be looked up in it, and no decision is left that nothing cites."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spec.citations import PAGE, ROOT, cited_in, dead_citations, defined, uncited

DASH = "-"
"""The ids below are put together from parts, or this file would cite them."""
ENTRY = '### <a id="x-18"></a>X-18: which?\nThis.\n'


def test_no_citation_is_dead() -> None:
    assert [str(citation) for citation in dead_citations()] == []


def test_every_decision_is_cited_somewhere() -> None:
    assert uncited() == []


def test_every_decision_has_its_anchor_a_title_and_an_answer() -> None:
    entries = re.findall(r"^### (.*)\n(.*)", (ROOT / PAGE).read_text("utf-8"), re.MULTILINE)
    assert len(entries) > 100
    for heading, answer in entries:
        assert (found := re.fullmatch(r'<a id="(.+)"></a>(.+): \S.+', heading)), heading
        assert (found[1], bool(answer)) == (found[2].lower(), True), heading


def test_the_anchors_of_the_page_lead_somewhere() -> None:
    page = (ROOT / PAGE).read_text("utf-8")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", page)) <= anchors | set(re.findall(r'<a id="(.+?)">', page))


def repository(folder: Path, line: str, decisions: str = f"{ENTRY}\n* §9: streams\n") -> Path:
    (folder / PAGE).parent.mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / PAGE).write_text(decisions, "utf-8")
    (folder / "src" / "module.py").write_text(f'"""First."""\n# {line}\n', "utf-8")
    return folder


@pytest.mark.parametrize(
    "id", [f"X{DASH}99", f"Q{DASH}1", f"A{DASH}O77", f"A{DASH}Z01", f"HAR{DASH}1", f"OCM{DASH}171", f"HIP-1.{9}"]
)
@pytest.mark.parametrize("form", ["resolution {}", "({})", "Resolutions X-18, {}: so.", "{}.", "X-18; {}, HAR-02"])
def test_an_id_that_is_defined_nowhere_is_found_in_whatever_form_it_is_cited(
    form: str, id: str, tmp_path: Path
) -> None:
    found = dead_citations(repository(tmp_path, form.format(id)))
    assert [str(citation) for citation in found] == [f"src/module.py:2: {id}"]


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (f"X{DASH}17 … X{DASH}20", [f"X{DASH}17", f"X{DASH}19", f"X{DASH}20"]),
        (f"§{12}", [f"§{12}"]),
        (f"reference {'§'}9", [f"reference {'§'}"]),
        (f"peers' mistake {8}", [f"mistake {8}"]),
        (f"security cases {82}-84", [f"security cases {8}"]),
        (f"notes.md {'§'}9", [f"notes.md {'§'}"]),
        (f"resolution X{18}", [f"X{18}"]),
    ],
)
def test_ranges_sections_and_vague_places_are_found_too(line: str, ids: list[str], tmp_path: Path) -> None:
    assert [citation.id for citation in dead_citations(repository(tmp_path, line))] == ids


@pytest.mark.parametrize(
    "line",
    ["X-18, §9.2, HAR-02 … HAR-04", "UTF-8, SHA-256, F16, gpt-4, 2025-08-08, X-Request-Id, all-MiniLM-L6-v2",
     "RFC 9110 §15", "# noqa: S603", "x-18", "P-256 and ES-256"],
)  # fmt: skip
def test_what_is_defined_or_no_id_at_all_is_alive(line: str, tmp_path: Path) -> None:
    assert dead_citations(repository(tmp_path, line)) == []


def test_a_decision_that_nothing_cites_is_found_and_a_section_may_stand_alone(tmp_path: Path) -> None:
    root = repository(tmp_path, "nothing", f"{ENTRY} See [A](#x-18) X-18.\n\n* §9: streams\n")
    assert uncited(root) == ["X-18"]


def test_two_entries_for_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="X-18"):
        defined(repository(tmp_path, "", ENTRY * 2))


def test_a_range_that_runs_backwards_or_between_families_is_given_as_it_stands() -> None:
    assert list(cited_in(f"X{DASH}20 … X{DASH}18")) == [f"X{DASH}20 … X{DASH}18"]
    assert list(cited_in(f"X{DASH}18 … D{DASH}20")) == [f"X{DASH}18 … D{DASH}20"]
