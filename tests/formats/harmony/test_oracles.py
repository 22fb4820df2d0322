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

from antiphon.conversation import Role
from antiphon.errors import AntiphonError, ParseError
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import Harmony, ReferenceParser, read_conversation
from antiphon.tokens import Tokenizer, encode_pieces
from kit.harmony_corpora import Dialect, as_json
from kit.harmony_oracles import oracle
from kit.harmony_random import Conversations, Streams

BOTH = pytest.mark.parametrize("dialect", ["a", "b"])
CASES = 100 * int(os.environ.get("HARMONY_FUZZ", "1"))
many = settings(
    max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vocabulary")


@BOTH
@many
@given(seed=st.integers(0, 2**64))
def test_random_conversations_render_alike(dialect: Dialect, seed: int, o200k: Tokenizer, vocabulary: Path) -> None:
    random, reference = Random(seed), oracle(dialect, vocabulary).encoding._inner
    source = json.dumps(Conversations(random).conversation())
    drop, role = random.choice((True, False)), random.choice(list(Role))
    history = HistoryPolicy.REFERENCE if drop else HistoryPolicy.KEEP_ALL
    harmony, config = Harmony(dialect=dialect, refuse=lambda error: None), {"auto_drop_analysis": drop}
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
    assert result == theirs, source


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
