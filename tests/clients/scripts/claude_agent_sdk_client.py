# /// script
# dependencies = ["claude-agent-sdk>=0.2"]
# ///
"""Claude's agent SDK, with the Claude Code that it brings: text, stream, its tools and one's own in several turns."""

import tempfile
from importlib.metadata import version
from pathlib import Path

import claude_agent_sdk as sdk
from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ResultMessage, StreamEvent, TextBlock
from steps import (
    BASE,
    CHAT,
    MORNING,
    OBEDIENT,
    PLAN,
    THINKER,
    TOKENS,
    awaited,
    edit_note,
    expect_edited,
    expect_text,
    finish,
    read_note,
    step,
)

home = tempfile.TemporaryDirectory()
ENVIRONMENT = {
    "ANTHROPIC_BASE_URL": BASE, "ANTHROPIC_API_KEY": "any", "HOME": home.name, "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(TOKENS),
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": CHAT,
}  # fmt: skip


def options(model=CHAT, **more):
    brief = {"system_prompt": "Be brief.", "tools": [], "setting_sources": []}
    return ClaudeAgentOptions(model=model, cwd=home.name, env=ENVIRONMENT, **{**brief, **more})


def asked(prompt, options):
    """All messages of a run; a small model may talk until it is cut, which Claude Code calls an error."""
    messages = []

    async def run():
        async for message in sdk.query(prompt=prompt, options=options):
            messages.append(message)

    try:
        awaited(run())
    except sdk.ResultError as error:
        assert not OBEDIENT, error
        assert "output token maximum" in str(error), error
    return messages


def result(messages):
    (last,) = (message for message in messages if isinstance(message, ResultMessage))
    assert not (last.is_error and OBEDIENT), last
    return last.result


@step
def messages():
    expect_text(result(asked(MORNING, options())), "Good morning.")


@step
def messages_stream():
    events = [
        one.event for one in asked(MORNING, options(include_partial_messages=True)) if isinstance(one, StreamEvent)
    ]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    expect_text("".join(delta["text"] for delta in deltas if delta["type"] == "text_delta"), "Good morning.")


@step
def messages_client():
    """One session of two turns."""

    async def run():
        texts = []
        async with sdk.ClaudeSDKClient(options()) as client:
            for order in ("say: One.", "say: Two."):
                await client.query(order)
                async for message in client.receive_response():
                    if isinstance(message, AssistantMessage):
                        texts += [block.text for block in message.content if isinstance(block, TextBlock)]
        return texts

    texts = awaited(run())
    assert texts == ["One.", "Two."] if OBEDIENT else len(texts) >= 2, texts


def own_tools():
    """The notes' tools in a server of the SDK's own."""

    def said(text):
        return {"content": [{"type": "text", "text": text}]}

    @sdk.tool("read_note", "The text of a note.", {"name": str})
    async def read(given):
        return said(read_note(**given))

    @sdk.tool("edit_note", "Changes a note.", {"name": str, "old": str, "new": str})
    async def edit(given):
        return said(edit_note(**given))

    return {"notes": sdk.create_sdk_mcp_server("notes", tools=[read, edit])}


if OBEDIENT:
    OWN_PLAN = PLAN.replace("call ", "call mcp__notes__")
    ALLOWED = ["mcp__notes__read_note", "mcp__notes__edit_note"]

    for model in (CHAT, THINKER):

        def own(model=model):
            """The SDK's tools among Claude Code's: it loads them when they are searched for."""
            names = ",".join(ALLOWED)
            search = f'call ToolSearch {{"query": "select:{names}", "max_results": 5}}'
            plan = OWN_PLAN.replace("plan: ", f"plan: {search} ;; ")
            given = options(model, mcp_servers=own_tools(), allowed_tools=ALLOWED, tools=None)
            expect_edited(result(asked(plan, given)))

        def edits(model=model):
            note = Path(home.name, "note.txt")
            note.write_text("There is marzipan.\n")
            plan = (
                f'plan: call Read {{"file_path": "{note}"}} ;; '
                f'call Edit {{"file_path": "{note}", "old_string": "marzipan", "new_string": "nougat"}} ;; '
                'call Bash {"command": "cat note.txt", "description": "Shows the note"} ;; say It is done.'
            )
            given = options(model, system_prompt=None, tools=None, allowed_tools=["Read", "Edit", "Bash"])
            assert result(asked(plan, given)) == "It is done."
            assert note.read_text() == "There is nougat.\n"

        step(own, f"messages_own_tools_{model}")
        step(edits, f"messages_loop_{model}")


finish("claude-agent-sdk", f"{version('claude-agent-sdk')} ({sdk._cli_version.__cli_version__})")
home.cleanup()
