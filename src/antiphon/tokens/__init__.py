"""Text and control tokens ⇄ ids. Only this room knows ids.

The libraries that vocabularies need (`tiktoken`, `tokenizers`) are imported when one is made, not here.
"""

from .byte import ByteTokenizer
from .decoder import ControlScanner, PieceDecoder
from .encode import SegmentMemo, encode_pieces
from .engine import engine_tokenizer
from .gguf import gguf_tokenizer
from .pieces import Control, Piece, SampledText, spell, utf8, well_formed
from .table import TableTokenizer
from .tokenizer import Tokenizer, decode

__all__ = [
    "ByteTokenizer",
    "Control",
    "ControlScanner",
    "Piece",
    "PieceDecoder",
    "SampledText",
    "SegmentMemo",
    "TableTokenizer",
    "Tokenizer",
    "decode",
    "encode_pieces",
    "engine_tokenizer",
    "gguf_tokenizer",
    "spell",
    "utf8",
    "well_formed",
]
