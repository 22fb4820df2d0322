"""How clients of other servers ask for an answer of a form; ours are ``response_format`` and ``text.format``."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.errors import Position, UnsupportedError


class FormFields(msgspec.Struct, kw_only=True):
    """Refused by name, never ignored: an answer of another form would be an answer to another question.

    vLLM has ``guided_…`` and ``structured_outputs``, llama.cpp ``grammar`` and ``json_schema``, SGLang the last three.
    """

    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None
    structured_outputs: Any = None
    grammar: Any = None
    json_schema: Any = None
    regex: Any = None
    ebnf: Any = None
    structural_tag: Any = None


FORM_FIELDS = FormFields.__struct_fields__


def check_forms(wire: FormFields, hint: str | None) -> None:
    """Raises `UnsupportedError`, naming the field, where a form is requested in words that are not ours.

    An empty text, as llama.cpp's own page sends it, requests none.
    """
    for name in FORM_FIELDS:
        if getattr(wire, name) not in (None, ""):
            raise UnsupportedError(f"{name} cannot be honoured.", position=Position(path=name), hint=hint)
