"""What Ollama's routes of models say of one."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from antiphon.generation import FileFacts, ModelFacts

from .schema import OllamaDetails, OllamaModel, OllamaRunning, OllamaShown

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
    parameters = "\n".join(f"{name} {value:g}" for name, value in _parameters(facts))
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
    able = {"tools": facts.tools, "thinking": facts.reasoning, "insert": facts.infill}
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
    """What the file says; ``context_length`` is what prompt and answer may have together here, as clients read it."""
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


def _parameters(facts: ModelFacts) -> list[tuple[str, float]]:
    values = {one.name: one.value for one in facts.settings}
    return [(PARAMETERS[name], values[name]) for name in PARAMETERS if values.get(name)]


def _in_short(parameters: int | None) -> str:
    """``134515008`` is ``134.52M``, as Ollama writes it."""
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters and parameters >= size:
            return f"{parameters / size:.2f}".rstrip("0").rstrip(".") + letter
    return ""
