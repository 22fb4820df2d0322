"""Chat templates: declared ones in the manner of LMDeploy, a user's own, and the model's Jinja template."""

from .base import BaseTemplate
from .blocks import Blocks, Rule
from .budget import Limits
from .builtin import register_templates, replies_of, template_format
from .declared import DeclaredTemplate
from .format import TemplateFormat
from .jinja import JinjaCache, JinjaFormat, jinja_format
from .load import load_template_json, load_template_python
from .registry import CHAT_TEMPLATES, TemplateRegistry, builtin_templates

__all__ = [
    "CHAT_TEMPLATES",
    "BaseTemplate",
    "Blocks",
    "DeclaredTemplate",
    "JinjaCache",
    "JinjaFormat",
    "Limits",
    "Rule",
    "TemplateFormat",
    "TemplateRegistry",
    "builtin_templates",
    "jinja_format",
    "load_template_json",
    "load_template_python",
    "register_templates",
    "replies_of",
    "template_format",
]
