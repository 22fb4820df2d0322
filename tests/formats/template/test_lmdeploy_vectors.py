"""Every built-in template against the prompts that LMDeploy's releases give."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.formats.template import builtin_templates
from kit.corpora import corpus_file

SYSTEM = {"role": "system", "content": "{SYS}"}
USER = {"role": "user", "content": "{U1}"}
ANSWER = {"role": "assistant", "content": "{A1}"}
AGAIN = {"role": "user", "content": "{U2}"}
TOOL = {"role": "tool", "content": "{T1}"}
HISTORIES = {
    "messages_user": [USER],
    "messages_system_user": [SYSTEM, USER],
    "messages_user_assistant_user": [USER, ANSWER, AGAIN],
    "messages_system_user_assistant_user": [SYSTEM, USER, ANSWER, AGAIN],
    "messages_user_assistant_prefix": [USER, ANSWER],
    "messages_user_assistant_tool": [USER, ANSWER, TOOL],
}


def corpus() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(corpus_file("lmdeploy_templates.json").read_text())
    return facts


def prompts(name: str) -> dict[str, str]:
    template: Any = builtin_templates().get(name)()
    alone = {
        "string_sequence_start": template.get_prompt("{U1}"),
        "string_sequence_continue": template.get_prompt("{U1}", sequence_start=False),
    }
    return alone | {shape: template.messages2prompt(history) for shape, history in HISTORIES.items()}


@pytest.mark.corpus
@pytest.mark.spec("LMD-02", "LMD-05", "LMD-10", "LMD-20", "LMD-31", "LMD-45", "LMD-46")
@pytest.mark.parametrize(("section", "suffix"), [("templates", ""), ("seed_version", "@seed")])
def test_every_template_gives_the_prompts_of_its_release(section: str, suffix: str) -> None:
    wrong = []
    for name, facts in corpus()[section].items():
        if not isinstance(facts["rendered"], dict) or not facts["rendered"]:
            continue
        made = prompts(name + suffix)
        wrong += [
            (name, shape, made[shape], right) for shape, right in facts["rendered"].items() if made[shape] != right
        ]
    assert wrong == []


@pytest.mark.corpus
@pytest.mark.spec("LMD-03", "LMD-04")
@pytest.mark.parametrize(("section", "suffix"), [("templates", ""), ("seed_version", "@seed")])
def test_every_template_carries_the_generation_settings_of_its_release(section: str, suffix: str) -> None:
    registry = builtin_templates()
    for name, facts in corpus()[section].items():
        template = registry.get(name + suffix)()
        settings = {key: value for key, value in facts["generation"].items() if key != "release"}
        stop_words = settings.pop("stop_words", None)
        assert {key: getattr(template, key) for key in settings} == settings, name
        assert (list(template.stop_words) if template.stop_words else None) == stop_words, name


@pytest.mark.corpus
@pytest.mark.spec("LMD-07")
def test_every_name_of_the_corpus_is_registered() -> None:
    names = builtin_templates().names
    assert set(corpus()["templates"]) <= set(names)
    assert {f"{name}@seed" for name in corpus()["seed_version"]} <= set(names)
