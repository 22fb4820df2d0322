"""Reads a reply by its description: reasoning, answer, calls. Model output raises in strict mode only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from antiphon.conversation import End, ParserEvent, ResponseFormat, ToolSpec
from antiphon.errors import ParseError
from antiphon.formats.format import ForeseeingParser, Rest, RestingParser
from antiphon.tokens import Control, Piece

from .calls import CallReader
from .compiled import CompiledDescription, CompiledForm, Role
from .json_text import JsonAnswer
from .literal import arguments_of
from .messages import ANALYSIS, FINAL, Malformed, Messages, NotAllowed
from .source import SYMBOL, PlainTexts, Reading, Source, known

LONGEST_QUOTE = 16_384
"""Characters behind a call in a thought that wait for the thought's end; beyond them it was a call."""
_OF_CALLS = frozenset((Role.SECTION_OPEN, Role.CALL_OPEN, Role.CALL_CLOSE, Role.LAYOUT))


class DescriptionParser(ForeseeingParser, RestingParser):
    """One reply to ``prompt``: analysis between the reasoning marks, calls between theirs, the rest final.

    A mark that the vocabulary has as a control counts only as that control, never when the model spells it out; one
    that it lacks is text inside a string of arguments, and of an answer that is JSON. Blanks beside a mark are its own.
    ``tools`` are those offered, with their schemas where they are known; ``response_format`` is what was requested.
    What looks like a call of none of ``calls`` is text as it stands, marks and all.
    """

    def __init__(
        self,
        description: CompiledDescription,
        *,
        prompt: Sequence[Piece] = (),
        tools: Collection[ToolSpec | str] = (),
        response_format: ResponseFormat | None = None,
        calls: Collection[str] | None = None,
        strict: bool = False,
    ) -> None:
        self.ended: str | None = None
        self._description = description
        self._alphabet = description.alphabet
        self._source = Source()
        self._messages = Messages(self._alphabet.decode, strict=False)
        self._calls = CallReader(self._source, self._messages, arguments_of(tools), calls, self._refuse)
        self._no_calls = calls is not None and not calls
        free = response_format is None or not response_format.is_json
        self._json_begins = "{" if tools and free else '"[{'
        """How an answer begins that is JSON: words before a call may stand in quotes or brackets."""
        self._bare = [form for form in description.forms if form.bare] if tools else []
        self._reasoning = False
        self._in_content = False
        self._after_mark = False
        self._answer = JsonAnswer(self._json_begins)
        self._quoting = False
        """The text that looked like a call is being read as text, its close too."""
        self._blanks: list[str] = []
        self._reading = self._read()
        next(self._reading, None)
        self._begin_after(prompt)
        self._messages.strict = strict

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        source, messages = self._source, self._messages
        try:
            for piece in pieces:
                if isinstance(piece, Control):
                    self._control(piece)
                elif source.plain is not None and (delta := source.plain[piece]) is not None:
                    messages.texts.append(delta.text)
                    messages.events.append(delta)
                    source.position += len(piece)
                elif self.ended is not None:
                    messages.incident("after_end", self._fed, piece)
                # No text has the characters that stand for controls here.
                elif source.feed(piece if piece.isascii() else SYMBOL.sub("\ufffd", piece)):
                    self._resume()
        except ParseError:
            self._let_go()
            raise
        events, messages.events = messages.events, []
        return events

    def more_text(self, texts: Sequence[str | None], start: int) -> int:
        """As `ForeseeingParser` has it: what is plain where the reply stands, and what a JSON value goes on with."""
        plain, reach, place = self._source.plain, self._source.reach, start
        if reach is not None:
            left = reach("".join(known(texts, start)))
            while place < len(texts) and (text := texts[place]) and len(text) <= left:
                left -= len(text)
                place += 1
        elif plain is not None:
            while place < len(texts) and (text := texts[place]) and plain[text] is not None:
                place += 1
        return place - start

    @property
    def rest(self) -> Rest | None:
        source = self._source
        if self._messages.open is None or source.records or source.text:
            return None
        if source.plain is None and source.reach is None:
            return None
        return Rest(source.steps, source.reach is not None or source.plain is self._description.plain_in_json)

    def close(self) -> list[ParserEvent]:
        """The reply is over: what was held back, and the end of the open message."""
        if self.ended is None:
            self._source.last = True
            self._source.feed("")
            self._resume()
            if self.ended is None:
                if left := self._source.left.strip():
                    self._messages.incident("cut_mark", self._source.position, left)
                self._finish(End.NONE)
        self._let_go()
        return self._messages.taken()

    def cut(self) -> list[ParserEvent]:
        """As `close`; a tail that may have become a mark, and a call that was cut before its arguments, say nothing."""
        self._source.cut = True
        return self.close()

    def _let_go(self) -> None:
        """Nothing is read any more: else what reads, and where text goes, would hold this reader, and it them."""
        self._reading.close()
        self._source.let_go()
        self._calls.let_go()

    @property
    def _fed(self) -> int:
        """The length of what came."""
        return self._source.position + len(self._source.text) - self._source.at

    def _control(self, control: Control) -> None:
        symbol = self._alphabet.symbol(control.spelling)
        if symbol is None and (self._calls.in_arguments or self._source.waits):
            symbol = control.spelling  # It marks nothing here, so it is a part of what the call says.
        if self.ended is not None:
            self._messages.incident("after_end", self._fed, str(control))
        elif symbol is None:
            self._calls.interrupted = self._fed
            self._messages.incident("unexpected_control", self._fed, control.spelling)
            self._source.position += 1
        elif self._source.feed(symbol):
            self._resume()

    def _resume(self) -> None:
        next(self._reading, None)
        if self.ended is not None and self._source.at < len(self._source.text):
            position = self._source.position
            self._messages.incident("after_end", position, self._source.take(len(self._source.text)))

    def _begin_after(self, prompt: Sequence[Piece]) -> None:
        """Reads what the prompt says behind its anchor: it begins the reply, and is none of its events."""
        begun = self._description.begun_by(prompt)
        if begun:
            if self._source.feed(begun):
                self._resume()
            self._messages.begin_again()
            self._source.plain = None
            self._source.position = self._source.at - len(self._source.text)
            self._blanks = []

    def _read(self) -> Reading[None]:
        yield from self._bare_call()
        while mark := (yield from self._source.until(self._description.top, self._say)):
            yield from self._mark(mark)
            if self.ended is not None:
                return

    def _mark(self, mark: str) -> Reading[None]:
        roles = self._description.roles[mark]
        if self._answer.in_string and not SYMBOL.search(mark):
            self._say(mark)
        elif roles & _OF_CALLS and (yield from self._is_quoted()):
            self._quoting = True
            self._say(self._alphabet.decode(mark))
        elif Role.SECTION_OPEN in roles or Role.CALL_OPEN in roles:
            yield from self._call(mark)
        elif not (yield from self._region(mark, roles)):
            self._other(mark, roles)
            if roles & {Role.LAYOUT, Role.CALL_CLOSE} and self.ended is None:
                yield from self._bare_call()

    def _is_quoted(self) -> Reading[bool]:
        """Whether a mark of a call is part of the open thought: it is not where that has no end behind it."""
        close = self._description.thought_close
        if not (self._reasoning and close):
            return False
        return (yield from self._source.coming(self._description.regions, LONGEST_QUOTE)) == close

    def _region(self, mark: str, roles: set[Role]) -> Reading[bool]:
        """Whether the mark opens or closes a region here."""
        if self._reasoning and Role.REASONING_CLOSE in roles:
            self._switch(reasoning=False)
            yield from self._bare_call()
        elif self._in_content and Role.CONTENT_CLOSE in roles:
            self._switch(reasoning=False)
            if Role.END in roles:
                yield from self._maybe_end(mark)
            if self.ended is None:
                yield from self._bare_call()
        elif Role.REASONING_OPEN in roles and not self._reasoning:
            self._switch(reasoning=True)
        elif Role.CONTENT_OPEN in roles:
            self._switch(reasoning=False)
            self._in_content = True
        else:
            return False
        return True

    def _other(self, mark: str, roles: set[Role]) -> None:
        """An end, what says nothing, or what has no place here."""
        if Role.END in roles:
            self._end(mark)
        elif self._quoting:
            self._say(self._alphabet.decode(mark))
        elif Role.CALL_CLOSE in roles or Role.LAYOUT in roles:
            self._switch(reasoning=False)
        else:
            code = "unexpected_tag" if roles else "unexpected_control"
            self._messages.incident(code, self._source.position - len(mark), mark)

    def _end(self, mark: str) -> None:
        self._finish(End.END)
        self.ended = self._alphabet.decode(mark)

    def _maybe_end(self, mark: str) -> Reading[None]:
        """The close of the answer is the reply's end, unless another region or a call follows."""
        char = yield from self._source.after_blanks()
        if (yield from self._source.ahead(self._description.layout)):
            return
        if (yield from self._source.upcoming(self._description.call_opens)):
            return
        if not char or not SYMBOL.match(char):
            self._end(mark)

    def _bare_call(self) -> Reading[None]:
        """Reads a call without any mark, where one may be: an object with the keys of a call, or a list of them."""
        if not self._bare:
            return
        self._source.record()
        yield from self._source.after_blanks()
        try:
            yield from self._bare_forms()
            self._source.recorded()
        except Malformed as fault:
            text = self._source.recorded()
            if isinstance(fault, NotAllowed):
                self._messages.incident(fault.code, self._source.position - len(text), text)
            self._say(self._alphabet.decode(text))

    def _bare_forms(self) -> Reading[None]:
        """A call, or a list of calls, of the first form that begins so. Raises `Malformed` where none does."""
        for form in self._bare:
            if (yield from self._source.begins(form.beginning)):
                yield from self._bare_list(form) if form.listed else self._calls.read(form)
                return
        raise Malformed

    def _bare_list(self, form: CompiledForm) -> Reading[None]:
        """Calls between brackets that nothing else marks."""
        self._source.take(self._source.at + 1)
        while (char := (yield from self._source.after_blanks())) and char != "]":
            if char == ",":
                self._source.take(self._source.at + 1)
            elif form.begins("", char):
                yield from self._calls.read(form)
                self._source.record()
            else:
                return
        self._source.take(self._source.at + len(char))

    def _call(self, mark: str) -> Reading[None]:
        was_reasoning, blanks = self._reasoning, "".join(self._blanks)
        self._switch(reasoning=False)
        self._source.record(mark)
        self._calls.given = False
        try:
            yield from self._calls_of(mark)
            self._calls.settle()
            self._source.recorded()
        except Malformed as fault:
            self._not_call(fault.code, self._source.recorded(), blanks, reasoning=was_reasoning)

    def _calls_of(self, mark: str) -> Reading[None]:
        forms = self._description.forms_of(mark)
        while opened := (yield from self._source.ahead(self._description.again[mark])):
            mark = opened
        if all(mark == form.section_open for form in forms):
            yield from self._section(forms)
            if forms[0].fenced and not self._calls.given:
                self._calls.pass_over(Malformed())
        else:
            yield from self._calls.read((yield from self._chosen(mark, forms)))

    def _chosen(self, mark: str, forms: Sequence[CompiledForm]) -> Reading[CompiledForm]:
        """Chooses among forms with one opening: objects where one begins, else the longest head in markup."""
        if len(forms) == 1:
            return forms[0]
        char = yield from self._source.after_blanks()
        is_object = bool(char) and char in "{["
        fitting = [form for form in forms if (form.members is not None) == is_object]
        fitting.sort(key=lambda form: len(form.slots), reverse=True)
        return next((form for form in fitting if form.open[0] == mark), next(iter(fitting or forms)))

    def _section(self, forms: Sequence[CompiledForm]) -> Reading[None]:
        """The calls of a section, in a list or not, up to its close or what is no call."""
        opens = self._description.section_marks(forms)
        while char := (yield from self._source.after_blanks()):
            mark = yield from self._source.ahead(opens)
            if not mark and char in "[],;})":
                self._source.take(self._source.at + 1)
                continue
            if mark == forms[0].section_open:
                continue
            if mark and mark == forms[0].section_close:
                return
            while mark and (opened := (yield from self._source.ahead(self._description.again[mark]))):
                mark = opened
            form = next((form for form in forms if form.begins(mark, char)), None)
            if form is None or not (mark or (yield from self._source.begins(form.listed_call, if_cut=True))):
                yield from self._source.ahead(forms[0].section_close_marks)
                return
            yield from self._call_of_section(form)

    def _call_of_section(self, form: CompiledForm) -> Reading[None]:
        try:
            yield from self._calls.read(form)
        except Malformed as fault:
            if not form.lists or self._no_calls:
                raise
            self._calls.pass_over(fault)
        else:
            if self._calls.given:
                self._source.record()

    def _refuse(self, code: str, text: str) -> None:
        """Says what is no call between others that are."""
        self._not_call(code, text, "", reasoning=False)
        self._switch(reasoning=False)

    def _not_call(self, code: str, text: str, blanks: str, *, reasoning: bool) -> None:
        """Reports text that looked like a call and is none, at its place.

        Cut off before its name, it says nothing, unless there is nothing to call.
        """
        self._messages.incident(code, self._source.position - len(text), text)
        cut_off = self._source.last and (self._source.cut or code != NotAllowed.code)
        if self._no_calls or not cut_off:
            self._reasoning, self._after_mark, self._quoting = reasoning, False, True
            self._say(blanks + self._alphabet.decode(text))

    def _switch(self, *, reasoning: bool) -> None:
        """A mark: what was open ends, and what follows begins without blanks."""
        self._blanks, self._answer = [], JsonAnswer(self._json_begins)
        self._messages.end(End.END)
        self._reasoning, self._after_mark, self._in_content, self._quoting = reasoning, True, False, False

    def _say(self, text: str) -> PlainTexts | None:
        """Text outside calls; blanks at its end wait, because a mark may follow, to which they belong."""
        if self._after_mark:
            text = text.lstrip()
            self._after_mark = not text
        if not (self._reasoning or self._answer.over):
            self._answer.feed(text)
        solid = text.rstrip() if self._description.marked else text
        behind = text[len(solid) :]
        if not solid:
            self._blanks.append(behind)
            return None
        if self._blanks:
            solid = "".join((*self._blanks, solid))
        self._blanks = [behind] if behind else []
        if self._messages.open is None:
            self._messages.begin(ANALYSIS if self._reasoning else FINAL)
        self._messages.delta(solid)
        return None if self._blanks else self._plain

    @property
    def _plain(self) -> PlainTexts | None:
        """Texts that may go on the open message; outside its strings an answer in JSON is read."""
        if self._reasoning or self._answer.over:
            return self._description.plain
        return self._description.plain_in_json if self._answer.plain is not None else None

    def _finish(self, end: End) -> None:
        """The reply is over: by a stop, or because no more came. It has at least one message."""
        blanks, self._blanks = "".join(self._blanks), []
        if self._messages.open is None and (blanks or not self._messages.began):
            self._messages.begin(FINAL)
        self._messages.delta(blanks)
        self._messages.end(end)
