"""LMDeploy's way to get the ids of texts."""

from __future__ import annotations

import msgspec

from antiphon.api.chat.read import Reading
from antiphon.api.chat.schema import ChatMessage, ChatRequest
from antiphon.config import Limits
from antiphon.errors import Position, UnsupportedError
from antiphon.generation import Model
from antiphon.tokens import Piece
from antiphon.wire.errors import refused
from antiphon.wire.names.translate import PromptFields

from .schema import TokenizeRequest
from .write import chat_pieces, ids_of, prompt_pieces


class EncodeRequest(PromptFields, kw_only=True):
    """The body of POST /v1/encode: one text or several.

    ``do_preprocess`` makes each the user's message of a chat; else it is a prompt as it stands. ``add_bos`` false: a
    prompt without what the model's vocabulary puts around a text.
    """

    input: str | list[str]
    model: str | None = None
    do_preprocess: bool | None = None
    add_bos: bool | None = None


class Encoded(msgspec.Struct, frozen=True):
    """Ids and how many they are; of several texts, a list of each."""

    input_ids: list[int | list[int]]
    length: int | list[int]


def encode_texts(wire: EncodeRequest, model: Model, reading: Reading) -> Encoded:
    """The ids of the texts as prompts of this model. Raises `RequestError`, of a text that no context holds too."""
    if isinstance(wire.input, str):
        ids = ids_of(_pieces(wire.input, wire, model, reading), model, "input")
        return Encoded([*ids], len(ids))
    _check_count(wire.input, reading.limits)
    several = [ids_of(_pieces(text, wire, model, reading), model, f"input[{i}]") for i, text in enumerate(wire.input)]
    return Encoded([*several], [len(ids) for ids in several])


def _check_count(texts: list[str], limits: Limits) -> None:
    if not 1 <= len(texts) <= limits.max_inputs:
        raise refused("input", f"there are {len(texts)} inputs; from 1 to {limits.max_inputs} are possible.")


def _pieces(text: str, wire: EncodeRequest, model: Model, reading: Reading) -> list[Piece]:
    if not wire.do_preprocess:
        return prompt_pieces(TokenizeRequest(prompt=text, add_special_tokens=wire.add_bos), model, reading)
    if wire.add_bos is False:
        raise UnsupportedError(
            "add_bos cannot be honoured: a later round's prompt is that of all rounds.",
            position=Position(path="add_bos"),
            hint="Send the messages to /v1/tokenize.",
        )
    chat = ChatRequest(messages=[ChatMessage(role="user", content=text)])
    return chat_pieces(chat, model, reading, opens_reply=True)
