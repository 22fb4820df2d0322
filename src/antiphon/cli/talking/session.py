"""A conversation at the terminal as it goes on: whom one talks to, what was said, and what the next question takes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from antiphon.catalog import Catalog
from antiphon.catalog.toolbox import ToolSettings, open_toolbox
from antiphon.cli.answer import answer_form
from antiphon.cli.options import as_json
from antiphon.cli.progress import waiting_for
from antiphon.cli.terminal import tell
from antiphon.conversation import TurnEnded
from antiphon.errors import ConfigError, RequestError
from antiphon.tools import Toolbox, ToolLimits
from antiphon.tools.mcp import McpHost

from .files import MOST_FILES, TextFile, path_of, read_text_file, with_files
from .screen import Screen, quiet
from .talk import Partner, Talk, hear


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
    """What the commands of a conversation change. ``files`` go with the next question; ``reasoning`` is shown."""

    catalog: Catalog
    partner: Partner
    talk: Talk
    tools: ToolSource
    as_json: bool = False
    reasoning: bool = False
    files: list[TextFile] = field(default_factory=list)
    typed: dict[str, str] = field(default_factory=dict)
    """What was typed for a question that has files, by the whole question."""

    @property
    def model(self) -> str:
        return self.partner.model.name

    def attach(self, path: str) -> TextFile:
        """A file for the next question. Raises `ConfigError` and `RequestError`."""
        if len(self.files) >= MOST_FILES:
            raise RequestError(f"at most {MOST_FILES} files go with a question")
        file = read_text_file(path_of(path), self.model)
        self.files.append(file)
        return file

    async def ask(self, question: str) -> bool:
        """One more question with its files, and the answer; False when that was stopped.

        When the answer fails the conversation is as it was, the files are still there, and the error is raised.
        """
        whole = with_files(question, tuple(self.files))
        done = await self.answer(self.talk.with_question(whole))
        if self.files:
            self.typed[whole] = question
        self.files.clear()
        return done

    async def again(self, question: str | None = None) -> bool:
        """Another answer to the last question, or to another in its place. Raises `RequestError` without one."""
        last = self.last_question()
        return await self.answer(self.talk.before_last_question().with_question(last if question is None else question))

    def last_question(self) -> str:
        """Raises `RequestError` where there is none."""
        last = self.talk.last_question
        if last is None:
            raise RequestError("there is no question yet")
        return last

    async def answer(self, talk: Talk) -> bool:
        """The answer to the last question of ``talk``, which is the conversation from then on."""
        screen = None if self.as_json else Screen(reasoning=self.reasoning)
        try:
            self.talk, events = await hear(self.partner, talk, screen.show if screen else quiet)
        finally:
            if screen:
                screen.finish()
        done = any(isinstance(event, TurnEnded) for event in events)
        if self.as_json:
            print(as_json(answer_form(events), indent=False), flush=True)
        elif not done:
            tell("\n(stopped)", flush=True)
        return done

    async def choose_model(self, name: str) -> None:
        """Goes on with another model. Raises `NotFoundError`, and `ModelError` for one that is not here."""
        with waiting_for(f"loading {name}"):
            self.partner = replace(self.partner, model=await self.catalog.get(name))

    async def choose_tools(self, names: tuple[str, ...]) -> None:
        """Offers these tools: those of the names that are open, and those that the others open (``--tools``).

        Raises `ConfigError` for a name of no tool.
        """
        toolbox = self.partner.toolbox
        absent = tuple(name for name in names if not (toolbox and toolbox.offer.has(name)))
        chosen = [name for name in names if name not in absent]
        if absent:
            opened = await self.tools.open(replace(self.tools.settings, names=absent, mcp=None))
            toolbox = joined(toolbox, opened, self.tools.settings.limits)
            chosen += [spec.recipient for spec in opened.specs] + [namespace.name for namespace in opened.builtins]
        self.partner = replace(self.partner, toolbox=toolbox)
        self.offer(tuple(chosen))

    def offer(self, chosen: tuple[str, ...] | None) -> None:
        """Offers the open tools of these names; None: all."""
        self.talk = replace(self.talk, answers=replace(self.talk.answers, tools=chosen))


def joined(first: Toolbox | None, second: Toolbox, limits: ToolLimits) -> Toolbox:
    """The tools of both. Raises `ConfigError` where two have one name."""
    try:
        return Toolbox([*(first.sets if first else ()), *second.sets], limits)
    except ValueError as error:
        raise ConfigError(str(error), code="tool_names") from error
