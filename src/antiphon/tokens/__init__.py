"""Text and control tokens ⇄ ids. Only this room knows ids."""

from .byte import ByteTokenizer
from .decoder import ControlScanner, PieceDecoder
from .encode import SegmentMemo, encode_pieces
from .pieces import Control, Piece, SampledText, spell, utf8
from .tokenizer import Tokenizer, decode

__all__ = [
    "ByteTokenizer",
    "Control",
    "ControlScanner",
    "Piece",
    "PieceDecoder",
    "SampledText",
    "SegmentMemo",
    "Tokenizer",
    "decode",
    "encode_pieces",
    "spell",
    "utf8",
]
