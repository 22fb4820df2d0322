"""The reference packages, as oracles for differential tests.

`openai-harmony` (dialect a) and `oss-harmony` (dialect b) install one module name, so each has a folder of its own:
``make oracles`` (a part of ``make test``) fills ``.oracles``. Without it, the package that is installed serves for the
dialect that it speaks.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from antiphon.tokens.bpe import o200k_harmony
from kit.harmony_corpora import Dialect

FOLDER = Path(os.environ.get("ANTIPHON_ORACLES", Path(__file__).parents[2] / ".oracles"))
CALL = '{"role": "assistant", "channel": "commentary", "recipient": "f", "content": ""}'


def oracle(dialect: Dialect, vocabulary: Path) -> Any:
    """The reference's module for a dialect, with its ``encoding``.

    ``vocabulary`` is a folder for the ranks that dialect a would fetch.
    """
    ranks = vocabulary / "o200k_base.tiktoken"
    if not ranks.exists():
        pieces = map(o200k_harmony().piece, range(199_998))
        lines = (base64.b64encode(p) + b" %d\n" % rank for rank, p in enumerate(pieces) if isinstance(p, bytes))
        ranks.write_bytes(b"".join(lines))
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(vocabulary)
    module = _module(dialect)
    assert module is not None, f"no oracle for dialect {dialect}: run `make oracles`"
    return module


@lru_cache
def _module(dialect: Dialect) -> ModuleType | None:
    package = FOLDER / dialect / "openai_harmony"
    if package.is_dir():
        return _load(f"harmony_oracle_{dialect}", package)
    found = importlib.util.find_spec("openai_harmony")
    if found is None or not found.submodule_search_locations:
        return None
    installed = _load("harmony_oracle", Path(found.submodule_search_locations[0]))
    return installed if _speaks(installed) == dialect else None


def _load(name: str, package: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    vars(module)["encoding"] = module.load_harmony_encoding("HarmonyGptOss")  # half a second each time, so once
    return module


def _speaks(module: Any) -> Dialect:
    inner = module.encoding._inner.render(message_json=CALL, render_options={"conversation_has_function_tools": False})
    return "b" if "commentary to=f" in module.encoding.decode(inner) else "a"
