"""The default reader: never raises, keeps all text, lets no control into a field, and does not mind how it is fed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import (
    Conversation,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Role,
    TextDelta,
)
from antiphon.errors import ParseError
from antiphon.formats.harmony import Harmony, HarmonyParser, StreamParser, TokenDeltas, parse_completion
from antiphon.formats.harmony.controls import CALL, CONTROLS, RETURN, START
from antiphon.formats.harmony.header import LIMIT
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, Piece, PieceDecoder, Tokenizer, encode_pieces
from kit.harmony_corpora import codes, ended, events

ODD = (Control("<|endoftext|>"), Control("<|reserved_200013|>"))
BYTES = ByteTokenizer((*CONTROLS, *ODD))
WORDS = [
    *(
        "assistant",
        "user",
        "tool",
        "functions.f",
        " to=functions.f",
        "commentary",
        "analysis",
        "final",
        "finals",
        "bash",
    ),
    *(
        " json",
        "code",
        "to=",
        "to:x",
        "x",
        " y ",
        "\n",
        "天気",
        '{"a":1}',
        "assistantfinal",
        "??",
        "<|end|>",
        "é",
        "to=a.",
    ),
    "word " * 60,
]
pieces = st.one_of(st.sampled_from((*CONTROLS, *ODD)), st.sampled_from(WORDS), st.text(max_size=4))
streams = st.lists(pieces, max_size=14)
well_formed = st.sampled_from(
    [
        [
            "<|channel|>",
            "analysis",
            "<|message|>",
            "think",
            "<|end|>",
            "<|start|>",
            "assistant",
            "<|channel|>",
            "final",
        ],
        ["<|message|>", "yes", "<|return|>"],
        ["<|channel|>", "commentary to=functions.f ", "<|constrain|>", "json", "<|message|>", '{"a":1}', "<|call|>"],
        [" to=functions.f", "<|channel|>", "commentary", " json", "<|message|>", "{}", "<|call|>"],
        ["<|start|>", "functions.f to=assistant", "<|channel|>", "commentary", "<|message|>", "r", "<|end|>"],
    ]
)
SPELLED = {control.spelling: control for control in CONTROLS}


@st.composite
def mutated(draw: st.DrawFn) -> list[Piece]:
    """Well-formed frames, some pieces of which were lost, doubled, or replaced."""
    frames = draw(st.lists(well_formed, min_size=1, max_size=3))
    stream: list[Piece] = [SPELLED.get(piece, piece) for frame in frames for piece in frame]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(stream) - 1)) if stream else 0
        stream[at : at + draw(st.integers(0, 2))] = draw(st.lists(pieces, max_size=2))
    return stream


anything = st.one_of(streams, mutated())
replies = st.sampled_from([Role.ASSISTANT, Role.ASSISTANT, None, Role.USER])


def read(stream: Sequence[Piece], role: Role | None = Role.ASSISTANT) -> list[ParserEvent]:
    parser = HarmonyParser(role)
    return [*parser.feed(stream), *parser.close()]


@settings(max_examples=112)
@given(anything, replies)
def test_no_text_is_lost(stream: list[Piece], role: Role | None) -> None:
    got = read(stream, role)
    reported = "".join(_texts(got))
    for piece in stream:
        if not isinstance(piece, Control):
            for word in piece.split():
                assert all(character in reported for character in word), (word, got)


def _texts(got: list[ParserEvent]) -> list[str]:
    texts: list[str] = []
    for event in got:
        match event:
            case MessageEnded(m):
                texts += [m.text, m.role, m.name or "", m.recipient or "", m.channel or "", m.content_type or "", "to="]
            case Incident(_, _, text):
                texts.append(text)
            case _:
                pass
    return texts


@settings(max_examples=200)
@given(st.lists(st.one_of(st.sampled_from((*CONTROLS, *ODD)), st.integers(0, 25)), max_size=14), replies)
def test_each_generated_word_is_found_again(stream: list[Control | int], role: Role | None) -> None:
    """Words that are no field of a header, each at most once: every one is in a message or in an incident."""
    words = [item if isinstance(item, Control) else f" w{item}x{i} " for i, item in enumerate(stream)]
    reported = " ".join(_texts(read(words, role)))
    assert all(word.strip() in reported for word in words if isinstance(word, str))


@settings(max_examples=56)
@given(anything, replies)
def test_no_control_reaches_a_field(stream: list[Piece], role: Role | None) -> None:
    typed = "".join(piece for piece in stream if isinstance(piece, str))
    for message in ended(read(stream, role)):
        fields = (message.text, message.name, message.recipient, message.channel, message.content_type)
        for control in (*CONTROLS, *ODD):
            assert control.spelling in typed or not any(control.spelling in field for field in fields if field)


@settings(max_examples=56)
@given(anything, st.data())
def test_cutting_the_reply_anywhere_gives_the_same_messages(stream: list[Piece], data: st.DataObject) -> None:
    ids = [id for piece in stream for id in _ids(piece)]
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=8))
    whole = events(HarmonyParser(), ids, BYTES)
    assert ended(events(HarmonyParser(), ids, BYTES, cuts)) == ended(whole)
    assert ended(events(HarmonyParser(), ids, BYTES, range(1, len(ids)))) == ended(whole)


def _ids(piece: Piece) -> list[int]:
    return [BYTES.controls[piece]] if isinstance(piece, Control) else BYTES.encode(piece)


@settings(max_examples=56)
@given(anything)
def test_the_deltas_of_a_message_are_its_text(stream: list[Piece]) -> None:
    got, text, header = read(stream), "", None
    for event in got:
        match event:
            case MessageStarted(message):
                assert header is None
                header, text = message, ""
            case TextDelta(more):
                text += more
            case MessageEnded(message):
                assert header is not None
                assert (message.text, message.recipient, message.channel) == (text, header.recipient, header.channel)
                header = None
            case Incident():
                pass
    assert header is None


@settings(max_examples=150)
@given(st.lists(st.integers(0, 300), max_size=40))
def test_ids_are_never_too_strange(ids: list[int]) -> None:
    single, whole = StreamParser(BYTES), StreamParser(BYTES)
    for id in ids:
        single.feed(id)
        assert single.content == "".join(single._parts)
    single.close()
    whole.feed(ids)
    whole.close()
    assert single.messages == whole.messages
    assert [i.code for i in single.incidents] == [i.code for i in whole.incidents]


@pytest.mark.spec("HAR-22", "HAR-23")
def test_the_stream_parser_has_everything_at_hand_after_each_id(o200k: Tokenizer) -> None:
    parser = StreamParser(TokenDeltas(o200k))
    controls = {control.spelling: id for control, id in o200k.controls.items()}
    for id in [controls["<|channel|>"], *o200k.encode("commentary to=functions.f"), controls["<|message|>"]]:
        assert parser.content == ""
        parser.feed(id)
    assert (parser.role, parser.channel, parser.recipient) == (Role.ASSISTANT, "commentary", "functions.f")
    seen = []
    for id in o200k.encode('{"city": "東京 🗼"}'):
        parser.feed(id)
        seen.append(parser.delta)
    assert None in seen  # half a character waits
    assert "".join(delta for delta in seen if delta) == parser.content == '{"city": "東京 🗼"}'
    parser.feed(controls["<|call|>"])
    assert (parser.ended, parser.channel, parser.content, len(parser.messages)) == ("<|call|>", None, "", 1)


@pytest.mark.spec("HAR-21")
def test_a_completion_is_read_with_its_stop_token_or_without(o200k: Tokenizer) -> None:
    controls = {control.spelling: id for control, id in o200k.controls.items()}

    def frame(header: str, text: str) -> list[int]:
        return [controls["<|channel|>"], *o200k.encode(header), controls["<|message|>"], *o200k.encode(text)]

    final, call = frame("final", "4"), frame("commentary to=functions.f", "{}")
    assert parse_completion(final, o200k).messages == parse_completion([*final, controls["<|return|>"]], o200k).messages
    assert parse_completion(call, o200k).messages[0].end is End.CALL
    assert parse_completion(frame("analysis", "hm"), o200k).messages[0].end is End.NONE
    assert parse_completion(frame("analysis", "hm"), o200k, stop=RETURN).messages[0].end is End.RETURN


@pytest.mark.spec("HAR-34", "HAR-38", "HAR-42")
@pytest.mark.parametrize("stop", [RETURN, CALL])
def test_a_reply_ends_with_return_and_with_call(stop: Control) -> None:
    parser = HarmonyParser()
    assert stop in Harmony().stops
    parser.feed([Control("<|channel|>"), "final", Control("<|message|>"), "x", stop])
    assert parser.ended == stop.spelling


@pytest.mark.spec("HAR-37")
@pytest.mark.parametrize("channel", ["analysis", "commentary", "final"])
def test_a_call_is_a_call_on_any_channel(channel: str) -> None:
    stream: list[Piece] = [Control("<|channel|>"), f"{channel} to=python code", Control("<|message|>"), "1+1", CALL]
    (message,) = ended(read(stream))
    assert (message.is_call, message.content_type, message.channel) == (True, "code", channel)


OFFERED = ("functions.bash", "browser.open", "python", "functions.open", "functions.final")


@pytest.mark.parametrize(
    ("header", "recipient"),
    [
        ("commentary to=bash", "functions.bash"),
        ("commentary bash", "functions.bash"),
        ("analysis python code", "python"),
        ("commentary to=open", "open"),  # whose?
        ("commentary to=functions.open", "functions.open"),
        ("final", None),
        ("commentary to=elsewhere", "elsewhere"),
    ],
)
def test_a_bare_name_is_the_one_offered_tool_that_has_it(header: str, recipient: str | None) -> None:
    parser = Harmony().parser(tools=OFFERED)
    got = [*parser.feed([Control("<|channel|>"), header, Control("<|message|>"), "x", CALL]), *parser.close()]
    (message,) = ended(got)
    assert message.recipient == recipient
    assert ("recipient-repaired" in codes(got)) is (recipient == "functions.bash")


DOTTED = ("functions.math.sum", "functions.sum", "functions.docs.page.size", "functions.a.size", "browser.open")


@pytest.mark.parametrize(
    ("name", "recipient"),
    [
        *(("functions.math.sum", "functions.math.sum"), ("math.sum", "functions.math.sum"), ("sum", "functions.sum")),
        *(("page.size", "functions.docs.page.size"), ("functions.page.size", "functions.docs.page.size")),
        *(("size", "size"), ("functions.browser.open", "browser.open"), ("functions.docs", "functions.docs")),
    ],
)
def test_a_name_with_dots_is_meant_by_any_of_its_ends_that_no_other_has(name: str, recipient: str) -> None:
    parser = Harmony().parser(tools=DOTTED)
    (message,) = ended(
        parser.feed([Control("<|channel|>"), f"commentary to={name}", Control("<|message|>"), "{}", CALL])
    )
    assert message.recipient == recipient


@pytest.mark.parametrize(
    ("stream", "channel", "text"),
    [
        ("<|start|>analysis<|channel|>final<|message|>yes<|return|>", "final", "yes"),
        ("final<|channel|>analysis<|message|>yes<|end|>", "analysis", "yes"),
        ("<|channel|>finalanalysis<|message|>yes<|end|>", "finalanalysis", "yes"),
        ("<|channel|>finalsorry, no<|return|>", "final", "sorry, no"),
        ("<|channel|>finals<|message|>yes<|return|>", "final", "yes"),
        ("<|channel|>fin<|message|>yes<|return|>", "final", "yes"),
        ("<|channel|>fi<|message|>yes<|return|>", "fi", "yes"),
        ("<|channel|>final<|constrain|>Sorry, no.<|return|>", "final", "Sorry, no."),
        ("<|start|>assistantresponse<|message|>yes<|return|>", None, "yes"),
        ("<|channel|>analysis<|start|>We think.<|end|>", None, "We think."),
        ("<|start|>assistantWe think.<|end|>", None, "We think."),
    ],
)
def test_a_header_in_disorder_is_read_by_its_marks_and_its_text_is_kept(
    stream: str, channel: str | None, text: str
) -> None:
    got = events(HarmonyParser(), ids(stream), BYTES)
    assert [(m.role, m.channel, m.text) for m in ended(got) if m.text] == [(Role.ASSISTANT, channel, text)]
    assert codes(got)


def test_json_in_place_of_a_type_is_the_arguments() -> None:
    stream = ids('<|channel|>commentary to=functions.f <|constrain|>{"a":1}<|call|>')
    (message,) = ended(events(HarmonyParser(), stream, BYTES))
    assert (message.recipient, message.text) == ("functions.f", '{"a":1}')


def test_a_plain_answer_may_begin_with_a_tool_s_name() -> None:
    parser = Harmony().parser(tools=OFFERED)
    (message,) = ended([*parser.feed(["python is a snake", RETURN]), *parser.close()])
    assert (message.channel, message.recipient, message.text) == ("final", None, "python is a snake")


def test_the_reader_of_a_continued_message_starts_inside_it() -> None:
    started = Message(role=Role.ASSISTANT, channel="final", text="The answer", end=End.NONE)
    prompt = list(Harmony().render(Conversation((started,))))
    parser = Harmony().parser(prompt=prompt)
    got = [*parser.feed([" is 4.", RETURN]), *parser.close()]
    assert [(m.channel, m.text) for m in ended(got)] == [("final", " is 4.")]
    assert codes(got) == []


def test_strict_pieces_raise_where_the_default_repairs() -> None:
    stream: list[Piece] = [Control("<|channel|>"), "final", Control("<|message|>"), "x", Control("<|end|>"), RETURN]
    parser = Harmony().parser(strict=True)
    with pytest.raises(ParseError, match="Unexpected token"):
        parser.feed(stream)
    parser = Harmony().parser(strict=True)
    got = [*parser.feed(stream[:-2]), *parser.close()]
    assert [(m.channel, m.text, m.end) for m in ended(got)] == [("final", "x", End.NONE)]
    assert codes(read(stream)) == ["stray-stop"]


def test_a_header_without_end_is_bounded_and_its_text_kept() -> None:
    parser = HarmonyParser()
    got = parser.feed([START, "assistant"])
    for _ in range(100_000):
        got += parser.feed([" word"])
    got += parser.feed([RETURN])
    (message,) = ended(got)
    assert message.text.count("word") == 100_000
    assert codes(got) == ["dup-start", "missing-message"]
    markers = read([Control("<|channel|>")] * 100_000)
    assert all(message.text == "" for message in ended(markers))
    assert len(ended(markers)) < 1_000


def test_bytes_that_are_no_text_become_replacement_characters(o200k: Tokenizer) -> None:
    decoder = PieceDecoder(o200k)
    body = [125, 125, o200k.encode("a")[0], 125, 250_000]
    stream: list[Piece] = [
        Control("<|channel|>"),
        "final",
        Control("<|message|>"),
        *decoder.feed(body),
        *decoder.close(),
    ]
    (message,) = ended(read(stream))
    assert set(message.text) == {"\ufffd", "a"}


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_an_id_outside_the_vocabulary_says_nothing_and_is_reported(chunk: int) -> None:
    got = [*ids("<|channel|>final<|message|>on"), 250_000, -1, *ids("e<|return|>")]
    parser = StreamParser(BYTES)
    for start in range(0, len(got), chunk):
        parser.feed(got[start : start + chunk] if chunk > 1 else got[start])
    assert [message.text for message in parser.messages] == ["one"]
    assert [(i.code, i.text) for i in parser.incidents] == [("unknown-id", "250000"), ("unknown-id", "-1")]
    whole = parse_completion(got, BYTES)
    assert [message.text for message in whole.messages] == ["one"]
    assert [i.text for i in whole.incidents] == ["250000", "-1"]


def ids(text: str) -> list[int]:
    """The text with each control's spelling as its id."""
    scanner = ControlScanner(CONTROLS)
    return encode_pieces([*scanner.feed(text), *scanner.close()], BYTES)


@pytest.mark.parametrize("chunk", [1, 100])
def test_the_content_is_empty_until_its_message_starts_however_the_ids_come(chunk: int) -> None:
    reply = ids("<|channel|>final<|message|>x<|end|><|start|>bash<|message|>ls")
    parser = StreamParser(BYTES)
    for start in range(0, len(reply), chunk):
        parser.feed(reply[start : start + chunk])
    assert (parser.role, parser.content) == (None, "")


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_controls_that_come_as_text_are_read_where_it_is_requested_and_reported_once(chunk: int) -> None:
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>"
    parser = Harmony().parser(spelled=True)
    found = [event for at in range(0, len(text), chunk) for event in parser.feed([text[at : at + chunk]])]
    found += parser.close()
    assert [(message.channel, message.text) for message in ended(found)] == [("analysis", "hm"), ("final", "Four.")]
    assert codes(found) == ["textual-specials"]


def test_text_where_ids_are_read_is_refused_with_the_way_to_read_text() -> None:
    parser = StreamParser(BYTES)
    with pytest.raises(TypeError, match=r"antiphon\.parse"):
        parser.feed("<|channel|>")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"antiphon\.parse"):
        parse_completion("<|channel|>", BYTES)  # type: ignore[arg-type]


@pytest.mark.parametrize("over", [0, 1])
def test_a_header_has_as_many_characters_as_it_may_and_what_is_beyond_is_content(over: int) -> None:
    name = "x" * (LIMIT - len("final to=") - 1 + over)  # One is the control's before it.
    parser = HarmonyParser()
    pieces: list[Piece] = [Control("<|channel|>"), f"final to={name}", Control("<|message|>"), "Hi", Control("<|end|>")]
    found = [*parser.feed(pieces), *parser.close()]
    (message,) = ended(found)
    assert (message.recipient, message.text) == (name[: len(name) - over], "x" * over + "Hi")
    assert codes(found) == ["missing-message", "stray-message"][: 2 * over]
