"""Reads one tool call: one JSON object, or a name in markup with its arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from antiphon.tokens import whole_pairs

from .compiled import CompiledForm, CompiledPairs, CompiledSlot
from .json_text import JsonScan
from .literal import Schema
from .messages import Malformed, Messages, NotAllowed, OpenCall, id_of, name_in, unquoted
from .source import Marks, Reading, Source
from .values import ArgumentsWriter, ValueReader

_ARGUMENTS = ("arguments", "parameters", "args", "input")
_IDS = ("id", "call_id", "tool_call_id")
_NAMES = ("name", "tool_name")
_MOST_HEAD = 256
_FENCE = Marks(("```json", "```"))


class CallReader:
    """Reads calls of one form from a source into messages. ``allowed``: the recipients of calls; None: any.

    ``refuse`` takes the code and the text of what is no call among others that are.
    """

    def __init__(
        self,
        source: Source,
        messages: Messages,
        schemas: dict[str, Schema],
        allowed: Collection[str] | None,
        refuse: Callable[[str, str], None],
    ) -> None:
        self._allowed = allowed
        self._source = source
        self._messages = messages
        self._schemas = schemas
        self._refuse = refuse
        self._open: OpenCall | None = None
        self._refused: Malformed | None = None
        """The first of those in this list that are no calls, since the last that is one; `Malformed.text` is theirs."""
        self.given = False
        """One of the list is a call."""
        self.interrupted = -1
        """The place of the last control that no form has, behind which no name or id goes on; -1: none came."""
        self._broken = self._value_broke = False
        """The arguments of the last call are no object; a value in them broke."""

    def read(self, form: CompiledForm) -> Reading[None]:
        """Behind a form's opening mark: one call, or several objects, and the marks that close them.

        Raises `Malformed` where there is no call.
        """
        self._form = form
        while (yield from self._source.ahead(form.open_marks)):
            pass  # what is left of the opening, or the same again
        char = yield from self._source.after_blanks()
        if form.members is not None or (char and char in "{["):
            yield from self._objects(form)
        else:
            yield from self._tagged(form)
        closed = astray = False
        while True:
            mark = yield from self._source.ahead(form.close_marks)
            if mark and mark not in form.close:
                self._source.put_back(mark)
                return
            if mark:
                # A bracket of the wrong kind closed the call within its value, unless the line ends with it.
                astray = self._value_broke and not (yield from self._source.follows("\n"))
            elif (closed and not form.tagged and not astray) or not (yield from self._set_aside(form)):
                return
            closed = True

    @property
    def in_arguments(self) -> bool:
        """The arguments of a call are being read."""
        return self._open is not None and self._open.in_arguments and (self._messages.in_call or self._source.records)

    def let_go(self) -> None:
        """Nothing is read any more: a call on its way would hold this reader, and it that."""
        self._refuse, self._open = _nobody, None

    def pass_over(self, fault: Malformed) -> None:
        """Keeps what was read since the last call as the text of no call, of which `settle` decides."""
        before = "" if self._refused is None else self._refused.text
        self._refused = self._refused or fault
        self._refused.text = before + self._source.recorded()
        self._source.record()

    def settle(self) -> None:
        """The list is over. Raises `Malformed` where none of it was a call, and all of it is recorded."""
        if self._refused is not None and not self.given:
            fault, self._refused = self._refused, None
            self._source.record(fault.text + self._source.recorded())
            raise fault
        self._begins()

    def _begins(self) -> None:
        """A call begins, or the list is over: what was passed over is no call."""
        self.given = True
        if self._refused is not None:
            fault, self._refused = self._refused, None
            self._refuse(fault.code, fault.text)

    def _set_aside(self, form: CompiledForm) -> Reading[bool]:
        """Reports text between a call and its close; without that it stays what it is. Whether there is any.

        What no mark closes goes on, where its arguments broke, to what ends a call.
        """
        open_ended = self._broken and not form.closes
        if not (form.closes or open_ended) or not self._source.goes_on:
            return False
        text, mark = yield from self._source.text_until(form.ends)
        closes = bool(text) and (open_ended or mark in form.closes)
        self._source.put_back(mark if closes else text + mark)
        if form.in_section:
            text = text.strip("]}) \n")  # What the section's own close begins with.
        if closes and text.strip():
            self._messages.incident("malformed_call", self._source.position - len(text), text)
        return closes

    def _objects(self, form: CompiledForm) -> Reading[None]:
        """One object or several, listed or one after the other."""
        count = 0
        while char := (yield from self._source.after_blanks()):
            if char == "{":
                if self.given:
                    self._source.record()
                yield from self._object_of_list(form) if form.lists else self._object(form)
                count += 1
            elif char in "[`" if not count else char in ",;]`":
                self._source.take(self._source.at + 1)
                if char == "`":
                    yield from self._source.ahead(_FENCE)
            else:
                break
        if not count:
            raise Malformed

    def _object_of_list(self, form: CompiledForm) -> Reading[None]:
        """One object, among others; what is no call is passed over."""
        try:
            yield from self._object(form)
        except Malformed as fault:
            if not self._allowed and self._allowed is not None:
                raise
            if not isinstance(fault, NotAllowed):
                yield from self._json(lambda text: None, JsonScan(open="{"))
            self.pass_over(fault)

    def _object(self, form: CompiledForm) -> Reading[None]:
        names = form.members
        waits = names is not None and bool(names.call_id) and not names.id_first
        call = self._opened(form, waits=waits)
        try:
            yield from self._members(form, call)
            if call.name is None or (form.bare and not call.has_arguments):
                raise Malformed
        except Malformed as fault:
            if call.name is None or not (call.begun or call.has_arguments):
                raise
            rest = [fault.text]
            if not fault.over:
                yield from self._json(rest.append, JsonScan(open="{"))
            if text := "".join(rest):
                call.extra.append(text)
        self._broken = call.end(whole=self._source.goes_on)
        if call.extra:
            self._messages.incident("malformed_call", self._source.position, ", ".join(call.extra))

    def _opened(self, form: CompiledForm, *, waits: bool) -> OpenCall:
        call = OpenCall(self._source, self._messages, self._allowed, self._begins, waits=waits, listed=form.lists)
        self._open = call
        return call

    def _members(self, form: CompiledForm, call: OpenCall) -> Reading[None]:
        self._source.take(self._source.at + 1)
        while (char := (yield from self._source.after_blanks())) != "}":
            if char == ",":
                self._source.take(self._source.at + 1)
                continue
            if char == "{" and call.has_arguments and (yield from self._begins_object()):
                raise Malformed(over=True)  # It was not closed, and another one begins.
            key = yield from self._json_string()
            if (yield from self._source.after_blanks()) != ":":
                raise Malformed(json.dumps(key, ensure_ascii=False))
            self._source.take(self._source.at + 1)
            yield from self._member(form, call, key)
        self._source.take(self._source.at + 1)

    def _begins_object(self) -> Reading[bool]:
        """Whether the brace may be an object's: behind it are a key or blanks."""
        for behind in '" \t\r\n':
            if (yield from self._source.follows("{" + behind)):
                return True
        return False

    def _member(self, form: CompiledForm, call: OpenCall, key: str) -> Reading[None]:
        names = form.members
        char = yield from self._source.after_blanks()
        if names is not None and not names.name and char == "{" and call.name is None:
            call.named(key)
            yield from self._arguments(call)
        elif char == "{" and key == "function":
            yield from self._members(form, call)
        elif key in _ARGUMENTS or (names is not None and key == names.arguments):
            yield from self._arguments(call)
        elif key in _NAMES or (names is not None and key == names.name) or (key == "function" and char == '"'):
            call.named((yield from self._json_string()))
        else:
            value = yield from self._json_value()
            if key in _IDS or (names is not None and key == names.call_id):
                call.call_id = call.call_id or id_of(value)
            elif key != "type":
                call.extra.append(f'"{key}": {value}')
            if form.bare and call.name is None and not call.has_arguments and key not in (*_IDS, "type"):
                raise Malformed

    def _arguments(self, call: OpenCall) -> Reading[None]:
        """An object as it comes; as a string too, as OpenAI's API spells arguments."""
        char = yield from self._source.after_blanks()
        call.in_arguments = True
        if char == '"':
            parts: list[str] = []
            whole = yield from self._json(parts.append, JsonScan())
            call.put(unquoted("".join(parts), cut=not (whole or self._source.goes_on) and self._source.cut))
            if not whole:
                raise Malformed(over=True)
        elif char == "n":
            value = yield from self._json_value()
            if value != "null":
                call.put(value)
        elif not (yield from self._json(call.put, JsonScan())):
            raise Malformed(over=True)
        call.in_arguments = False

    def _json(self, put: Callable[[str], bool | None], scan: JsonScan, *, runs_on: bool = True) -> Reading[bool]:
        """A JSON value, as it comes, and whether that is all of it.

        One that breaks runs on, raw, to the end of its brackets, and at most to what ends a call.
        ``put``: whether that is in the open message.
        """
        source, bounds, ahead = self._source, self._form.bounds, 0

        def step() -> bool:
            nonlocal ahead
            end, over = scan.feed(source.text, source.at + ahead), scan.broken and not runs_on
            if runs_on and not scan.done:
                # What ends a call may stand in a string: that is so if the value comes to its end.
                last = source.last and not source.cut
                start, behind = bounds.find(source.text, source.at, last=last)
                over = behind > start and (scan.broken or last)
                if scan.broken and start >= end:
                    end = scan.run_on(source.text, end, start, last=last or over)
                elif not source.last or last:
                    ahead, end = end - start, start
            goes_on = bool(end > source.at and put(source.take(end)))
            is_plain = goes_on and not scan.broken and not ahead
            source.plain = self._form.plain if is_plain and scan.plain is not None else None
            source.reach = reach if is_plain else None
            return scan.done or over

        def reach(text: str) -> int:
            found = bounds.begins(text)
            return scan.reach(text if found is None else text[: found.start()])

        if not (yield from source.read(step)):
            source.set_rest_aside()
        return scan.done

    def _json_value(self) -> Reading[str]:
        parts: list[str] = []
        if not (yield from self._json(parts.append, JsonScan(controls=False), runs_on=False)):
            raise Malformed("".join(parts))
        return "".join(parts)

    def _json_string(self) -> Reading[str]:
        if (yield from self._source.after_blanks()) != '"':
            raise Malformed
        text = yield from self._json_value()
        try:
            return str(json.loads(whole_pairs(text)))
        except ValueError:
            raise Malformed(text) from None

    def _tagged(self, form: CompiledForm) -> Reading[None]:
        late = bool(form.id_behind.literals)
        call = self._opened(form, waits=late)
        for slot in form.slots:
            yield from self._slot(slot, call)
        if call.name is None:
            raise Malformed
        if not late:
            call.begin()
        self._value_broke, call.in_arguments = False, True
        if call.is_empty:
            call.put("{}")
        elif form.pairs is None:
            yield from self._plain_arguments(call)
        else:
            schema = self._schemas.get(call.name, Schema())
            self._value_broke = yield from self._pairs(form, form.pairs, schema, call)
        call.in_arguments = False
        if not call.has_arguments and (yield from self._breaks_off(form, call)):
            call.put("{")
        if late and (yield from self._source.ahead(form.id_behind)):
            yield from self._late_id(form, call)
        self._broken = call.end(whole=self._source.goes_on)

    def _late_id(self, form: CompiledForm, call: OpenCall) -> Reading[None]:
        """The id behind the arguments, up to what closes the call; cut off it is none."""
        text, mark = yield from self._source.text_until(form.id_end)
        text = text.strip()
        self._source.put_back(mark)
        if mark and len(text) <= _MOST_HEAD:
            call.call_id = call.call_id or text or None
        elif text:
            self._messages.incident("malformed_call", self._source.position - len(text), text)

    def _slot_text(self, slot: CompiledSlot) -> Reading[tuple[str, str]]:
        """The text of a slot, which a control that no form has ends too, and the mark behind it."""
        yield from self._source.after_blanks()
        self.interrupted, start = -1, self._source.position
        text, mark = yield from self._source.text_until(slot.marks)
        end = self.interrupted - start if self.interrupted >= start else len(text)
        if behind := text[end:].strip():
            self._messages.incident("malformed_call", self._source.position, behind)
        return text[:end].strip(), mark

    def _slot(self, slot: CompiledSlot, call: OpenCall) -> Reading[None]:
        text, mark = yield from self._slot_text(slot)
        if len(text) > _MOST_HEAD:
            raise Malformed
        call.headed = bool(mark) and mark in (slot.after, slot.closed)
        call.is_empty = bool(mark) and mark == slot.closed
        if call.headed:
            for word in slot.rest:
                yield from self._source.skip(word)
        elif mark:
            self._source.put_back(mark)
        if slot.reads == "name":
            self._name(call, text, whole=call.headed)
        elif slot.reads == "index" or (self._source.last and not mark):
            if text and not (mark and text.isdigit()):
                self._messages.incident("malformed_call", self._source.position - len(text), text)
        elif text:
            call.call_id = text
            if slot.pattern:
                call.named(name_in(text, slot.pattern))

    def _name(self, call: OpenCall, text: str, *, whole: bool) -> None:
        """Takes the name; of two the last whole one counts."""
        other = call.name
        if other is None or whole:
            call.named(text)
        if other is not None and other != text:
            self._messages.incident("malformed_call", self._source.position, other if whole else text)

    def _plain_arguments(self, call: OpenCall) -> Reading[None]:
        """One JSON object, in a fence or not; none at all is an empty one. What is none stands there raw."""
        yield from self._source.ahead(_FENCE)
        char = yield from self._source.after_blanks()
        if char == "{":
            yield from self._json(call.put, JsonScan())
            yield from self._source.ahead(_FENCE)
        goes_on = char != "{"
        if not goes_on and (not self._form.closes or self._form.id_behind.literals):
            behind = yield from self._source.after_blanks()
            goes_on = call.is_broken or (bool(behind) and behind in ',:]}"')
        if (call.headed or self._form.closes) and goes_on:
            text, mark = yield from self._source.text_until(self._form.bounds)
            self._source.put_back(mark)
            if text := text.rstrip():
                call.put(text)

    def _pairs(self, form: CompiledForm, pairs: CompiledPairs, schema: Schema, call: OpenCall) -> Reading[bool]:
        """Reads the arguments; whether a value broke."""
        writer = ArgumentsWriter(call.put)
        reader = ValueReader(self._source, self._messages, form, pairs, schema, writer)
        while (yield from reader.begins()):
            if not (yield from reader.read()):
                return reader.broke
        if not (yield from self._breaks_off(form, call)):
            writer.close()
        return reader.broke

    def _breaks_off(self, form: CompiledForm, call: OpenCall) -> Reading[bool]:
        """Whether the reply ends here, before the arguments began or by itself."""
        ends = not self._source.goes_on or bool((yield from self._source.upcoming(form.reply_ends)))
        return ends and not (call.headed and self._source.goes_on)


def _nobody(code: str, text: str) -> None:
    """Says nothing."""
