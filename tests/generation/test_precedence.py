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


LIKELY = {"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05}
ALL = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}


def shape(sampling: Sampling) -> dict[str, float]:
    return {name: getattr(sampling, name) for name in LIKELY}


def test_where_nobody_says_anything_the_likely_tokens_are_sampled() -> None:
    """Resolution X-54."""
    model, sampling = planned({})
    assert shape(sampling) == LIKELY
    assert {one.name: one.value for one in settings([DEFAULTS])} == {
        **LIKELY, "repetition_penalty": 1.0, "max_tokens": 16384
    }  # fmt: skip
    assert {one.source for one in model.facts.settings} == {Source.DEFAULT}


@pytest.mark.parametrize("name", LIKELY)
@pytest.mark.parametrize("source", [Source.DIALECT, Source.CATALOGUE, Source.MODEL], ids=lambda one: one.name.lower())
def test_a_recommendation_is_whole_and_what_it_leaves_out_is_not_cut_off(source: Source, name: str) -> None:
    best, _ = NUMBERS[name]
    model, sampling = planned({source: said(name, best)})
    assert shape(sampling) == {**ALL, name: best}
    if source is not Source.DIALECT:
        assert {one.name: one.value for one in model.facts.settings if one.name in ALL} == {**ALL, name: best}


@pytest.mark.parametrize("name", LIKELY)
@pytest.mark.parametrize("source", [Source.REQUEST, Source.TEMPLATE, Source.CONFIGURATION])
def test_a_user_changes_the_defaults_of_a_model_one_at_a_time(source: Source, name: str) -> None:
    best, _ = NUMBERS[name]
    assert shape(planned({source: said(name, best)})[1]) == {**LIKELY, name: best}


@pytest.mark.parametrize("name", ["repetition_penalty", "max_tokens"])
def test_a_penalty_and_a_length_recommend_nothing_of_what_is_cut_off(name: str) -> None:
    assert shape(planned({Source.MODEL: said(name, NUMBERS[name][0])})[1]) == LIKELY


@pytest.mark.parametrize(
    ("name", "given", "counts"),
    [
        ("temperature", 1.0, 1.0), ("temperature", 0.0, 0.0), ("top_p", 1.0, 1.0), ("top_k", 0, 0), ("top_k", -1, 0),
        ("min_p", 0.0, 0.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("below", [None, Source.MODEL, Source.CATALOGUE, Source.DIALECT])
def test_a_request_that_turns_something_off_has_its_way(
    name: str, given: float, counts: float, below: Source | None
) -> None:
    """Nought and one are values as others are, also over a recommendation."""
    values = {Source.REQUEST: said(name, given)}
    _, sampling = planned(values if below is None else {**values, below: said(name, NUMBERS[name][0])})
    assert getattr(sampling, name) == counts


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
