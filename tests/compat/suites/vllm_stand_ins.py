"""A plugin of pytest's: the parts of vLLM that speak Harmony are imported as they are, without the rest of vLLM.

vLLM needs some gigabytes to be imported. The modules of ``REAL`` are its own files; any other module of it, and any
package that is not installed (torch, transformers, xgrammar), is a stand-in whose names are empty classes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Self

REAL = ("entrypoints", "exceptions", "envs", "logger", "logging_utils", "parser", "reasoning", "tool_parsers")
MISSING = ("torch", "transformers", "xgrammar", "partial_json_parser", "regex", "PIL", "cv2", "prometheus_client")


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
    """A module that has every name, and every module below it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if self.__name__ == "vllm" and name in REAL:
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
    """Finds what is not to be, or cannot be, imported."""

    def __init__(self, vllm: Path) -> None:
        self._vllm = vllm

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        real = package == "vllm" and rest.partition(".")[0] in REAL
        return ModuleSpec(name, self) if not real and package in ("vllm", *MISSING) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = StandInModule(spec.name)
        if spec.name == "vllm":
            module.__path__ = [str(self._vllm)]
        if spec.name == "transformers":
            module.AutoTokenizer = GptOssTokenizer  # type: ignore[attr-defined]  # a name of that package
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def pytest_configure(config: Any) -> None:
    sys.meta_path.insert(0, StandIns(config.rootpath / "vllm"))
