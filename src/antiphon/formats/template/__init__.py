"""Chat templates: declared ones in the manner of LMDeploy, a user's own, and the model's Jinja template."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from antiphon.formats.replies.describe import origin_words
    from antiphon.formats.replies.reply_file import load_replies

    from .base import BaseTemplate, Blocks, Rule
    from .budget import Limits
    from .check import TemplateCheck, check_template
    from .declared import DeclaredTemplate
    from .format import (
        TemplateFormat,
        program_format,
        program_of,
        register_templates,
        replies_of,
        template_format,
    )
    from .in_harmony import TemplatedHarmony, takes_later_system, writes_harmony
    from .jinja import JinjaCache, JinjaFormat, jinja_format
    from .load import load_template_json, load_template_python
    from .registry import CHAT_TEMPLATES, TemplateRegistry, builtin_templates
    from .stability import PromptChange
else:
    __getattr__ = exports(
        __name__,
        {
            ".replies.describe": "origin_words",
            ".replies.reply_file": "load_replies",
            "base": "BaseTemplate Blocks Rule",
            "budget": "Limits",
            "check": "TemplateCheck check_template",
            "declared": "DeclaredTemplate",
            "format": "TemplateFormat program_format program_of register_templates replies_of template_format",
            "in_harmony": "TemplatedHarmony takes_later_system writes_harmony",
            "jinja": "JinjaCache JinjaFormat jinja_format",
            "load": "load_template_json load_template_python",
            "registry": "CHAT_TEMPLATES TemplateRegistry builtin_templates",
            "stability": "PromptChange",
        },
    )

__all__ = [
    "CHAT_TEMPLATES",
    "BaseTemplate",
    "Blocks",
    "DeclaredTemplate",
    "JinjaCache",
    "JinjaFormat",
    "Limits",
    "Rule",
    "PromptChange",
    "TemplateCheck",
    "TemplateFormat",
    "TemplateRegistry",
    "TemplatedHarmony",
    "builtin_templates",
    "check_template",
    "load_replies",
    "origin_words",
    "jinja_format",
    "load_template_json",
    "load_template_python",
    "program_format",
    "program_of",
    "register_templates",
    "replies_of",
    "takes_later_system",
    "template_format",
    "writes_harmony",
]
