"""The texts of Harmony's system and developer messages (R-02)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from antiphon.conversation import (
    FUNCTIONS,
    DeveloperContent,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
    ToolNamespace,
    ToolSpec,
)

from .typescript import TypePrinter

EFFORT = {
    ReasoningEffort.NONE: "low",
    ReasoningEffort.MINIMAL: "low",
    ReasoningEffort.LOW: "low",
    ReasoningEffort.MEDIUM: "medium",
    ReasoningEffort.HIGH: "high",
    ReasoningEffort.XHIGH: "high",
    ReasoningEffort.MAX: "high",
}
"""Resolution X-51: gpt-oss knows three levels."""


class SectionWriter(msgspec.Struct, frozen=True):
    """Writes the sections. ``types`` prints the tools' parameters."""

    types: TypePrinter

    def system(self, content: SystemContent, *, functions_offered: bool) -> str:
        """The system message (HAR-50 … HAR-58). ``functions_offered``: the developer message has function tools."""
        return "\n\n".join(self._system(content, functions_offered))

    def _system(self, content: SystemContent, functions_offered: bool) -> Iterator[str]:
        if meta := "\n".join(_meta(content)):
            yield meta
        elif content.identity is not None:
            yield ""
        if content.reasoning_effort is not None:
            yield f"Reasoning: {EFFORT[content.reasoning_effort]}"
        if content.tools:
            yield self.tools(content.tools)
        if content.channels is not None and content.channels.valid:
            yield _channels(content.channels.valid, content.channels.required, functions_offered)

    def developer(self, content: DeveloperContent) -> str:
        """The developer message: instructions, tools, response formats, in this order (HAR-60 … HAR-62, A-H13)."""
        return "\n\n".join(self._developer(content))

    def _developer(self, content: DeveloperContent) -> Iterator[str]:
        if content.instructions is not None:
            yield "# Instructions"
            yield content.instructions
        if content.tools:
            yield self.tools(content.tools)
        if content.response_format is not None and (form := self.response_format(content.response_format)):
            yield form

    def tools(self, namespaces: Mapping[str, ToolNamespace]) -> str:
        """``# Tools`` and a block for each namespace, in the order of their keys' bytes."""
        blocks = (self._namespace(namespaces[key]) for key in sorted(namespaces, key=lambda key: key.encode()))
        return "\n\n".join(("# Tools", *blocks))

    def _namespace(self, namespace: ToolNamespace) -> str:
        return "\n".join(self._namespace_lines(namespace))

    def _namespace_lines(self, namespace: ToolNamespace) -> Iterator[str]:
        yield f"## {namespace.name}"
        yield ""
        mark = "// " if namespace.tools else ""
        yield from (mark + line for line in _lines(namespace.description or ""))
        if not namespace.tools:
            return
        yield f"namespace {namespace.name} {{"
        yield ""
        for tool in namespace.tools:
            yield from self._tool(tool)
        yield f"}} // namespace {namespace.name}"

    def _tool(self, tool: ToolSpec) -> Iterator[str]:
        yield from (f"// {line}" for line in _lines(tool.description))
        argument = "" if tool.parameters is None else f"_: {self.types.print(tool.parameters)}"
        yield f"type {tool.name} = ({argument}) => any;"
        yield ""

    def response_format(self, form: ResponseFormat) -> str:
        """``# Response Formats`` (HAR-95 … HAR-97, A-H14); empty for a form that only a grammar can express."""
        match form.kind:
            case "json_schema":
                schema = form.schema if form.schema is not None else {}
            case "json_object":
                schema = {"type": "object"}
            case _:
                return ""
        description = [f"// {line}" for line in _lines(form.description or "")]
        body = "\n".join((*description, self.types.json.compact(schema)))
        return f"# Response Formats\n\n## {form.name or form.kind}\n\n{body}"


def _meta(content: SystemContent) -> Iterator[str]:
    if content.identity is not None:
        yield content.identity
    if content.knowledge_cutoff is not None:
        yield f"Knowledge cutoff: {content.knowledge_cutoff}"
    if content.start_date is not None:
        yield f"Current date: {content.start_date}"


def _channels(valid: tuple[str, ...], required: bool, functions_offered: bool) -> str:
    line = f"# Valid channels: {', '.join(valid)}."
    if required:
        line += " Channel must be included for every message."
    if functions_offered:
        line += f"\nCalls to these tools must go to the commentary channel: '{FUNCTIONS}'."
    return line


def _lines(text: str) -> list[str]:
    r"""Split at ``\n``, one ``\r`` before it removed, no last empty line."""
    *whole, last = text.split("\n")
    return [line.removesuffix("\r") for line in whole] + ([last] if last else [])
