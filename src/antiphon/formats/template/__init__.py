"""Chat templates: declared ones in the manner of LMDeploy, a user's own, and the model's Jinja template."""

from .base import BaseTemplate
from .blocks import Blocks, Rule
from .budget import Limits
from .builtin import register_templates, tags_of, template_format
from .declared import DeclaredTemplate
from .format import TemplateFormat
from .jinja import JinjaCache, JinjaFormat, jinja_format
from .load import load_template_json, load_template_python
from .registry import CHAT_TEMPLATES, TemplateRegistry, builtin_templates
from .reply_parser import TaggedParser
from .tags import CallTag, ReplyTags, Tag

__all__ = [
    "CHAT_TEMPLATES",
    "BaseTemplate",
    "Blocks",
    "CallTag",
    "DeclaredTemplate",
    "JinjaCache",
    "JinjaFormat",
    "Limits",
    "ReplyTags",
    "Rule",
    "Tag",
    "TaggedParser",
    "TemplateFormat",
    "TemplateRegistry",
    "builtin_templates",
    "jinja_format",
    "load_template_json",
    "load_template_python",
    "register_templates",
    "tags_of",
    "template_format",
]
