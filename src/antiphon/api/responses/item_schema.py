"""Items of the Responses API: the input of a request, and the output of a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from antiphon.api.chat.schema import TokenLogprobEntry
from antiphon.tools.mcp import ListedTool

JsonObject = dict[str, Any]
Status = Literal["in_progress", "completed", "incomplete", "failed", "searching", "interpreting", "calling"]


class InputPart(msgspec.Struct, omit_defaults=True, kw_only=True):
    """``input_text``, ``output_text``, ``text``, ``summary_text``, ``reasoning_text``: a text; ``refusal``: its own;
    ``input_image``: an image, by an address, which may have it, or the id of a file; ``input_file``: a text. Without
    a type: a command's output."""

    type: str = msgspec.field(default="input_text")
    text: str | None = None
    refusal: str | None = None
    logs: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    filename: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    outcome: JsonObject | None = None


Content = str | list[InputPart] | None


class InputItem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One item of a request's ``input``, of any type that can be read; an item without ``type`` is a message."""

    type: str | None = None
    id: str | None = None
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Content = None
    status: str | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | JsonObject | None = None
    input: str | None = None
    output: Content = None
    summary: list[InputPart] | None = None
    encrypted_content: str | None = None
    code: str | None = None
    container_id: str | None = None
    outputs: list[InputPart] | None = None
    server_label: str | None = None
    tools: list[JsonObject] | None = None
    execution: str | None = None
    approval_request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None
    action: JsonObject | None = None
    operation: JsonObject | None = None
    environment: Any = None
    max_output_length: Any = None
    error: Any = None


class OutputText(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="output_text"):
    text: str
    annotations: list[Annotation] = []
    logprobs: list[TokenLogprobEntry] = []


class Annotation(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="url_citation"):
    """Characters ``start_index`` to ``end_index`` of the text are from the page at ``url``."""

    start_index: int
    end_index: int
    url: str
    title: str


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    text: str


class SummaryText(msgspec.Struct, frozen=True, tag_field="type", tag="summary_text"):
    text: str


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """``content`` only where the server's owner exposes reasoning; ``encrypted_content`` only where it is requested."""

    id: str
    summary: list[SummaryText] = []
    content: list[ReasoningText] = []
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """``phase`` distinguishes a preamble (``commentary``) from the answer."""

    id: str
    role: Literal["assistant"] = "assistant"
    status: Status
    content: list[OutputText]
    phase: Literal["commentary", "final_answer"] = "final_answer"


class FunctionCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call"):
    """``encrypted_content``, of any call: it as the model wrote it, where that of reasoning is requested."""

    id: str
    call_id: str
    name: str
    namespace: str | msgspec.UnsetType = msgspec.UNSET
    arguments: str
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class CustomToolCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom_tool_call"):
    id: str
    call_id: str
    name: str
    namespace: str | msgspec.UnsetType = msgspec.UNSET
    input: str
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class LocalShellAction(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["exec"] = "exec"
    command: list[str]
    env: dict[str, str] = {}
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class ShellAction(msgspec.Struct, frozen=True, kw_only=True):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class CreateFile(msgspec.Struct, frozen=True, tag_field="type", tag="create_file"):
    path: str
    diff: str


class UpdateFile(msgspec.Struct, frozen=True, tag_field="type", tag="update_file"):
    path: str
    diff: str


class DeleteFile(msgspec.Struct, frozen=True, tag_field="type", tag="delete_file"):
    path: str


PatchOperation = CreateFile | UpdateFile | DeleteFile
Action = LocalShellAction | ShellAction | PatchOperation | JsonObject


class LocalEnvironment(msgspec.Struct, frozen=True, tag_field="type", tag="local"):
    """Commands run on the client's computer."""


class LocalShellCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="local_shell_call"):
    id: str
    call_id: str
    action: LocalShellAction
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class ShellCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="shell_call"):
    id: str
    call_id: str
    action: ShellAction
    environment: LocalEnvironment = LocalEnvironment()
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class ApplyPatchCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="apply_patch_call"):
    id: str
    call_id: str
    action: PatchOperation = msgspec.field(name="operation")
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class ToolSearchCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_search_call"):
    id: str
    call_id: str
    execution: Literal["client"] = "client"
    action: JsonObject = msgspec.field(name="arguments")
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


TypedCallItem = LocalShellCallItem | ShellCallItem | ApplyPatchCallItem | ToolSearchCallItem


class TypedCall(NamedTuple):
    """Calls of a tool that is given by its type: their item, what they are to do, and an action that does nothing."""

    item: Callable[..., TypedCallItem]
    action: Any
    nothing: Action


TYPED: Mapping[str, TypedCall] = {
    "local_shell": TypedCall(LocalShellCallItem, LocalShellAction, LocalShellAction(command=[])),
    "shell": TypedCall(ShellCallItem, ShellAction, ShellAction(commands=[])),
    "apply_patch": TypedCall(ApplyPatchCallItem, PatchOperation, UpdateFile("", "")),
    "tool_search": TypedCall(ToolSearchCallItem, JsonObject, {}),
}
"""By the types of their tools; an item's type is that with ``_call``."""
NOTHING: Mapping[object, Action] = {kind.item: kind.nothing for kind in TYPED.values()}


class WebSearchCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="web_search_call"):
    id: str
    status: Status
    action: JsonObject
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET


class CodeLogs(msgspec.Struct, frozen=True, tag_field="type", tag="logs"):
    logs: str


class CodeInterpreterCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="code_interpreter_call"):
    """``outputs`` only where they are requested."""

    id: str
    code: str
    container_id: str
    outputs: list[CodeLogs] | None = None
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class McpFailure(msgspec.Struct, frozen=True, tag_field="type", tag="mcp_tool_execution_error"):
    """``content`` is why, ``code`` the tool's error code, such as ``E-TOOL-TIMEOUT``."""

    content: str
    code: str = ""


class McpCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mcp_call"):
    """A call that ran on the server's side; ``approval_request_id`` names the request by which it was approved."""

    id: str
    server_label: str
    name: str
    arguments: str
    approval_request_id: str | None = None
    output: str | None = None
    error: McpFailure | None = None
    encrypted_content: str | msgspec.UnsetType = msgspec.UNSET
    status: Status


class McpListToolsItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mcp_list_tools"):
    """All tools that a server of the client's has; ``error`` is why they could not be listed."""

    id: str
    server_label: str
    tools: list[ListedTool] = []
    error: str | None = None


class McpApprovalRequestItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mcp_approval_request"):
    """A call that runs when the client approves it, in the next request."""

    id: str
    server_label: str
    name: str
    arguments: str


class CompactionItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="compaction"):
    """Replaces all items before it but messages of the user, the system and the developer."""

    id: str
    encrypted_content: str


OutputItem = (
    ReasoningItem
    | MessageItem
    | FunctionCallItem
    | CustomToolCallItem
    | LocalShellCallItem
    | ShellCallItem
    | ApplyPatchCallItem
    | ToolSearchCallItem
    | WebSearchCallItem
    | CodeInterpreterCallItem
    | McpCallItem
    | McpListToolsItem
    | McpApprovalRequestItem
    | CompactionItem
)


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[msgspec.Raw]
    first_id: str
    last_id: str
    has_more: bool
