"""The table ``[store]``: the files of models."""

from __future__ import annotations

import msgspec


class ModelFilesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``folder`` is where model files are."""

    folder: str = ""
