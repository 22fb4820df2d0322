"""Ids and masks of rows as columns, in JSON lines, Parquet and Arrow files."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import msgspec

from antiphon.conversation import Conversation
from antiphon.errors.extras import extra
from antiphon.generation.passages import Change, Owner, Passage
from antiphon.writing import written

IGNORED = -100
"""The label of an id that is not trained: PyTorch's cross entropy leaves it out."""
GROUP = 1024
"""Rows of a group of a Parquet file at least, but for the last one."""


class Sample(Protocol):
    """The ids of a conversation, and of each the model's part in it, as `antiphon.training.Sample` has them."""

    @property
    def ids(self) -> array[int]: ...
    @property
    def sampled(self) -> bytes: ...
    @property
    def weights(self) -> array[float]: ...
    @property
    def owners(self) -> bytes: ...
    @property
    def parts(self) -> bytes: ...
    @property
    def messages(self) -> array[int]: ...
    @property
    def passages(self) -> Sequence[Passage]: ...
    @property
    def changes(self) -> Sequence[Change]: ...


TrainOn = Literal["all", "last"] | Collection[Owner]
"""The part of a conversation that is trained: all that the model samples, its last reply, or texts of these owners."""


class Renderer(Protocol):
    """Renders conversations for one model."""

    def sample(
        self, conversation: Conversation, *, train_on: TrainOn = "all", weights: Mapping[int, float] | None = None
    ) -> Sample:
        """The ids of a conversation; ``weights`` are of messages by their index.

        Raises `RenderError` for one that the model's template refuses.
        """


def labels(sample: Sample) -> array[int]:
    """The ids, `IGNORED` in the place of those that are not trained."""
    found = array("i", sample.ids)
    for start, end, *_ in sample.passages:
        if not sample.weights[start]:
            found[start:end] = array("i", (IGNORED,)) * (end - start)
    return found


COLUMNS: Mapping[str, tuple[str, Callable[[Sample], Any]]] = {
    "input_ids": ("i", lambda sample: sample.ids),
    "attention_mask": ("b", lambda sample: b"\x01" * len(sample.ids)),
    "labels": ("i", labels),
    "assistant_masks": ("b", lambda sample: sample.sampled),
    "loss_weights": ("f", lambda sample: sample.weights),
    "owners": ("b", lambda sample: sample.owners),
    "parts": ("b", lambda sample: sample.parts),
    "messages": ("i", lambda sample: sample.messages),
}
"""The columns of a rendered row, each with the type of its numbers: int32, int8 or float32."""
DEFAULT_COLUMNS = ("input_ids", "attention_mask", "labels")
PACKED = {"input_ids": "i", "labels": "i", "position_ids": "i", "seq_lengths": "i"}
"""The columns of a packed sequence; ``seq_lengths`` are the lengths of its samples, in order."""
TYPES: Mapping[str, str] = {**{name: type for name, (type, _) in COLUMNS.items()}, **PACKED, "source": "s"}
FILES = {"jsonl": ".jsonl", "parquet": ".parquet", "arrow": ".arrow"}
"""The kinds of files, with the ends of their names."""


def encode(rows: Sequence[Mapping[str, Any]], kind: str) -> bytes:
    """Rows of numbers (`array`, or `bytes` for int8) and texts: as JSON lines, or as an Arrow IPC stream."""
    if not rows:
        return b""
    if kind == "jsonl":
        lines = (
            {name: value if isinstance(value, str) else list(value) for name, value in row.items()} for row in rows
        )
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    import pyarrow

    batch = pyarrow.record_batch({name: _arrow([row[name] for row in rows], TYPES[name]) for name in rows[0]})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _arrow(values: Sequence[Any], type: str) -> Any:
    """A column of lists of numbers, from their memory, or of texts."""
    import pyarrow

    if type == "s":
        return pyarrow.array(values, pyarrow.string())
    kind = {"i": pyarrow.int32(), "b": pyarrow.int8(), "f": pyarrow.float32()}[type]
    offsets = array("i", [0])
    for value in values:
        offsets.append(offsets[-1] + len(value))
    numbers = pyarrow.Array.from_buffers(kind, offsets[-1], [None, pyarrow.py_buffer(b"".join(map(bytes, values)))])
    places = pyarrow.Array.from_buffers(pyarrow.int32(), len(offsets), [None, pyarrow.py_buffer(offsets)])
    return pyarrow.ListArray.from_arrays(places, numbers)


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Callable[[bytes], None]]:
    """Writes what `encode` gives into a file that is there only when all of it is written."""
    with written(path) as file:
        if kind == "jsonl":
            yield file.write  # type: ignore[misc]
            return
        with _Batches(file, kind) as batches:
            yield batches.write


class _Batches:
    """Record batches into a Parquet or an Arrow file, whose columns the first one tells."""

    def __init__(self, file: BinaryIO, kind: str) -> None:
        self._file, self._kind = file, kind
        self._writer: Any = None
        self._waiting: list[Any] = []

    def __enter__(self) -> _Batches:
        return self

    def write(self, data: bytes) -> None:
        import pyarrow

        self._waiting += pyarrow.ipc.open_stream(data)
        if sum(batch.num_rows for batch in self._waiting) >= GROUP:
            self._write()

    def _write(self) -> None:
        import pyarrow
        import pyarrow.parquet

        if not self._waiting:
            return
        table, self._waiting = pyarrow.Table.from_batches(self._waiting), []
        if self._writer is None and self._kind == "arrow":
            self._writer = pyarrow.ipc.new_file(self._file, table.schema)
        elif self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._file, table.schema, compression="zstd")
        self._writer.write_table(table)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._write()
        if self._writer is not None:
            self._writer.close()


def check_kind(kind: str) -> None:
    """Raises `ConfigError` (``extra_missing``) for a kind of file that needs a package which is not here."""
    if kind != "jsonl":
        with extra("datasets", f"a file of the kind {kind}"):
            import pyarrow.parquet  # noqa: F401
