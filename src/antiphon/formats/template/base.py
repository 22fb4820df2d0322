"""The class that every chat template derives from (LMDeploy's `BaseTemplate`: LMD-12 … LMD-34)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from antiphon.errors import TemplateError

SETTINGS = ("session_len", "top_p", "top_k", "temperature", "repetition_penalty")
"""The generation settings of a template that are defaults of its model."""

ChatDict = Mapping[str, Any]
"""One message in the form of the OpenAI API: ``role``, ``content``; where there are some ``name``, ``tool_calls``."""


class BaseTemplate:
    """A chat template and the generation settings that belong to the model (LMD-03).

    A class of one's own overrides `decorate_prompt`, and `messages2prompt` where its history needs more than the
    rounds of `decorate_prompt` one after the other. Lengths are in tokens.
    """

    def __init__(
        self,
        session_len: int = 2048,
        top_p: float = 0.8,
        top_k: int | None = None,
        temperature: float = 0.8,
        repetition_penalty: float = 1.0,
        capability: str = "chat",
        stop_words: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.session_len = session_len
        self.top_p = top_p
        self.top_k = top_k
        self.temperature = temperature
        self.repetition_penalty = repetition_penalty
        self.capability = capability
        self.stop_words = stop_words

    def stated(self) -> dict[str, Any]:
        """The settings that the template's author chose: those that are not what every template begins with."""
        usual = BaseTemplate()
        return {name: getattr(self, name) for name in SETTINGS if getattr(self, name) != getattr(usual, name)}

    def get_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        """The decorated prompt; as it is where the model can only continue text (LMD-20 … LMD-22)."""
        if self.capability == "completion":
            return prompt
        return self.decorate_prompt(prompt, sequence_start)

    def decorate_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        """The user's text as the model was taught it; ``sequence_start``: this is the first round (LMD-23, LMD-24)."""
        return prompt

    def messages2prompt(self, messages: str | Sequence[ChatDict], sequence_start: bool = True) -> str:
        """The prompt of a whole chat history, or of one user text (LMD-29 … LMD-31).

        Without a rule of its own a template writes its rounds one after the other: `decorate_prompt` of each user text,
        then the answer (LMD-25). A leading system text takes the place of ``meta_instruction`` (resolution X-09).
        """
        if isinstance(messages, str):
            return self.get_prompt(messages, sequence_start)
        if self.capability == "completion":
            return "".join(content_of(message) for message in messages)
        template, first, prompt = self, sequence_start, ""
        pending = ""
        for message in messages:
            content = content_of(message)
            match role_of(message):
                case "system" if first and hasattr(self, "meta_instruction"):
                    template = copy.copy(self)
                    template.__dict__["meta_instruction"] = content
                case "system":
                    pending += f"{content}\n\n"
                case "assistant":
                    prompt += content
                case _:
                    prompt += (template if first else self).decorate_prompt(pending + content, first)
                    first, pending = False, ""
        return prompt


def role_of(message: ChatDict, *, extra: Collection[str] = ()) -> str:
    """The message's role; anything but a word is an error (resolution X-31: looked up, never evaluated)."""
    role = message.get("role")
    if not isinstance(role, str) or role not in ("system", "user", "assistant", "tool", *extra):
        raise TemplateError(
            f"unknown role {role!r}", code="unknown_role", hint="A template knows system, user, assistant and tool."
        )
    return role


def content_of(message: ChatDict) -> str:
    """The message's text; LMDeploy reads the first part of a list, we join them all."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    raise TemplateError(f"a message's content must be text, not {type(content).__name__}", code="invalid_content")
