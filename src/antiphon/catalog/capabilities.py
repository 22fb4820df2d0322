"""Capabilities of a model and its lacks here, a line each, before anybody waits for its first answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.generation import Capabilities, Capability, ModelFacts, Source, context_of
from antiphon.tokens import ByteTokenizer

from .format_choice import ModelSource
from .memory import mebibytes

FIELDS = Capabilities.__struct_fields__


class MemoryNeed(msgspec.Struct, frozen=True):
    """Bytes that a model needs, that were free before it was loaded, and that all models may have together.

    ``free`` None: not known; ``budget`` 0: no limit.
    """

    needed: int
    free: int | None = None
    budget: int = 0


def capabilities_of(
    facts: ModelFacts, source: ModelSource, format: Format, memory: MemoryNeed | None = None
) -> Capabilities:
    """The known capabilities of the model, a sentence a subject; None for what does not apply to it."""
    writes = facts.task == "chat"
    return Capabilities(
        vocabulary=_vocabulary(source),
        template=_template(facts, source, format) if writes else None,
        tools=_tools(facts, format) if writes else None,
        thinking=Capability("told from the answer" if facts.reasoning else "none") if writes else None,
        sampling=_sampling(source.metadata) if writes else None,
        context=_context(facts),
        memory=_memory(memory) if memory is not None and memory.needed else None,
        licence=Capability(_licence(facts)) if facts.file is not None else None,
    )


def capability_lines(capabilities: Capabilities) -> Iterator[str]:
    """For people: the subject, what is so, and what to do where something cannot be done."""
    for name, one in given(capabilities):
        hint = f" ({one.hint})" if one.lacking and one.hint else ""
        yield f"{name}: {'warning: ' if one.lacking else ''}{one.says}{hint}"


def capability_fields(capabilities: Capabilities) -> dict[str, str | list[str]]:
    """For programs: a text for each subject, and as ``warnings`` the subjects of which something cannot be done."""
    found = dict(given(capabilities))
    warnings = [name for name, one in found.items() if one.lacking]
    return {**{name: one.says for name, one in found.items()}, "warnings": warnings}


def given(capabilities: Capabilities) -> Iterator[tuple[str, Capability]]:
    """Each subject of which something is known."""
    for name in FIELDS:
        one: Capability | None = getattr(capabilities, name)
        if one is not None:
            yield name, one


def _vocabulary(source: ModelSource) -> Capability:
    size = f"{source.text.tokenizer.size:,} tokens"
    if source.text.by_engine:
        return Capability(f"{_kind(source.metadata)}, {size}, encoded by the engine's own call")
    if source.metadata:
        return Capability(f"{_kind(source.metadata)}, {size}, encoded as the engine does")
    return Capability(size)


def _kind(metadata: Mapping[str, object]) -> str:
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    return f"{kind} ({pre})" if pre and pre != "default" else str(kind)


def _template(facts: ModelFacts, source: ModelSource, format: Format) -> Capability:
    from antiphon.formats.template import JinjaFormat  # a format that is named needs none of it

    why = f"{facts.format} ({facts.format_origin})" if facts.format_origin else str(facts.format)
    trained = not isinstance(source.text.tokenizer, ByteTokenizer)  # else it has no files, and says a script
    if trained and facts.format_origin.startswith("default:"):
        hint = "--chat-template FILE or --format NAME, if it was trained on another"
        return Capability(why, lacking=True, hint=hint)
    if not isinstance(format, JinjaFormat):
        return Capability(why)
    found = format.found
    if found.origin == "raw":
        return Capability(f"{why}; nothing of its replies is understood", lacking=True, hint=_CHECK)
    if found.proof.failed:
        lost = ", ".join(found.proof.failures)
        return Capability(f"{why}; read otherwise than it writes them: {lost}", lacking=True, hint=_CHECK)
    return Capability(f"{why}; {len(found.proof.proven)} shapes of replies are read back as it writes them")


_CHECK = "antiphon template check MODEL says more"


def _tools(facts: ModelFacts, format: Format) -> Capability:
    from antiphon.formats.template import JinjaFormat

    if isinstance(format, Harmony):
        return Capability("calls in Harmony's own form")
    if not facts.tools:
        hint = "name a template that can: --chat-template FILE, or --format chatml"
        return Capability("its prompts cannot offer any", lacking=True, hint=hint)
    if not isinstance(format, JinjaFormat):
        return Capability(f"calls in the form of {format.name}")
    if format.found.taught:
        return Capability("taught: prompts say how to call, its template does not")
    if not format.found.description.calls:
        return Capability("its template offers them, and its calls are not understood", lacking=True, hint=_CHECK)
    proven = "call" in format.found.proof.proven or "one_argument" in format.found.proof.proven
    if proven:
        return Capability("calls in its template's form, proven")
    names = ", ".join(format.found.families) or format.found.origin
    return Capability(f"calls in a form that its template does not write ({names}), not proven")


def _sampling(metadata: Mapping[str, object]) -> Capability | None:
    """A recommendation of the file's that cannot be followed; None where there is none."""
    names = ("mirostat", "xtc_probability")
    other = {name: metadata.get(f"general.sampling.{name}") for name in names}
    found = [f"{name} {value}" for name, value in other.items() if value]
    if not found:
        return None
    return Capability(f"its file recommends {' and '.join(found)}, which is left out", lacking=True)


def _context(facts: ModelFacts) -> Capability:
    if facts.context is None:
        return Capability("as its server has it")
    limit, trained = context_of(facts.layers), facts.trained_context
    configured = int(limit.value) if limit is not None and limit.source <= Source.CONFIGURATION else 0
    if trained is not None and configured > trained:
        says = f"{trained:,} tokens: it was trained on no more, and {configured:,} are configured"
        return Capability(says, lacking=True)
    most = "" if trained is None else f" of {trained:,} that it was trained on"
    return Capability(f"{facts.context:,} tokens{most}")


def _memory(memory: MemoryNeed) -> Capability:
    says = f"{mebibytes(memory.needed)} needed"
    if memory.free is not None:
        says += f", {mebibytes(memory.free)} free"
    if memory.budget:
        says += f", {mebibytes(memory.budget)} for all models (engine.memory_mib)"
    bounds = [bound for bound in (memory.free, memory.budget or None) if bound is not None]
    if memory.needed <= min(bounds, default=memory.needed):
        return Capability(says)
    return Capability(says, lacking=True, hint="lower --context or --slots, or take a smaller file")


def _licence(facts: ModelFacts) -> str:
    file = facts.file
    if file is None or not file.licence:
        return "not said in its file"
    name = file.values.get("general.license.name")
    return f"{file.licence} ({name})" if name else file.licence
