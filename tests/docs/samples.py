"""A request that makes each field matter, by the route. A field without one fails the test of the page."""

from __future__ import annotations

from typing import Any

Samples = dict[str, dict[str, Any]]

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "Does it."}}
STRICT = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}
FLAT = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
NOTHING = {"type": "object", "additionalProperties": False}
CLIENTS = {"name": "f", "input_schema": {"type": "object", "properties": {}}}

SAMPLING: Samples = {
    "temperature": {"temperature": 0.5}, "top_p": {"top_p": 0.5}, "top_k": {"top_k": 5}, "min_p": {"min_p": 0.1},
    "seed": {"seed": 7}, "stop": {"stop": ["x"]}, "presence_penalty": {"presence_penalty": 1},
    "frequency_penalty": {"frequency_penalty": 1}, "repetition_penalty": {"repetition_penalty": 1.1},
    "stop_token_ids": {"stop_token_ids": [5]},
}  # fmt: skip
"""What most routes have in common."""

CHAT: Samples = {
    "messages": {}, "model": {}, "stream": {"stream": True},
    "stream_options": {"stream": True, "stream_options": {"include_usage": True}},
    "n": {"n": 2}, "max_tokens": {"max_tokens": 9}, "max_completion_tokens": {"max_completion_tokens": 9},
    **SAMPLING,
    "logit_bias": {"logit_bias": {"5": 1}}, "logprobs": {"logprobs": True},
    "top_logprobs": {"logprobs": True, "top_logprobs": 3}, "ignore_eos": {"ignore_eos": True, "max_tokens": 9},
    "tools": {"tools": [TOOL]}, "tools, strict": {"tools": [STRICT]},
    "tool_choice": {"tools": [TOOL], "tool_choice": "required"},
    "parallel_tool_calls": {"tools": [TOOL], "parallel_tool_calls": False}, "server_tools": {"server_tools": True},
    "finish": {"finish": "always"},
    "response_format": {"response_format": {"type": "json_object"}}, "reasoning_effort": {"reasoning_effort": "low"},
    "thinking_token_budget": {"thinking_token_budget": 5}, "enable_thinking": {"enable_thinking": False},
    "chat_template_kwargs": {"chat_template_kwargs": {"loud": 1}}, "error_behavior": {"error_behavior": "truncate"},
    "add_generation_prompt": {"add_generation_prompt": True},
    "continue_final_message": {
        "continue_final_message": True, "messages": [USER, {"role": "assistant", "content": "y"}],
    },
    "session_id": {"session_id": "s"}, "sequence_start": {"session_id": "s", "sequence_start": True},
    "sequence_end": {"session_id": "s", "sequence_end": True},
    "user": {"user": "u"}, "metadata": {"metadata": {"a": "b"}}, "prompt_cache_key": {"prompt_cache_key": "k"},
    "cache_salt": {"cache_salt": "s"},
    "safety_identifier": {"safety_identifier": "s"}, "service_tier": {"service_tier": "auto"},
    "prompt_logprobs": {"prompt_logprobs": 2, "stream": False}, "return_token_ids": {"return_token_ids": True},
    "explain_prefix": {"explain_prefix": True}, "prefix_policy": {"prefix_policy": "template"},
    "min_tokens": {"min_tokens": 3},
    "include_stop_str_in_output": {"include_stop_str_in_output": True, "stop": "x"},
    "best_of": {"best_of": 2}, "store": {"store": True},
}  # fmt: skip

COMPLETIONS: Samples = {
    "prompt": {}, "model": {}, "stream": {"stream": True},
    "stream_options": {"stream": True, "stream_options": {"include_usage": True}},
    "n": {"n": 2}, "best_of": {"best_of": 2, "stream": False}, "max_tokens": {"max_tokens": 9},
    **SAMPLING, "finish": {"finish": "always"},
    "logit_bias": {"logit_bias": {"5": 1}}, "logprobs": {"logprobs": 2},
    "ignore_eos": {"ignore_eos": True, "max_tokens": 9}, "echo": {"echo": True}, "suffix": {"suffix": "x"},
    "min_tokens": {"min_tokens": 3}, "include_stop_str_in_output": {"include_stop_str_in_output": True, "stop": "x"},
    "use_raw_prompt": {"use_raw_prompt": False}, "error_behavior": {"error_behavior": "truncate"},
    "skip_special_tokens": {"use_raw_prompt": True, "skip_special_tokens": False}, "user": {"user": "u"},
    "prompt_cache_key": {"prompt_cache_key": "k"}, "cache_salt": {"cache_salt": "s"},
    "response_format": {"response_format": {"type": "json_object"}},
    "prompt_logprobs": {"prompt_logprobs": 1, "stream": False}, "return_token_ids": {"return_token_ids": True},
    "explain_prefix": {"explain_prefix": True},
}  # fmt: skip

EMBEDDINGS: Samples = {
    "input": {}, "model": {}, "encoding_format": {"encoding_format": "base64"}, "dimensions": {"dimensions": 2},
    "instruction": {"instruction": "Find it:"}, "error_behavior": {"error_behavior": "truncate"}, "user": {"user": "u"},
    "truncate_prompt_tokens": {"truncate_prompt_tokens": 4},
}  # fmt: skip

RERANK: Samples = {
    "query": {}, "model": {}, "documents": {}, "texts": {"texts": ["Hi"], "documents": None}, "top_n": {"top_n": 1},
    "return_documents": {"return_documents": True},
    "return_text": {"texts": ["Hi"], "documents": None, "return_text": True},
    "truncate_prompt_tokens": {"truncate_prompt_tokens": 9}, "max_tokens_per_doc": {"max_tokens_per_doc": 1},
    "truncate": {"truncate": True}, "use_activation": {"use_activation": False}, "raw_scores": {"raw_scores": True},
    "user": {"user": "u"},
}  # fmt: skip

SCORE: Samples = {
    "text_1": {}, "text_2": {}, "model": {}, "truncate_prompt_tokens": {"truncate_prompt_tokens": 9},
    "use_activation": {"use_activation": False}, "user": {"user": "u"},
}  # fmt: skip

RESPONSES: Samples = {
    "input": {}, "model": {}, "instructions": {"instructions": "Be brief."},
    "previous_response_id": {"previous_response_id": "EARLIER"}, "conversation": {"conversation": "CONVERSATION"},
    "tools": {"tools": [FLAT]}, "tool_choice": {"tools": [FLAT], "tool_choice": "required"},
    "parallel_tool_calls": {"tools": [FLAT], "parallel_tool_calls": False},
    "reasoning": {"reasoning": {"effort": "low"}}, "thinking_token_budget": {"thinking_token_budget": 5},
    "enable_thinking": {"enable_thinking": False},
    "text": {"text": {"format": {"type": "json_object"}}}, "truncation": {"truncation": "auto"},
    "stream": {"stream": True}, "stream_options": {"stream": True, "stream_options": {"include_obfuscation": False}},
    "store": {"store": False}, "background": {"background": True},
    "include": {"include": ["message.output_text.logprobs"]}, "max_output_tokens": {"max_output_tokens": 9},
    "max_tool_calls": {"max_tool_calls": 3}, **SAMPLING, "finish": {"finish": "always"},
    "top_logprobs": {"top_logprobs": 2},
    "metadata": {"metadata": {"a": "b"}}, "user": {"user": "u"}, "safety_identifier": {"safety_identifier": "s"},
    "prompt_cache_key": {"prompt_cache_key": "k"}, "cache_salt": {"cache_salt": "s"},
    "service_tier": {"service_tier": "auto"},
    "return_token_ids": {"return_token_ids": True}, "explain_prefix": {"explain_prefix": True},
    "prefix_policy": {"prefix_policy": "template"},
    "context_management": {"context_management": [{"type": "compaction", "compact_threshold": 9}]},
}  # fmt: skip

INTERACTIVE: Samples = {
    "finish": {"finish": "always"},
    "prompt": {}, "model": {}, "session_id": {"session_id": "t"}, "interactive_mode": {"interactive_mode": True},
    "stream": {"stream": True}, "cancel": {"session_id": "t", "cancel": True},
    "request_output_len": {"request_output_len": 9},
    **{name: sample for name, sample in SAMPLING.items() if name not in ("presence_penalty", "frequency_penalty")},
    "ignore_eos": {"ignore_eos": True, "request_output_len": 9},
    "response_format": {"response_format": {"type": "json_object"}},
}  # fmt: skip

OLLAMA: Samples = {
    "model": {}, "stream": {"stream": False}, "options": {"options": {"temperature": 0.5}},
    "keep_alive": {"keep_alive": "5m"}, "think": {"think": True}, "logprobs": {"logprobs": True},
    "top_logprobs": {"logprobs": True, "top_logprobs": 3}, "truncate": {"truncate": True}, "shift": {"shift": True},
    **SAMPLING, "finish": {"finish": "always"}, "max_tokens": {"max_tokens": 9}, "num_ctx": {"num_ctx": 2048},
    "repeat_last_n": {"repeat_last_n": 64}, "response_format": {"response_format": {"type": "json_object"}},
}  # fmt: skip
"""What Ollama's chat and generate have in common."""

OLLAMA_CHAT: Samples = {"messages": {}, **OLLAMA, "tools": {"tools": [TOOL]}, "tools, strict": {"tools": [STRICT]}}

OLLAMA_GENERATE: Samples = {
    "prompt": {}, **OLLAMA, "system": {"system": "Be brief."}, "suffix": {"suffix": "x"}, "raw": {"raw": True},
    "template": {"template": "x"}, "context": {"context": [5]}, "images": {"images": ["AAAA"]},
}  # fmt: skip

OLLAMA_EMBED: Samples = {
    "input": {}, "model": {}, "truncate": {"truncate": False}, "dimensions": {"dimensions": 2},
    "options": {"options": {"num_ctx": 2048}}, "keep_alive": {"keep_alive": "5m"},
}  # fmt: skip

MESSAGES: Samples = {
    "messages": {}, "model": {}, "max_tokens": {}, "system": {"system": "Be brief."}, "stream": {"stream": True},
    "stop_sequences": {"stop_sequences": ["x"]}, **SAMPLING, "finish": {"finish": "always"},
    "tools": {"tools": [CLIENTS]}, "tools, strict": {"tools": [{**CLIENTS, "strict": True}]},
    "tool_choice": {"tools": [CLIENTS], "tool_choice": {"type": "any"}, "max_tokens": 500},
    "thinking": {"thinking": {"type": "adaptive"}},
    "thinking, budget_tokens": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "output_config": {"output_config": {"effort": "low"}},
    "output_config, format": {"output_config": {"format": {"type": "json_schema", "schema": NOTHING}}},
    "response_format": {"response_format": {"type": "json_object"}},
    "context_management": {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
    "cache_control": {"cache_control": {"type": "ephemeral"}}, "metadata": {"metadata": {"user_id": "u"}},
    "service_tier": {"service_tier": "auto"}, "speed": {"speed": "fast"}, "inference_geo": {"inference_geo": "eu"},
    "diagnostics": {"diagnostics": {"a": 1}}, "user_profile_id": {"user_profile_id": "u"},
    "workspace_id": {"workspace_id": "w"}, "billing_policy": {"billing_policy": "b"},
    "fallbacks": {"fallbacks": [{"model": "m"}]}, "fallback_credit_token": {"fallback_credit_token": "t"},
    "container": {"container": "c"}, "mcp_servers": {"mcp_servers": [{"type": "url", "url": "x", "name": "n"}]},
    "thread": {"thread": {"id": "t"}}, "compaction": {"compaction": {"type": "auto"}},
}  # fmt: skip
