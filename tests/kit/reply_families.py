"""Families of replies, written down by hand: a description, and the controls of a vocabulary for it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from antiphon.formats.replies import CallForm, Members, Pairs, Region, ReplyDescription, Slot, Value
from antiphon.tokens import Control


@dataclass(frozen=True)
class Family:
    """``prompted``: how the prompt ends that has opened reasoning; empty where it never does."""

    description: ReplyDescription
    controls: tuple[str, ...] = ()
    prompted: str = ""

    @property
    def vocabulary(self) -> list[Control]:
        return [Control(spelling) for spelling in dict.fromkeys((*self.controls, *self.description.ends))]

    @property
    def spelled(self) -> list[Control]:
        """A vocabulary that has only the ends."""
        return [Control(spelling) for spelling in self.description.ends]


THINK = Region(open="<think>\n", close="\n</think>\n\n")
TIGHT = Region(open="<think>", close="</think>")


def _xml(tag: str, *, lines: bool) -> CallForm:
    return CallForm(
        open=f"<{tag}>\n<function=",
        head=(Slot(reads="name", after=">\n"),),
        pairs=Pairs(
            key="<parameter=",
            values=(
                Value(before=">\n", after="\n</parameter>\n") if lines else Value(before=">", after="</parameter>\n"),
            ),
            python=True,
        ),
        close=f"</function>\n</{tag}>",
        separator="\n",
    )


HERMES = CallForm(open="<tool_call>\n", close="\n</tool_call>", separator="\n", members=Members())
ARG_KEY = CallForm(
    open="<tool_call>",
    head=(Slot(reads="name", after="\n"),),
    pairs=Pairs(key="<arg_key>", values=(Value(before="</arg_key>\n<arg_value>", after="</arg_value>\n"),)),
    close="</tool_call>",
    separator="\n",
)
DSML = CallForm(
    section=Region(open="\n\n<｜DSML｜function_calls>\n", close="\n</｜DSML｜function_calls>"),
    separator="\n",
    open='<｜DSML｜invoke name="',
    head=(Slot(reads="name", after='">\n'),),
    pairs=Pairs(
        key='<｜DSML｜parameter name="',
        separator="\n",
        values=(
            Value(before='" string="true">', after="</｜DSML｜parameter>", reads="text"),
            Value(before='" string="false">', after="</｜DSML｜parameter>", reads="json"),
        ),
    ),
    close="\n</｜DSML｜invoke>",
)
DEEPSEEK = CallForm(
    section=Region(open="<｜tool▁calls▁begin｜>", close="<｜tool▁calls▁end｜>"),
    open="<｜tool▁call▁begin｜>",
    head=(Slot(reads="name", after="<｜tool▁sep｜>"),),
    close="<｜tool▁call▁end｜>",
)
FENCED = CallForm(
    section=Region(open="<｜tool▁calls▁begin｜>", close="<｜tool▁calls▁end｜>"),
    open="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    head=(Slot(reads="name", after="\n```json\n"),),
    close="\n```<｜tool▁call▁end｜>",
    separator="\n",
)
KIMI = CallForm(
    section=Region(open="<|tool_calls_section_begin|>", close="<|tool_calls_section_end|>"),
    open="<|tool_call_begin|>",
    head=(Slot(reads="call_id", pattern="functions.{name}:{index}", after="<|tool_call_argument_begin|>"),),
    close="<|tool_call_end|>",
)
INVOKE = CallForm(
    section=Region(open="<minimax:tool_call>\n", close="\n</minimax:tool_call>"),
    separator="\n",
    open='<invoke name="',
    head=(Slot(reads="name", after='">\n'),),
    pairs=Pairs(key='<parameter name="', values=(Value(before='">', after="</parameter>\n"),)),
    close="</invoke>",
)
NESTED = CallForm(
    section=Region(open="]<]minimax[>[<tool_call>\n", close="]<]minimax[>[</tool_call>"),
    open=']<]minimax[>[<invoke name="',
    head=(Slot(reads="name", after='">'),),
    pairs=Pairs(key="]<]minimax[>[<", values=(Value(before=">", after="]<]minimax[>[</{key}>", reads="nested"),)),
    close="]<]minimax[>[</invoke>\n",
)
GEMMA = CallForm(
    open="<|tool_call>call:",
    head=(Slot(reads="name", after="{"),),
    pairs=Pairs(values=(Value(before=":", reads="literal"),), separator=",", quote='<|"|>'),
    close="}<tool_call|>",
)
PYTHONIC = CallForm(
    section=Region(open="<|tool_call_start|>[", close="]<|tool_call_end|>"),
    separator=", ",
    head=(Slot(reads="name", after="("),),
    pairs=Pairs(values=(Value(before="=", reads="literal"),), separator=", ", python=True),
    close=")",
)
COMMAND = CallForm(
    section=Region(open="<|START_ACTION|>[\n    ", close="\n]<|END_ACTION|>"),
    separator=",\n    ",
    members=Members(name="tool_name", arguments="parameters", call_id="tool_call_id", id_first=True),
)
ATTRIBUTE = CallForm(
    open='<function name="',
    head=(Slot(reads="name", after='">'),),
    pairs=Pairs(
        key='<param name="',
        values=(Value(before='">', after="</param>"), Value(before='"><![CDATA[', after="]]></param>")),
        python=True,
    ),
    close="</function>",
    separator="\n",
)
SOLAR = CallForm(
    section=Region(open="<|tool_calls|>", close=""),
    open="<|tool_call:begin|>",
    head=(
        Slot(reads="call_id", after="<|tool_call:name|>"),
        Slot(reads="name", after="<|tool_call:args|>"),
    ),
    close="<|tool_call:end|>",
)
TYPED = CallForm(
    section=Region(open="<|open|>tools<|sep|>", close="<|close|>tools<|sep|>"),
    open='<|open|>call tool="',
    head=(Slot(reads="name", after='" index="'), Slot(reads="index", after='"<|sep|>')),
    pairs=Pairs(
        key='<|open|>argument key="',
        values=tuple(
            Value(
                before=f'" type="{name}"<|sep|>',
                after="<|close|>argument<|sep|>",
                reads="text" if name == "string" else "json",
            )
            for name in ("string", "number", "boolean", "object", "array", "null")
        ),
    ),
    close="<|close|>call<|sep|>",
)

RECIPIENT = CallForm(
    open="to=",
    head=(
        Slot(reads="name", after='<|message|><atem:function_calls>\n<atem:invoke name="'),
        Slot(reads="name", after='">\n'),
    ),
    pairs=Pairs(key='<atem:parameter name="', values=(Value(before='">', after="</atem:parameter>\n"),)),
    close="</atem:invoke>\n</atem:function_calls>",
    separator="<|eom|><|start|>assistant ",
)


def _listed(open: str, close: str, members: Members) -> CallForm:
    return CallForm(section=Region(open=open, close=close), separator=", ", members=members)


def _described(
    *calls: CallForm,
    reasoning: Region | None = None,
    content: Region | None = None,
    layout: tuple[str, ...] = (),
    ends: tuple[str, ...] = ("<|im_end|>",),
) -> ReplyDescription:
    return ReplyDescription(reasoning=reasoning, content=content, calls=calls, layout=layout, ends=ends)


_THINK_TOKENS = ("<think>", "</think>")
_CALL_TOKENS = ("<tool_call>", "</tool_call>")
FAMILIES = {
    "hermes": Family(_described(HERMES, reasoning=THINK), (*_THINK_TOKENS, *_CALL_TOKENS), "<think>\n"),
    "xml-parameter": Family(
        _described(_xml("tool_call", lines=True), reasoning=THINK), (*_THINK_TOKENS, *_CALL_TOKENS), "<think>\n"
    ),
    "seed": Family(
        _described(
            _xml("seed:tool_call", lines=False),
            reasoning=Region(open="<seed:think>", close="</seed:think>\n"),
            ends=("<seed:eos>",),
        ),
        ("<seed:think>", "</seed:think>", "<seed:tool_call>", "</seed:tool_call>"),
    ),
    "arg-key": Family(
        _described(
            ARG_KEY, reasoning=Region(open="\n<think>", close="</think>\n"), ends=("<|user|>", "<|observation|>")
        ),
        (*_THINK_TOKENS, *_CALL_TOKENS, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    "dsml": Family(_described(DSML, reasoning=TIGHT, ends=("<｜end▁of▁sentence｜>",)), _THINK_TOKENS, "<think>"),
    "deepseek-v3": Family(
        _described(DEEPSEEK, reasoning=TIGHT, ends=("<｜end▁of▁sentence｜>",)),
        (
            *_THINK_TOKENS,
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>",
        ),
        "<think>",
    ),
    "deepseek-r1": Family(
        _described(FENCED, reasoning=TIGHT, ends=("<｜end▁of▁sentence｜>",)),
        (
            *_THINK_TOKENS,
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>",
        ),
    ),
    "kimi-k2": Family(
        _described(KIMI, reasoning=TIGHT),
        (
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_end|>",
            "<|tool_call_argument_begin|>",
        ),
    ),
    "json-lines": Family(
        _described(
            CallForm(section=Region(open="<tool_calls>\n", close="\n</tool_calls>"), separator="\n", members=Members()),
            ends=("<end_of_sentence>",),
        )
    ),
    "invoke": Family(
        _described(INVOKE, reasoning=THINK, ends=("[e~[",)),
        (*_THINK_TOKENS, "<minimax:tool_call>", "</minimax:tool_call>"),
        "<think>\n",
    ),
    "invoke, nested": Family(
        _described(NESTED, reasoning=Region(open="<mm:think>", close="</mm:think>"), ends=("[e~[",)),
        ("<mm:think>", "</mm:think>", "]<]minimax[>["),
    ),
    "gemma4": Family(
        _described(
            GEMMA,
            reasoning=Region(open="<|channel>thought\n", close="\n<channel|>"),
            ends=("<turn|>", "<|tool_response>"),
        ),
        ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>'),
    ),
    "pythonic": Family(
        _described(PYTHONIC, reasoning=TIGHT), (*_THINK_TOKENS, "<|tool_call_start|>", "<|tool_call_end|>")
    ),
    "command": Family(
        _described(
            COMMAND,
            reasoning=Region(open="<|START_THINKING|>", close="<|END_THINKING|>"),
            content=Region(open="<|START_RESPONSE|>", close="<|END_RESPONSE|>"),
            ends=("<|END_OF_TURN_TOKEN|>",),
        ),
        (
            "<|START_THINKING|>",
            "<|END_THINKING|>",
            "<|START_RESPONSE|>",
            "<|END_RESPONSE|>",
            "<|START_ACTION|>",
            "<|END_ACTION|>",
        ),
    ),
    "nemotron v2": Family(_described(_listed("<TOOLCALL>[", "]</TOOLCALL>", Members()), reasoning=THINK)),
    "mistral v3": Family(
        _described(_listed("[TOOL_CALLS][", "]", Members(call_id="id")), ends=("</s>",)), ("[TOOL_CALLS]",)
    ),
    "name is key": Family(
        _described(
            _listed("<|tools_prefix|>[", "]<|tools_suffix|>", Members(name="", arguments="")),
            reasoning=Region(open="<|inner_prefix|>", close="<|inner_suffix|>"),
            ends=("<|assistant_end|>",),
        ),
        ("<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>"),
    ),
    "mistral named": Family(
        _described(CallForm(open="[TOOL_CALLS]", head=(Slot(reads="name", after="[ARGS]"),)), ends=("</s>",)),
        ("[TOOL_CALLS]", "[ARGS]"),
    ),
    "mistral named, ids": Family(
        _described(
            CallForm(
                open="[TOOL_CALLS]",
                head=(Slot(reads="name", after="[CALL_ID]"), Slot(reads="call_id", after="[ARGS]")),
            ),
            ends=("</s>",),
        ),
        ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    ),
    "bare json": Family(_described(CallForm(members=Members(arguments="parameters")), ends=("<|eot_id|>",))),
    "late id": Family(
        _described(
            CallForm(
                open="<job of=",
                head=(Slot(reads="name", after=">"),),
                id_behind="<id>",
                close="</id></job>",
            ),
            ends=("<|im_end|>",),
        )
    ),
    "bare list": Family(
        _described(
            CallForm(section=Region(open="[", close="]"), separator=", ", members=Members()), ends=("<|im_end|>",)
        )
    ),
    "bare pythonic": Family(
        _described(replace(PYTHONIC, section=Region(open="[", close="]")), reasoning=TIGHT, ends=("<|eot|>",)),
        _THINK_TOKENS,
    ),
    "function tag": Family(
        _described(
            CallForm(open="<function=", head=(Slot(reads="name", after=">"),), close="</function>"),
            ends=("<|eot_id|>", "<|eom_id|>"),
        )
    ),
    "turn is call": Family(
        _described(CallForm(open="<|message_sep|>\n\nfunction call<|role_sep|>\n", members=Members()), ends=("</s>",)),
        ("<|message_sep|>", "<|role_sep|>"),
    ),
    "xml attribute": Family(_described(ATTRIBUTE, reasoning=THINK), _THINK_TOKENS, "<think>\n"),
    "solar": Family(
        _described(
            SOLAR,
            reasoning=Region(open="<|think|>", close="<|end|>"),
            content=Region(open="<|content|>", close="<|end|>"),
            layout=("<|begin|>assistant",),
            ends=("<|calls|>", "<|end|>"),
        ),
        (
            "<|think|>",
            "<|begin|>",
            "<|content|>",
            "<|tool_calls|>",
            "<|tool_call:begin|>",
            "<|tool_call:name|>",
            "<|tool_call:args|>",
            "<|tool_call:end|>",
        ),
    ),
    "typed": Family(
        _described(
            TYPED,
            reasoning=Region(open="<|open|>think<|sep|>", close="<|close|>think<|sep|>"),
            content=Region(open="<|open|>response<|sep|>", close="<|close|>response<|sep|>"),
            layout=("<|close|>message<|sep|>",),
            ends=("<|end_of_msg|>",),
        ),
        ("<|open|>", "<|close|>", "<|sep|>"),
    ),
    "function heads": Family(
        _described(
            CallForm(open=">>>", head=(Slot(reads="name", after="\n"),)),
            content=Region(open=">>>all\n"),
            ends=("<|eot_id|>",),
        ),
        prompted=">>>",
    ),
    "recipients": Family(
        _described(
            RECIPIENT,
            reasoning=Region(open=" to=self<|message|>", close="<|eom|>"),
            content=Region(open="to=user<|message|>"),
            layout=("<|start|>assistant",),
            ends=("<|eot|>",),
        ),
        ("<|message|>", "<|eom|>", "<|start|>"),
    ),
    "plain": Family(_described()),
    "reasoning only": Family(_described(reasoning=THINK), _THINK_TOKENS, "<think>\n"),
}
