"""The dialects that this server speaks beside OpenAI's."""

from antiphon.api.dialect import OPENAI, Dialect

from .databricks import databricks
from .lmdeploy import lmdeploy
from .mindie import mindie

DIALECTS: tuple[Dialect, ...] = (OPENAI, databricks(), mindie(), lmdeploy())
"""Each as it is without configuration."""

__all__ = ["DIALECTS", "databricks", "lmdeploy", "mindie"]
