"""LMDeploy's chat templates as the seed describes them: base class, registry, InternLM, templates of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import TemplateError
from antiphon.formats.template import (
    CHAT_TEMPLATES,
    BaseTemplate,
    DeclaredTemplate,
    TemplateFormat,
    TemplateRegistry,
    builtin_templates,
    load_template_json,
    load_template_python,
)
from antiphon.tokens import Control, spell

META = """You are an AI assistant whose name is InternLM (书生·浦语).
- InternLM (书生·浦语) is a conversational language model that is developed by Shanghai AI Laboratory \
(上海人工智能实验室). It is designed to be helpful, honest, and harmless.
- InternLM (书生·浦语) can understand and communicate fluently in the language chosen by the user such as English \
and 中文.
"""

SEED_CLASS = '''
@CHAT_TEMPLATES.register_module(name='an-awsome-name')
class YourAwesomeMModel(BaseTemplate):
    """The skeleton of the seed, filled in."""

    def __init__(self, system='<sys>', meta_instruction='Be kind.', user='<u>', eoh='\\n', assistant='<a>', **kwargs):
        super(YourAwesomeMModel, self).__init__(**kwargs)
        self.system = system
        self.meta_instruction = meta_instruction
        self.user = user
        self.eoh = eoh
        self.assistant = assistant
        self.stop_words = ['<eoa>']

    def decorate_prompt(self, prompt, sequence_start=True):
        assert self.capability == 'chat', f'{type(self).__name__} has no capability of {self.capability}'
        if sequence_start:
            return f'{self.system}{self.meta_instruction}\\n{self.user}{prompt}{self.eoh}{self.assistant}'
        return f'\\n{self.user}{prompt}{self.eoh}{self.assistant}'
'''


def template_of(name: str, **options: Any) -> Any:
    return CHAT_TEMPLATES.get(name)(**options)


def internlm() -> Any:
    return template_of("internlm-chat-7b")


def user(text: Any) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


@pytest.mark.spec("LMD-12", "LMD-13", "LMD-14", "LMD-15", "LMD-16", "LMD-17", "LMD-18", "LMD-19", "LMD-03", "LMD-04")
def test_the_base_templates_settings() -> None:
    template = BaseTemplate(unheard_of=1)
    assert vars(template) == {
        "session_len": 2048,
        "top_p": 0.8,
        "top_k": None,
        "temperature": 0.8,
        "repetition_penalty": 1.0,
        "capability": "chat",
        "stop_words": None,
    }


@pytest.mark.spec("LMD-20", "LMD-21")
def test_a_model_that_only_continues_gets_the_prompt_as_it_is() -> None:
    assert CHAT_TEMPLATES.get("internlm-chat-7b")(capability="completion").get_prompt("Once") == "Once"
    assert BaseTemplate(capability="completion").get_prompt("Once") == "Once"


@pytest.mark.spec("LMD-20", "LMD-22", "LMD-23", "LMD-24", "LMD-57")
def test_get_prompt_decorates_with_the_classes_own_rule() -> None:
    class Mine(BaseTemplate):
        def decorate_prompt(self, prompt: str, sequence_start: bool = True) -> str:
            return f"{'first' if sequence_start else 'later'}:{prompt}"

    assert Mine().get_prompt("x") == "first:x"
    assert Mine().get_prompt("x", sequence_start=False) == "later:x"
    assert BaseTemplate().decorate_prompt("x") == "x"


@pytest.mark.spec("LMD-29", "LMD-30", "LMD-47", "LMD-34")
def test_a_text_as_messages_is_one_round() -> None:
    template = internlm()
    assert template.messages2prompt("Hi") == template.get_prompt("Hi")
    assert template.messages2prompt("Hi", False) == template.get_prompt("Hi", False)
    assert BaseTemplate().messages2prompt("Hi") == "Hi"


@pytest.mark.spec("LMD-01", "LMD-02", "LMD-38", "LMD-40", "LMD-41", "LMD-42", "LMD-45")
def test_internlms_golden_prompt() -> None:
    expected = f"<|System|>:{META}\n<|User|>:你叫什么名字？\n<|Bot|>:"
    assert internlm().get_prompt("你叫什么名字？") == expected
    assert internlm().messages2prompt([user("你叫什么名字？")]) == expected


@pytest.mark.spec("LMD-39", "LMD-43")
def test_internlms_markers() -> None:
    template = internlm()
    names = ("system", "meta_instruction", "user", "eoh", "eosys", "assistant", "eoa")
    expected = ["<|System|>:", META, "<|User|>:", "\n", "\n", "<|Bot|>:", "<eoa>"]
    assert [getattr(template, name) for name in names] == expected
    assert list(template.stop_words) == ["<eoa>"]


@pytest.mark.spec("LMD-44")
def test_decorating_needs_the_chat_capability_and_says_so() -> None:
    template: Any = CHAT_TEMPLATES.get("internlm-chat-7b")(capability="completion")
    with pytest.raises(TemplateError, match="internlm-chat-7b has no capability of completion") as refused:
        template.decorate_prompt("x")
    assert refused.value.code == "no_capability"


@pytest.mark.spec("LMD-46", "LMD-28")
def test_a_later_round_is_set_off_and_says_no_instruction() -> None:
    assert internlm().get_prompt("U2", sequence_start=False) == "\n<|User|>:U2\n<|Bot|>:"


@pytest.mark.spec("LMD-31", "LMD-33", "LMD-48", "LMD-49", "LMD-50", "LMD-51")
def test_a_history_says_each_message_between_its_markers() -> None:
    prompt = internlm().messages2prompt([user("U1"), assistant("A1"), user("U2")])
    assert prompt == f"<|System|>:{META}\n<|User|>:U1\n<|Bot|>:A1<eoa>\n<|User|>:U2\n<|Bot|>:"


@pytest.mark.spec("LMD-49")
def test_a_system_message_takes_the_instructions_place_and_the_seeds_literal_rule_is_there_too() -> None:
    history = [system("S"), user("U")]
    assert internlm().messages2prompt(history) == "<|System|>:S\n<|User|>:U\n<|Bot|>:"
    seed: Any = CHAT_TEMPLATES.get("internlm-chat-7b@seed")()
    assert seed.messages2prompt(history) == f"<BOS><|System|>::{META}\n<|System|>:S\n<|User|>:U\n<|Bot|>::"


@pytest.mark.spec("LMD-25", "LMD-26", "LMD-27", "LMD-34")
def test_interactive_prompts_and_answers_make_the_prompt_of_the_history() -> None:
    """Resolution L-10: U1 A1 U2 … sent one by one, and the history sent whole, are the same text."""
    template = internlm()
    rounds = [("U1", "A1"), ("U2", "A2"), ("U3", "A3")]
    prompt, history = "", []
    for i, (question, answer) in enumerate(rounds):
        prompt += template.get_prompt(question, sequence_start=i == 0)
        history.append(user(question))
        assert prompt == template.messages2prompt(history)
        prompt += f"{answer}<eoa>"
        history.append(assistant(answer))


@pytest.mark.spec("LMD-34", "LMD-24")
def test_a_history_in_a_later_round_says_no_system_block() -> None:
    """Resolution L-08."""
    prompt = internlm().messages2prompt([system("S"), user("U")], sequence_start=False)
    assert prompt == "\n<|User|>:U\n<|Bot|>:"


@pytest.mark.spec("LMD-51")
def test_a_last_answer_stays_open() -> None:
    """Resolution L-11."""
    template: Any = CHAT_TEMPLATES.get("internlm")()
    assert template.messages2prompt([user("U"), assistant("Well,")]).endswith("<|Bot|>:Well,")


@pytest.mark.spec("LMD-50")
@pytest.mark.parametrize("role", ["__class__.__init__.__globals__", "system; import os", "developer", None, 7])
def test_a_role_is_looked_up_and_never_evaluated(role: object) -> None:
    """Resolution X-31."""
    with pytest.raises(TemplateError, match="unknown role") as raised:
        internlm().messages2prompt([{"role": role, "content": "x"}])
    assert raised.value.code == "unknown_role"


@pytest.mark.spec("LMD-35", "LMD-36", "LMD-37", "LMD-54")
def test_internlms_base_models_only_continue() -> None:
    small, large = CHAT_TEMPLATES.get("internlm-7b")(), CHAT_TEMPLATES.get("internlm-20b")()
    assert (small.session_len, small.capability) == (2048, "completion")
    assert (large.session_len, large.capability) == (4096, "completion")
    assert large.get_prompt("Once") == "Once"


@pytest.mark.spec("LMD-52", "LMD-53")
def test_internlms_chat_models_differ_in_their_length_alone() -> None:
    templates = [CHAT_TEMPLATES.get(f"internlm-chat-{size}")() for size in ("7b", "20b", "7b-8k")]
    assert [template.session_len for template in templates] == [2048, 8192, 8192]
    assert len({template.get_prompt("x") for template in templates}) == 1


@pytest.mark.spec("LMD-06", "LMD-07", "LMD-08", "LMD-09", "LMD-53", "LMD-58")
def test_a_name_is_registered_once_and_a_class_may_have_several() -> None:
    registry = TemplateRegistry()

    @registry.register_module(name=["one", "two"])
    class Mine(BaseTemplate):
        pass

    assert registry.get("one") is registry.get("two") is Mine
    with pytest.raises(ValueError, match="'two'"):
        registry.register_module(name="two")(BaseTemplate)
    registry.register_module(name="two", force=True)(BaseTemplate)
    assert registry.get("two") is BaseTemplate
    with pytest.raises(ValueError, match="'qwen'"):
        builtin_templates().register_module(name="qwen")


@pytest.mark.spec("LMD-10", "LMD-11")
def test_a_template_is_got_by_its_name_and_an_unknown_name_says_what_is_near() -> None:
    assert isinstance(CHAT_TEMPLATES.get("llama2")(), BaseTemplate)
    with pytest.raises(TemplateError, match="llama2") as raised:
        CHAT_TEMPLATES.get("lama2")
    assert raised.value.code == "template_not_found"


@pytest.mark.spec("LMD-54", "LMD-55", "LMD-56", "LMD-57", "LMD-58", "LMD-59")
@pytest.mark.parametrize(
    "imports",
    [
        "",
        "from antiphon.formats.template import CHAT_TEMPLATES, BaseTemplate",
        "from lmdeploy.chat_template import CHAT_TEMPLATES, BaseTemplate",
        "from re import sub",
    ],
)
def test_a_users_own_class_in_the_style_of_the_seed(imports: str) -> None:
    registry, added = load_template_python(imports + SEED_CLASS, "my.py")
    assert added == ["an-awsome-name"]
    template = registry.get("an-awsome-name")()
    assert template.get_prompt("U") == "<sys>Be kind.\n<u>U\n<a>"
    history = [system("S"), user("U1"), assistant("A1"), user("U2")]
    assert template.messages2prompt(history) == "<sys>S\n<u>U1\n<a>A1\n<u>U2\n<a>"
    assert vars(template)["meta_instruction"] == "Be kind."


def test_what_one_file_registers_is_in_no_other_registry() -> None:
    load_template_python(SEED_CLASS, "my.py")
    assert "an-awsome-name" not in CHAT_TEMPLATES
    assert "an-awsome-name" not in builtin_templates()
    assert load_template_python(SEED_CLASS, "my.py")[1] == ["an-awsome-name"]


def test_a_users_own_class_is_a_format_and_users_text_stays_text() -> None:
    registry, _ = load_template_python(SEED_CLASS, "my.py")
    controls = [Control("<u>"), Control("<a>"), Control("<eoa>")]
    format = TemplateFormat("mine", registry.get("an-awsome-name")(), controls)
    pieces = list(format.render(Conversation((Message(role=Role.USER, text="Hi <a> there <u"),))))
    assert pieces == ["<sys>Be kind.\n", controls[0], "Hi <a> there <u\n", controls[1]]
    assert format.stops == (Control("<eoa>"),)


def test_a_file_that_fails_says_its_line() -> None:
    with pytest.raises(TemplateError, match=r"my\.py") as raised:
        load_template_python("x = 1\ny = 1 / 0\n", "my.py")
    assert raised.value.position is not None
    assert raised.value.position.line == 2
    with pytest.raises(TemplateError, match="registers no template"):
        load_template_python("x = 1", "my.py")
    with pytest.raises(TemplateError, match="SyntaxError"):
        load_template_python("def", "my.py")


def test_a_json_file_overrides_single_blocks_of_a_known_template() -> None:
    text = '{"model_name": "internlm2", "meta_instruction": "Be kind.", "stop_words": ["X"], "eoa": null}'
    name, template = load_template_json(text)
    assert name == "internlm2"
    assert template.get_prompt("U").startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nU")
    assert template.stop_words == ["X"]
    assert isinstance(template, DeclaredTemplate)
    assert template.blocks.eoa == "<|im_end|>"


def test_a_json_file_of_an_unknown_name_is_a_template_of_its_own() -> None:
    name, template = load_template_json('{"model_name": "mine", "user": "<u>", "assistant": "<a>", "eoa": "</a>"}')
    assert (name, template.messages2prompt([user("U"), assistant("A"), user("V")])) == ("mine", "<u>U<a>A</a><u>V<a>")
    assert load_template_json('{"user": "<u>"}')[0] == "custom"


@pytest.mark.parametrize(
    "text", ["{", '{"usr": "x"}', '{"user": 7}', "[]", '{"stop_words": "x"}', '{"capability": "bogus"}']
)
def test_a_json_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TemplateError) as raised:
        load_template_json(text)
    assert raised.value.code == "bad_template"


def test_infilling_is_codellamas() -> None:
    template: Any = CHAT_TEMPLATES.get("codellama")(capability="infilling")
    assert template.get_prompt("def f():<FILL>return 1") == "<PRE> def f(): <SUF>return 1 <MID>"
    assert list(template.stop_words) == ["<EOT>"]


CODELLAMA = template_of("codellama", capability="infilling")
VICUNA = template_of("vicuna")
REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "no mark": (lambda: CODELLAMA.get_prompt("x"), "exactly one", "invalid_content"),
    "two marks": (lambda: CODELLAMA.get_prompt("a<FILL>b<FILL>c"), "exactly one", "invalid_content"),
    "no text": (lambda: VICUNA.messages2prompt([user(7)]), "must be text", "invalid_content"),
    "the model's own": (lambda: template_of("hf").get_prompt("x"), "Jinja", "no_template"),
    "tools": (lambda: VICUNA.messages2prompt([user("U")], tools=[{"name": "f"}]), "to offer tools", "no_tools"),
    "a call": (lambda: VICUNA.messages2prompt([assistant("") | {"tool_calls": [{}]}]), "write a tool call", "no_tools"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_template_has_no_way_to_write_is_refused(what: str) -> None:
    work, words, code = REFUSED[what]
    with pytest.raises(TemplateError, match=words) as refused:
        work()
    assert refused.value.code == code


@pytest.mark.spec("LMD-05")
def test_a_template_is_its_prompt_and_its_settings() -> None:
    template = CHAT_TEMPLATES.get("qwen-7b")()
    format = TemplateFormat("qwen-7b", template, [Control("<|im_end|>")])
    assert spell(list(format.render(Conversation((Message(role=Role.USER, text="U"),))))) == template.get_prompt("U")
    assert (format.defaults.top_k, format.stops) == (40, (Control("<|im_end|>"),))


@pytest.mark.spec("LMD-32")
def test_messages_are_those_of_the_chat_endpoint() -> None:
    """Content may be a list of text parts there."""
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert internlm().messages2prompt([parts]) == internlm().messages2prompt([user("ab")])


def test_a_file_that_names_no_template_and_describes_none_is_an_error_with_the_near_names() -> None:
    with pytest.raises(TemplateError, match="no chat template is called 'chatmll'") as error:
        load_template_json('{"model_name": "chatmll"}')
    assert "chatml" in (error.value.hint or "")
    with pytest.raises(TemplateError, match="unknown field `usr`") as error:
        load_template_json('{"model_name": "chatml", "usr": "x"}')
    assert "user" in (error.value.hint or "")
