"""What of a package speaks Harmony is imported as it is, without the rest of it; for vLLM a plugin of pytest's.

vLLM and SGLang need some gigabytes to be imported. Modules whose names a pattern matches are their own files; any other
module of theirs, and any of ``MISSING``, is a stand-in whose names are empty classes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Self

VLLM = re.compile(r"vllm\.(entrypoints|exceptions|envs|logger|logging_utils|parser|reasoning|tool_parsers)(\..+)?")
MISSING = (
    "torch",
    "transformers",
    "xgrammar",
    "partial_json_parser",
    "regex",
    "PIL",
    "cv2",
    "prometheus_client",
    "orjson",
)


class AnyName(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str) -> Any:
        return _named(name)


NUMBERS = count()


class StandIn(str, metaclass=AnyName):
    """What a name of a stand-in is: a class that can be made, called, derived from, and put into a pydantic model.

    What is made of it is a text of its own, as ids are.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        return str.__new__(cls, f"{cls.__name__}-{next(NUMBERS)}")

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def __call__(self, *values: Any, **_: object) -> Any:
        return values[0] if len(values) == 1 and callable(values[0]) else self

    def __getattr__(self, name: str) -> Any:
        return _named(name)()

    def __class_getitem__(cls, _: object) -> type:
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        return {"type": "any"}


def _named(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return AnyName(name, (StandIn,), {})


class StandInModule(ModuleType):
    """A module that has every name, but for those of modules that are real."""

    def __init__(self, name: str, folder: Path, real: re.Pattern[str]) -> None:
        super().__init__(name)
        self.__path__ = [str(folder.joinpath(*name.split(".")))]
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if self._real.fullmatch(f"{self.__name__}.{name}"):
            raise AttributeError(name)  # it is imported
        return _named(name)


class GptOssTokenizer:
    """The model's tokenizer, whose files are on no package index."""

    @classmethod
    def from_pretrained(cls, name: str) -> GptOssTokenizer:
        return cls()

    def decode(self, ids: Sequence[int]) -> str:
        encoding: Any = import_module("vllm.entrypoints.openai.parser.harmony_utils").get_encoding()
        return str(encoding.decode(ids))


class StandIns(MetaPathFinder, Loader):
    """Finds what is not to be, or cannot be, imported; ``real`` matches the modules in ``folder`` that are."""

    def __init__(self, folder: Path, real: re.Pattern[str]) -> None:
        self._folder = folder
        self._real = real
        self._packages = (real.pattern.partition("\\")[0], *MISSING)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        stands_in = name.partition(".")[0] in self._packages and not self._real.fullmatch(name)
        return ModuleSpec(name, self) if stands_in else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = StandInModule(spec.name, self._folder, self._real)
        if spec.name == "transformers":
            vars(module)["AutoTokenizer"] = GptOssTokenizer
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def pytest_configure(config: Any) -> None:
    if (config.rootpath / "vllm").is_dir():
        sys.meta_path.insert(0, StandIns(config.rootpath, VLLM))
