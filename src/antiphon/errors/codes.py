"""Every code of an error, an incident or a failed tool: one table, with its HTTP status and what it means.

A code is stable and for programs; the message beside it is for people and may change. Who raises a new code adds its
row here, in the section that it belongs to. An error of a package from outside may have a code that is not here: the
API then answers with the status of its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import (
    AccessError,
    AntiphonError,
    ConfigError,
    ConflictError,
    ContextError,
    EngineError,
    EngineLostError,
    FormatError,
    ModelError,
    NotFoundError,
    OverloadedError,
    ParseError,
    RenderError,
    RequestError,
    StoreError,
    TemplateError,
    TokenError,
    UnsupportedError,
    VisibilityError,
)
from .incidents import INCIDENTS, Code


def error(status: int, meaning: str, *errors: type[AntiphonError], incident: bool = False, tool: bool = False) -> Code:
    """A code of one or several classes of errors."""
    return Code(meaning, status, errors, incident, tool)


def tool(meaning: str) -> Code:
    """A code that only the messages of tools have."""
    return Code(meaning, tool=True)


REQUESTS = {
    "invalid_request": error(400, "The request cannot be done as it is; the message says why.", RequestError),
    "invalid_json": error(400, "The body, or a field that holds JSON, cannot be read as JSON.", RequestError),
    "invalid_type": error(400, "A field has a value of another type than it takes.", RequestError),
    "invalid_value": error(400, "A field has a value out of its range, or one that it does not know.", RequestError),
    "missing_required_parameter": error(400, "A field that must be there is not.", RequestError),
    "unknown_parameter": error(400, "There is no such field; it is likely a known one, misspelt.", RequestError),
    "no_engine": error(400, "The model is rendered for and its replies are read here, and no engine runs it.",
                       UnsupportedError),
    "invalid_state": error(400, "The state of a reply is of another request, model or key, or was changed.",
                           RequestError),
    "state_too_long": error(400, "A reply cannot be gone on with: too much of it waits to be decided.", RequestError),
    "unsupported_parameter": error(400, "The field is known, and this server, model or engine cannot honour it.",
                                   UnsupportedError, RequestError),
    "unsupported_content": error(400, "A message has a part that is not text, and the model reads text alone.",
                                 RequestError, RenderError),
    "bad_template_kwargs": error(400, "The model's chat template has no such argument, or the value is no JSON.",
                                 RequestError, RenderError, TemplateError),
    "invalid_schema": error(400, "A JSON Schema is malformed, too large, or uses what cannot be enforced.",
                            RequestError, UnsupportedError),
    "invalid_grammar": error(400, "Tools and response format together make no grammar, or too large a one.",
                             RequestError),
    "invalid_image": error(400, "An image is damaged, too large, or of a kind that is not read.", RequestError),
    "work_limit": error(400, "What was sent takes more processor time or memory than one request may.", RequestError),
    "response_in_progress": error(400, "A WebSocket makes one response at a time.", RequestError),
    "websocket_connection_limit_reached": error(400, "A WebSocket was open as long as it may be.", RequestError),
    "compaction_empty": error(400, "The model wrote no summary of what was to be compacted.", RequestError),
    "context_length_exceeded": error(400, "Prompt and answer need more tokens than the model's context has.",
                                     ContextError),
    "invalid_encrypted_content": error(400, "Encrypted reasoning, or a compaction, was changed, or made by another "
                                       "server or for another key.", RequestError),
    "item_not_found": error(400, "An input names an item that is not stored for this key.", RequestError),
    "file_not_found": error(400, "An input names a file that is not stored for this key.", RequestError),
    "fetch_failed": error(400, "The address of an image or a file may not be fetched, or gives none.", RequestError),
    "previous_response_not_found": error(400, "`previous_response_id` names no stored response of this key.",
                                         RequestError),
    "previous_response_not_finished": error(400, "`previous_response_id` names a response that is still running.",
                                            RequestError),
    "idempotency_key_reused": error(400, "The `idempotency-key` came with another body before.", RequestError),
    "session_too_long": error(400, "The session would grow beyond the bytes that one may have.", RequestError),
    "malformed_http": error(400, "The request is no well-formed HTTP; the connection is closed.", RequestError),
    "invalid_api_key": error(401, "The request has no API key, or one that this server does not know.", AccessError),
    "host_not_allowed": error(403, "The request names another server: a name that leads here, and is not configured.",
                              AccessError),
    "origin_not_allowed": error(403, "A browser sends it for a page of another origin, which `server.origins` does not "
                                     "name.", AccessError),
    "permission_denied": error(403, "The API key may not use this route.", AccessError),
    "not_found": error(404, "What the request names does not exist.", NotFoundError),
    "unknown_url": error(404, "There is no such route.", NotFoundError),
    "model_not_found": error(404, "There is no model of this name, or its file does not exist.",
                             NotFoundError, ModelError),
    "model_not_here": error(404, "The model is known and its files have not been pulled.", ModelError),
    "session_not_found": error(404, "There is no session of this name.", NotFoundError),
    "method_not_allowed": error(405, "The route exists and does not take this method; `allow` lists those it takes.",
                                RequestError),
    "body_timeout": error(408, "The body did not arrive in time.", OverloadedError),
    "head_timeout": error(408, "The request line and headers did not arrive in time.", OverloadedError),
    "queue_timeout": error(408, "The request waited for its turn until its deadline.",
                           OverloadedError),
    "conflict": error(409, "Something that is still going on forbids the request.", ConflictError),
    "conversation_locked": error(409, "Another response is being added to the conversation.", ConflictError),
    "idempotency_in_progress": error(409, "A request with this `idempotency-key` is still running.", ConflictError),
    "response_cancelled": error(409, "The background response was cancelled.", ConflictError),
    "lease_lost": error(409, "Another server took the work over from one that was silent for too long.", ConflictError),
    "session_busy": error(409, "Another turn of this session is running.", ConflictError),
    "session_cancelled": error(409, "Another request cancelled this turn of the session.", ConflictError),
    "stream_cancelled": error(409, "A client deleted this stream while it was made.", ConflictError),
    "write_conflict": error(409, "Another request changed the same thing at the same moment.", ConflictError),
    "body_too_large": error(413, "The body has more bytes than the server takes.", RequestError),
    "file_quota": error(413, "The files of this API key would take more room than they may.", RequestError),
    "uri_too_long": error(414, "The address has more bytes than the server takes.", RequestError),
    "unsupported_media_type": error(415, "The body is not declared to be JSON, or is compressed.", RequestError),
    "head_too_large": error(431, "The headers are too many or too long.", RequestError),
    "http_version_not_supported": error(505, "The request is of another version of HTTP than 1.0 and 1.1.",
                                        RequestError),
}  # fmt: skip
"""Mistakes of a request."""

SERVER = {
    "queue_full": error(429, "As many requests wait for their turn as the queue holds.", OverloadedError),
    "rate_limit_exceeded": error(429, "The API key has used up its requests, tokens or concurrent requests.",
                                 OverloadedError),
    "antiphon_error": error(500, "An error that has no code of its own.", AntiphonError),
    "internal_error": error(500, "The server made a mistake; its log has it under the request's id.", AntiphonError),
    "engine_error": error(500, "The engine failed at this request.", EngineError),
    "engine_key": error(500, "The engine's server does not take the key it is given, or there is none for it.",
                        EngineError, ConfigError),
    "engine_too_old": error(500, "The engine's server is a release that does not give token ids back.", EngineError),
    "grammar_broken": error(502, "The engine's output left the grammar that it was constrained by.", EngineError),
    "overloaded": error(503, "There is no room now; try again after `retry-after`.", OverloadedError),
    "engine_lost": error(503, "The engine died during the request, and is started again.", EngineLostError),
    "bodies_full": error(503, "Large requests that are being answered take all the room that they may.",
                         OverloadedError),
    "engine_unreachable": error(503, "The engine's server does not answer.", OverloadedError),
    "loading": error(503, "The model is being loaded.", OverloadedError),
    "draining": error(503, "The server is stopping.", OverloadedError, AntiphonError),
    "memory_busy": error(503, "Other models are at work in the memory that this one needs.", OverloadedError),
    "model_memory": error(503, "The model needs more memory than this machine has for models.", ModelError),
    "too_many_connections": error(503, "As many connections are open as the server allows.", OverloadedError),
    "first_token_timeout": error(504, "The engine gave no first token before the deadline.", OverloadedError),
    "store_failed": error(503, "The store of sessions and responses cannot be read or written now.", StoreError),
    "store_busy": error(503, "Another process keeps the store locked.", StoreError),
    "store_readonly": error(503, "The store may be read and not written.", StoreError),
    "store_full": error(507, "There is no room left where the store is.", StoreError),
    "store_corrupt": error(500, "What is stored was damaged, and is not shown; other requests are not concerned.",
                           StoreError),
    "not_storable": error(500, "A message has a part that is generated for each request and not stored.", FormatError),
    "turn_timeout": error(504, "The turn did not end before its deadline.", OverloadedError),
}  # fmt: skip
"""Failures of the server."""

RESPONSES = {
    "invalid_prompt": Code("The response failed because its request could not be done."),
    "server_error": Code("The response failed because the server or its engine did."),
}
"""Values of the ``error.code`` of a failed response, beside ``context_length_exceeded`` and ``rate_limit_exceeded``."""

CONVERSATIONS = {
    "format_error": error(400, "A conversation or a text does not fit its format.", FormatError),
    "render_error": error(400, "The conversation cannot be rendered in this format.", RenderError),
    "parse_error": error(400, "The text cannot be parsed in this format.", ParseError),
    "answer_type": error(400, "The answer fits its grammar, and is no value of the type that it was requested as.",
                         FormatError),
    "not_json": error(400, "A text that should be JSON is not, or a value has no JSON form.", ParseError, RenderError),
    "json_too_deep": error(400, "A JSON value is nested too deeply.", RenderError),
    "wrong_value": error(400, "A field of the source has a value that it cannot have.", ParseError),
    "missing_field": error(400, "A field of the source that must be there is not.", ParseError),
    "unsupported_part": error(400, "A message has a part that is not text, and the format has no place for it.",
                              RenderError, FormatError),
    "schema_too_deep": error(400, "The schema of a tool is nested too deeply to be written for the model.",
                             RenderError),
    "schema_too_large": error(400, "The schema of a tool has too many types to be written for the model.", RenderError),
    "misplaced_content": error(400, "Harmony: a message has content that belongs to another role.", RenderError),
    "header_value": error(400, "Harmony: a name, recipient, channel or content type would be read as another header.",
                          RenderError),
    "tool_without_name": error(400, "Harmony: a tool's message does not name its tool.", RenderError),
    "spelled_control": error(400, "Harmony as text: a text spells a control token, so it could not be read back.",
                             RenderError),
    "unexpected_token": error(400, "Harmony, strict: a message does not begin with `<|start|>`.", ParseError),
    "unexpected_eos": error(400, "Harmony, strict: the text ends inside a header.", ParseError),
    "header_leftover": error(400, "Harmony, strict: a header has words that are no field.", ParseError),
    "empty_channel": error(400, "Harmony, strict: `<|channel|>` is followed by no channel.", ParseError),
    "missing_role": error(400, "Harmony, strict: a header has no role.", ParseError),
    "undecodable_header": error(400, "Harmony, strict: the ids of a header are no text.", ParseError),
    "unknown_role": error(400, "A message has a role that the format does not know.", ParseError, TemplateError),
    "not_an_id": error(400, "A word among token ids is no number.", ParseError),
    "not_ids": error(400, "A file of token ids has other characters than numbers, blanks and commas.", ParseError),
    "unknown_id": error(400, "The vocabulary has no token of this id.", ParseError),
    "unknown_form": error(400, "The source is in no form of a conversation that is known.", ParseError),
    "format_not_found": error(404, "There is no format of this name.", NotFoundError),
    "encrypted_content": error(400, "Encrypted reasoning can be read only by the server that made it.", ParseError),
    "bad_sidecar": error(400, "The file beside a converted conversation cannot be read.", ParseError),
    "transcript": error(400, "A transcript of `antiphon` does not have the fields of one.", ParseError),
    "template_error": error(400, "A chat template is unknown, malformed, or raised an error.", TemplateError),
    "template_not_found": error(400, "There is no chat template of this name.", TemplateError),
    "template_too_large": error(400, "The chat template has too many characters or expressions.", TemplateError),
    "bad_template": error(400, "The chat template is malformed.", TemplateError),
    "bad_response_template": error(
        400, "A response template is none of version 1, or says what no description of replies can say.", TemplateError
    ),
    "bad_replies": error(400, "A description of a model's replies is malformed.", TemplateError),
    "template_failed": error(400, "The chat template raised an error of Python.", TemplateError),
    "template_refused": error(400, "The chat template itself refuses this conversation.", TemplateError),
    "template_limit": error(400, "The chat template needs more steps, memory or depth than it may.",
                            TemplateError, RenderError),
    "no_template": error(400, "The model's own chat template is named, and there is none.", TemplateError),
    "no_tools": error(400, "The chat template has no way to offer tools, or to write a call.", TemplateError),
    "no_date": error(400, "The chat template asks for the date, and the settings have none.", TemplateError),
    "no_capability": error(400, "The chat template cannot do this kind of prompt.", TemplateError),
    "cannot_continue": error(400, "The chat template does not write the last message, so it cannot be continued.",
                             TemplateError),
    "roles_not_in_turn": error(400, "The chat template takes messages of user and assistant in turn alone.",
                               TemplateError),
    "invalid_arguments": error(400, "The chat template needs the arguments of a call as JSON, and they are not JSON.",
                               TemplateError),
    "invalid_content": error(400, "The content of a message is nothing that the chat template can write.",
                             TemplateError),
    "bad_reply_role": error(400, "A chat template opens replies of the assistant alone.", RenderError),
    "token_error": error(500, "A text or ids do not fit the vocabulary.", TokenError),
    "unknown_control": error(500, "The vocabulary has no such control token.", TokenError),
}  # fmt: skip
"""A conversation or a text does not fit its format, its chat template or its vocabulary."""

MODELS = {
    "model_error": error(500, "A file of the model is missing, broken, or too large for this machine.", ModelError),
    "not_a_ranker": error(500, "The model, or its server, has nothing that scores a pair of texts.", ModelError),
    "not_generative": error(500, "The model that the engine's server runs writes no text.", ModelError),
    "model_load": error(500, "The engine cannot load the model's file.", ModelError),
    "model_unreadable": error(500, "The model's file cannot be read.", ModelError),
    "model_digest": error(500, "A downloaded file has another SHA-256 than the catalog says.", ModelError),
    "model_not_fetched": error(500, "The model's file cannot be downloaded.", ModelError),
    "model_not_converted": error(500, "The model's file cannot be converted to GGUF.", ModelError),
    "model_store": error(500, "The folder of models cannot be written.", ModelError),
    "not_gguf": error(500, "The model's file is not GGUF.", ModelError),
    "gguf_malformed": error(500, "The GGUF file has values that it cannot have.", ModelError),
    "gguf_truncated": error(500, "The GGUF file ends too early.", ModelError),
    "no_chat_template": error(500, "The model brings no chat template, and none is configured.", ModelError),
    "tokenizer_not_here": error(500, "There is no tokenizer where the configuration says.", ModelError),
    "tokenizer_malformed": error(500, "The tokenizer's file cannot be read.", ModelError),
    "tokenizer_mismatch": error(500, "The tokenizer is not the one of the server that runs the model.", ModelError),
    "vocabulary_malformed": error(500, "The vocabulary has values that it cannot have.", TokenError, ModelError),
    "vocabulary_not_covered": error(500, "This kind of vocabulary cannot be encoded exactly here.",
                                    TokenError, ModelError),
    "backend_unavailable": error(500, "The requested tokenizer backend is not installed, or not exact.", TokenError),
}  # fmt: skip
"""Files of models and their vocabularies."""

CONFIGURATION = {
    "engine_unknown": error(500, "There is no engine of this name.", ConfigError),
    "store_unknown": error(500, "There is no session store of this name.", ConfigError),
    "wire_not_found": error(500, "No installed package has a wire of this name.", ConfigError),
    "config_error": error(500, "The configuration cannot be used.", ConfigError),
    "unknown_key": error(500, "The configuration has a key that does not exist.", ConfigError),
    "key_file": error(500, "The file of API keys cannot be read or written.", ConfigError),
    "key_exists": error(500, "There is an API key of this name already.", ConfigError),
    "rule_not_found": error(404, "The linter has no rule of this name.", NotFoundError),
    "key_not_found": error(404, "There is no API key of this name.", NotFoundError),
    "keys_missing": error(500, "Other machines can reach the server's address, and it has no API keys.", ConfigError),
    "client_settings": error(500, "A client's settings file cannot be read, or the client has none.", ConfigError),
    "port_taken": error(500, "A port is taken, or may not be used.", ConfigError),
    "log_file": error(500, "The file of the log cannot be written.", ConfigError),
    "format_exists": error(500, "A format that was handed in has the name of a built-in one.", ConfigError),
    "plugin_ambiguous": error(500, "Two installed packages publish a plugin of one name.", ConfigError),
    "plugin_unusable": error(500, "A plugin cannot be imported, or is not what its entry point promises.", ConfigError),
    "origin": error(500, "An allowed origin of browsers is not an origin.", ConfigError),
    "encryption_key": error(500, "The server's key for encrypted reasoning cannot be read or written.", ConfigError),
    "store_unusable": error(500, "The session store cannot be opened, or is of another version.", ConfigError),
    "store_not_empty": error(500, "The session store to import into has records already.", ConfigError),
    "export_file": error(500, "The file to export to is there already, or cannot be written.", ConfigError),
    "import_unreadable": error(500, "The file to import cannot be read, or is no whole export.", ConfigError),
    "tls": error(500, "The certificate and its key cannot be used.", ConfigError),
    "traces_endpoint": error(500, "The address for traces is not an HTTP address.", ConfigError),
    "cache_shared": error(500, "The engine's server cannot keep the prompts of owners apart.", ConfigError),
    "grpc_missing": error(500, "The engine grpc needs an extra that is not installed.", ConfigError),
    "extra_missing": error(500, "A package of an extra is needed and not installed.", ConfigError),
    "corpus_missing": error(500, "The browser's folder of pages is missing or empty.", ConfigError),
    "mcp_config": error(500, "The configuration of MCP servers cannot be read.", ConfigError),
    "mcp_tokens": error(500, "The tokens of an MCP server cannot be read or written.", ConfigError),
    "mcp_unauthorized": error(500, "An MCP server wants to be signed in to, or does not allow this.", ConfigError),
    "mcp_unreachable": error(500, "An MCP server cannot be started or reached.", ConfigError),
    "sandbox_missing": error(500, "The sandbox of the python tool cannot run on this machine.", ConfigError),
    "tool_file": error(500, "A Python file of tools is missing or failed.", ConfigError),
    "tool_names": error(500, "Two tools have one name, or a name that no format can write.", ConfigError),
    "tool_unknown": error(500, "There is no built-in tool of this name.", ConfigError),
    "unreadable_input": error(500, "The input file cannot be read.", ConfigError),
    "unwritable_output": error(500, "The output file cannot be written.", ConfigError),
}  # fmt: skip
"""The configuration, the command line, and what they name. A server with such an error does not start."""

OPENCHATML = {
    "E-PARSE-HEADER": error(400, "A message's head, or the document's header, cannot be read.",
                            ParseError, RenderError, incident=True),
    "E-PARSE-CHANNEL-MISSING": error(400, "A message of the assistant names no channel.",
                                     ParseError, RenderError, incident=True),
    "E-BODY-CONSTRAINT-VIOLATION": error(400, "A body is not in the form that its `<|constrain|>` promises.",
                                         ParseError, RenderError, incident=True),
    "E-CALL-SCHEMA": error(400, "A call does not fit its tool's parameters, or the rules for calls.",
                           ParseError, RenderError, incident=True, tool=True),
    "E-STREAM-TRUNCATED": error(400, "The text ends inside a message.", ParseError, RenderError, incident=True),
    "E-PERM-VISIBILITY": error(403, "Content that end users may not see was requested without the debug capability.",
                               VisibilityError),
}  # fmt: skip
"""OpenChatML §14. A strict reader and the writer raise these, the default reader reports them as incidents."""

TOOLS = {
    "E-TOOL-BUSY": tool("Everything that could run the call is at work."),
    "E-TOOL-TIMEOUT": tool("The tool did not answer before its deadline."),
    "E-TOOL-CANCELLED": tool("The call was cancelled before the tool answered."),
    "E-TOOL-UNKNOWN": tool("There is no tool of this name."),
    "E-CALL-ID": tool("Another call of the conversation has this id."),
    "E-TOOL-FAILED": tool("The tool raised an error."),
    "E-BROWSER-REFUSED": tool("The browser may not open this address, or the site forbids it."),
    "E-BROWSER-UNREACHABLE": tool("The browser got no page from this address."),
}
"""Codes that the model reads of a call that failed."""

BATCHES: Mapping[str, Code] = {
    "bad_batch": error(400, "A file that `antiphon batch` is given has no lines of a batch.", RequestError),
    "empty_file": Code("The input of a batch has no lines."),
    "too_many_lines": Code("The input of a batch has more lines than it may."),
    "line_too_long": Code("A line of a batch has more bytes than a request may."),
    "invalid_json_line": Code("A line of a batch is blank, or no JSON object with the fields of a request."),
    "invalid_custom_id": Code("A line of a batch has no `custom_id`, or one that is too long."),
    "duplicate_custom_id": Code("Two lines of a batch have one `custom_id`."),
    "invalid_method": Code("A line of a batch has another method than POST."),
    "invalid_url": Code("A line of a batch goes to another endpoint than its batch."),
    "invalid_body": Code("A line of a batch has no body, or asks in it for a stream or for work in the background."),
    "batch_cancelled": Code("The batch was cancelled before the line was run."),
    "batch_expired": Code("The batch expired before the line was run."),
}
"""Faults of lines of batches, as the batch or its error file says."""

CODES: Mapping[str, Code] = MappingProxyType(
    {
        **REQUESTS,
        **SERVER,
        **RESPONSES,
        **CONVERSATIONS,
        **MODELS,
        **CONFIGURATION,
        **OPENCHATML,
        **TOOLS,
        **BATCHES,
        **INCIDENTS,
    }
)
"""All of them."""
