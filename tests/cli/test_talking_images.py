"""Images in a conversation at the terminal: taken for a model that sees, kept with their question, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.talking.session import ImageFile, TextFile, images_of, load, read_file, save, with_files
from antiphon.cli.talking.talk import ChatState
from antiphon.errors import AntiphonError, ConfigError, RequestError
from antiphon.generation.images import data_of, parts_of
from kit.pictures import picture


def test_a_file_is_an_image_for_a_model_that_sees_and_refused_for_another(tmp_path: Path) -> None:
    for kind in ("PNG", "JPEG", "GIF", "WEBP"):
        path = tmp_path / f"a.{kind}"
        path.write_bytes(data := picture(kind))
        assert read_file(path, "m", sees=True) == ImageFile(path.name, data)
        with pytest.raises(ConfigError, match="m reads text only"):
            read_file(path, "m", sees=False)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\0")
    with pytest.raises(ConfigError, match="a PDF document"):
        read_file(tmp_path / "a.pdf", "m", sees=True)


def test_an_image_stays_with_its_question_and_is_saved_and_loaded(tmp_path: Path) -> None:
    files: list[TextFile | ImageFile] = [TextFile("n.txt", "notes"), ImageFile("a.png", picture())]
    state = ChatState().with_question(with_files("What?", files), images_of(files))
    ((message, part),) = parts_of(state.conversation.messages)
    assert (data_of(part), message.text.endswith("What?"), "notes" in message.text) == (picture(), True, True)
    again = state.before_last_question().with_question("And?", state.last_images())
    assert [data_of(part) for _, part in parts_of(again.conversation.messages)] == [picture()]
    save(state.conversation, tmp_path / "c.json")
    assert load(tmp_path / "c.json", sees=True).messages == state.conversation.messages
    with pytest.raises(RequestError, match="cannot read"):
        load(tmp_path / "c.json", sees=False)
    with pytest.raises(AntiphonError, match="image"):
        save(state.conversation, tmp_path / "c.ocm")
