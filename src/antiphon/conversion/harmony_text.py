"""Harmony as text: what is wrong with it, and its canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from antiphon.conversation import Incident, Message
from antiphon.errors import Position, RenderError
from antiphon.errors.codes import CODES
from antiphon.errors.place import Place
from antiphon.formats.openchatml.finding import Finding

from .harmony import HARMONY, HarmonySource, HarmonyTarget, text_pieces


def harmony_findings(chunks: Iterable[bytes]) -> Iterator[Finding]:
    """Everything in a text that a lenient reader of Harmony would have to repair, in its order."""
    pieces, place, parser = text_pieces(), Place(), HARMONY.parser(reply_as=None)
    for chunk, last in _with_last(chunks):
        for piece in pieces(chunk, last):
            at = place.position()
            place.pass_over(str(piece))
            yield from (_finding(event, at) for event in parser.feed((piece,)) if isinstance(event, Incident))
    yield from (_finding(event, place.position()) for event in parser.close() if isinstance(event, Incident))


def _with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    for chunk in chunks:
        yield chunk, False
    yield b"", True


def _finding(incident: Incident, at: Position) -> Finding:
    row = CODES.get(incident.code)
    return Finding(incident.code, row.meaning.rstrip(".") if row else incident.code, at, text=incident.text)


def format_harmony(text: bytes) -> str:
    """A conversation in Harmony as our renderer writes it, and a line break.

    Raises `ParseError` for a text that has to be repaired.
    """
    source, target = HarmonySource(text_pieces(), lenient=False, place=Place()), HarmonyTarget()
    messages = [*source.feed(text), *source.close()]
    parts = [target.open(source.about)[0]]
    for message in messages:
        parts += target.write(replace(message, header=()))
    formatted = "".join(part.text for part in (*parts, *target.close(source.about))) + "\n"
    if _messages(formatted) != messages:
        raise RenderError("the canonical form of this conversation does not read as the same messages")
    return formatted


def _messages(text: str) -> list[Message]:
    source = HarmonySource(text_pieces(), lenient=True)
    return [*source.feed(text.encode("utf-8", "surrogateescape")), *source.close()]
