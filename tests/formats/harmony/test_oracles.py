"""Differential tests: random conversations and token streams, this package's and the reference, dialect by dialect.

``HARMONY_FUZZ`` multiplies the number of cases (``make fuzz-harmony``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.conversation import Message, Role
from antiphon.errors import AntiphonError, ParseError
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import Harmony, ReferenceParser, read_conversation
from antiphon.tokens import Control, Tokenizer, encode_pieces
from kit.harmony_corpora import Dialect, as_json
from kit.harmony_oracles import oracle

BOTH = pytest.mark.parametrize("dialect", ["a", "b"])
CASES = 500 * int(os.environ.get("HARMONY_FUZZ", "1"))
many = settings(
    max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
WORDS = (
    *("x", "null", "a b", "<|end|>", "é", "line1\nline2", "", 'q"q', "天気", "\r\n", "foo\r\nbar\n", "<|constrain|>"),
    *("functions", "nullify", " lead", "-- "),
)
NUMBERS = (
    *(0, 1, -1, 1.0, -0.0, 1e16, 1e15, 123456789012345680.0, 1e-5, 1e-6, 1.5e-7, 1e21, 2**63, 2**64 - 1, 2**64),
    *(-(2**63), -(2**63) - 1, 10**29, 0.1, 1234.5),
)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vocabulary")


class Conversations:
    """Random conversations in the reference's JSON form."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def word(self) -> str:
        return self.random.choice(WORDS)

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def value(self, depth: int = 0) -> Any:
        pick = self.random.randint(0, 5 if depth < 3 else 3)
        match pick:
            case 0 | 1:
                return self.word()
            case 2:
                far = self.random.random() * 10.0 ** self.random.randint(-30, 30)
                return self.random.choice((*NUMBERS, far, self.random.randint(-(10**25), 10**25)))
            case 3:
                return self.random.choice((True, False, None))
            case 4:
                return [self.value(depth + 1) for _ in range(self.random.randint(0, 3))]
            case _:
                return {self.word(): self.value(depth + 1) for _ in range(self.random.randint(0, 3))}

    def values(self) -> Any:
        return [self.value() for _ in range(self.random.randint(0, 3))] if self.often(0.9) else self.value()

    def schema(self, depth: int = 0) -> Any:
        if self.often(0.05):
            return self.random.choice((True, False, "x", [1], None, 3))
        kinds = (
            "object",
            "object",
            "object",
            "string",
            "string",
            "number",
            "integer",
            "boolean",
            "array",
            "null",
            "odd",
        )
        lists: tuple[Any, ...] = (["string", "null"], ["integer"], [], [1, None], ["array", "object"], 5, None)
        fields: dict[str, Any] = {}
        self.maybe(fields, "type", 0.8, lambda: self.random.choice(kinds if self.often(0.8) else lists))
        for key, chance in (("description", 0.3), ("title", 0.15)):
            self.maybe(fields, key, chance, lambda: self.word() if self.often(0.9) else self.value())
        self.maybe(fields, "default", 0.25, self.value)
        self.maybe(fields, "nullable", 0.2, lambda: self.random.choice((True, True, False, "true", 1, None)))
        for key in ("enum", "examples", "required"):
            self.maybe(fields, key, 0.2, self.values)
        if depth < 4:
            self.parts(fields, depth + 1)
        shuffled = list(fields.items())
        self.random.shuffle(shuffled)
        return dict(shuffled)

    def parts(self, fields: dict[str, Any], depth: int) -> None:
        def properties() -> Any:
            return {self.word(): self.schema(depth) for _ in range(self.random.randint(0, 3))}

        def variants() -> Any:
            return [self.schema(depth) for _ in range(self.random.randint(0, 3))] if self.often(0.9) else self.value()

        self.maybe(fields, "properties", 0.9 if fields.get("type") == "object" else 0.1, properties)
        self.maybe(fields, "items", 0.8 if fields.get("type") == "array" else 0.05, lambda: self.schema(depth))
        self.maybe(fields, "oneOf", 0.15, variants)

    def maybe(self, fields: dict[str, Any], key: str, chance: float, make: Any) -> None:
        if self.often(chance):
            fields[key] = make()

    def tools(self) -> Any:
        return {
            self.random.choice(("functions", "browser", "é", "A", self.word())): self.namespace()
            for _ in range(self.random.randint(0, 3))
        }

    def namespace(self) -> Any:
        fields: dict[str, Any] = {"name": self.word(), "tools": [self.tool() for _ in range(self.random.randint(0, 2))]}
        self.maybe(fields, "description", 0.6, self.word)
        return fields

    def tool(self) -> Any:
        fields: dict[str, Any] = {"name": self.word(), "description": self.word()}
        self.maybe(fields, "parameters", 0.85, self.schema)
        return fields

    def system(self) -> Any:
        fields: dict[str, Any] = {"type": "system_content"}
        for key in ("model_identity", "conversation_start_date", "knowledge_cutoff"):
            self.maybe(fields, key, 0.5, self.word)
        self.maybe(fields, "reasoning_effort", 0.5, lambda: self.random.choice(("Low", "Medium", "High")))
        valid = [self.word() for _ in range(self.random.randint(0, 3))]
        self.maybe(
            fields, "channel_config", 0.5, lambda: {"valid_channels": valid, "channel_required": self.often(0.5)}
        )
        self.maybe(fields, "tools", 0.5, self.tools)
        return fields

    def developer(self) -> Any:
        fields: dict[str, Any] = {"type": "developer_content"}
        self.maybe(fields, "instructions", 0.5, self.word)
        self.maybe(fields, "tools", 0.5, self.tools)
        return fields

    def text(self) -> Any:
        return {"type": "text", "text": self.word()}

    def message(self) -> Any:
        role = self.random.choice(("user", "assistant", "assistant", "assistant", "system", "developer", "tool"))
        fields: dict[str, Any] = {"role": role}
        channels = ("analysis", "analysis", "final", "final", "commentary", self.word())
        types = ("json", "<|constrain|>json", "<|constrain|>", "<|constrain|> json", "a<|constrain|>b", self.word())
        self.maybe(fields, "name", 0.95 if role == "tool" else 0.1, self.word)
        self.maybe(fields, "channel", 0.6, lambda: self.random.choice(channels))
        self.maybe(
            fields, "recipient", 0.3, lambda: self.random.choice(("all", "functions.f", "assistant", self.word()))
        )
        self.maybe(fields, "content_type", 0.3, lambda: self.random.choice(types))
        own = {"system": self.system, "developer": self.developer}.get(role, self.text)
        makers = (own, own, self.text, self.system if self.often(0.02) else self.text)
        parts = [self.random.choice(makers)() for _ in range(self.random.randint(0, 2))]
        return fields | {"content": self.word() if self.often(0.1) else parts}

    def conversation(self) -> Any:
        return {"messages": [self.message() for _ in range(self.random.randint(0, 6))]}


@BOTH
@many
@given(seed=st.integers(0, 2**64))
def test_random_conversations_render_alike(dialect: Dialect, seed: int, o200k: Tokenizer, vocabulary: Path) -> None:
    random, reference = Random(seed), oracle(dialect, vocabulary).encoding._inner
    source = json.dumps(Conversations(random).conversation())
    drop, role = random.choice((True, False)), random.choice(list(Role))
    history = HistoryPolicy.REFERENCE if drop else HistoryPolicy.KEEP_ALL
    harmony, config = Harmony(dialect=dialect), {"auto_drop_analysis": drop}
    op = random.choice(("completion", "conversation", "training"))
    theirs: Any
    try:
        if op == "completion":
            theirs = reference.render_conversation_for_completion(
                conversation_json=source, next_turn_role=role.value, config=config
            )
        elif op == "conversation":
            theirs = reference.render_conversation(conversation_json=source, config=config)
        else:
            theirs = reference.render_conversation_for_training(conversation_json=source, config=config)
    except (RuntimeError, ValueError) as error:
        theirs = str(error)
    result: Any
    try:
        conversation = read_conversation(source)
        if op == "training":
            pieces = harmony.render_for_training(conversation, history=history)
        else:
            pieces = harmony.render(conversation, reply_as=role if op == "completion" else None, history=history)
        result = encode_pieces(pieces, o200k)
    except AntiphonError as error:
        result = error.message
        if error.code == "header_value":
            assert any(forging(value, message) for message in conversation.messages for value in values_of(message))
            return
    assert result == theirs, source


def values_of(message: Message) -> list[str]:
    fields = (message.name, message.recipient, message.channel, message.content_type)
    return [value for value in fields if value is not None]


def forging(value: str, message: Message) -> bool:
    """Whether a header with this value is read back as another one, or as none."""
    unread = not value or not value.isprintable() or any(mark in value for mark in "<{([\"'`")
    return unread or (value == message.content_type and message.recipient in (None, "all"))


class Streams:
    """Random token streams: frames as models write them, broken here and there."""

    TEXTS = (
        *("assistant", "user", "tool", "functions.f", " to=functions.f", "commentary", "analysis", "final", " json"),
        *("json", "to=", "x", " y", "\n", "天気", '"q\\', "\u00a0", "\u2003", " to=assistant", "to=a", "<|channel|>"),
        *("<|constrain|>", " <|constrain|>json", "é", "\u0301", "\x00", "\x1b", "?", "<", "a<b", "\u200b", "\x0b"),
    )
    UNKNOWN = (250_000, 201_089, 250_001)

    def __init__(self, random: Random, tokenizer: Tokenizer) -> None:
        self.random = random
        self.encode = tokenizer.encode
        self.controls = {control.spelling[2:-2]: id for control, id in tokenizer.controls.items()}
        self.odd = [id for id in range(2_000) if _is_odd(tokenizer.piece(id))]

    def text(self, *more: str) -> list[int]:
        return self.encode(self.random.choice((*self.TEXTS, *more)))

    def control(self) -> int:
        names = ("start", "end", "message", "channel", "constrain", "return", "call", "endoftext", "reserved_200013")
        return self.controls[self.random.choice(names)]

    def part(self) -> list[int]:
        pick = self.random.random()
        if pick < 0.4:
            return [self.control()]
        if pick < 0.8:
            return self.text()
        return [self.random.choice(self.odd if pick < 0.95 else self.UNKNOWN)]

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def frame(self) -> list[int]:
        ids = [self.controls["start"]] if self.often(0.8) else []
        for _ in range(self.random.randint(0, 2)):
            ids += self.text("assistant", "assistant")
        if self.often(0.7):
            ids += [self.controls["channel"], *self.text(*("analysis",) * 20)]
        for _ in range(self.random.randint(0, 2)):
            ids += self.text()
        if self.often(0.3):
            ids += [self.controls["constrain"], *self.text("json", "json")]
        ids += self.part() if self.often(0.2) else []
        ids += [self.controls["message"]]
        for _ in range(self.random.randint(0, 4)):
            ids += self.part() if self.often(0.5) else [self.random.choice(self.odd)]
        return ids + ([self.controls[self.random.choice(("end", "call", "return"))]] if self.often(0.9) else [])

    def stream(self) -> list[int]:
        make = self.part if self.often(0.3) else self.frame
        return [id for _ in range(self.random.randint(0, 8 if make == self.part else 3)) for id in make()]


def _is_odd(piece: bytes | Control) -> bool:
    try:
        return isinstance(piece, bytes) and not piece.decode()
    except UnicodeDecodeError:
        return True


@BOTH
@many
@given(
    seed=st.integers(0, 2**64),
    role=st.sampled_from([None, Role.ASSISTANT, Role.ASSISTANT, Role.USER, Role.TOOL]),
    strict=st.sampled_from([True, True, False]),
)
def test_random_streams_parse_alike_after_every_token(
    dialect: Dialect, seed: int, role: Role | None, strict: bool, o200k: Tokenizer, vocabulary: Path
) -> None:
    module = oracle(dialect, vocabulary)
    theirs = module.StreamableParser(module.encoding, None if role is None else module.Role(role.value), strict=strict)
    parser = ReferenceParser(o200k.piece, role, strict, dialect)
    for id in [*Streams(Random(seed), o200k).stream(), None]:
        failure = _failure(lambda id=id: theirs.process_eos() if id is None else theirs.process(id))
        assert _failure(lambda id=id: parser.process_eos() if id is None else parser.process(id)) == failure
        if failure is not None:
            break
        envelope = parser.envelope
        read = (envelope.channel, envelope.recipient, envelope.content_type) if envelope else (None, None, None)
        assert read == (theirs.current_channel, theirs.current_recipient, theirs.current_content_type)
        assert (parser.delta, parser.content) == (theirs.last_content_delta, theirs.current_content)
        assert parser.state == theirs.state.value
    assert [as_json(message) for message in parser.messages] == [_plain(message) for message in theirs.messages]


def _failure(step: Any) -> str | None:
    try:
        step()
    except ParseError as error:
        return error.message
    except RuntimeError as error:
        return str(error)
    return None


def _plain(message: Any) -> dict[str, Any]:
    fields = message.to_dict()
    content = "".join(part["text"] for part in fields["content"])
    return {key: value for key, value in (fields | {"content": content}).items() if value is not None}
