"""A conversation at the terminal as it goes on: whom one talks to, what was said, and what the next question takes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from antiphon.catalog import Catalog
from antiphon.catalog.toolbox import ToolSettings, open_toolbox
from antiphon.cli.files import named_in_errors, near_file, opened, output
from antiphon.cli.options import as_json
from antiphon.cli.terminal import tell, waiting_for
from antiphon.cli.transcript import is_chat_request, read_transcript, transcript_json
from antiphon.conversation import IMAGES, Conversation, OpaquePart, ResponseFormat, TurnEnded
from antiphon.conversion.convert import source_named
from antiphon.conversion.detect import detect
from antiphon.conversion.transcripts import TranscriptTarget
from antiphon.errors import ConfigError, ParseError, RequestError
from antiphon.generation import RoundEvent, plan_turn
from antiphon.grammar import check_schema
from antiphon.tools import Toolbox, ToolLimits
from antiphon.tools.mcp import McpHost

from .screen import Screen, quiet
from .talk import ChatState, ChatTarget, Seen, answer_form, ended, stream_answer, turn_request

# Files of a conversation: those that go with a question, transcripts to save and to go on with, schemas.

MOST_TEXT = 1 << 20
"""Bytes of a file that goes with a question."""
MOST_FILES = 16
MOST_TRANSCRIPT = 1 << 26
"""Bytes of a conversation that is loaded, and of a schema."""
MOST_IMAGE = 20 << 20
"""Bytes of an image that goes with a question."""
PNG, JPEG, GIF, WEBP = "a PNG image", "a JPEG image", "a GIF image", "a WebP image"
SEEN = (PNG, JPEG, GIF, WEBP)
"""Kinds of files that models with eyes see."""
KINDS = {
    b"\x89PNG\r\n\x1a\n": PNG,
    b"\xff\xd8\xff": JPEG,
    b"GIF8": GIF,
    b"BM": "a BMP image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
    b"%PDF": "a PDF document",
    b"OggS": "a sound",
    b"ID3": "a sound",
}
"""Beginnings of files that are no text."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that goes with a question."""

    name: str
    text: str

    @property
    def size(self) -> str:
        return f"{len(self.text)} characters"

    def block(self) -> str:
        """The name, and the text in a fence that nothing in the text closes."""
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
        end = "" if self.text.endswith("\n") else "\n"
        return f"{self.name}:\n{fence}\n{self.text}{end}{fence}\n"


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image that goes with a question."""

    name: str
    data: bytes

    @property
    def size(self) -> str:
        return f"{len(self.data)} bytes"

    def part(self) -> OpaquePart:
        return OpaquePart("image", {"base64": b64encode(self.data).decode()})


def with_files(question: str, files: Sequence[TextFile | ImageFile]) -> str:
    """The question with the texts before it."""
    return "\n".join([*(file.block() for file in files if isinstance(file, TextFile)), question])


def images_of(files: Sequence[TextFile | ImageFile]) -> list[OpaquePart]:
    return [file.part() for file in files if isinstance(file, ImageFile)]


def path_of(text: str) -> Path:
    """The path that a person typed, perhaps between quotes."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return Path(text[1:-1] if quoted else text).expanduser()


def read_file(path: Path, model: str, *, sees: bool) -> TextFile | ImageFile:
    """Raises `ConfigError` for a file that is too long, and for one that ``model`` cannot read."""
    content = read_bytes(path, MOST_IMAGE if sees else MOST_TEXT)
    kind = kind_of(content)
    if sees and kind in SEEN:
        return ImageFile(path.name, content)
    if kind is not None:
        raise ConfigError(f"{path} is {kind}, and {model} reads text only", code="unreadable_input")
    if len(content) > MOST_TEXT:
        raise too_long(path, MOST_TEXT)
    try:
        return TextFile("standard input" if str(path) == "-" else path.name, content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text in UTF-8", code="unreadable_input") from None


def kind_of(content: bytes) -> str | None:
    """Names the kind of a file that is no text, by its first bytes; None for all else."""
    known = next((kind for magic, kind in KINDS.items() if content.startswith(magic)), None)
    if content[:4] == b"RIFF":
        known = WEBP if content[8:12] == b"WEBP" else "a sound"
    return known if b"\x00" in content else None


def read_bytes(path: Path, most: int) -> bytes:
    """A whole file of ``most`` bytes at most. Raises `ConfigError`, with near names for one that is not there."""
    try:
        with opened(path) as file:
            content = file.read(most + 1)
    except OSError as error:
        hint = near_file(path) if isinstance(error, FileNotFoundError) else None
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="unreadable_input", hint=hint) from None
    except ValueError as error:
        raise ConfigError(f"cannot read this name: {error}", code="unreadable_input") from None
    if len(content) > most:
        raise too_long(path, most)
    return content


def too_long(path: Path, most: int) -> ConfigError:
    return ConfigError(f"{path} has more than {most} bytes", code="unreadable_input", hint="Give a part of it.")


def save(conversation: Conversation, path: Path) -> None:
    """Writes the conversation as OpenChatML, or as JSON where the name ends so. Raises `AntiphonError`."""
    if not conversation.messages:
        raise ConfigError("there is nothing to save yet")
    as_json = path.suffix.lower() == ".json"
    if not as_json and any(isinstance(part, OpaquePart) for one in conversation.messages for part in one.parts):
        raise ConfigError("OpenChatML has no place for images", hint="Give a name that ends in .json.")
    content = transcript_json(conversation) if as_json else openchatml(conversation)
    with output(path) as file:
        file.write(content.encode())


def openchatml(conversation: Conversation) -> str:
    """The conversation as a transcript that the strict reader takes. Raises `RenderError` where none can be."""
    about = Conversation(settings=conversation.settings)
    target = TranscriptTarget()
    written = [target.open(about)[0]]
    for message in conversation.messages:
        written += target.write(message)
    written += target.close(about)
    return "".join(part.text for part in written)


def load(path: Path, *, sees: bool) -> Conversation:
    """The conversation of a file in any form that is read here; ``sees``: it may have images.

    Raises `ConfigError`, `FormatError`, `RequestError`.
    """
    content = read_bytes(path, MOST_TRANSCRIPT)
    with named_in_errors(path):
        found = loaded(content)
    parts = [part for message in found.messages for part in message.parts if isinstance(part, OpaquePart)]
    media = next((part for part in parts if not (sees and part.kind in IMAGES)), None)
    if media is not None:
        raise RequestError(f"{path} has a part of kind {media.kind!r}, which the model cannot read")
    if not found.messages:
        raise ParseError(f"{path} has no messages", code="transcript")
    return found


def loaded(content: bytes) -> Conversation:
    """Our own JSON and that of chat requests, OpenChatML, Harmony and the other forms that `convert` reads."""
    form = detect(content)
    if form == "json" and is_own_or_chat(content):
        return read_transcript(content)
    source = source_named(form)
    messages = [*source.feed(content), *source.close()]
    return Conversation(tuple(map(ended, messages)), settings=source.about.settings)


def is_own_or_chat(content: bytes) -> bool:
    """Whether a JSON text has messages with ``text``, as we write them, or with ``content``, as chat APIs have them."""
    try:
        source = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True  # whose error says where
    messages = source if isinstance(source, list) else source.get("messages") if isinstance(source, dict) else None
    own = isinstance(messages, list) and any(isinstance(one, dict) and "text" in one for one in messages)
    return own or is_chat_request({"messages": messages})


def schema_format(text: str) -> ResponseFormat:
    """The form of answers that a JSON Schema describes: the text itself, or a file of it.

    Raises `ConfigError` for what is no schema, `RequestError` for one beyond the limits.
    """
    content = text.encode() if text.startswith("{") else read_bytes(path_of(text), MOST_TRANSCRIPT)
    try:
        schema = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the schema is not JSON: {error}", code="unreadable_input") from None
    if not isinstance(schema, dict):
        raise ConfigError("a schema is a JSON object", code="unreadable_input")
    check_schema(schema, "schema")
    return ResponseFormat(kind="json_schema", name="answer", schema=schema)


@dataclass(frozen=True, slots=True)
class ToolSource:
    """How tools are opened: as the configuration says, until the conversation is over."""

    settings: ToolSettings
    host: McpHost
    stack: AsyncExitStack

    async def open(self, settings: ToolSettings) -> Toolbox:
        """Raises `ConfigError` for what cannot be opened."""
        return await self.stack.enter_async_context(open_toolbox(settings, host=self.host))


@dataclass(slots=True)
class Session:
    """State that a conversation's commands change. ``files`` go with the next question; ``reasoning`` is shown."""

    catalog: Catalog
    target: ChatTarget
    state: ChatState
    tools: ToolSource
    as_json: bool = False
    reasoning: bool = False
    files: list[TextFile | ImageFile] = field(default_factory=list)
    typed: dict[str, str] = field(default_factory=dict)
    """Typed words of questions that have files, by the whole question."""
    last: tuple[ChatTarget, ChatState, Seen] | None = None
    """The target of the last answer, the state that it left, and the ids that the engine had."""

    @property
    def read(self) -> Seen:
        """The ids that the model read and wrote last; where anything changed since, those that it is to read next.

        Raises what planning raises.
        """
        if self.last is not None and self.last[0] is self.target and self.last[1] is self.state:
            return self.last[2]
        return Seen(list(plan_turn(self.target.model, turn_request(self.target, self.state)).prompt_ids))

    @property
    def model(self) -> str:
        return self.target.model.name

    @property
    def sees(self) -> bool:
        """Whether the model sees images."""
        return bool(self.target.model.image_mark)

    def attach(self, path: str) -> TextFile | ImageFile:
        """A file for the next question. Raises `ConfigError` and `RequestError`."""
        if len(self.files) >= MOST_FILES:
            raise RequestError(f"at most {MOST_FILES} files go with a question")
        file = read_file(path_of(path), self.model, sees=self.sees)
        self.files.append(file)
        return file

    async def ask(self, question: str) -> bool:
        """One more question with its files, and the answer; False when that was stopped.

        When the answer fails the conversation is as it was, the files are still there, and the error is raised.
        """
        whole = with_files(question, self.files)
        done = await self.answer(self.state.with_question(whole, images_of(self.files)))
        if self.files:
            self.typed[whole] = question
        self.files.clear()
        return done

    async def again(self, question: str | None = None) -> bool:
        """Another answer to the last question, or to another in its place. Raises `RequestError` without one."""
        last, images = self.state.last_question(), self.state.last_images()
        before = self.state.before_last_question()
        return await self.answer(before.with_question(last if question is None else question, images))

    async def stream(self, state: ChatState) -> tuple[ChatState, list[RoundEvent]]:
        """The answer to the last question of ``state``, shown while it comes unless it is JSON (`stream_answer`)."""
        screen, seen = None if self.as_json else Screen(reasoning=self.reasoning), Seen()
        try:
            state, events = await stream_answer(self.target, state, screen.show if screen else quiet, seen)
            self.last = self.target, state, seen
            return state, events
        finally:
            if screen:
                screen.finish()

    async def answer(self, state: ChatState) -> bool:
        """The answer to the last question of ``state``, which is the conversation from then on."""
        self.state, events = await self.stream(state)
        done = any(isinstance(event, TurnEnded) for event in events)
        if self.as_json:
            print(as_json(answer_form(events), indent=False), flush=True)
        elif not done:
            tell("\n(stopped)", flush=True)
        return done

    async def choose_model(self, name: str) -> None:
        """Goes on with another model. Raises `NotFoundError`, and `ModelError` for one that is not here."""
        with waiting_for(f"loading {name}"):
            self.target = replace(self.target, model=await self.catalog.get(name))

    async def choose_tools(self, names: tuple[str, ...]) -> None:
        """Offers these tools: those of the names that are open, and those that the others open (``--tools``).

        Raises `ConfigError` for a name of no tool.
        """
        toolbox = self.target.toolbox
        absent = tuple(name for name in names if not (toolbox and toolbox.offer.has(name)))
        chosen = [name for name in names if name not in absent]
        if absent:
            opened = await self.tools.open(replace(self.tools.settings, names=absent, mcp=None))
            toolbox = joined(toolbox, opened, self.tools.settings.limits)
            chosen += [spec.recipient for spec in opened.specs] + [namespace.name for namespace in opened.builtins]
        self.target = replace(self.target, toolbox=toolbox)
        self.offer(tuple(chosen))

    def offer(self, chosen: tuple[str, ...] | None) -> None:
        """Offers the open tools of these names; None: all."""
        self.state = replace(self.state, answers=replace(self.state.answers, tools=chosen))


def joined(first: Toolbox | None, second: Toolbox, limits: ToolLimits) -> Toolbox:
    """The tools of both. Raises `ConfigError` where two have one name."""
    try:
        return Toolbox([*(first.sets if first else ()), *second.sets], limits)
    except ValueError as error:
        raise ConfigError(str(error), code="tool_names") from error
