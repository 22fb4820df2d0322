"""Text and control tokens ⇄ ids. Only this room knows ids.

The libraries that vocabularies need (`tiktoken`, `tokenizers`) are imported when one is made, not here.
"""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .bpe import o200k_harmony, tekken_tokenizer, tiktoken_tokenizer
    from .byte import ByteTokenizer
    from .decoder import ControlScanner, PieceDecoder
    from .encode import Memo, SegmentMemo, Words, encode_pieces, encode_text, may_fit, stripped
    from .gguf import FIM_ROLES, engine_tokenizer, gguf_tokenizer
    from .hf import hf_tokenizer
    from .pieces import Control, Piece, SampledText, Strip, Tokenizer, decode, spell, utf8, well_formed, whole_pairs
    from .sentencepiece_model import sentencepiece_tokenizer
    from .table import TableTokenizer
else:
    __getattr__ = exports(
        __name__,
        {
            "bpe": "o200k_harmony tekken_tokenizer tiktoken_tokenizer",
            "byte": "ByteTokenizer",
            "decoder": "ControlScanner PieceDecoder",
            "encode": "Memo SegmentMemo Words encode_pieces encode_text may_fit stripped",
            "gguf": "FIM_ROLES engine_tokenizer gguf_tokenizer",
            "hf": "hf_tokenizer",
            "pieces": "Control Piece SampledText Strip Tokenizer decode spell utf8 well_formed whole_pairs",
            "sentencepiece_model": "sentencepiece_tokenizer",
            "table": "TableTokenizer",
        },
    )

__all__ = [
    "ByteTokenizer",
    "Control",
    "ControlScanner",
    "FIM_ROLES",
    "Memo",
    "Piece",
    "PieceDecoder",
    "SampledText",
    "SegmentMemo",
    "Strip",
    "TableTokenizer",
    "Tokenizer",
    "Words",
    "decode",
    "encode_pieces",
    "encode_text",
    "engine_tokenizer",
    "gguf_tokenizer",
    "hf_tokenizer",
    "may_fit",
    "o200k_harmony",
    "sentencepiece_tokenizer",
    "spell",
    "stripped",
    "tekken_tokenizer",
    "tiktoken_tokenizer",
    "utf8",
    "well_formed",
    "whole_pairs",
]
