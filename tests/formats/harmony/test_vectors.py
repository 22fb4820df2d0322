"""The reference's vectors, of both dialects."""

from __future__ import annotations

import pytest

from antiphon.conversation import Role
from antiphon.errors import AntiphonError, ParseError
from antiphon.formats.harmony import Harmony, HarmonyParser, ReferenceParser, read_message
from antiphon.formats.harmony.controls import END, MESSAGE, START
from antiphon.tokens import Control, Tokenizer, encode_pieces, spell
from kit.harmony_corpora import DIALECTS, Dialect, codes, ended, events, read_strictly, render, role_of, rows

BOTH = pytest.mark.parametrize("dialect", ["a", "b"])


@pytest.mark.corpus
@pytest.mark.spec("HAR-19", "HAR-20", "HAR-25", "HAR-36", "HAR-56")
@BOTH
def test_a_conversation_renders_token_for_token_as_the_reference_renders_it(dialect: Dialect, o200k: Tokenizer) -> None:
    harmony = Harmony(dialect=dialect)
    for row in rows(f"harmony_corpus{DIALECTS[dialect]}"):
        if "error" in row:
            with pytest.raises(AntiphonError):
                list(render(harmony, row))
            continue
        pieces = list(render(harmony, row))
        assert spell(pieces) == row["text"], row["name"]
        assert encode_pieces(pieces, o200k) == row["tokens"], row["name"]


@pytest.mark.corpus
@BOTH
def test_one_message_renders_as_the_reference_renders_it(dialect: Dialect, o200k: Tokenizer) -> None:
    for row in rows(f"harmony_corpus_render_message{DIALECTS[dialect]}"):
        offered = row["options"]["conversation_has_function_tools"]
        pieces = Harmony(dialect=dialect).messages.frame(read_message(row["message"]), functions_offered=offered)
        assert encode_pieces(pieces, o200k) == row["tokens"], row["name"]


@pytest.mark.corpus
@pytest.mark.spec("HAR-43", "HAR-86", "HAR-94")
@BOTH
def test_strict_parsing_gives_the_messages_of_the_reference_or_its_error(dialect: Dialect, o200k: Tokenizer) -> None:
    found: set[str] = set()
    for row in rows(f"harmony_parse_corpus{DIALECTS[dialect]}"):
        read = read_strictly(row, o200k, dialect)
        if isinstance(read, ParseError):
            assert read.message == row["error"]["message"], row["name"]
            found.add(read.code)
        else:
            assert read == row["messages"], row["name"]
    assert found == {
        "empty_channel", "header_leftover", "undecodable_header", "unexpected_eos", "unexpected_token", "unknown_role",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("role", "strict", "pieces", "code"),
    [
        (None, True, [START, MESSAGE], "missing_role"),
        (Role.ASSISTANT, False, [b"\xff", END], "undecodable_header"),
    ],
)
def test_a_header_that_says_nothing_is_refused(
    role: Role | None, strict: bool, pieces: list[bytes | Control], code: str
) -> None:
    reader = ReferenceParser(lambda _: b"", role, strict)
    reader.step(0, pieces[0])
    with pytest.raises(ParseError) as refused:
        reader.step(0, pieces[1])
    assert refused.value.code == code


@pytest.mark.corpus
@pytest.mark.spec("HAR-22", "HAR-23")
def test_every_property_after_every_token_is_that_of_the_reference(o200k: Tokenizer) -> None:
    for row in rows("harmony_stream_corpus"):
        reader = ReferenceParser(o200k.piece, role_of(row), row["strict"])
        for step in row["trace"]:
            if "error" in step:
                with pytest.raises(AntiphonError) as raised:
                    reader.process(step["token"])
                assert raised.value.message == step["error"]["message"]
                break
            reader.process(step["token"])
            envelope = reader.envelope
            assert step == {
                "token": step["token"],
                "state": reader.state,
                "role": envelope.role if envelope else reader.role,
                "channel": envelope and envelope.channel,
                "recipient": envelope and envelope.recipient,
                "content_type": envelope and envelope.content_type,
                "delta": reader.delta,
                "content": reader.content,
                "n_messages": len(reader.messages),
            }, row["name"]


ARGUED = {"m_constrain_sentence": {"empty-call"}}
"""Incidents that we report beyond those suggested: docs/harmony.md says why."""


@pytest.mark.corpus
@pytest.mark.spec("HAR-17", "HAR-84")
def test_malformed_streams_are_read_as_suggested(o200k: Tokenizer) -> None:
    for row in rows("harmony_lenient_suggested"):
        offered = ("python",) if "recipient-inferred" in row["events"] else ()
        spelled = "textual-specials" in row["events"]
        parser = Harmony().parser(reply_as=role_of(row), tools=offered, spelled=spelled)
        parsed = events(parser, row["tokens"], o200k)
        fields = ("role", "channel", "recipient", "content_type")
        read = [{**{key: getattr(m, key) for key in fields}, "content": m.text} for m in ended(parsed)]
        suggested = [{key: m.get(key) for key in (*fields, "content")} for m in row["suggested"]]
        assert read == suggested, row["name"]
        assert set(codes(parsed)) - ARGUED.get(row["name"], set()) == set(row["events"]), row["name"]


@pytest.mark.corpus
def test_the_default_parser_reads_every_stream_that_the_reference_reads_and_that_is_well_formed(
    o200k: Tokenizer,
) -> None:
    compared = 0
    for row in rows("harmony_parse_corpus"):
        if (
            row.get("error")
            or not row["strict"]
            or row["name"].startswith(("m_", "b_", "unknown", "mistyped", "stop_"))
        ):
            continue
        parsed = events(HarmonyParser(role_of(row)), row["tokens"], o200k)
        assert codes(parsed) == [], row["name"]
        assert [(m.role, m.name, m.channel, m.recipient, m.text) for m in ended(parsed)] == [
            (m["role"], m.get("name"), m.get("channel"), m.get("recipient"), m["content"]) for m in row["messages"]
        ], row["name"]
        compared += 1
    assert compared
