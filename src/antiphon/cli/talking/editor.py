"""The prompt at a terminal: an editor's keys, history over sessions, lines, and completion."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from .converse import Input, is_open

PROMPT, MORE = "▸ ", "  "
MOST_HISTORY = 1 << 20
"""Bytes of the file of what was typed, which then loses its older half."""

Words = Callable[[], Iterable[str]]


def history_file() -> Path:
    """The file of what was typed: below ANTIPHON_HOME, else with what programs of this user store."""
    home = os.environ.get("ANTIPHON_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_state_path("antiphon", appauthor=False)
    return folder / "chat_history"


class PrivateHistory(FileHistory):
    """Typed lines, in a file that its owner alone may read. A line that begins with a blank is not stored."""

    def store_string(self, string: str) -> None:
        if string[:1].isspace():
            return
        with suppress(OSError):  # a disk that is full does not end a conversation
            super().store_string(string.encode("utf-8", "replace").decode())


def opened_history(file: Path) -> History:
    """The history of a file, made with mode 0600 where there is none; one in memory where it cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        file.chmod(0o600)
        shorten(file)
    except OSError:
        return InMemoryHistory()
    return PrivateHistory(str(file))


def shorten(file: Path) -> None:
    """Leaves the newer half of a file that has become long, from the beginning of an entry on."""
    if file.stat().st_size <= MOST_HISTORY:
        return
    content = file.read_bytes()
    begins = content.find(b"\n# ", len(content) - MOST_HISTORY // 2)
    file.write_bytes(content[begins:] if begins >= 0 else b"")


class ChatCompleter(Completer):
    """The names of commands, and what some of them take: ``words`` by command; ``paths`` are those that take a file."""

    def __init__(self, commands: Iterable[str], words: Mapping[str, Words], paths: Iterable[str]) -> None:
        self._commands = tuple(commands)
        self._words = words
        self._paths = frozenset(paths)
        self._path = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, space, rest = text.partition(" ")
        if not space:
            yield from matching(command, self._commands)
        if command in self._words:
            yield from matching(rest.rpartition(" ")[2], self._words[command]())
        if command in self._paths:
            begun = rest if command != "/tools" else rest.rpartition(" ")[2]
            yield from self._path.get_completions(Document(begun, len(begun)), complete_event)


def matching(begun: str, words: Iterable[str]) -> Iterable[Completion]:
    return (Completion(word, -len(begun)) for word in words if word.startswith(begun))


def keys() -> KeyBindings:
    """Enter ends a question, unless its quotes are open; Alt-Enter begins a line."""
    bindings = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)  # and not what is searched for in the history

    @bindings.add("enter", filter=typing)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=typing)
    def line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


class Editor(Input):
    """Input typed at a terminal. Ctrl-C clears the line, Ctrl-D ends."""

    def __init__(self, completer: Completer, *, history: Path | None) -> None:
        self.edited = ""
        self._session: PromptSession[str] = PromptSession(
            history=opened_history(history) if history else InMemoryHistory(),
            completer=completer,
            complete_while_typing=False,
            key_bindings=keys(),
            multiline=True,
            prompt_continuation=MORE,
            enable_open_in_editor=True,
            enable_history_search=True,
            reserve_space_for_menu=4,
        )

    async def texts(self) -> AsyncGenerator[str, None]:
        while True:
            default, self.edited = self.edited, ""
            try:
                typed = await self._session.prompt_async(PROMPT, default=default)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            yield typed.encode("utf-8", "replace").decode()
