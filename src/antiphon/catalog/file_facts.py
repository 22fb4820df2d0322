"""What a GGUF file says of its model, for those who choose one."""

from __future__ import annotations

from types import MappingProxyType

from antiphon.config import ModelEntry
from antiphon.generation import FileFacts

from .model_source import ModelSource

QUANTIZATIONS = MappingProxyType(
    {
        0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
        12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
        20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
        28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
    }
)  # fmt: skip
"""llama.cpp's kinds of files, by ``general.file_type``."""


def file_facts(source: ModelSource, entry: ModelEntry) -> FileFacts:
    """Of a model whose file is here."""
    metadata = source.metadata
    architecture, kind = str(metadata.get("general.architecture", "")), metadata.get("general.file_type")
    return FileFacts(
        architecture=architecture,
        quantization=QUANTIZATIONS.get(kind, "") if isinstance(kind, int) else "",
        parameters=source.parameters,
        digest=entry.sha256,
        licence=entry.licence or str(metadata.get("general.license", "")),
        values={
            name: value
            for name, value in metadata.items()
            if not isinstance(value, list) and name.startswith(("general.", f"{architecture}."))
        },
    )
