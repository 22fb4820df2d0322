"""How families of models write their replies."""

from __future__ import annotations

from .reply import CallForm, Members, Region, ReplyDescription, Slot

THINK = Region(open="<think>\n", close="\n</think>\n\n")
HERMES_CALL = CallForm(open="<tool_call>\n", close="\n</tool_call>", separator="\n", members=Members())
INTERNLM_CALL = CallForm(
    open="<|action_start|><|plugin|>\n", close="<|action_end|>", members=Members(arguments="parameters")
)
LLAMA_CALLS = (
    CallForm(members=Members(arguments="parameters")),
    CallForm(open="<|python_tag|>", members=Members(arguments="parameters")),
    CallForm(open="<function=", head=(Slot(reads="name", after=">"),), close="</function>"),
)
MISTRAL_CALLS = (
    CallForm(section=Region(open="[TOOL_CALLS][", close="]"), separator=", ", members=Members()),
    CallForm(open="[TOOL_CALLS]", head=(Slot(reads="name", after="[ARGS]"),)),
)
DEEPSEEK_SECTION = Region(open="<｜tool▁calls▁begin｜>", close="<｜tool▁calls▁end｜>")
DEEPSEEK_CALLS = (
    CallForm(
        section=DEEPSEEK_SECTION,
        open="<｜tool▁call▁begin｜>",
        head=(Slot(reads="name", after="<｜tool▁sep｜>"),),
        close="<｜tool▁call▁end｜>",
    ),
    CallForm(
        section=DEEPSEEK_SECTION,
        separator="\n",
        open="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        head=(Slot(reads="name", after="\n```json\n"),),
        close="\n```<｜tool▁call▁end｜>",
    ),
)

HERMES = ReplyDescription(calls=(HERMES_CALL,))
QWEN = ReplyDescription(reasoning=THINK, calls=(HERMES_CALL,))
