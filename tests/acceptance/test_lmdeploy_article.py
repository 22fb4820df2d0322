"""The prompt of the article that introduced the chat templates of LMDeploy; its text lies beside the corpora."""

from __future__ import annotations

import pytest

from antiphon.formats.template import CHAT_TEMPLATES
from kit.corpora import corpora

pytestmark = pytest.mark.corpus


@pytest.mark.spec("LMD-02")
def test_internlms_golden_prompt_is_the_one_of_the_article() -> None:
    folder = corpora()
    assert folder is not None
    (article,) = (folder.parent / "seeds").glob("003*")
    golden = article.read_text("utf-8").split("```text\n")[1].split("\n```")[0]
    assert CHAT_TEMPLATES.get("internlm-chat-7b")().get_prompt("你叫什么名字？") == golden
