"""A vocabulary of the 256 bytes and some controls: exact, tiny, for tests and examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .pieces import Control, utf8


class ByteTokenizer:
    """Ids 0-255 are the bytes; the controls follow in the order given."""

    def __init__(self, controls: Iterable[Control | str] = ()) -> None:
        given = [c if isinstance(c, Control) else Control(c) for c in controls]
        self._controls = {control: 256 + i for i, control in enumerate(dict.fromkeys(given))}
        self._pieces: list[bytes | Control] = [bytes([b]) for b in range(256)]
        self._pieces += self._controls

    @property
    def name(self) -> str:
        return "byte/" + "/".join(control.spelling for control in self._controls)

    @property
    def size(self) -> int:
        return len(self._pieces)

    @property
    def controls(self) -> Mapping[Control, int]:
        return self._controls

    def encode(self, text: str) -> list[int]:
        return list(utf8(text))

    def encode_up_to(self, text: str, limit: int) -> list[int]:
        return self.encode(text[: limit + 1])[: limit + 1]  # a character is at least a byte

    def encode_following(self, text: str) -> None:
        return None

    def fewest(self, text: str) -> int:
        return len(text)

    def piece(self, id: int) -> bytes | Control:
        return self._pieces[id] if 0 <= id < len(self._pieces) else b""

    def control_id(self, control: Control) -> int | None:
        return self._controls.get(control)
