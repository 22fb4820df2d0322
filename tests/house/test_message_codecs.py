"""A message's fields are spelled out for writing down in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.message_codecs import message_codecs

SOURCE = Path(__file__).parents[2] / "src" / "antiphon"


def test_a_message_is_spelled_out_in_one_file() -> None:
    assert [place.partition(":")[0] for place in message_codecs(SOURCE)] == ["conversation/json.py"]


@pytest.mark.parametrize(
    "copy",
    [
        "class M(Struct):\n"
        " text: str\n recipient: str\n channel: str\n content_type: str\n constrained: bool\n call_id: str\n",
        "PLAIN = ('text', 'name', 'recipient', 'channel', 'content_type', 'constrained', 'call_id')",
        "x = {'text': t, 'recipient': r, 'channel': c, 'content_type': k, 'call_id': i}",
        "M(text=m.text, recipient=m.recipient, channel=m.channel, content_type=m.content_type, call_id=m.call_id)",
    ],
)
def test_each_way_to_spell_it_out_again_is_found(copy: str, tmp_path: Path) -> None:
    (tmp_path / "copy.py").write_text(copy)
    assert message_codecs(tmp_path) == ["copy.py:1"]


def test_the_noun_itself_and_a_message_that_is_made_are_no_copies(tmp_path: Path) -> None:
    (tmp_path / "conversation").mkdir()
    (tmp_path / "conversation" / "message.py").write_text((SOURCE / "conversation" / "message.py").read_text())
    (tmp_path / "made.py").write_text("Message(text=t, recipient=r, channel='final', content_type=None, call_id=None)")
    assert message_codecs(tmp_path) == []
