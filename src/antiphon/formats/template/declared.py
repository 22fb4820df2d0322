"""Templates that are data, and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

from antiphon.errors import TemplateError

from .base import SETTINGS, BaseTemplate, Blocks, Calls, ChatDict, Infilling, Offers, Replies, Rule, content_of, role_of

# Tools that are offered, and calls that were made, as a declared template writes them.

Offer = Mapping[str, Any]
"""A tool that is offered: ``name``, ``description``, ``parameters``."""

_PLACE = re.compile(r"\{(name|description|tool|arguments)\}")


def offered_text(offers: Offers, tools: Sequence[Offer], protect: Callable[[str], str]) -> str:
    """All tools, from ``open`` to ``close``. ``protect`` gives what is written for each text of a tool."""
    each = [_filled(offers.each, _texts(tool, offers.indent, protect)) for tool in tools]
    return f"{offers.open}{offers.between.join(each)}{offers.close}"


def call_text(calls: Calls, call: Mapping[str, Any]) -> str:
    """One call in the form of the OpenAI API, or its function alone; arguments stay the text that the model wrote."""
    function = call.get("function", call)
    arguments = function.get("arguments", "{}")
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    name = json.dumps(function.get("name", ""), ensure_ascii=False)[1:-1]
    return _filled(calls.each, {"name": name, "arguments": raw or "{}"})


def _filled(pattern: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values[place[1]], pattern)


def _texts(tool: Offer, indent: int, protect: Callable[[str], str]) -> dict[str, str]:
    """The texts in the places of an offer's pattern; JSON in lines is as deep as a list's items are."""
    written = json.dumps(tool, ensure_ascii=False, indent=indent or None).replace("\n", "\n" + " " * indent)
    texts = {"tool": written, "name": str(tool.get("name", "")), "description": str(tool.get("description") or "")}
    return {place: protect(text) for place, text in texts.items()}


BLOCK_NAMES = tuple(f.name for f in fields(Blocks))


class DeclaredTemplate(BaseTemplate):
    """A template whose class holds `Blocks` and a `Rule`; keyword arguments override single blocks and settings."""

    declared: ClassVar[Blocks] = Blocks()
    generation: ClassVar[Mapping[str, Any]] = {}
    rule: ClassVar[Rule] = Rule()

    def __init__(self, **overrides: Any) -> None:
        given = {**self.generation, **overrides}
        super().__init__(**given)
        self._given = tuple(name for name in SETTINGS if name in given)
        self.blocks = replace(self.declared, **{k: v for k, v in overrides.items() if k in BLOCK_NAMES})
        self.suffix_first = bool(overrides.get("suffix_first", False))
        infilling = self.rule.infilling
        if infilling and self.capability == "infilling" and self.stop_words is None:
            self.stop_words = infilling.stop_words

    def __getattr__(self, name: str) -> Any:
        """The blocks by their own names, as LMDeploy's templates have them: ``template.eoh``."""
        if name in BLOCK_NAMES and "blocks" in self.__dict__:
            return getattr(self.blocks, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def stated(self) -> dict[str, Any]:
        """The fields that its table or file gives, defaults too, and those that a class has changed."""
        return {**super().stated(), **{name: getattr(self, name) for name in self._given}}

    def get_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        infilling = self.rule.infilling
        if infilling and self.capability == "infilling":
            return _infill(prompt, infilling, suffix_first=self.suffix_first)
        if infilling and self.capability == "python":
            return prompt
        return super().get_prompt(prompt, sequence_start)

    def decorate_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        self._require_chat()
        if self.capability != "chat":
            raise TemplateError(f"{type(self).__name__} has no capability of {self.capability}", code="no_capability")
        blocks = replace(self.blocks, **self.rule.alone)
        rule = self.rule
        prompt = prompt.strip() if rule.strips else prompt
        if rule.reading == "numbered":
            text = _numbered(prompt, 1 if sequence_start else 2, blocks)
        elif sequence_start:
            text = f"{rule.start}{_meta(blocks)}{blocks.user}{prompt}{blocks.eoh}{blocks.assistant}"
        else:
            text = f"{self._resume}{blocks.user}{prompt}{blocks.eoh}{blocks.assistant}"
        return text[:-1] if rule.clip != "none" else text

    def messages2prompt(
        self, messages: str | Sequence[ChatDict], sequence_start: bool = True, tools: Sequence[Offer] = ()
    ) -> str:
        """The common rule: each message between its markers, then the assistant's marker (LMD-48 … LMD-51)."""
        if isinstance(messages, str):
            return self.get_prompt(messages, sequence_start)
        if self.rule.calls and self.rule.calls.dropped:
            messages = [{**message, "tool_calls": ()} for message in messages]
        has_end = bool(self.blocks.eoa + self.blocks.separator)
        opens_last_answer = self.rule.prefill == "open" or (self.rule.prefill == "strip" and has_end)
        prefix = opens_last_answer and bool(messages) and messages[-1].get("role") == "assistant"
        text = self.history(messages, sequence_start, tools, continues=prefix)
        return text[:-1] if self.rule.clip == "prompt" and prefix else text

    def history(
        self,
        messages: Sequence[ChatDict],
        sequence_start: bool = True,
        tools: Sequence[Offer] = (),
        *,
        continues: bool = False,
        opens_reply: bool = True,
        protect: Callable[[str], str] = str,
    ) -> str:
        """The prompt of a history, whose texts it never cuts (LMDeploy's clipped templates cut an open answer).

        ``continues``: the last message is an answer that stays open (resolution L-11). Otherwise ``opens_reply`` opens
        the next one. ``protect`` gives what is written for each text of a tool.
        """
        self._require_chat()
        match self.rule.reading:
            case "numbered":
                return self._numbered_history(messages, sequence_start)
            case "rounds":
                return self._rounds(messages, sequence_start, continues=continues)
            case _:
                offered = self._offered(tools, protect)
                head = self._head(messages, offered) if sequence_start else self._resume
                rest = messages[1:] if _leads(messages) and not self._keeps_meta else messages
                body = "".join(self._bodies(rest, offered))
                return head + self._tail(body, continues=continues, opens_reply=opens_reply)

    @property
    def knows_tool_replies(self) -> bool:
        return self.rule.replies is not None or bool(self.blocks.tool or self.blocks.eotool)

    @property
    def knows_system(self) -> bool:
        return self.rule.system == "written" and self.rule.reading != "numbered"

    @property
    def knows_calls(self) -> bool:
        return self.rule.calls is not None and self.rule.reading == "sequence"

    @property
    def names_tool_replies(self) -> bool:
        return self.rule.replies is not None and bool(self.rule.replies.named)

    @property
    def pairs_rounds(self) -> bool:
        """It can only write users and answers in turn."""
        return self.rule.reading == "rounds"

    @property
    def _resume(self) -> str:
        return self.blocks.separator if self.rule.resume is None else self.rule.resume

    @property
    def _keeps_meta(self) -> bool:
        return self.rule.meta == "always"

    def _require_chat(self) -> None:
        if self.rule.reading == "jinja":
            raise TemplateError(
                "the template 'hf' stands for the model's own Jinja template, which is not here",
                code="no_template",
                hint="Make a format of it with `jinja_format(source, …)`.",
            )

    def _head(self, messages: Sequence[ChatDict], offered: str) -> str:
        """The text before the first round: the start, the system block, and the tools (resolutions L-08, X-09)."""
        blocks, rule = self.blocks, self.rule
        head = rule.start
        apart = bool(rule.offers and rule.offers.place == "apart")
        within = "" if apart else offered
        leading = content_of(messages[0]) if _leads(messages) else None
        if (leading is None or self._keeps_meta) and (blocks.meta_instruction is not None or within):
            preface = rule.preface if blocks.meta_instruction is not None else ""
            head += self._system_block(blocks.system, preface, blocks.meta_instruction or "", within)
        if leading is not None and not self._keeps_meta:
            head += self._system_block(self._opening(messages[0], blocks.system), "", leading, within)
        return head + (self._system_block(blocks.system, "", "", offered) if apart and offered else "")

    def _system_block(self, marker: str, preface: str, text: str, offered: str) -> str:
        offers = self.rule.offers
        if offers and offers.name and offered:
            marker = _named(self.blocks.system, self.rule.names[offers.name])
        both = offered + text if offers and offers.place == "before" else text + offered
        return f"{marker}{preface}{both}{self.blocks.eosys}"

    def _offered(self, tools: Sequence[Offer], protect: Callable[[str], str]) -> str:
        if not tools:
            return ""
        offers = self.rule.offers
        if offers is None:
            raise TemplateError(
                "this template has no way to offer tools",
                code="no_tools",
                hint="Choose chatml, qwen2d5 or the model's own Jinja template.",
            )
        text = offered_text(offers, tools, protect)
        return f"{self.blocks.tool}{text}{self.blocks.eotool}" if offers.framed else text

    def _bodies(self, messages: Sequence[ChatDict], offered: str = "") -> Iterator[str]:
        blocks, offers = self.blocks, self.rule.offers
        repeated = offered if offers and offers.place == "before" else ""
        replies = self.rule.replies or Replies(each=blocks.tool, end=blocks.eotool)
        for i, message in enumerate(messages):
            content = content_of(message)
            match role_of(message, extra=(replies.role,) if replies.role else ()):
                case "system":
                    yield f"{self._opening(message, blocks.system)}{repeated}{content}{blocks.eosys}"
                case "user":
                    yield f"{self._opening(message, blocks.user)}{content}{blocks.eoh}"
                case "assistant":
                    text = content + self._calls(message)
                    yield f"{self._opening(message, blocks.assistant)}{text}{self._end(message, content)}"
                case _:
                    yield replies.open if not _is_reply(messages, i - 1) else ""
                    yield f"{self._opening(message, replies.each, replies.named)}{content}{replies.end}"
                    yield replies.close if not _is_reply(messages, i + 1) else ""

    def _opening(self, message: ChatDict, marker: str, named: str = "") -> str:
        """``marker`` with the message's name where the template knows it; ``named``: instead of any other name."""
        given = message.get("name")
        name = self.rule.names.get(str(given))
        if name:
            return _named(marker, name)
        return named if given and named else marker

    def _calls(self, message: ChatDict) -> str:
        made, calls = message.get("tool_calls") or (), self.rule.calls
        if not made:
            return ""
        if calls is None:
            raise TemplateError(
                "this template has no way to write a tool call", code="no_tools", hint="Choose chatml or qwen2d5."
            )
        written = [call_text(calls, call) for call in made]
        return (calls.between if message.get("content") is not None else "") + calls.between.join(written)

    def _end(self, message: ChatDict, content: str) -> str:
        """The text that ends an assistant's message."""
        calls = self.rule.calls
        if calls and calls.eoa is not None and (message.get("tool_calls") or any(m in content for m in calls.marks)):
            return calls.eoa
        return self.blocks.eoa + self.blocks.separator

    def _tail(self, body: str, *, continues: bool, opens_reply: bool) -> str:
        """The end of a history: an open answer, or the marker that opens one."""
        blocks, rule = self.blocks, self.rule
        if continues:
            body = body[: len(body) - len(blocks.eoa + blocks.separator)]
            return body + rule.cue if rule.cue_after_prefix else body
        marker = blocks.assistant[:-1] if rule.clip != "none" else blocks.assistant
        return body + marker + rule.cue if opens_reply else body

    def _numbered_history(self, messages: Sequence[ChatDict], sequence_start: bool) -> str:
        number, text = (0 if sequence_start else 1), ""
        for message in messages:
            content = content_of(message)
            match role_of(message):
                case "user":
                    number += 1
                    text += _numbered(content, number, self.blocks)
                case "assistant":
                    text += content
        return text

    def _rounds(self, messages: Sequence[ChatDict], sequence_start: bool, *, continues: bool) -> str:
        """The rule of the seed's branch: the last system text first, then users and answers paired in order."""
        blocks, rule = self.blocks, self.rule
        contents: dict[str, list[str]] = {"system": [], "user": [], "assistant": [], "tool": []}
        for message in messages:
            contents[role_of(message)].append(content_of(message))
        if contents["system"] and rule.system == "written":
            blocks = replace(blocks, meta_instruction=contents["system"][-1] or blocks.meta_instruction)
        text = f"{rule.start}{_meta(blocks)}" if sequence_start else ""
        answers = [*contents["assistant"], ""]
        for i, (user, answer) in enumerate(zip(contents["user"], answers, strict=False)):
            text += blocks.separator if i or not sequence_start else ""
            text += f"{blocks.user}{user}{blocks.eoh}{blocks.assistant}"
            text += f"{answer}{blocks.eoa}" if answer else ""
        return text.removesuffix(blocks.eoa) if continues else text


def _meta(blocks: Blocks) -> str:
    if blocks.meta_instruction is None:
        return ""
    return f"{blocks.system}{blocks.meta_instruction}{blocks.eosys}"


def _numbered(prompt: str, number: int, blocks: Blocks) -> str:
    return f"[Round {number}]\n\n{blocks.user}{prompt}{blocks.eoh}{blocks.assistant}"


def _leads(messages: Sequence[ChatDict]) -> bool:
    return bool(messages) and messages[0].get("role") == "system"


def _is_reply(messages: Sequence[ChatDict], i: int) -> bool:
    return 0 <= i < len(messages) and messages[i].get("role") == "tool"


def _named(marker: str, name: str) -> str:
    return f"{marker.strip()} name={name}\n"


def _infill(prompt: str, infilling: Infilling, *, suffix_first: bool) -> str:
    prefix, mark, suffix = prompt.partition(infilling.mark)
    if not mark or infilling.mark in suffix:
        raise TemplateError(f"infilling needs exactly one {infilling.mark} in the text", code="invalid_content")
    pattern = infilling.suffix_first if suffix_first else infilling.prefix_first
    return pattern.replace("{prefix}", "\0").replace("{suffix}", suffix).replace("\0", prefix)
