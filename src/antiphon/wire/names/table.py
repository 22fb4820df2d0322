"""Every request field that is known and not a route's own: honoured under another name, harmless, told, or refused.

A route's own fields are those of its request's struct; they come first, but for what is told: that is told on every
route. What stands in neither is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

Use = Literal["limit", "same", "constraint", "thinking", "harmless", "told", "refused"]
NOTHING: tuple[Any, ...] = ([], {}, "")
"""Values that require nothing of any field; null is one more."""


class KnownName(msgspec.Struct, frozen=True):
    """``of``: whose field it is. ``neutral``: the values that require nothing, so that they are taken.

    ``use``: ``limit`` is another name of the answer's limit in tokens, ``same`` of ``stands_for``; ``constraint`` says
    what the answer must be, ``thinking`` how the model thinks; on ``harmless`` no answer depends; ``told`` is a wish
    for how an answer is paid, shown or worded that nothing here fulfils: it is taken and named; ``refused`` has a
    ``hint`` at what to use. ``bare``: an empty object requires something too. ``own``: a route with the field honours
    it.
    """

    name: str
    of: str
    use: Use
    neutral: tuple[Any, ...] = ()
    hint: str | None = None
    stands_for: str = ""
    bare: bool = False
    own: bool = False

    def requires_nothing(self, value: Any) -> bool:
        """Whether the field's value is one that changes nothing."""
        nothing = (None, *NOTHING, *self.neutral)
        return any(value == neutral and type(value) is type(neutral) for neutral in nothing) and not (
            self.bare and value == {}
        )


def _harmless(of: str, names: str) -> Iterator[KnownName]:
    yield from (KnownName(name, of, "harmless") for name in names.split())


def _told(of: str, names: str, *neutral: Any) -> Iterator[KnownName]:
    yield from (KnownName(name, of, "told", neutral) for name in names.split())


def _refused(of: str, names: str, *neutral: Any, hint: str | None = None) -> Iterator[KnownName]:
    """Numbers are neutral as integers and as floats."""
    numbers = [value for value in neutral if type(value) in (int, float)]
    both = [kind(value) for value in numbers for kind in (int, float) if kind(value) == value]
    values = (*(value for value in neutral if type(value) not in (int, float)), *both)
    yield from (KnownName(name, of, "refused", values, hint) for name in names.split())


def _constraints(of: str, names: str) -> Iterator[KnownName]:
    yield from (KnownName(name, of, "constraint") for name in names.split())


_TOP = "Send the sampling fields themselves, beside the others."
_SAMPLERS = "Use temperature, top_p, top_k and min_p."
_PENALTIES = "Use repetition_penalty, presence_penalty or frequency_penalty."
_REASONING = "Use reasoning_effort, enable_thinking or thinking_token_budget of chat completions."
_TEXT = "The models here read and write text."
_OWNER = "Which model a request gets is chosen by its name."
_ECHOED = "An answer has its text, usage and log probabilities."
_RAW = "Control tokens are structure here, never text."
_SEARCH = "Use n, or best_of with completions."
_CHAT = "Use chat completions."
_SERVED = 'Use server_tools: ["browser"], or web_search in Responses, where the server runs it.'
_PROMPT = "Send messages in chat completions and Messages, input in Responses, prompt in completions."
_STORED = "Use the Responses API."
_ELSEWHERE = "This route has no such field."

_ROWS = (
    *(KnownName(name, of, "limit", (-1, -2)) for name, of in (
        ("max_tokens", "OpenAI"), ("max_completion_tokens", "OpenAI"), ("max_output_tokens", "OpenAI"),
        ("max_new_tokens", "SGLang, MindIE, TGI"), ("n_predict", "llama.cpp"), ("num_predict", "Ollama"),
        ("request_output_len", "LMDeploy"),
    )),
    KnownName("repeat_penalty", "llama.cpp, Ollama", "same", stands_for="repetition_penalty"),
    KnownName("n_cmpl", "llama.cpp", "same", (1,), stands_for="n"),
    KnownName("random_seed", "Mistral", "same", stands_for="seed"),
    # What the answer must be.
    *_constraints("vLLM", "structured_outputs guided_json guided_regex guided_choice guided_grammar"),
    *_constraints("llama.cpp, SGLang", "json_schema grammar regex ebnf structural_tag"),
    *_constraints("Ollama", "format"),
    *_constraints("Anthropic", "output_format output_config"),
    *_constraints("OpenAI", "response_format"),
    *_constraints("vLLM", "guided_whitespace_pattern"),
    *_harmless("vLLM", "guided_decoding_backend"),
    # Who asks, in which order, on which part of which machine: no answer depends on it.
    *_harmless("OpenAI", "user metadata safety_identifier prompt_cache_retention"),
    *_harmless("vLLM", "request_id priority stream_interval return_mm_kwargs return_token_offsets"),
    *_harmless("vLLM, SGLang", "data_parallel_rank routed_dp_rank disagg_prefill_dp_rank"),
    *_harmless("SGLang", "rid extra_key custom_labels ngram_corpus_id log_metrics"),
    *_harmless("llama.cpp", "cache_prompt id_slot n_cache_reuse n_keep n_discard sse_ping_interval"),
    *_harmless("llama.cpp", "speculative.n_max speculative.n_min speculative.p_min speculative.type"),
    *_harmless("Ollama", "keep_alive draft_num_predict"),
    *_harmless("OpenRouter, LiteLLM", "provider usage caching drop_params timeout"),
    *_harmless("Anthropic", "cache_control diagnostics user_profile_id workspace_id billing_policy"),
    *_harmless("Anthropic", "fallback_credit_token"),
    *_harmless("Databricks, MindIE", "usage_context client_request_id batch_size"),
    # What is paid, how a model is loaded, in how many words it answers: taken, and told that it has no effect.
    *_told("OpenAI, Anthropic", "service_tier", "auto", "default", "standard_only"),
    *_told("OpenAI", "verbosity", "medium"),
    *_told("OpenAI", "prediction"),
    KnownName("parallel_tool_calls", "OpenAI", "told", (True,), own=True),
    *_told("Anthropic", "speed", "standard"),
    *_told("OpenRouter, LiteLLM, Anthropic", "fallbacks"),
    *_told("Ollama", "num_keep", 4, 5),
    *_told("Ollama", "num_batch", 512),
    *_told("Ollama", "num_gpu", -1),
    *_told("Ollama", "main_gpu num_thread", 0),
    *_told("Ollama", "numa low_vram use_mlock vocab_only", False),
    *_told("Ollama", "f16_kv use_mmap", True),
    # Which tokens may come.
    *_refused("vLLM, SGLang", "min_tokens", 0, hint=_ELSEWHERE),
    KnownName("min_new_tokens", "SGLang", "same", (0,), stands_for="min_tokens"),
    *_refused("vLLM, MindIE", "bad_words bad_words_ids allowed_token_ids logits_processors", hint="Use logit_bias."),
    *_refused("SGLang", "custom_logit_processor custom_params stop_regex", hint="Use logit_bias or stop."),
    *_refused("llama.cpp, vLLM", "dry_multiplier frequency_penalty_decay", 0, hint=_PENALTIES),
    *_refused("llama.cpp", "dry_base", 1.75, hint=_PENALTIES),
    *_refused("llama.cpp", "dry_allowed_length", 2, hint=_PENALTIES),
    *_refused("llama.cpp", "dry_penalty_last_n", -1, 0, 64, hint=_PENALTIES),
    *_refused("llama.cpp", "dry_sequence_breakers", ["\n", ":", '"', "*"], hint=_PENALTIES),
    *_refused("llama.cpp", "xtc_probability", 0, hint=_SAMPLERS),
    *_refused("llama.cpp", "xtc_threshold", 0.1, hint=_SAMPLERS),
    *_refused("llama.cpp, Ollama", "typical_p typ_p tfs_z tfs", 1, hint=_SAMPLERS),
    *_refused("llama.cpp, Ollama", "mirostat mirostat_mode", 0, hint=_SAMPLERS),
    *_refused("llama.cpp, Ollama", "mirostat_tau", 5, hint=_SAMPLERS),
    *_refused("llama.cpp, Ollama", "mirostat_eta", 0.1, hint=_SAMPLERS),
    *_refused("llama.cpp", "dynatemp_range", 0, hint=_SAMPLERS),
    *_refused("llama.cpp", "dynatemp_exponent", 1, hint=_SAMPLERS),
    *_refused("llama.cpp", "top_n_sigma adaptive_target adaptive_decay", -1, hint=_SAMPLERS),
    *_refused("llama.cpp", "min_keep", 0, hint=_SAMPLERS),
    *_refused("llama.cpp", "samplers sampler_seq backend_sampling", False, hint=_SAMPLERS),
    *_refused("llama.cpp", "repeat_last_n", 64, hint=_PENALTIES),
    *_refused("llama.cpp, Ollama", "penalize_newline penalize_nl", False, hint=_PENALTIES),
    *_refused("vLLM", "epsilon_cutoff eta_cutoff top_a smoothing_factor", 0, hint=_SAMPLERS),
    *_refused("SGLang, MindIE", "do_sample", True, hint="Use temperature: 0 for the likeliest token."),
    *_refused("vLLM", "use_beam_search early_stopping", False, hint=_SEARCH),
    *_refused("vLLM", "length_penalty", 1, hint=_SEARCH),
    *_refused("vLLM", "best_of n num_beams", 1, hint=_SEARCH),
    *_refused("vLLM", "watermarking watermark", False),
    *_refused("vLLM", "repetition_detection vllm_xargs", hint=_PENALTIES),
    *_refused("llama.cpp", "t_max_predict_ms t_max_prompt_ms", 0, -1, hint="Use a limit in tokens."),
    *_refused("llama.cpp", "n_indent", 0),
    *_refused("llama.cpp", "grammar_lazy", False, hint="Use response_format, which holds from the first token."),
    *_refused("llama.cpp", "grammar_triggers preserved_tokens", hint="Use response_format or tools."),
    *_refused("OpenAI, vLLM", "logit_bias ignore_eos", False, hint=_ELSEWHERE),
    *_refused("OpenAI", "presence_penalty frequency_penalty", 0, hint=_ELSEWHERE),
    *_refused("SGLang, Databricks", "error_behavior", "error", hint=_ELSEWHERE),
    *_refused("Transformers", "max_length min_length no_repeat_ngram_size eos_token_id", 0, hint=_SAMPLERS),
    *_refused("Transformers", "num_return_sequences num_beam_groups", 1, hint=_SEARCH),
    *_refused("Transformers", "diversity_penalty penalty_alpha", 0, hint=_SEARCH),
    # Which tokens there are in the prompt.
    *_refused("vLLM", "echo", False, hint="Use completions."),
    *_refused("vLLM", "truncate_prompt_tokens", hint="Send a shorter prompt."),
    *_refused("vLLM", "truncation_side", "right", hint="What is too long is cut at its end, or not at all."),
    *_refused("Cohere", "rank_fields", ["text"], hint="Send each document as one text."),
    *_refused("Cohere", "max_chunks_per_doc", hint="Use max_tokens_per_doc."),
    *_refused("vLLM", "add_special_tokens", False, hint="A prompt is used as it stands; send them as ids."),
    *_refused("vLLM", "add_generation_prompt", True, hint="Use /v1/render for the prompt without it."),
    *_refused("vLLM", "continue_final_message", False, hint=_CHAT),
    *_refused("vLLM", "chat_template chat_template_kwargs", hint="A model's template is its owner's choice."),
    *_refused("vLLM", "documents tool_resources", hint="Put them into a message."),
    *_refused("Ollama", "template system context raw suffix truncate shift", False, hint=_PROMPT),
    *_refused("LMDeploy", "do_preprocess", True, hint="Use completions, with use_raw_prompt."),
    *_refused("LMDeploy", "sequence_start sequence_end interactive_mode cancel", False, hint="Use chat completions."),
    *_refused("SGLang", "input_ids input_embeds prompt_embeds inputs", hint=_PROMPT),
    *_refused("SGLang", "session_params task", hint="Use session_id."),
    *_refused("LMDeploy, SGLang", "session_id", -1, "-1", hint="Use chat completions, which have sessions."),
    *_refused("vLLM, SGLang", "kv_transfer_params ec_transfer_params bootstrap_host bootstrap_port bootstrap_room",
              hint="Prompts are read by the engine that answers."),
    *_refused("OpenAI", "prompt messages input instructions", hint=_PROMPT),
    *_refused("OpenAI", "previous_response_id conversation include context_management", hint=_STORED),
    *_refused("OpenAI", "truncation", "disabled", hint=_STORED),
    *_refused("OpenAI", "max_tool_calls text", hint=_STORED),
    *_refused("OpenAI", "background", False, hint=_STORED),
    *_refused("OpenAI", "store", False, hint="Use chat completions, or the Responses API."),
    *_refused("OpenAI", "audio functions function_call", "none", hint="Use tools, or text."),
    KnownName("web_search_options", "OpenAI", "refused", (), _SERVED, bare=True),
    *_refused("OpenAI", "modalities", ["text"], hint=_TEXT),
    *_refused("OpenAI", "tools server_tools mcp_servers plugins", False, hint=_CHAT),
    *_refused("OpenAI", "tool_choice", "auto", hint=_CHAT),
    *_refused("OpenAI", "use_raw_prompt", hint="Use completions."),
    *_refused("OpenAI", "cache_salt prompt_cache_key"),
    *_refused("llama.cpp, Ollama, LMDeploy", "image_url image_data images", hint="Images are parts of messages."),
    *_refused("llama.cpp", "input_prefix input_suffix input_extra", hint="Use /infill."),
    *_refused("vLLM, SGLang", "media_io_kwargs mm_processor_kwargs images_config max_dynamic_patch", hint=_TEXT),
    *_refused("vLLM, SGLang", "min_dynamic_patch video_data audio_data", hint=_TEXT),
    *_refused("SGLang", "use_audio_in_video", False, hint=_TEXT),
    # How a text becomes a vector.
    *_refused("vLLM, TEI", "normalize use_activation", True, hint="Vectors have the length 1."),
    *_refused("vLLM, Voyage", "embed_dtype output_dtype", "float32", "float", hint="Use encoding_format."),
    *_refused("vLLM", "endianness", "native", "little", hint="Vectors in base64 are little-endian."),
    *_refused("Voyage, Jina", "output_dimension late_chunking", False, hint="Use dimensions."),
    *_refused("NVIDIA, Cohere, TEI", "input_type prompt_name", hint="Use instruction."),
    # Which model.
    *_refused("vLLM, SGLang, llama.cpp", "lora lora_path lora_request adapters adapter_id adapter_name", hint=_OWNER),
    *_refused("Ollama", "num_ctx", hint="A model's context is its owner's choice."),
    *_refused("OpenRouter", "models route transforms", hint=_OWNER),
    *_refused("Ollama, OpenAI", "options extra_body", hint=_TOP),
    *_refused("TGI, Databricks", "parameters extra_params sampling_params", hint=_TOP),
    # How it thinks.
    *(KnownName(name, of, "thinking", (), _REASONING) for name, of in (
        ("reasoning_effort", "OpenAI"), ("reasoning", "OpenAI, OpenRouter"), ("think", "Ollama"),
        ("thinking", "Anthropic, DeepSeek, GLM, Kimi"), ("enable_thinking", "Qwen"),
    )),
    *(KnownName(name, of, "thinking", (-1,), _REASONING) for name, of in (
        ("thinking_token_budget", "vLLM"), ("thinking_budget_tokens", "llama.cpp"),
        ("reasoning_budget_tokens", "llama.cpp"), ("reasoning_budget", "llama.cpp"),
        ("thinking_budget", "Qwen, FastDeploy"), ("max_thinking_tokens", "NVIDIA"),
    )),
    *_refused("llama.cpp", "reasoning_budget_message reasoning_control thinking_forced_open", False, hint=_REASONING),
    *_refused("llama.cpp, Groq", "reasoning_format", "auto", "deepseek", "parsed",
              hint="Reasoning has a field of its own, where the server's owner shows it."),
    *_refused("llama.cpp", "reasoning_in_content", False, hint="Reasoning has a field of its own."),
    *_refused("vLLM, SGLang", "include_reasoning separate_reasoning stream_reasoning", True,
              hint="Reasoning has a field of its own, where the server's owner shows it."),
    # What is told of the answer.
    *_refused("vLLM", "skip_special_tokens spaces_between_special_tokens", True, hint=_RAW),
    *_refused("vLLM, LMDeploy", "include_stop_str_in_output", False, hint="An answer ends before its stop."),
    KnownName("no_stop_trim", "SGLang", "same", (False,), stands_for="include_stop_str_in_output"),
    *_refused("OpenAI", "logprobs", False, hint="Use top_logprobs, or include."),
    *_refused("OpenAI", "top_logprobs", 0, hint="Use logprobs."),
    *_refused("vLLM, LMDeploy", "prompt_logprobs logprob_token_ids return_token_ids return_tokens_as_token_ids", False,
              hint=_ECHOED),
    *_refused("vLLM", "return_prompt_text return_prompt_token_ids return_routed_experts explain_prefix", False,
              hint="Use /v1/render."),
    *_refused("Antiphon", "prefix_policy", "bridge", hint="Use chat completions or Responses."),
    *_refused("vLLM, SGLang", "routed_experts_prompt_start routed_experts_start_len", 0, hint=_ECHOED),
    *_refused("SGLang", "return_hidden_states return_cached_tokens_details return_meta_info return_logprob", False,
              hint=_ECHOED),
    *_refused("SGLang", "logprob_start_len", -1, hint=_ECHOED),
    *_refused("SGLang", "top_logprobs_num", 0, hint="Use top_logprobs."),
    *_refused("SGLang", "token_ids_logprob return_text_in_logprobs", False, hint="Use logprobs."),
    *_refused("llama.cpp", "n_probs", 0, hint="Use logprobs."),
    *_refused("llama.cpp", "post_sampling_probs return_tokens timings_per_token return_progress", False, hint=_ECHOED),
    *_refused("llama.cpp", "response_fields verbose __verbose", False, hint=_ECHOED),
    *_refused("llama.cpp", "parse_tool_calls", True, hint="Leave the tools out."),
    *_refused("TGI", "details decoder_input_details return_full_text", False, hint=_ECHOED),
    *_refused("TGI", "top_n_tokens", 0, hint="Use logprobs."),
    *_refused("TGI", "typical_p_mass"),
    *_refused("Mistral", "safe_prompt", False, hint="Say it in a message."),
    *_refused("Databricks", "databricks_options custom_inputs", hint=None),
    *_refused("MindIE", "perf_stat", False),
    *_refused("Ollama, Anthropic", "stop_sequences", hint="Use stop."),
    *_refused("Anthropic", "container thread compaction"),
    *_refused("Anthropic", "inference_geo", "global", hint="The server's owner chooses where it runs."),
)  # fmt: skip

KNOWN: Mapping[str, KnownName] = MappingProxyType({row.name: row for row in _ROWS})
"""The rows by name."""
assert len(KNOWN) == len(_ROWS), "a name has one row"
