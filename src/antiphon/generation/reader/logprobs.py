"""Which text a log probability belongs to."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.conversation import TokenLogprob
from antiphon.tokens import Control, Tokenizer


def spelled(one: TokenLogprob, tokenizer: Tokenizer) -> TokenLogprob:
    """The same with the spelling of a control, of which engines report no bytes."""
    piece = tokenizer.piece(one.id)
    top = tuple(spelled(other, tokenizer) for other in one.top)
    return replace(one, data=piece.spelling.encode() if isinstance(piece, Control) else one.data, top=top)


class PendingLogprobs:
    """Log probabilities on their way to the text that their tokens become."""

    def __init__(self) -> None:
        self.waiting: list[TokenLogprob] = []

    def add(self, logprob: TokenLogprob, *, control: bool) -> None:
        """A control becomes no text, nor do the tokens that waited before it."""
        if control:
            self.clear()
        else:
            self.waiting.append(logprob)

    def take(self) -> tuple[TokenLogprob, ...]:
        taken, self.waiting = tuple(self.waiting), []
        return taken

    def clear(self) -> None:
        self.waiting = []
