"""Events → what a completion client reads. A stream tells the parts one by one, a whole answer joins them."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from antiphon.conversation import Event, TokenLogprob
from antiphon.wire.chat.write import finite
from antiphon.wire.projection import Finished, Projection, Said

from .schema import CompletionLogprobs

_utf8 = getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True)
class Part:
    """More of one choice's text; the last part has ``finished``."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    finished: Finished | None = None


class ChoiceText:
    """One choice: its prompt where that is echoed, what the model says for users, the suffix (resolution D-14)."""

    def __init__(self, *, echo: str = "", suffix: str = "") -> None:
        self._projection = Projection()
        self._echo = echo
        self._suffix = suffix

    def feed(self, event: Event) -> list[Part]:
        """What ``event`` adds; reasoning and calls are no text of a completion."""
        echo, self._echo = self._echo, ""
        begun = [Part(echo)] if echo else []
        match self._projection.feed(event):
            case Said(text, logprobs):
                return [*begun, Part(text, logprobs)]
            case Finished() as finished:
                suffix = [Part(self._suffix)] if self._suffix else []
                return [*begun, *suffix, Part("", finished=finished)]
            case _:
                return begun


class LogprobWriter:
    """The log probabilities of one choice, whose tokens are counted through its parts."""

    def __init__(self, alternatives: int) -> None:
        self._alternatives = alternatives
        self._decoder = _utf8("replace")
        self._at = 0

    def write(self, told: Iterable[TokenLogprob]) -> CompletionLogprobs:
        """The token itself is always among its alternatives, as OpenAI has it."""
        tokens = list(told)
        return CompletionLogprobs(
            tokens=[token_text(one.data) for one in tokens],
            token_logprobs=[finite(one.logprob) for one in tokens],
            top_logprobs=[self._top(one) for one in tokens],
            text_offset=[self._offset(one) for one in tokens],
        )

    def _top(self, one: TokenLogprob) -> dict[str, float]:
        told = [*one.top[: self._alternatives], one]
        return {token_text(other.data): finite(other.logprob) for other in told}

    def _offset(self, one: TokenLogprob) -> int:
        at = self._at
        self._at += len(self._decoder.decode(one.data))
        return at


def token_text(data: bytes) -> str:
    """A token's text; part of a character is spelled as ``bytes:\\xe6\\xbc``."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def likelihood(parts: Sequence[Part]) -> float:
    """The mean log probability of a choice's tokens, by which ``best_of`` ranks."""
    told = [one.logprob for part in parts for one in part.logprobs]
    return sum(told) / len(told) if told else 0.0
