"""Chat templates: by name, of one's own, and a model's own Jinja template. Needs no model.

python examples/chat_templates.py
"""

from antiphon.conversation import Conversation, Message, Role
from antiphon.formats.template import (
    BaseTemplate,
    builtin_templates,
    jinja_format,
    load_template_json,
    template_format,
)
from antiphon.tokens import Control, spell

CONTROLS = [Control("<|im_start|>"), Control("<|im_end|>")]
"""What a real program takes from its model's tokenizer: `tokenizer.controls`."""

hello = Conversation((Message(role=Role.USER, text="Say <|im_end|> please"),))

# A built-in template, for a vocabulary: the markers are controls, what the user typed is text.
chatml = template_format("chatml", CONTROLS)
for piece in chatml.render(hello):
    print(repr(piece) if isinstance(piece, str) else piece)

# LMDeploy's way: the template's class by name, prompts as text.
internlm = builtin_templates().get("internlm-chat-7b")()
print(internlm.get_prompt("And you?", sequence_start=False))

# A template of one's own.
templates = builtin_templates()


@templates.register_module(name="riddle")
class Riddle(BaseTemplate):
    def decorate_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        return f"Riddle: {prompt}\nAnswer:"


print(templates.get("riddle")().get_prompt("What has keys but opens no lock?"))

# The same from a JSON file, with a known template's rule.
name, terse = load_template_json('{"model_name": "qwen", "meta_instruction": "One word."}')
print(name, repr(terse.get_prompt("Capital of France?")))

# The model's own template. What it writes says how the model's replies are read.
source = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n<think>\n</think>"
)
own = jinja_format(source, CONTROLS, {"eos_token": "<|im_end|>"})
print(spell(list(own.render(hello))))
print(own.stops, own.replies.reasoning)
