"""Chat templates: declared ones in the manner of LMDeploy, a user's own, and the model's Jinja template."""

from .base import BaseTemplate
from .declared import Blocks, DeclaredTemplate, Rule
from .registry import CHAT_TEMPLATES, TemplateRegistry, builtin_templates

__all__ = [
    "CHAT_TEMPLATES",
    "BaseTemplate",
    "Blocks",
    "DeclaredTemplate",
    "Rule",
    "TemplateRegistry",
    "builtin_templates",
]
