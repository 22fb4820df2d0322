"""LMDeploy's own templates, from the one file of a release that has them: nothing else of the release is imported."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

SEED = "0.0.14"
"""The release of the article's month, whose templates are called NAME@seed here."""

RELEASES = {
    "0.0.14": "95718ddc5dbade7b4a6e7a72d3520e3b7e2019e77fc6075206a2d2b39bbb3fdf",
    "0.1.0": "918a7d32bb3a0ea9ae8dff791a33939486bb7f6a2fb5195dd292dd8cd0a81900",
    "0.2.5": "8a3626d9df74f0346d86521419b5f1de7efa1a9da35c7e296bf0de33053e383e",
    "0.5.0": "66fc5ef8a8af430c0b3d5cc7c3ca97a8cb56bcc19f6cf156cf0a60a26e80230c",
    "0.5.1": "4482d64142e0a7e1d8e7793e6853ce02449cfcb93681016047794ed743844cbd",
    "0.7.3": "25a4dd47953326f3161485c98e937911c1c787185b6bcf660d18d9150c5a5d75",
    "0.9.2.post1": "5a5f454eef25ae5e35d414e7a577c901938145565966a51c36fd502ba647d8ed",
    "0.14.0": "206c3d9f8cc2551348aa8ae9a97d3da752a0150f92faf388c72e516fbeca96b6",
    "0.18.0": "603f201608a4a68f9edeab61523c2ff7809e23614d3ff9eb65e2416cc4d16c4c",
}
"""Between them they carry every name that ever was, the oldest first: version, and SHA-256 of its `template_files`."""


def template_files(folder: Path, version: str) -> list[Path]:
    """The files of a release that its templates are made of, in order; none where it was not fetched."""
    return sorted((folder / version / "lmdeploy").glob("*.py"))


def is_whole(folder: Path, version: str) -> bool:
    """Whether the release's files are there, as they were when this list was written."""
    texts = b"".join(file.read_bytes() for file in template_files(folder, version))
    return sha256(texts).hexdigest() == RELEASES[version]


class _Registry:
    """What the file needs of mmengine's registry: classes by name, given by a decorator or directly."""

    def __init__(self, *_: object, **__: object) -> None:
        self.module_dict: dict[str, type[Any]] = {}

    def register_module(self, name: str | Sequence[str], module: type[Any] | None = None) -> Callable[..., type[Any]]:
        def register(found: type[Any]) -> type[Any]:
            self.module_dict.update(dict.fromkeys([name] if isinstance(name, str) else name, found))
            return found

        return register if module is None else lambda: register(module)

    def get(self, name: str) -> type[Any]:
        return self.module_dict[name]


@dataclass(frozen=True)
class Release:
    """One release's templates by name."""

    version: str
    package: Path
    classes: Mapping[str, type[Any]]

    def prompt(self, name: str, messages: object, **settings: Any) -> str:
        """What its template makes of the messages; each call has a template and messages of its own."""
        template = self.classes[name]()
        given: object
        if isinstance(messages, str):
            make, given = template.get_prompt, messages
        else:
            make, given = template.messages2prompt, copy.deepcopy(messages)
        with _imports(self.package):  # Some import what they need as they are called.
            written: str = make(given, **copy.deepcopy(settings))
        return written

    def settings(self, name: str) -> dict[str, Any]:
        """The generation settings that its template carries."""
        names = ("session_len", "top_p", "top_k", "temperature", "repetition_penalty", "stop_words", "capability")
        template = self.classes[name]()
        return {each: getattr(template, each) for each in names if hasattr(template, each)}

    def takes(self, name: str, argument: str) -> bool:
        """Whether its template's prompt of a history has that argument (whatever it ignores does not count)."""
        return argument in signature(self.classes[name].messages2prompt).parameters


def load_release(folder: Path, version: str) -> Release:
    """The templates of the release that lies in ``folder/VERSION``. ValueError where its files are others."""
    if not is_whole(folder, version):
        raise ValueError(f"{folder / version} has not the files of {version}: make lmdeploy fetches them")
    file = folder / version / "lmdeploy" / "model.py"
    spec = spec_from_file_location(f"lmdeploy_model_{version.replace('.', '_')}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with _imports(file.parent):
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)
    return Release(version, file.parent, module.MODELS.module_dict)


@contextmanager
def _imports(package: Path) -> Iterator[None]:
    """The names that the file imports, without what lies behind them; a release's own small modules are real."""
    stand_ins: dict[str, dict[str, Any]] = {
        "mmengine": {"Registry": _Registry},
        "fuzzywuzzy": {"fuzz": SimpleNamespace(), "process": SimpleNamespace()},
        "lmdeploy": {"__path__": [str(package)]},
        "lmdeploy.utils": {"get_logger": logging.getLogger},
        "lmdeploy.archs": {"get_model_arch": None},
    }
    before = {name: sys.modules.get(name) for name in stand_ins}
    for name, contents in stand_ins.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(contents)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
