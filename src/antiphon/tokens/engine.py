"""The engine's own tokenizer, for a vocabulary that we do not cover exactly."""

from __future__ import annotations

from .gguf import Metadata, gguf_name, gguf_table
from .table import EncodeText, TableTokenizer, text_only


def engine_tokenizer(metadata: Metadata, tokenize: EncodeText) -> TableTokenizer:
    """A GGUF vocabulary whose texts ``tokenize`` encodes: the engine's call, adding and parsing no special tokens.

    An engine parses user-defined tokens (``<think>``) in any text all the same; those that are structure do not get
    through here. ``tokenize`` may block, so long texts are encoded off the event loop, as everywhere.
    """
    table = gguf_table(metadata)
    return TableTokenizer(gguf_name(metadata), table, text_only(tokenize, table))
