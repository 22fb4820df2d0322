"""The work on a chunk of rows: read, check and render each, and add up what they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from antiphon.conversation import Conversation
from antiphon.generation.passages import Owner, Part

from .checks import THOUGHT, RowFinding, controls_pattern, conversation_findings, digest_of, finding
from .columns import COLUMNS, Renderer, Sample, encode, labels
from .forms import AUTO, Row, RowReader, error_of
from .rows import Chunk

MOST_NAMES = 1_000
"""Names of tools that are counted apart."""
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """The model that rows are rendered for. ``controls`` are the spellings of its control tokens.

    ``identity`` says what its ids depend on: another one gives other ids.
    """

    renderer: Renderer
    controls: Collection[str]
    identity: str


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The work on each row, beside that it is read and rendered.

    ``form`` and ``field`` are those of `RowReader`, ``train_on`` that of the renderer. ``check``: everything is looked
    for that may be wrong; ``fix``: rows are written with the changes that are sure. ``columns`` are written as files of
    ``kind``; ``packed``: as they are packed. ``context``: the most tokens of a row.
    """

    form: str = AUTO
    field: str | None = None
    train_on: Literal["all", "last"] | tuple[Owner, ...] = "all"
    check: bool = False
    fix: bool = False
    columns: tuple[str, ...] = ()
    kind: str = "jsonl"
    packed: bool = False
    context: int | None = None


class Sums(msgspec.Struct):
    """Counts of rows, of their tokens, and of whose these are. ``wrong`` rows have errors, ``failed`` are not rendered.

    ``lengths``: how many rows have so many tokens. ``kinds``: findings by their kind. ``sequences``: those that rows
    were packed into, and ``packed`` the tokens there.
    """

    rows: int = 0
    wrong: int = 0
    failed: int = 0
    written: int = 0
    tokens: int = 0
    sampled: int = 0
    trained: int = 0
    lengths: dict[int, int] = {}
    owners: dict[str, int] = {}
    parts: dict[str, int] = {}
    roles: dict[str, int] = {}
    tools: dict[str, int] = {}
    kinds: dict[str, int] = {}
    sequences: int = 0
    packed: int = 0

    def add(self, other: Sums) -> None:
        for name in self.__struct_fields__:
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, mine + more if isinstance(more, int) else _added(mine, more))

    def percentile(self, share: float) -> int:
        """The tokens that so large a share of the rows has at most; 0 without rows."""
        left = share * sum(self.lengths.values())
        for length in sorted(self.lengths):
            left -= self.lengths[length]
            if left <= 0:
                return length
        return max(self.lengths, default=0)


def _added(counts: dict[Any, int], more: Mapping[Any, int]) -> dict[Any, int]:
    for key, count in more.items():
        known = key in counts or not isinstance(key, str) or len(counts) < MOST_NAMES
        key = key if known else OTHERS
        counts[key] = counts.get(key, 0) + count
    return counts


class PackedRow(msgspec.Struct, array_like=True, frozen=True):
    """A row that is to be packed: its ids and labels as the memory of int32."""

    ids: bytes
    labels: bytes


class Result(msgspec.Struct):
    """The result of a chunk, in the order of its rows. ``digests``: 16 bytes and the row's number as 8 for each."""

    sums: Sums = msgspec.field(default_factory=Sums)
    findings: list[RowFinding] = []
    output: list[bytes] = []
    packed: list[PackedRow] = []
    fixed: list[tuple[int, bytes]] = []
    digests: bytes = b""

    def add(self, other: Result) -> None:
        """Adds the result of the rows behind these."""
        self.sums.add(other.sums)
        self.findings += other.findings
        self.output += other.output
        self.packed += other.packed
        self.fixed += other.fixed
        self.digests += other.digests


class RowWork:
    """Does a task for one model. One for each process; the caches of the model's texts grow with use."""

    def __init__(self, model: TrainedModel, task: Task) -> None:
        self.identity = model.identity
        self._task = task
        self._renderer = model.renderer
        self._controls = controls_pattern(model.controls) if task.check else None
        self._reader = RowReader(task.form, task.field)

    def run(self, chunk: Chunk) -> Result:
        """The result of a chunk. What is wrong with a row is a finding, whatever it is."""
        task, result, rows = self._task, Result(), list[dict[str, Any]]()
        if chunk.problem is not None:
            code, reason = chunk.problem
            result.sums.rows = result.sums.failed = int(chunk.first > 0)
            self._note(result, [RowFinding(chunk.first, "", code, "error", reason)])
        for number, data in chunk.rows() if chunk.problem is None else ():
            result.sums.rows += 1
            name = chunk.path if chunk.kind == "text" else ""
            try:
                row = self._reader.read(data, name)
                found = list(conversation_findings(row, number, self._controls)) if task.check else []
                digest = digest_of(row.conversation) if task.check else b""
                sample = self._renderer.sample(row.conversation, train_on=task.train_on, weights=row.weights)
            except Exception as error:  # noqa: BLE001 - one row that nothing can be done with is named, and ends no run
                result.sums.failed += 1
                one = error_of(error)
                place = str(one.position or "")
                reason = one.message.removeprefix(f"{place}: ")
                self._note(result, [RowFinding(number, place, one.code, "error", reason, hint=one.hint)])
                continue
            result.digests += digest + number.to_bytes(8) if digest else b""
            found += self._of_sample(row, sample, number)
            self._note(result, found)
            result.sums.add(sums_of(row.conversation, sample))
            too_long = task.context is not None and len(sample.ids) > task.context
            if task.fix and not any(one.severity == "error" and one.fix is None for one in found):
                result.fixed.append((number, fixed(data, found)))
            if not too_long:
                self._write(sample, f"{chunk.path}:{number}", rows, result)
        if rows:
            result.output.append(encode(rows, task.kind))
        return result

    def _of_sample(self, row: Row, sample: Sample, number: int) -> Iterator[RowFinding]:
        task = self._task
        if task.context is not None and len(sample.ids) > task.context:
            yield finding(number, "", "too_long", f"{len(sample.ids)} tokens, of which there may be {task.context}")
        if not task.check:
            return
        for change in sample.changes:
            yield finding(number, row.place(change.message), change.kind, str(change))
        if row.conversation.messages and not any(sample.weights):
            yield finding(number, "", "untrained", "no token of the row is trained")

    def _write(self, sample: Sample, source: str, rows: list[dict[str, Any]], result: Result) -> None:
        result.sums.written += 1
        if self._task.packed:
            result.packed.append(PackedRow(sample.ids.tobytes(), labels(sample).tobytes()))
        elif self._task.columns:
            row = {name: COLUMNS[name][1](sample) if name in COLUMNS else source for name in self._task.columns}
            rows.append(row)

    def _note(self, result: Result, found: list[RowFinding]) -> None:
        result.findings += found
        result.sums.wrong += any(one.severity == "error" for one in found)
        for one in found:
            result.sums.kinds[one.kind] = result.sums.kinds.get(one.kind, 0) + 1


_OWNERS, _PARTS = tuple(one.name.lower() for one in Owner), tuple(one.name.lower() for one in Part)


def sums_of(conversation: Conversation, sample: Sample) -> Sums:
    """Sums of one row."""
    sampled = trained = 0
    owners, parts = [0] * len(_OWNERS), [0] * len(_PARTS)
    for one in sample.passages:
        size = one.end - one.start
        owners[one.owner] += size
        parts[one.part] += size
        sampled += size if one.sampled else 0
        trained += size if sample.weights[one.start] else 0
    parts[Part.NONE] = 0
    return Sums(
        tokens=len(sample.ids),
        sampled=sampled,
        trained=trained,
        lengths={len(sample.ids): 1},
        owners={name: count for name, count in zip(_OWNERS, owners, strict=True) if count},
        parts={name: count for name, count in zip(_PARTS, parts, strict=True) if count},
        roles=Counter(message.role.value for message in conversation.messages),
        tools=Counter(message.recipient or "" for message in conversation.messages if message.is_call),
    )


# Changes that are surely meant: of rows of chat JSON, whose spelling is ours to change.


def fixed(data: bytes, found: list[RowFinding]) -> bytes:
    """The row with the fixes of its findings; without any, its own bytes."""
    if not any(one.fix for one in found):
        return data
    value = msgspec.json.decode(data)
    for message in value.get("messages") or ():
        for call in message.get("tool_calls") or ():
            _unwrap(call.get("function") or {})
        if message.get("role") == "assistant" and isinstance(message.get("content"), str):
            _move_thought(message)
    return msgspec.json.encode(value)


def _unwrap(function: dict[str, Any]) -> None:
    """Takes the text off arguments that are JSON within JSON."""
    inner: Any = function.get("arguments")
    for _ in range(2):
        try:
            inner = msgspec.json.decode(inner) if isinstance(inner, str) else None
        except msgspec.DecodeError:
            return
        if isinstance(inner, dict):
            function["arguments"] = msgspec.json.encode(inner).decode()


def _move_thought(message: dict[str, Any]) -> None:
    """Moves the reasoning at the beginning of an answer to its own field, which must be free."""
    thought = THOUGHT.match(message["content"])
    if thought is not None and not any(message.get(name) for name in ("reasoning", "reasoning_content", "thinking")):
        message["reasoning"], message["content"] = thought[1], message["content"][thought.end() :]
