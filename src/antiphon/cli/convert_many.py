"""Many conversions in one run: folders are walked, names stay, and what is lost is summed up by its kind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from antiphon.conversion import Loss
from antiphon.errors import AntiphonError, ConfigError
from antiphon.writing import check_writable

from .app import error_object
from .files import SUFFIXES, files_below
from .options import print_json
from .terminal import tell
from .waiting import each_of

OTHER_SUFFIX = ".txt"
"""Of what a chat template writes."""
SHOWN = 60
"""Characters of an example of what is lost."""
Convert = Callable[[Path, Path, Callable[[Loss], None]], None]
"""Converts a file into another, and calls with each loss. Raises `AntiphonError`."""
_NUMBER = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class LossCount:
    """Losses of one kind: how many, in which files (the first is named), and the first as an example."""

    example: Loss
    files: dict[Path, None] = field(default_factory=dict)
    count: int = 0


@dataclass(slots=True)
class ManyConversions:
    """``failed`` has the error of each file that was not converted. ``force``: files that are there are replaced."""

    out: Path
    to: str
    force: bool = False
    converted: dict[Path, Path] = field(default_factory=dict)
    failed: dict[Path, AntiphonError] = field(default_factory=dict)
    losses: dict[tuple[str, str], LossCount] = field(default_factory=dict)

    def run(self, paths: Sequence[Path], source: str | None, convert: Convert) -> None:
        """Converts every file of the paths, whatever becomes of the others."""
        inputs = self._without_outputs(files_below(paths, source), paths)
        reserved = {file.resolve() for file in inputs}
        for file in each_of(list(inputs), "converting"):
            try:
                target = self._target(inputs[file], reserved)
                convert(file, target, partial(self._lose, file))
                self.converted[file] = target
            except AntiphonError as error:
                self.failed[file] = error

    def _without_outputs(self, inputs: Mapping[Path, Path], paths: Sequence[Path]) -> Mapping[Path, Path]:
        """Without the files of a former run, where the outputs lie below a folder of inputs."""
        out = self.out.resolve()
        if not any(path.is_dir() and path.resolve() in out.parents for path in paths):
            return inputs
        return {file: relative for file, relative in inputs.items() if out not in file.resolve().parents}

    def _target(self, relative: Path, reserved: set[Path]) -> Path:
        """Where a file's output goes. Raises `ConfigError` where something is that must stay."""
        target = self.out / relative.with_suffix(SUFFIXES.get(self.to, (OTHER_SUFFIX,))[0])
        if target.resolve() in reserved:
            raise ConfigError(f"{target} is an input, or the output of another", code="unwritable_output")
        check_writable(target, replace=self.force)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write {target}: {error.strerror}", code="unwritable_output") from None
        reserved.add(target.resolve())
        return target

    def _lose(self, file: Path, loss: Loss) -> None:
        known = self.losses.setdefault((_NUMBER.sub("[]", loss.path), loss.kind), LossCount(loss))
        known.files[file] = None
        known.count += 1

    def report(self, *, as_json: bool) -> None:
        """One line for each file that failed, then what was lost, the gravest and most frequent first."""
        if as_json:
            print_json(self.as_object())
            return
        for file, error in self.failed.items():
            place = f"{error.position}: " if error.position and str(error.position) else ""
            hint = f"  {error.hint}" if error.hint else ""
            tell(f"{file}: {place}{error.message}  [{error.code}]{hint}", file=sys.stderr)
        done = f"{len(self.converted)} of {len(self.converted) + len(self.failed)} files are in {self.out}"
        tell(done + (": what is not in them:" if self.losses else ""), file=sys.stderr)
        for (path, _), lost in self._sorted():
            tell(loss_line(path, lost), file=sys.stderr)

    def _sorted(self) -> list[tuple[tuple[str, str], LossCount]]:
        return sorted(self.losses.items(), key=lambda item: (item[0][1] != "semantic", -item[1].count, item[0]))

    def as_object(self) -> Mapping[str, Any]:
        """The same for programs."""
        done = [{"file": str(file), "out": str(out)} for file, out in self.converted.items()]
        failed = [{"file": str(file), "error": error_object(error)} for file, error in self.failed.items()]
        losses = [
            {
                "path": path,
                "kind": kind,
                "count": lost.count,
                "files": len(lost.files),
                "first": str(next(iter(lost.files))),
                "example": lost.example,
            }
            for (path, kind), lost in self._sorted()
        ]
        return {"converted": done, "failed": failed, "losses": losses}


def loss_line(path: str, lost: LossCount) -> str:
    """``12 × messages[].call_id in 3 files, first a.json: 'w1'``."""
    what = str(lost.example).removeprefix(f"{lost.example.path}: ")
    shown = what if len(what) <= SHOWN else f"{what[:SHOWN]}…"
    first, *more = lost.files
    where = f"in {first}" if not more else f"in {len(more) + 1} files, first {first}"
    return f"{lost.count:>7} × {path} {where}: {shown}"
