"""Every template that is in the tests and in packages, for a vocabulary of bytes and the template's controls."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS as HARMONY
from antiphon.formats.openchatml.openchatml import openchatml
from antiphon.formats.openchatml.spelling import CONTROLS as OPENCHATML
from antiphon.formats.replies import PLAIN, ReplyDescription
from antiphon.formats.template import builtin_templates, jinja_format, template_format
from antiphon.tokens import ByteTokenizer, Control
from kit.family_templates import FAMILIES
from kit.harmony_oracles import FOLDER
from kit.reply_templates import TEMPLATES

_FOLDER = Path(__file__).parent.parent / "formats" / "template" / "jinja"
_CONTROL = re.compile(
    r"<\|[^|<>\n'\"{} ]+\|>|<\|\w+>|<\w+\|>|</?s>|<｜[^｜<>]+｜>|\[/?[A-Z_]+\]|</?(?:think|tool_call|tool_response)>"
    r"|<(?:start|end)_of_\w+>|<\w+_begin>|<\w+_end>|<eo[sdt]>|<end_of_utterance>|<\|\"\|>"
)
"""Spellings that vocabularies have as controls."""
_END = re.compile(r"eo[tsm](?:_id)?\b|(?<!action_)end|return|</s>|\[/?EOS\]", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """``name``: where it is from, and its own name. ``eos_token``: what a template of Jinja is given by that name."""

    name: str
    format: Format
    tokenizer: ByteTokenizer
    eos_token: str = ""

    @property
    def description(self) -> ReplyDescription:
        found = getattr(self.format, "replies", PLAIN)
        assert isinstance(found, ReplyDescription)
        return found

    @property
    def thinks(self) -> bool:
        return self.format.framed or self.description.reasoning is not None

    @property
    def end_ids(self) -> frozenset[int]:
        stops = (stop for stop in self.format.stops if isinstance(stop, Control))
        return frozenset(id for stop in stops if (id := self.tokenizer.control_id(stop)) is not None)


def names(*, fetched: bool = True) -> list[str]:
    """Of all sources; ``fetched``: those of packages that ``make oracles`` fetches too."""
    declared = (f"declared: {name}" for name in builtin_templates().names if name != "hf")  # it stands for a file
    return [*_own(), *(_fetched() if fetched else ()), *declared, "harmony", "openchatml"]


def source(name: str) -> Source:
    origin, _, own = name.partition(": ")
    if origin == "harmony":
        return Source(name, Harmony(), ByteTokenizer(HARMONY))
    if origin == "openchatml":
        return Source(name, openchatml(OPENCHATML), ByteTokenizer(OPENCHATML))
    if origin == "declared":
        controls = _controls(repr(vars(builtin_templates().get(own)())))
        return Source(name, template_format(own, controls), ByteTokenizer(controls))
    return jinja(name, text_of(name))


def text_of(name: str) -> str:
    """The text of a template; an empty one where the source is none."""
    return (_fetched() if name.startswith(("trl: ", "unsloth: ")) else _own()).get(name, "")


def jinja(name: str, text: str) -> Source:
    controls = _controls(text)
    end = next((control for control in controls if _END.search(str(control))), Control("</s>"))
    known = list(dict.fromkeys([*controls, end]))
    format = jinja_format(text, known, {"bos_token": "", "eos_token": str(end)})
    return Source(name, format, ByteTokenizer(known), str(end))


def _controls(text: str) -> list[Control]:
    return [Control(spelling) for spelling in sorted(set(_CONTROL.findall(text)))]


@cache
def _own() -> dict[str, str]:
    texts = {f"own: {name}": text for name, text in (FAMILIES | TEMPLATES).items()}
    return texts | {f"tests: {path.stem}": path.read_text("utf-8") for path in sorted(_FOLDER.glob("*.jinja"))}


@cache
def _fetched() -> dict[str, str]:
    """Those of packages: `trl` has its own and models', `unsloth` those of models."""
    folder = FOLDER / "templates"
    trl = sorted((folder / "trl" / "chat_templates").glob("*.jinja"))
    texts = {f"trl: {path.stem}": path.read_text("utf-8") for path in trl}
    for node in ast.parse((folder / "unsloth" / "chat_templates.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("_template"):
            try:
                text = ast.literal_eval(node.value)
            except ValueError:  # made of another one
                continue
            if "{%" in text:  # the others are no Jinja
                texts[f"unsloth: {ast.unparse(node.targets[0]).removesuffix('_template')}"] = text
    return texts
