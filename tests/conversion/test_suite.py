"""Every valid transcript of the conformance suite, to every form and back."""

from __future__ import annotations

from functools import cache

import pytest

from antiphon.cli.conformance import load, shipped
from antiphon.conversion import Conversion, SidecarWriter, read_sidecar
from antiphon.errors import ParseError, RenderError
from antiphon.formats.openchatml import read

FORMS = ("harmony", "harmony-ids", "harmony-json", "chat", "responses")


@cache
def valid_transcripts() -> dict[str, bytes]:
    return {case.id: case.input for case in load(shipped()) if is_valid(case.input)}


def some_for(form: str) -> dict[str, bytes]:
    """A third of them, so that each goes to one form or two."""
    return dict([*valid_transcripts().items()][FORMS.index(form) % 3 :: 3])


def is_valid(transcript: bytes) -> bool:
    try:
        read(transcript)
    except ParseError:
        return False
    return True


def there_and_back(transcript: bytes, form: str, *, beside: bool) -> tuple[bytes | None, int]:
    """What comes back, and how much the way there loses; None where the form cannot say it."""
    there = Conversion(to=form, source="openchatml", sidecar_writer=SidecarWriter() if beside else None)
    try:
        output = b"".join(there.run([transcript]))
    except RenderError as error:
        if error.code != "spelled_control":
            raise
        return None, 0
    sidecar = there.sidecar()
    back = Conversion(to="openchatml", source=form, input_sidecar=read_sidecar(sidecar.encode()) if sidecar else None)
    try:
        return b"".join(back.run([output])), there.losses
    except RenderError as error:
        if beside or error.code != "E-CALL-SCHEMA":  # Without its id an answer may be of no call that there is.
            raise
        return None, 0


@pytest.mark.parametrize("form", FORMS)
def test_with_a_sidecar_each_of_them_comes_back_byte_for_byte(form: str) -> None:
    assert len(some_for(form)) > 25
    for name, transcript in some_for(form).items():
        back, _ = there_and_back(transcript, form, beside=True)
        assert back in (None, transcript), name
        assert back is not None or form == "harmony"


@pytest.mark.parametrize("form", FORMS)
def test_without_one_each_comes_back_valid_and_with_no_message_that_nobody_wrote(form: str) -> None:
    for name, transcript in some_for(form).items():
        back, losses = there_and_back(transcript, form, beside=False)
        if back is not None:
            assert len(read(back).messages) <= len(read(transcript).messages) or losses, name
