"""The built-in browser: pages by number and line, offline or from the web."""

from .page import Backend, Corpus, Hit, Page, html_page, text_page
from .tool import Browser, Citation
from .web import SearxNG, Web, WebLimits

__all__ = [
    "Backend",
    "Browser",
    "Citation",
    "Corpus",
    "Hit",
    "Page",
    "SearxNG",
    "Web",
    "WebLimits",
    "html_page",
    "text_page",
]
