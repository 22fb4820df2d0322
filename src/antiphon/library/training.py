"""Samples to train on: the ids of a conversation, and of each id who wrote it and what it weighs."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from itertools import repeat
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeGuard

from antiphon.catalog.loading import model_format
from antiphon.config import load_config
from antiphon.conversation import Conversation
from antiphon.errors import Position, RequestError
from antiphon.formats import Format, HistoryPolicy
from antiphon.formats.harmony import Harmony
from antiphon.generation import Model
from antiphon.generation.images import check_seen
from antiphon.generation.passages import Change, Owner, Part, Passage
from antiphon.generation.sampled import Tracer, Written
from antiphon.generation.sequences import common
from antiphon.tokens import Tokenizer, o200k_harmony

from .checks import checked, refused
from .model import LoadedModel
from .options import ChatInput, read_input

ModelSource = str | Path | Model | LoadedModel | tuple[Format, Tokenizer]
"""A model's name, its GGUF file or its folder of Hugging Face's; "harmony" with the vocabulary of gpt-oss; a model that
is open; a format and a vocabulary."""
TrainOn = Literal["all", "last"] | Collection[Owner]
"""All that the model samples, its last reply, or all texts of these owners."""
IGNORED = -100
"""The label of an id that is not trained, as PyTorch's cross entropy and the field's trainers have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sequence to train on. Arrays and bytes have an entry for each id; numpy reads them without a copy.

    ``sampled``: 1 where the model samples the id, else 0. ``weights``: the weight of its loss, 0 where it is not
    trained. ``owners`` and ``parts``: an `Owner` and a `Part`. ``messages``: the index of the message whose id it is,
    -1 for the template's. ``logprobs``: the log probability with which each id was sampled, 0 where it was not; empty
    where none are known. ``passages``: stretches of ids that are alike. ``changes``: what the template does not write
    as it was given.
    """

    ids: array[int]
    sampled: bytes
    weights: array[float]
    owners: bytes
    parts: bytes
    messages: array[int]
    logprobs: array[float]
    passages: tuple[Passage, ...]
    changes: tuple[Change, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labels(self) -> array[int]:
        """The ids, with `IGNORED` in the place of each that is not trained."""
        return array("i", (id if weight else IGNORED for id, weight in zip(self.ids, self.weights, strict=True)))


class Renderer:
    """Makes samples for one model. Several threads may share it, and processes make one each.

    ``history`` says which reasoning of earlier turns stays, where the template does not decide that by itself. ``date``
    is the day that a template is told which asks for one; None: that of a conversation, else today.
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        chat_template: str | Path | None = None,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
        date: date | None = None,
    ) -> None:
        """Raises `NotFoundError` for an unknown name, `ModelError` for a model whose files are not here."""
        self.format, self.tokenizer = _opened(model, chat_template)
        self._tracer = Tracer(self.format, self.tokenizer, history=history)
        self._date = date

    @checked
    def render(
        self,
        messages: ChatInput,
        *,
        train_on: TrainOn = "all",
        weights: Mapping[int, float] | None = None,
    ) -> Sample:
        """The whole conversation as a sample.

        ``weights`` are those of messages by their index; of all others it is 1. Raises `RequestError` for input that is
        no conversation, `RenderError` for one that the format cannot write.
        """
        return self.sample(read_input(messages), train_on=train_on, weights=weights)

    def sample(
        self, conversation: Conversation, *, train_on: TrainOn = "all", weights: Mapping[int, float] | None = None
    ) -> Sample:
        """The same of what is a conversation for certain: its types are not looked at again."""
        check_seen(conversation.messages, seen=False)  # A sample has ids, and no images.
        settings = conversation.settings
        if self._date is not None or settings.current_date is None:
            conversation = replace(conversation, settings=replace(settings, current_date=self._date or date.today()))
        for i, weight in (weights or {}).items():
            if not (0 <= i < len(conversation.messages) and isfinite(weight)):
                raise refused(
                    f"weights[{i}]", "is no message's, or no number.", "Weights go by the index of a message."
                )
        written = self._tracer.trace(conversation)
        return _sample(written, _trained(written.passages, train_on, weights or {}))


@cache
def _renderer(model: str) -> Renderer:
    return Renderer(model)


@checked
def render(
    messages: ChatInput,
    model: ModelSource,
    *,
    train_on: TrainOn = "all",
    weights: Mapping[int, float] | None = None,
) -> Sample:
    """One conversation as a sample, as `Renderer.render` has it; the renderer of a model that is named is kept."""
    renderer = _renderer(model) if isinstance(model, str) else Renderer(model)
    return renderer.render(messages, train_on=train_on, weights=weights)


# Rollouts: what a model was prompted with and sampled, turn by turn.


@dataclass(frozen=True, slots=True)
class Turn:
    """The ids of a prompt, those that the model sampled behind it, and their log probabilities, if they are known."""

    prompt: Sequence[int]
    sampled: Sequence[int]
    logprobs: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Break:
    """A ``turn`` whose prompt does not begin with the turn before it and its reply: the id at ``position`` differs.

    ``within_reply``: it is an id that the model sampled, so that the prompt has its reply in another spelling.
    """

    turn: int
    position: int
    within_reply: bool

    def __str__(self) -> str:
        what = "writes the reply before it otherwise" if self.within_reply else "has another beginning"
        return f"the prompt of turn {self.turn} {what}, from id {self.position} on"


def join_rollout(turns: Iterable[Turn]) -> tuple[list[Sample], list[Break]]:
    """The turns as samples: one, while each prompt begins with the turn before it; and where a new one had to begin.

    Of an id that no model sampled the owner is not known: it is the template's. Raises `RequestError` for log
    probabilities that are not as many as what was sampled.
    """
    samples, breaks, so_far = list[Sample](), list[Break](), list[Turn]()
    for number, turn in enumerate(turns):
        if turn.logprobs and len(turn.logprobs) != len(turn.sampled):
            what = f"turn {number} has {len(turn.sampled)} sampled ids and {len(turn.logprobs)} log probabilities"
            raise RequestError(what, code="invalid_value", position=Position(path=f"turns[{number}].logprobs"))
        for name, ids in (("prompt", turn.prompt), ("sampled", turn.sampled)):
            if not all(type(id) is int and 0 <= id < 2**31 for id in ids):
                raise refused(f"turns[{number}].{name}", "has an entry that is no id.", "Ids are integers from 0.")
        if so_far:
            before = [*so_far[-1].prompt, *so_far[-1].sampled]
            if [*turn.prompt[: len(before)]] != before:
                place = common(tuple(turn.prompt), tuple(before))
                breaks.append(Break(number, place, place >= len(so_far[-1].prompt)))
                samples.append(_joined(so_far))
                so_far = []
        so_far.append(turn)
    return [*samples, *([_joined(so_far)] if so_far else [])], breaks


def _joined(turns: Sequence[Turn]) -> Sample:
    ids, logprobs, passages = array("i"), array("f"), list[Passage]()
    for turn in turns:
        start = len(ids)
        ids.extend(turn.prompt[start:])
        logprobs.extend(repeat(0.0, len(ids) - start))
        passages.append(Passage(start, len(ids), Owner.TEMPLATE, -1))
        start = len(ids)
        ids.extend(turn.sampled)
        logprobs.extend(turn.logprobs or repeat(0.0, len(turn.sampled)))
        passages.append(Passage(start, len(ids), Owner.ASSISTANT, -1, Part.NONE, True))
    shown = tuple(one for one in passages if one.end > one.start)
    known = logprobs if any(turn.logprobs for turn in turns) else array("f")
    return _sample(Written(ids, shown, ()), [float(one.sampled) for one in shown], known)


def _sample(written: Written, weights: Sequence[float], logprobs: array[float] | None = None) -> Sample:
    passages = written.passages
    sizes = [one.end - one.start for one in passages]
    messages, weighed = array("i"), array("f")
    messages.frombytes(_runs(array("i", (one.message for one in passages)), sizes))
    weighed.frombytes(_runs(array("f", weights), sizes))
    return Sample(
        ids=written.ids,
        sampled=_runs(bytes(one.sampled for one in passages), sizes),
        weights=weighed,
        owners=_runs(bytes(one.owner for one in passages), sizes),
        parts=_runs(bytes(one.part for one in passages), sizes),
        messages=messages,
        passages=passages,
        changes=written.changes,
        logprobs=array("f") if logprobs is None else logprobs,
    )


def _runs(values: bytes | array[Any], sizes: Sequence[int]) -> bytes:
    """The memory of the values, each of them so many times."""
    width = memoryview(values).itemsize
    memory = bytes(values)
    return b"".join([memory[at * width : (at + 1) * width] * size for at, size in enumerate(sizes)])


def _trained(passages: Sequence[Passage], train_on: TrainOn, weights: Mapping[int, float]) -> list[float]:
    """The weight of each passage."""
    if train_on not in ("all", "last") and not _are_owners(train_on):
        raise refused("train_on", f"is {train_on!r}.", 'Give "all", "last" or a set of training.Owner.')
    if isinstance(train_on, str):
        place = len(passages)
        while place and not passages[place - 1].sampled:
            place -= 1
        while train_on == "last" and place and passages[place - 1].sampled:
            place -= 1
        chosen = [one.sampled and (train_on == "all" or i >= place) for i, one in enumerate(passages)]
    else:
        chosen = [one.owner in train_on and one.sampled == (one.owner is Owner.ASSISTANT) for one in passages]
    return [weights.get(one.message, 1.0) if own else 0.0 for one, own in zip(passages, chosen, strict=True)]


def _are_owners(train_on: object) -> TypeGuard[Collection[Owner]]:
    return isinstance(train_on, Collection) and all(isinstance(one, Owner) for one in train_on)


def _opened(model: ModelSource, chat_template: str | Path | None) -> tuple[Format, Tokenizer]:
    if isinstance(model, LoadedModel):
        model = model.model
    if isinstance(model, Model):
        model = (model.format, model.tokenizer)
    if isinstance(model, tuple):
        if chat_template is not None:
            raise refused("chat_template", "the format is given already.", "Give a model by its name or file.")
        return model
    if model == "harmony" and chat_template is None:
        return Harmony(), o200k_harmony()
    template = None if chat_template is None else str(chat_template)
    config = load_config(os.environ, {"model": str(model), "chat_template": template}).config
    format, text = model_format(config)
    return format, text.tokenizer
