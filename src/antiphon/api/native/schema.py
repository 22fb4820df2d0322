"""The layer as a service: text ⇄ ids, conversation → prompt, reply → messages. For engines and programs of others."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from antiphon.api.chat.schema import AnswerMessage, ChatChunk, ChatMessage, ChatRequest, Tool
from antiphon.conversation.json import MessageJson
from antiphon.wire.names.translate import PromptFields

# Conversations from form to form as JSON: what is converted, and what came of it.


class ConvertRequest(msgspec.Struct, kw_only=True):
    """``input`` is the text of a conversation; ``from`` its form, found out where it is not named.

    Without ``to`` the input is only read and checked. ``lenient`` takes the best reading of a faulty input.
    """

    input: str
    to: str | None = None
    source: str | None = msgspec.field(default=None, name="from")
    lenient: bool | None = None


class ConversionForms(msgspec.Struct, frozen=True, kw_only=True):
    """Forms that can be read (``from``) and written (``to``); names of ``templates``, which can be written too."""

    source: list[str] = msgspec.field(name="from")
    to: list[str]
    templates: list[str]


class FoundLoss(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not in the output: its ``path`` in the conversation, and what it is or ``becomes``.

    ``kind``: ``semantic``, ``derivable`` (a rule restores it) or ``spelling`` (only how it was written).
    """

    path: str
    what: str
    becomes: str | None
    kind: str


class ConversionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of the input, or the reason why the other form cannot have it.

    ``line`` and ``column`` count from 1, ``offset`` characters from 0; ``path`` is a place in JSON. Null: not known.
    """

    code: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    offset: int | None = None
    path: str | None = None
    warning: bool = False


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``: the input was read, and written where that was requested; else ``output`` is null and a finding says why.

    ``from`` is null where no form is known to be that of the input. ``lost`` counts the losses, of which ``losses``
    has the first.
    """

    ok: bool
    source: str | None = msgspec.field(name="from")
    to: str | None
    output: str | None
    lost: int
    losses: list[FoundLoss]
    warnings: list[str]
    findings: list[ConversionFinding]


class TokenizeRequest(PromptFields, kw_only=True):
    """A text as ``prompt``, or a chat as ``messages`` (vLLM's two forms).

    With ``add_special_tokens`` false, a prompt that is nothing but a token that ``/tokenizer_info`` names is its id:
    programs find ids of special tokens so. In any other text a spelling is text.
    """

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    tools: list[Tool] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    chat_template: Any = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    return_token_bytes: bool | None = None


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """``token_strs`` and ``token_bytes`` (in hex) only where they are requested; part of a character is U+FFFD in a
    ``str``.
    """

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None
    token_bytes: list[str] | msgspec.UnsetType = msgspec.UNSET


class AddedToken(msgspec.Struct, frozen=True, kw_only=True):
    content: str
    special: bool = True


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    tokens: list[int]
    model: str | None = None


class Detokenized(msgspec.Struct, frozen=True):
    prompt: str


class TokenizerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model's vocabulary for programs that encode elsewhere, by the names of a ``tokenizer_config.json``.

    Tokens are spelled, null where the model's files name none. ``chat_template`` is the one that the model is spoken
    to in, where that is Jinja, else that of the model's files, if they have one.
    """

    tokenizer_class: str = "PreTrainedTokenizerFast"
    vocab_size: int
    model_max_length: int
    bos_token: str | None
    eos_token: str | None
    unk_token: str | None
    pad_token: str | None
    additional_special_tokens: list[str]
    added_tokens_decoder: dict[str, AddedToken]
    chat_template: str | None


class RenderRequest(ChatRequest, kw_only=True):
    """A chat request. ``add_generation_prompt`` false writes the conversation without the start of a reply.

    With ``return_piece_tokens`` each piece has its tokens. With ``return_owners`` the conversation is written whole, as
    a model is trained on it, and each token says whose it is: it must end with an assistant's message, or
    ``add_generation_prompt`` be false.
    """

    return_piece_tokens: bool | None = None
    return_owners: bool | None = None


class PieceToken(msgspec.Struct, frozen=True):
    """``bytes`` in hex; those of a control are its spelling's. The other fields are there with ``return_owners``.

    ``owner`` is template, system, user, assistant or tool; ``part``, of a reply, is reasoning, content, name or
    arguments (of a call), markup (what the model writes around these) or end (its stop). ``message`` is the index in
    the request's ``messages``; null: the template's. ``sampled``: whether the model samples the token.
    """

    id: int
    bytes: str
    owner: str | msgspec.UnsetType = msgspec.UNSET
    part: str | msgspec.UnsetType | None = msgspec.UNSET
    message: int | msgspec.UnsetType | None = msgspec.UNSET
    sampled: bool | msgspec.UnsetType = msgspec.UNSET


class RenderedPiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text, or a control token by its spelling; its ``tokens`` only where they are requested."""

    text: str | None = None
    control: str | None = None
    tokens: list[PieceToken] | None = None


class TemplateChange(msgspec.Struct, frozen=True):
    """Something that the template does not write as it was given: its ``kind``, its ``message``, and both as a text."""

    kind: str
    message: int | None
    text: str


class NextTurn(msgspec.Struct, frozen=True):
    """The next prompt begins with the first ``kept`` ids; ``cause`` is why with no more, null: with all of them.

    ``cause`` is one of a lost prefix: ``reasoning``, ``end``, ``tokens`` or ``rewritten``.
    """

    kept: int
    cause: str | None


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt three times over, and what ends a reply to it: ids, and strings that are no token of this vocabulary.

    ``changes`` and ``next_turn`` are there with ``return_owners``; no next turn: the format cannot write one.
    """

    model: str
    format: str
    text: str
    pieces: list[RenderedPiece]
    ids: list[int]
    stop_token_ids: list[int]
    stop: list[str]
    changes: list[TemplateChange] | msgspec.UnsetType = msgspec.UNSET
    next_turn: NextTurn | msgspec.UnsetType | None = msgspec.UNSET


class ParseRequest(ChatRequest, kw_only=True):
    """A reply as ``text``, whose control spellings are controls, or as ``ids``, and the chat request that it answers.

    Calls, types and the answer's form are read as the chat would read them; with neither ``messages`` nor ``tools``
    whatever looks like a call is one. ``prompt_ids`` stand for the messages: the tail of a prompt says where the reply
    begins (inside a reasoning tag, say). ``strict``: what would be repaired is an error. ``finish_reason`` is why
    sampling ended. ``state`` reads one part of a reply: empty for the first, then the last answer's.
    """

    messages: list[ChatMessage] = msgspec.field(default_factory=list)
    text: str | None = None
    ids: list[int] | None = None
    prompt_ids: list[int] | None = None
    strict: bool | None = None
    finish_reason: Literal["stop", "length"] | None = None
    state: str | None = None


class FoundIncident(msgspec.Struct, frozen=True):
    """A repair, or text that was set aside. ``position`` counts pieces of the reply: ids, or characters of a text.

    Of a reply that is read in parts it is how many of them were read when it was found.
    """

    code: str
    position: int
    text: str


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """``message`` is the reply as a chat completion, reasoning included; ``ended``: the stop that ended it."""

    model: str
    format: str
    message: AnswerMessage
    messages: list[MessageJson]
    incidents: list[FoundIncident]
    ended: str | None
    finish_reason: str


class ParsedPart(msgspec.Struct, frozen=True, kw_only=True):
    """``chunk`` is what the part adds, as one event of a chat's stream; ``state`` null: the reply is over."""

    model: str
    format: str
    chunk: ChatChunk
    incidents: list[FoundIncident]
    ended: str | None
    state: str | None
