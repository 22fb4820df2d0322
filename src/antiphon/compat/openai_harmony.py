"""`openai_harmony` over Antiphon: change the import, and the reference's own examples run.

Results are the reference's, errors too: `HarmonyError` where it raises that, RuntimeError where it raises only that.
docs/coming-from-openai-harmony.md lists each call and what Antiphon itself offers instead.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Any, Literal

from antiphon.conversation import Role
from antiphon.errors import AntiphonError, ParseError, RenderError
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import (
    Dialect,
    Harmony,
    ReferenceParser,
    TokenDeltas,
    read_conversation,
    read_message,
)
from antiphon.formats.harmony.reference import ReferenceEnvelope, ReferenceMessage, ReferenceState, utf8_fault
from antiphon.tokens import Control, Piece, SegmentMemo, Tokenizer, encode_pieces, utf8
from antiphon.tokens.bpe import o200k_harmony

from .harmony_values import (
    Author,
    ChannelConfig,
    Content,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    SystemContent,
    TextContent,
    ToolDescription,
    ToolNamespaceConfig,
)
from .models import Model, unchecked

STOPS = ("<|return|>", "<|call|>", "<|end|>")
IDS = 2**32
"""Ids of the reference have 32 bits; a number beyond is an OverflowError there too."""


class HarmonyError(RuntimeError):
    """Error that the reference raises while rendering for completion, parsing and decoding."""


class HarmonyEncodingName(StrEnum):
    HARMONY_GPT_OSS = "HarmonyGptOss"


class StreamState(Enum):
    EXPECT_START = "ExpectStart"
    HEADER = "Header"
    CONTENT = "Content"


class RenderConversationConfig(Model):
    auto_drop_analysis: bool = True


class RenderOptions(Model):
    conversation_has_function_tools: bool = False


class HarmonyEncoding:
    """Harmony and the vocabulary of gpt-oss."""

    def __init__(self, name: str, tokenizer: Tokenizer, dialect: Dialect = "a") -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.harmony = Harmony(dialect=dialect, refuse=_warn)
        self.deltas = TokenDeltas(tokenizer)
        self._memo = SegmentMemo()
        self._controls = {control.spelling: id for control, id in tokenizer.controls.items()}

    @property
    def special_tokens_set(self) -> set[str]:
        return set(self._controls)

    def render_conversation_for_completion(
        self, conversation: Conversation, next_turn_role: Role, config: RenderConversationConfig | None = None
    ) -> list[int]:
        role = Role(next_turn_role)
        return self._encoded(
            lambda: self.harmony.render(
                read_conversation(conversation.to_dict()), reply_as=role, history=_history(config)
            ),
            HarmonyError,
        )

    def render_conversation(
        self, conversation: Conversation, config: RenderConversationConfig | None = None
    ) -> list[int]:
        return self._encoded(
            lambda: self.harmony.render(
                read_conversation(conversation.to_dict()), reply_as=None, history=_history(config)
            ),
            RuntimeError,
        )

    def render_conversation_for_training(
        self, conversation: Conversation, config: RenderConversationConfig | None = None
    ) -> list[int]:
        return self._encoded(
            lambda: self.harmony.render_for_training(
                read_conversation(conversation.to_dict()), history=_history(config)
            ),
            RuntimeError,
        )

    def render(self, message: Message, render_options: RenderOptions | None = None) -> list[int]:
        offered = bool(render_options and render_options.conversation_has_function_tools)
        return self._encoded(
            lambda: self.harmony.messages.frame(read_message(message.to_dict()), functions_offered=offered),
            RuntimeError,
        )

    def _encoded(self, render: Callable[[], Iterable[Piece]], raised: type[RuntimeError]) -> list[int]:
        try:
            return encode_pieces(render(), self.tokenizer, self._memo)
        except ParseError as error:
            raise ValueError(f"invalid conversation JSON: {error}") from None
        except AntiphonError as error:
            raise raised(error.message) from None

    def parse_messages_from_completion_tokens(
        self, tokens: Sequence[int], role: Role | None = None, *, strict: bool = True
    ) -> list[Message]:
        _check_ids(tokens)
        parser = StreamableParser(self, role, strict=strict)
        for token in tokens:
            parser.process(token)
        return parser.process_eos().messages

    def encode(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = frozenset(),
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[int]:
        """The ids of a text. Raises `HarmonyError` when it spells a control that is neither allowed nor ignored."""
        allowed = self._controls.keys() if allowed_special == "all" else allowed_special & self._controls.keys()
        refused = self._controls.keys() - allowed if disallowed_special == "all" else disallowed_special
        if found := _any_of(refused).search(text):
            raise HarmonyError(
                f"Encountered text corresponding to disallowed special token {found[0]!r}.\n"
                "allowed_special makes it a control, and disallowed_special=() makes every such spelling plain text."
            )
        ids: list[int] = []
        start = 0
        for found in _any_of(allowed).finditer(text):
            ids += self.tokenizer.encode(text[start : found.start()])
            ids.append(self._controls[found[0]])
            start = found.end()
        return ids + self.tokenizer.encode(text[start:])

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        try:
            return self._bytes(tokens).decode("utf-8", errors)
        except KeyError as unknown:
            raise HarmonyError(f"Invalid token for decoding: {unknown}") from None

    def decode_utf8(self, tokens: Sequence[int]) -> str:
        try:
            return self._bytes(tokens).decode()
        except KeyError as unknown:
            raise HarmonyError(
                f"Could not decode tokens: Invalid token error: Invalid token for decoding: {unknown}"
            ) from None
        except UnicodeDecodeError as error:
            raise HarmonyError(f"Could not decode tokens: Invalid utf-8 sequence: {utf8_fault(error)}") from None

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        _check_ids(tokens)
        return b"".join(map(self._bytes_of, tokens))

    def _bytes_of(self, token: int) -> bytes:
        piece = self.tokenizer.piece(token)
        if not piece:
            raise KeyError(token)
        return utf8(piece.spelling) if isinstance(piece, Control) else piece

    def is_special_token(self, token: int) -> bool:
        return isinstance(self.tokenizer.piece(token), Control)

    def stop_tokens(self) -> list[int]:
        return [self._controls[spelling] for spelling in STOPS]

    def stop_tokens_for_assistant_actions(self) -> list[int]:
        return [self._controls[spelling] for spelling in STOPS[:2]]


class StreamableParser:
    """The reference's parser of one completion, token by token. What it tells costs no more the more it has read."""

    def __init__(self, encoding: HarmonyEncoding, role: Role | None, *, strict: bool = True) -> None:
        given = None if role is None else Role(role)
        self._encode = encoding.tokenizer.encode
        self._parser = ReferenceParser(encoding.tokenizer.piece, given, strict, encoding.harmony.dialect)
        self._deltas = encoding.deltas
        self._tokens: list[int] = []

    def process(self, token: int) -> StreamableParser:
        delta = self._deltas.get(token)
        if delta is not None and self._parser.add(delta.text):
            self._tokens.append(token)
            return self
        _check_ids((token,))
        self._tokens.append(token)
        try:
            self._parser.process(token)
            _ = self._deltas[token]
        except ParseError as error:
            raise HarmonyError(error.message) from None
        return self

    def process_eos(self) -> StreamableParser:
        try:
            self._parser.process_eos()
        except ParseError as error:
            raise HarmonyError(error.message) from None
        return self

    @property
    def current_content(self) -> str:
        return self._parser.content

    @property
    def current_role(self) -> Role | None:
        return self._parser.envelope.role if self._parser.envelope else self._parser.role

    @property
    def current_content_type(self) -> str | None:
        return self._parser.envelope.content_type if self._parser.envelope else None

    @property
    def current_recipient(self) -> str | None:
        return self._parser.envelope.recipient if self._parser.envelope else None

    @property
    def current_channel(self) -> str | None:
        return self._parser.envelope.channel if self._parser.envelope else None

    @property
    def last_content_delta(self) -> str | None:
        return self._parser.delta

    @property
    def messages(self) -> list[Message]:
        """The finished messages: a list and values of the caller's own, made at each look."""
        return [_message(read) for read in self._parser.messages]

    @property
    def tokens(self) -> list[int]:
        """Every token that was read: a list of the caller's own."""
        return [*self._tokens]

    @property
    def state(self) -> StreamState:
        return StreamState(self._parser.state.value)

    @property
    def state_data(self) -> dict[str, Any]:
        """The state with the tokens since it began: of content those of its text, encoded anew as it was decoded."""
        match self._parser.state:
            case ReferenceState.EXPECT_START:
                return {"state": "ExpectStart"}
            case ReferenceState.HEADER:
                return {"state": "Header", "header_tokens": self._parser.header}
            case ReferenceState.CONTENT:
                ids = [id for text in self._parser.texts for id in self._encode(text)]
                return {"state": "Content", "header": _header(self._parser.envelope), "content_tokens": ids}


def load_harmony_encoding(name: str | HarmonyEncodingName, *, dialect: Dialect = "a") -> HarmonyEncoding:
    """The encoding by name; read once a process. ``dialect`` b is `oss-harmony`'s. Raises ValueError."""
    return _load(str(name), dialect)


@lru_cache
def _load(name: str, dialect: Dialect) -> HarmonyEncoding:
    if name != HarmonyEncodingName.HARMONY_GPT_OSS.value:
        raise ValueError(f"Invalid HarmonyEncodingName: {name}")
    return HarmonyEncoding(name, o200k_harmony(), dialect)


def _warn(error: RenderError) -> None:
    """Warns of a header that the reference writes, and that is read as another one."""
    warnings.warn(error.message, stacklevel=2)


def _history(config: RenderConversationConfig | None) -> HistoryPolicy:
    drop = config is None or config.auto_drop_analysis
    return HistoryPolicy.REFERENCE if drop else HistoryPolicy.KEEP_ALL


def _message(read: ReferenceMessage) -> Message:
    envelope = read.envelope
    return unchecked(
        Message,
        author=unchecked(Author, role=envelope.role, name=envelope.name),
        content=[unchecked(TextContent, text=read.text)],
        channel=envelope.channel,
        recipient=envelope.recipient,
        content_type=envelope.content_type,
    )


def _header(envelope: ReferenceEnvelope | None) -> dict[str, Any] | None:
    if envelope is None:
        return None
    author = {"role": envelope.role.value} | ({"name": envelope.name} if envelope.name is not None else {})
    return {
        "author": author,
        "recipient": envelope.recipient,
        "channel": envelope.channel,
        "content_type": envelope.content_type,
    }


def _check_ids(tokens: Sequence[int]) -> None:
    """Raises OverflowError, as the reference does before it looks at any of them."""
    if len(tokens) and not (min(tokens) >= 0 and max(tokens) < IDS):
        raise OverflowError(f"an id is a number from 0 to {IDS - 1}")


def _any_of(spellings: Collection[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(spellings))) or r"(?!)")


__all__ = [
    "Author",
    "ChannelConfig",
    "Content",
    "Conversation",
    "DeveloperContent",
    "HarmonyEncoding",
    "HarmonyEncodingName",
    "HarmonyError",
    "Message",
    "ReasoningEffort",
    "RenderConversationConfig",
    "RenderOptions",
    "Role",
    "StreamState",
    "StreamableParser",
    "SystemContent",
    "TextContent",
    "ToolDescription",
    "ToolNamespaceConfig",
    "load_harmony_encoding",
]
