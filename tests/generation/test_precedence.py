"""One order of sources for every setting: request, template, configuration, dialect, catalogue, model, default."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import pytest

from antiphon.conversation import Conversation, Message, Role
from antiphon.engines import Sampling
from antiphon.formats import SamplingDefaults
from antiphon.generation import DEFAULTS, Layer, Model, Source, TurnRequest, context_of, plan_turn, settings
from kit.api import model as model_of
from kit.api import scripted

ASK = Conversation((Message(role=Role.USER, text="Hi"),))
NUMBERS = {
    "temperature": (0.25, 0.5),
    "top_p": (0.25, 0.5),
    "top_k": (3, 7),
    "min_p": (0.25, 0.5),
    "repetition_penalty": (0.75, 1.25),
    "max_tokens": (9, 5),
}
"""Every setting of a turn, with a value of the stronger source and one of the weaker."""
LAYERED = [source for source in Source if source not in (Source.REQUEST, Source.DIALECT, Source.DEFAULT)]
PAIRS = list(combinations(Source, 2))


def said(name: str, value: float) -> SamplingDefaults:
    values: dict[str, Any] = {name: value}
    return SamplingDefaults(**values)


def planned(values: dict[Source, SamplingDefaults]) -> tuple[Model, Sampling]:
    """What a turn is sampled with where each of the sources says what it is given."""
    request = TurnRequest(conversation=ASK, documented=values.get(Source.DIALECT, SamplingDefaults()))
    stated = values.get(Source.REQUEST, SamplingDefaults())
    request = replace(request, **{name: getattr(stated, name) for name in NUMBERS})
    layers = tuple(Layer(source, values[source], source.words) for source in reversed(LAYERED) if source in values)
    model = replace(model_of(scripted([])), layers=layers)
    return model, plan_turn(model, request).sampling


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(("strong", "weak"), PAIRS, ids=lambda source: source.name.lower())
@pytest.mark.spec("LMD-03", "LMD-05", "DBX-20", "DBX-21", "MIE-15", "MIE-17")
def test_of_two_sources_the_stronger_counts(name: str, strong: Source, weak: Source) -> None:
    """Resolution X-53: every setting, every pair of sources; the weaker alone counts over what is below it."""
    best, less = NUMBERS[name]
    low: dict[Source, SamplingDefaults] = {weak: said(name, less)} if weak is not Source.DEFAULT else {}
    _, both = planned({**low, strong: said(name, best)})
    assert getattr(both, name) == best
    if low:
        _, alone = planned(low)
        assert getattr(alone, name) == less


@pytest.mark.parametrize("name", NUMBERS)
def test_a_setting_knows_its_source_and_all_that_it_overrode(name: str) -> None:
    _, less = NUMBERS[name]
    every = [Layer(source, said(name, less), source.name) for source in Source]
    for order in (every, every[::-1]):
        (found,) = [one for one in settings(order) if one.name == name]
        assert (found.source, found.place) == (Source.REQUEST, "REQUEST")
        assert [one.source for one in found.overrode] == list(Source)[1:]


def test_of_one_source_the_first_layer_counts() -> None:
    layers = [Layer(Source.MODEL, SamplingDefaults(top_k=value), str(value)) for value in (3, 4)]
    (found,) = settings(layers)
    assert (found.value, found.place, [one.value for one in found.overrode]) == (3, "3", [4])


def test_nobody_s_opinion_is_the_default_of_all() -> None:
    _, sampling = planned({})
    values = {one.name: one.value for one in settings([DEFAULTS])}
    assert values == {
        "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "max_tokens": 16384
    }  # fmt: skip
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 1.0, 0)


CONTEXTS = [Source.CONFIGURATION, Source.CATALOGUE, Source.MODEL]


@pytest.mark.parametrize(("strong", "weak"), list(permutations(CONTEXTS, 2)), ids=lambda source: source.name.lower())
def test_the_context_is_that_of_the_stronger_longer_or_shorter(strong: Source, weak: Source) -> None:
    """Resolution X-52."""
    layers = [Layer(strong, SamplingDefaults(context=100)), Layer(weak, SamplingDefaults(context=200))]
    found = context_of(layers)
    assert found is not None
    assert (found.value, found.source) == ((100, strong) if strong < weak else (200, weak))


@pytest.mark.parametrize("source", CONTEXTS[:2])
@pytest.mark.parametrize(("session", "context", "limit"), [(50, 100, 50), (500, 100, 100)])
@pytest.mark.spec("LMD-04", "LMD-12")
def test_a_template_that_was_chosen_shortens_and_never_lengthens(
    source: Source, session: int, context: int, limit: int
) -> None:
    layers = [
        Layer(Source.TEMPLATE, SamplingDefaults(session_len=session), "mine.json"),
        Layer(source, SamplingDefaults(context=context), "other"),
        Layer(Source.MODEL, SamplingDefaults(session_len=10), "format"),
    ]
    found = context_of(layers)
    assert found is not None
    assert (found.value, found.place) == (limit, "mine.json" if limit == session else "other")
    assert {one.value for one in found.overrode} == {10, max(session, context)}


def test_a_template_that_nobody_chose_counts_where_nobody_says_more() -> None:
    length = Layer(Source.MODEL, SamplingDefaults(session_len=10))
    found = context_of([length])
    assert found is not None
    assert found.value == 10
    assert context_of([]) is None


def test_no_answer_is_longer_than_its_request_its_dialect_its_model_or_its_context() -> None:
    """Resolution X-10: the least of the limits, whoever sets them."""
    model = replace(model_of(scripted([], context=60)), max_output_tokens=20)

    def length(model: Model, *, max_tokens: int | None = None, most_tokens: int | None = None) -> int:
        request = TurnRequest(conversation=ASK, max_tokens=max_tokens, most_tokens=most_tokens)
        return plan_turn(model, request).sampling.max_tokens

    room = length(replace(model, max_output_tokens=None))
    assert room < 60
    assert length(model) == 20
    assert length(model, max_tokens=15) == 15
    assert length(model, max_tokens=15, most_tokens=9) == 9
    assert length(model, max_tokens=1000) == 20
    assert length(replace(model, max_output_tokens=None), max_tokens=1000) == room
    everything = replace(model, layers=(Layer(Source.CATALOGUE, SamplingDefaults(max_tokens=0)),))
    assert length(replace(everything, max_output_tokens=None)) == room
    assert length(everything, max_tokens=0) == 0
