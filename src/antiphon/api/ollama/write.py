"""Events → Ollama's answer: a line of JSON a change, or all of them as one object."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from antiphon.api.chat.write import logprob_entries
from antiphon.conversation import Event, FinishReason, MessageEnded, TokenLogprob
from antiphon.errors import AntiphonError
from antiphon.generation import FileFacts, ModelFacts, StepEvents
from antiphon.wire.json import encode
from antiphon.wire.projection import (
    INVALID,
    ArgumentsText,
    CallStarted,
    Finished,
    Projection,
    ThoughtText,
    VisibleText,
    WholeCall,
)
from antiphon.wire.writer import JSON, StreamForm

from .schema import (
    OllamaAnswer,
    OllamaAnswerMessage,
    OllamaCall,
    OllamaCalledFunction,
    OllamaChatAnswer,
    OllamaDetails,
    OllamaGenerateAnswer,
    OllamaModel,
    OllamaRunning,
    OllamaShown,
)

# What Ollama's routes of models say of one.

FOR_EVER = "9999-12-31T23:59:59Z"
UNNAMED = "unknown"
"""The architecture of a model whose file is not here: clients look for keys that begin with one."""
PARAMETERS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
    "max_tokens": "num_predict",
    "context": "num_ctx",
}
"""A model's settings under Ollama's names."""


def time_of(seconds: float) -> str:
    """A Unix time as RFC 3339 has it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def listed(name: str, created: int, facts: ModelFacts) -> OllamaModel:
    """A model of /api/tags."""
    return OllamaModel(
        name=name,
        model=name,
        modified_at=time_of(created),
        size=facts.size or 0,
        digest=digest(name, created, facts),
        details=details(facts),
        capabilities=capabilities(facts),
    )


def running(name: str, created: int, facts: ModelFacts) -> OllamaRunning:
    """A model of /api/ps."""
    return OllamaRunning(
        name=name,
        model=name,
        size=facts.size or 0,
        digest=digest(name, created, facts),
        details=details(facts),
        expires_at=FOR_EVER,
        context_length=facts.context or 0,
    )


def shown(name: str, created: int, facts: ModelFacts) -> OllamaShown:
    """The answer of /api/show."""
    values = {one.name: one.value for one in facts.settings}
    parameters = "\n".join(f"{PARAMETERS[name]} {values[name]:g}" for name in PARAMETERS if values.get(name))
    lines = [f"FROM {name}", *(f"PARAMETER {line}" for line in parameters.splitlines())]
    return OllamaShown(
        modelfile="\n".join(lines) + "\n",
        parameters=parameters,
        template=facts.chat_template or "",
        license=file_of(facts).licence,
        details=details(facts),
        model_info=model_info(name, facts),
        capabilities=capabilities(facts),
        modified_at=time_of(created),
    )


def capabilities(facts: ModelFacts) -> list[str]:
    """Ollama's words for what the model can do."""
    if facts.task != "chat":
        return ["embedding"] if facts.task == "embed" else []
    able = {"tools": facts.tools, "thinking": facts.reasoning, "insert": facts.infill, "vision": facts.images}
    return ["completion", *(word for word, can in able.items() if can)]


def details(facts: ModelFacts) -> OllamaDetails:
    file = file_of(facts)
    return OllamaDetails(
        format="gguf" if facts.file is not None else "",
        family=file.architecture,
        families=[file.architecture] if file.architecture else [],
        parameter_size=_in_short(file.parameters),
        quantization_level=file.quantization,
    )


def model_info(name: str, facts: ModelFacts) -> dict[str, Any]:
    """Returns the file's facts; ``context_length`` is what prompt and answer may have together, as clients read it."""
    file = file_of(facts)
    architecture = file.architecture or UNNAMED
    info: dict[str, Any] = {
        "general.architecture": architecture,
        "general.basename": name,
        "general.parameter_count": file.parameters or 0,
        **file.values,
        f"{architecture}.context_length": facts.context or 0,
    }
    if facts.embedding:
        info.setdefault(f"{architecture}.embedding_length", facts.embedding)
    return info


def file_of(facts: ModelFacts) -> FileFacts:
    return facts.file or FileFacts()


def digest(name: str, created: int, facts: ModelFacts) -> str:
    """The file's, where the catalog has it; else one that changes when the name, the size or the time does."""
    known = file_of(facts).digest
    return known or hashlib.sha256(f"{name} {facts.size} {created}".encode()).hexdigest()


def _in_short(parameters: int | None) -> str:
    """``134515008`` is ``134.52M``, as Ollama writes it."""
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters and parameters >= size:
            return f"{parameters / size:.2f}".rstrip("0").rstrip(".") + letter
    return ""


LINES = "application/x-ndjson"
CUT = (FinishReason.LENGTH_OUTPUT, FinishReason.LENGTH_CONTEXT, FinishReason.TIMEOUT)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Durations(NamedTuple):
    """Nanoseconds, as `OllamaAnswer` has them."""

    total: int
    load: int
    prompt_eval: int
    eval: int


class LinePart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the answer that a step adds; the last part has its end."""

    text: str = ""
    thinking: str = ""
    calls: tuple[OllamaCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    end: Finished | None = None


class OllamaHead(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of every line, or their sources. ``now`` gives times as of RFC 3339, ``spent`` is called at the end.

    ``generates``: the answer is one to /api/generate.
    """

    model: str
    now: Callable[[], str]
    spent: Callable[[], Durations]
    generates: bool = False
    expose_reasoning: bool = False

    def line(self, part: LinePart) -> OllamaAnswer:
        """The part as the client reads it."""
        if self.generates:
            answer: OllamaAnswer = OllamaGenerateAnswer(
                model=self.model, created_at=self.now(), done=False, response=part.text, thinking=part.thinking
            )
        else:
            message = OllamaAnswerMessage(
                role="assistant", content=part.text, thinking=part.thinking, tool_calls=list(part.calls)
            )
            answer = OllamaChatAnswer(model=self.model, created_at=self.now(), done=False, message=message)
        changes: dict[str, object] = {"logprobs": logprob_entries(part.logprobs)} if part.logprobs else {}
        return msgspec.structs.replace(answer, **changes, **(self._ending(part.end) if part.end else {}))

    def loaded(self, reason: str) -> OllamaAnswer:
        """The answer where the model was not run."""
        return msgspec.structs.replace(self.line(LinePart()), done=True, done_reason=reason)

    def _ending(self, end: Finished) -> dict[str, object]:
        spent = self.spent()
        return {
            "done": True,
            "done_reason": "length" if end.reason in CUT else "stop",
            "total_duration": spent.total,
            "load_duration": spent.load,
            "prompt_eval_count": end.usage.prompt_tokens,
            "prompt_eval_duration": spent.prompt_eval,
            "eval_count": end.usage.completion_tokens,
            "eval_duration": spent.eval,
        }


class OllamaWriter:
    """One answer: the `Writer` of Ollama's API. A line without text is its sign of life: clients read no empty one."""

    media_type = JSON

    def __init__(self, head: OllamaHead, describe: Callable[[AntiphonError], object]) -> None:
        self._head = head
        self._reader = PartReader(expose_reasoning=head.expose_reasoning)
        self._parts: list[LinePart] = []
        alive = encode(head.line(LinePart())) + b"\n"
        self.form = StreamForm(lambda error: encode(describe(error)) + b"\n", media_type=LINES, keep_alive=alive)

    def change(self, step: StepEvents[Event]) -> bytes:
        parts = [part for event in step.events for part in self._reader.feed(event)]
        return b"".join([encode(self._head.line(part)) + b"\n" for part in parts])

    def end(self) -> bytes:
        return b""

    def add(self, step: StepEvents[Event]) -> None:
        self._parts += [part for event in step.events for part in self._reader.feed(event)]

    def whole(self) -> bytes:
        return encode(self._head.line(joined(self._parts)))


def joined(parts: list[LinePart]) -> LinePart:
    """All of them as one."""
    return LinePart(
        text="".join(part.text for part in parts),
        thinking="".join(part.thinking for part in parts),
        calls=tuple(call for part in parts for call in part.calls),
        logprobs=tuple(one for part in parts for one in part.logprobs),
        end=next((part.end for part in parts if part.end is not None), None),
    )


class PartReader:
    """Events → parts. A call waits until it is over; arguments that are no object are a member of one."""

    def __init__(self, *, expose_reasoning: bool) -> None:
        self._projection = Projection(expose_reasoning=expose_reasoning)
        self._call: WholeCall | None = None
        self._calls = 0

    def feed(self, event: Event) -> Iterator[LinePart]:
        match self._projection.feed(event):
            case VisibleText(text, logprobs):
                yield LinePart(text=text, logprobs=logprobs)
            case ThoughtText(text):
                yield LinePart(thinking=text)
            case CallStarted(_, id, name):
                self._call = WholeCall(id, name)
            case ArgumentsText(_, text) if self._call is not None:
                self._call.arguments.append(text)
            case Finished() as finished:
                yield from self._called()
                yield LinePart(end=finished)
            case _:
                pass
        if isinstance(event, MessageEnded):
            yield from self._called()

    def _called(self) -> Iterator[LinePart]:
        """The call that is open, if one is."""
        call, self._call = self._call, None
        if call is None:
            return
        text = "".join(call.arguments)
        arguments = in_one_line(text or "{}") or msgspec.Raw(encode({INVALID: text}))
        called = OllamaCalledFunction(index=self._calls, name=call.name, arguments=arguments)
        self._calls += 1
        yield LinePart(calls=(OllamaCall(id=call.id, function=called),))


def in_one_line(text: str) -> msgspec.Raw | None:
    """A JSON object without blanks between its words, its numbers as they are spelt; None for what is no object."""
    try:
        data = text.encode()
        _OBJECT.decode(data)
        return msgspec.Raw(msgspec.json.format(data, indent=-1))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
