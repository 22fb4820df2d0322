"""Random conversations in the reference's JSON form, and random streams of ids as models write them, by a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from antiphon.tokens import Control, Tokenizer

WORDS = (
    *("x", "null", "a b", "<|end|>", "é", "line1\nline2", "", 'q"q', "天気", "\r\n", "foo\r\nbar\n", "<|constrain|>"),
    *("functions", "nullify", " lead", "-- "),
)
HEADER_VALUES = (
    *("", "to=x", "x to=y", "user", "tool", "functions.f", "f(", "f.", "f\nto=x", "\u200b", "json", "final", "yaml"),
    *("application/json", "a b", "all", "functions.f g.h", "<|channel|>final", "x\u00a0y", "to=", "system:bob"),
)
"""Values that forge another header, or nearly."""
NUMBERS = (
    *(0, 1, -1, 1.0, -0.0, 1e16, 1e15, 123456789012345680.0, 1e-5, 1e-6, 1.5e-7, 1e21, 2**63, 2**64 - 1, 2**64),
    *(-(2**63), -(2**63) - 1, 10**29, 0.1, 1234.5),
)


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
        for key in [key for key in fields if key != "role"] if self.often(0.1) else ():
            fields[key] = self.random.choice(HEADER_VALUES)
        own = {"system": self.system, "developer": self.developer}.get(role, self.text)
        makers = (own, own, self.text, self.system if self.often(0.02) else self.text)
        parts = [self.random.choice(makers)() for _ in range(self.random.randint(0, 2))]
        return fields | {"content": self.word() if self.often(0.1) else parts}

    def conversation(self) -> Any:
        return {"messages": [self.message() for _ in range(self.random.randint(0, 6))]}


class Streams:
    """Random token streams: frames as models write them, broken here and there."""

    TEXTS = (
        *("assistant", "user", "tool", "functions.f", " to=functions.f", "commentary", "analysis", "final", " json"),
        *("json", "to=", "x", " y", "\n", "天気", '"q\\', "\u00a0", "\u2003", " to=assistant", "to=a", "<|channel|>"),
        *("<|constrain|>", " <|constrain|>json", "é", "\u0301", "\x00", "\x1b", "?", "<", "a<b", "\u200b", "\x0b"),
        *("\x1c", "\x1d", " to=f\x1e", "final\x1f", "\x85", "\ufffd", "🗼", "👩‍🚀"),
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
