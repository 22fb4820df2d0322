"""The two tools that gpt-oss was trained with, in the words that it was trained on (HAR-99 … HAR-109)."""

from __future__ import annotations

from .tools import ToolNamespace, ToolSpec

_TEXT = {"type": "string"}
_UNSET = {"type": "number", "default": -1}

BROWSER = ToolNamespace(
    "browser",
    "Tool for browsing.\n"
    "The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n"
    "Cite information from the tool using the following format:\n"
    "`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n"
    "Do not quote more than 10 words directly from the tool output.\n"
    "sources=web (default: web)",
    (
        ToolSpec(
            "search",
            "Searches for information related to `query` and displays `topn` results.",
            {
                "type": "object",
                "properties": {"query": _TEXT, "topn": {"type": "number", "default": 10}, "source": _TEXT},
                "required": ["query"],
            },
            namespace="browser",
        ),
        ToolSpec(
            "open",
            "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, "
            "showing `num_lines` lines.\n"
            "Valid link ids are displayed with the formatting: `【{id}†.*】`.\n"
            "If `cursor` is not provided, the most recent page is implied.\n"
            "If `id` is a string, it is treated as a fully qualified URL associated with `source`.\n"
            "If `loc` is not provided, the viewport will be positioned at the beginning of the document "
            "or centered on the most relevant passage, if available.\n"
            "Use this function without `id` to scroll to a new location of an opened page.",
            {
                "type": "object",
                "properties": {
                    "id": {"type": ["number", "string"], "default": -1},
                    "cursor": _UNSET,
                    "loc": _UNSET,
                    "num_lines": _UNSET,
                    "view_source": {"type": "boolean", "default": False},
                    "source": _TEXT,
                },
            },
            namespace="browser",
        ),
        ToolSpec(
            "find",
            "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.",
            {"type": "object", "properties": {"pattern": _TEXT, "cursor": _UNSET}, "required": ["pattern"]},
            namespace="browser",
        ),
    ),
)
"""The browser that gpt-oss was trained on: ``search``, ``open`` and ``find``, in the words of its training."""

PYTHON = ToolNamespace(
    "python",
    "Use this tool to execute Python code in your chain of thought. The code will not be shown to the user. "
    "This tool should be used for internal reasoning, but not for code that is intended to be visible to the user "
    "(e.g. when creating plots, tables, or files).\n\n"
    "When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook "
    "environment. python will respond with the output of the execution or time out after 120.0 seconds. "
    "The drive at '/mnt/data' can be used to save and persist user files. "
    "Internet access for this session is UNKNOWN. Depends on the cluster.",
)
"""The Python that gpt-oss was trained on, in the words of its training: a call is code, not JSON."""

TRAINED = {namespace.name: namespace for namespace in (BROWSER, PYTHON)}
"""By name; a built-in of one of these names that says nothing of its own is described in these words."""


def described(namespace: ToolNamespace) -> ToolNamespace:
    """The namespace, in the words that gpt-oss was trained on where it is one of these and says nothing of its own."""
    silent = namespace.description is None and not namespace.tools
    return TRAINED.get(namespace.name, namespace) if silent else namespace
