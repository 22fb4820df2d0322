"""The API described, from the same structs that read and write it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from antiphon.config import Limits
from antiphon.version import __version__
from antiphon.wire.bounds import bound
from antiphon.wire.errors import ErrorBody

from .openai import openai_routes
from .parts import REF, Described


def document(limits: Limits, wires: Sequence[Described] = ()) -> bytes:
    """The OpenAPI 3.1 document of a server that bears so much, whose wires are described so."""
    parts = (openai_routes(), *wires)
    kinds = dict.fromkeys((ErrorBody, *(kind for part in parts for kind in part.kinds)))
    _, components = msgspec.json.schema_components(kinds, ref_template=REF)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Antiphon", "version": __version__},
            "paths": {path: item for part in parts for path, item in part.paths.items()},
            "components": {"schemas": bound(components, limits)},
        }
    )
