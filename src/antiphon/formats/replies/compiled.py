"""A description made ready for a vocabulary: its literals as marks, and what each mark means."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from enum import Enum, auto

from msgspec.structs import replace

from antiphon.tokens import Control, Piece

from .description import CallForm, Pairs, Region, ReplyDescription, Slot, Value
from .ends import Structure, TextEnds
from .json_text import JsonScan, json_inside
from .literal import ESCAPING
from .source import SYMBOL, SYMBOLS, UNKNOWN, Alphabet, Marks, PlainTexts

_INNER_END = rf"\s*(?:\Z|(?P<end>[,:)\]}}]|[{SYMBOLS}]))"
_STRING_END = re.compile(r'["\\\n]')
_BETWEEN_TAGS = re.compile(r"(?<=[>\]])\s+(?=[<\[])|(?<=>)(?=<)")
_TAG = re.compile(rf"<[^<>\n]+>|\[[^\[\]\n]+\]|[{SYMBOLS}]")
"""A tag by its look: it means something wherever it is."""
_NAME = r"[A-Za-z_][\w.:/-]{0,127}"
_ANYTHING = re.compile("(?P<whole>)")


class Role(Enum):
    """A meaning of a mark between calls; one mark may have several roles."""

    REASONING_OPEN = auto()
    REASONING_CLOSE = auto()
    CONTENT_OPEN = auto()
    CONTENT_CLOSE = auto()
    SECTION_OPEN = auto()
    CALL_OPEN = auto()
    CALL_CLOSE = auto()
    LAYOUT = auto()
    END = auto()


class CompiledValue:
    """One form of a value. ``separator``: the text between two arguments."""

    def __init__(self, value: Value, separator: str, alphabet: Alphabet) -> None:
        before = alphabet.encode(value.before)
        self._value, self._separator, self._alphabet = value, separator, alphabet
        self.reads = value.reads
        self.words = _words(value.before, alphabet)
        self.layout = before[len(before.rstrip()) :] if before.strip() else ""
        self.assigns = r"\s*".join(map(re.escape, self.words)) + re.escape(self.layout)
        self.after = alphabet.encode(value.after)
        self._close = _words(value.after, alphabet)

    def bound_by(self, structure: Structure) -> None:
        """Finds what ends a raw value; a close with the literal's own blanks before it is found first."""
        core, *self.rest = self._close
        before, _, behind = self.after.partition(core) if core.strip() else ("", "", "")
        layout = {"", before, *filter(str.isspace, (behind, self._separator))}
        self.ends = TextEnds((before + core, core), structure, layout=layout, rest=self.rest)
        self.plain = PlainTexts(self.ends.marks.begins, json_inside)
        """Texts that may continue a string."""

    def of(self, key: str) -> CompiledValue:
        """The form of the text by this key: itself, where its close does not name the key."""
        if self.reads != "nested":
            return self
        value = replace(self._value, after=self._value.after.replace("{key}", key))
        own = CompiledValue(value, self._separator, self._alphabet)
        own.bound_by(self.ends.structure)
        return own


class CompiledPairs:
    def __init__(self, pairs: Pairs, form: CallForm, alphabet: Alphabet) -> None:
        self.key = _core(alphabet.encode(pairs.key))
        self.key_marks = Marks((self.key, _core(alphabet.encode(form.close))))
        self.spelled_quote, self.quote = pairs.quote, alphabet.encode(pairs.quote)
        self.separator = pairs.separator.strip()
        values = [CompiledValue(value, pairs.separator, alphabet) for value in pairs.values]
        self.values = {value.words[0]: value for value in sorted(values, key=lambda value: -len(value.words))}
        self.longer = {
            value.words[0]: (re.compile(_gradual(map(re.escape, "".join(value.words[1:])))), value)
            for value in values
            if value is not self.values[value.words[0]]
        }
        """A form that begins with the first tag of another, by that: what is then behind it."""
        self.empty = {_self_closed(value.words[0]) for value in values} - {""}
        """Ends of a key whose value is empty, as of a tag that closes itself."""
        self.value_marks = Marks((*self.values, *self.empty, *alphabet.symbols))
        another = _another(values[0].words[0])
        self.another = re.compile(rf".\s*(?:\Z|{another})")
        """A bracket with another argument behind it."""
        self._behind = {True: _INNER_END, False: _string_end(another, form)}
        name = rf"(?:\Z|[^/\s<>\"'=][^\s<>\"'=]{{0,127}}?(?:\Z|{re.escape(values[0].words[0][0])}(?P<member>)))"
        self.inner = re.compile(rf"\s*{_gradual(map(re.escape, self.key), name, blanks='')}")
        """How a value begins whose members are tags of their own."""

    def bound_by(self, structure: Structure, marks: Collection[str]) -> None:
        """Adds the marks of other calls, and of the reply's end, to what ends a value."""
        self.between = Marks((self.key, *marks))
        """Marks between two pairs, and behind the last."""
        self.value_marks = Marks((*self.value_marks.literals, *marks))
        self.key_marks = Marks((*self.key_marks.literals, *(mark for mark in marks if mark.startswith(self.key))))
        for value in (*self.values.values(), *(longer for _, longer in self.longer.values())):
            value.bound_by(structure)
        self.strings = {
            (quote, inner): TextEnds(
                (quote,),
                structure,
                behind=re.compile(behind.replace(f"[{SYMBOLS}", f"(?!{re.escape(quote)})[{SYMBOLS}")),
                escapes=quote in ESCAPING,
            )
            for quote in filter(None, (*ESCAPING, self.quote))
            for inner, behind in self._behind.items()
        }
        """Ends of a string, by its quote and by whether it is in brackets of the value's own."""


class CompiledSlot:
    def __init__(self, slot: Slot, form: CallForm, alphabet: Alphabet) -> None:
        """A slot that is left out ends where a later one does."""
        self.reads = slot.reads
        self.pattern = slot.pattern
        words = _words(slot.after, alphabet)
        self.after, self.rest = words[0], words[1:]
        self.closed = _self_closed(self.after)
        pairs = _words(form.pairs.key, alphabet) if form.pairs else ()
        close = _parts(alphabet.encode(form.close))
        begins = pairs[:1] if form.pairs else ("{",)
        later = [_words(each.after, alphabet)[0] for each in form.head[form.head.index(slot) + 1 :]]
        self.marks = Marks((*words[:1], self.closed, *later, *begins, *close[:1], "\n", *alphabet.symbols))


class CompiledForm:
    """A call's form; its literals as words, which blanks may part. A close that is one of the ``ends`` is that."""

    def __init__(self, form: CallForm, alphabet: Alphabet, ends: Collection[str] = ()) -> None:
        self.members = form.members
        self.bare = form.bare and (form.members is not None or form.section is not None)
        section = form.section or Region()
        self.section_open = _core(alphabet.encode(section.open)).rstrip("[{(").rstrip()
        self.section_close = _core(alphabet.encode(section.close)).lstrip(")}]").lstrip()
        self.fenced = not _TAG.search(self.section_open + self.section_close)
        """No tags are round calls: such marks are text where no call is between them."""
        self.open = self._opens = _words(form.open, alphabet)
        tag = _TAG.match(self.open[0])
        if tag is not None and tag.end() < len(self.open[0]):
            self.open += (tag.group() + self.open[0],)  # models write their first token twice
        self.close = _parts(alphabet.encode(form.close))
        self.has_open = bool(form.open)
        self.open_marks = Marks(self.open)
        opened = self.open[0]
        foot = _core(alphabet.encode(section.close))
        behind = (*self.close, foot, self.section_close, opened)
        self.close_marks = Marks(part for part in behind if part not in ends)
        """With what may follow a call, and may begin as its close does."""
        self.section_close_marks = Marks((self.section_close,))
        own = [part for part in (_core(alphabet.encode(form.close)), *self.close) if _TAG.search(part)]
        feet = [part for part in (foot, self.section_close) if _TAG.search(part)]
        self.in_section = form.section is not None
        self.tagged = bool(own)
        """A tag closes each call."""
        self.closes = frozenset(own or (feet if form.members is not None else self.close))
        """The mark that closes a call, or all calls of a list of objects."""
        between = alphabet.encode(form.separator).strip(" \n,;")
        self._closes = [word for word in _words(form.close if own else section.close, alphabet) if _TAG.search(word)]
        self._follows = (foot, self.section_close, between)
        self.value_bounds: Collection[str] = ()
        """Marks, whole, that end a call while a value in it is not closed."""
        self.bounds = Marks((*own, *feet, _core(alphabet.encode(form.id_behind)), between))
        """Tags that end a call while it is not closed."""
        self.ends = Marks((*self.bounds.literals, *self.closes))
        self.plain = PlainTexts(JsonScan.ends_plain)
        """Characters that may go on a string of its JSON."""
        self._begins = re.compile(r"\{" if form.members is not None else r"\w")
        self.id_behind = Marks((_core(alphabet.encode(form.id_behind)),))
        self.id_end = Marks((*self.close[:1], foot, "\n", *alphabet.symbols))
        self.lists = form.section is not None and not form.open and not self.bare
        """Calls stand one after the other between the section's marks, which is all that marks them."""
        self.listed = form.bare and form.section is not None
        self.beginning = _beginning(form)
        """How a bare call begins. A match without a group: the text ends before that can be told."""
        literal = form.pairs is not None and not form.pairs.key
        self.listed_call = _beginning(replace(form, section=None)) if literal else _ANYTHING
        """How a call begins that stands in a list without an opening of its own."""
        self.slots = [CompiledSlot(slot, form, alphabet) for slot in form.head]
        self.pairs = CompiledPairs(form.pairs, form, alphabet) if form.pairs else None

    def bound_by(self, marks: Collection[str], ends: Collection[str]) -> None:
        """Adds the marks of other calls, and of the reply's end, to what ends a call."""
        self.bounds = Marks((*self.bounds.literals, *marks))
        self.ends = Marks((*self.ends.literals, *marks))
        self.id_end = Marks((*self.id_end.literals, *marks))
        self.reply_ends = Marks(ends)
        self.plain = PlainTexts(lambda text: JsonScan.ends_plain(text) or self.bounds.begins(text))
        if self.pairs is not None:
            bounds = (*self._closes, *self._follows, *marks)
            self.value_bounds = {mark for mark in bounds if not self.pairs.key.startswith(mark)}
            structure = Structure(
                key=self.pairs.key,
                assigns=[value.assigns for value in self.pairs.values.values()],
                opens=self._opens,
                head=[(slot.reads, [word for word in (slot.after, *slot.rest) if word.strip()]) for slot in self.slots],
                closes=self._closes,
                follows=[*self._follows, *marks],
                ends=[end for end in ends if SYMBOL.search(end)],
            )
            self.pairs.bound_by(structure, self.ends.literals)

    def begins(self, mark: str, char: str) -> bool:
        """Whether a call begins with this mark of its opening, or without an opening with this character."""
        return mark in self.open if mark else not self.has_open and self._begins.match(char) is not None


_TAIL = 4096
"""Characters of a prompt's end that are looked at first."""


def _last(prompt: Sequence[Piece], size: int) -> list[Piece]:
    """The last ``size`` characters of a prompt; a control counts as one."""
    taken: list[Piece] = []
    for piece in reversed(prompt):
        if size <= 0:
            break
        taken.append(piece if isinstance(piece, Control) else piece[-size:])
        size -= 1 if isinstance(piece, Control) else len(piece)
    return taken[::-1]


class CompiledDescription:
    """Made once for a format, shared by its readers."""

    def __init__(
        self, description: ReplyDescription, controls: Collection[Control], stops: Sequence[Control | str]
    ) -> None:
        ends = [end for end in (*description.ends, *map(str, stops)) if end]
        literals = [*description.literals, *ends, description.anchor]
        self.alphabet = alphabet = Alphabet(controls, literals)
        self.description = description
        self.anchor = alphabet.encode(description.anchor)
        encoded = {alphabet.encode(end) for end in ends}
        self.forms = [CompiledForm(form, alphabet, encoded) for form in description.calls]
        self.reasoning = _cores(description.reasoning, alphabet)
        self.layout = Marks(_core(alphabet.encode(text)) for text in description.layout)
        self.roles: dict[str, set[Role]] = {symbol: set() for symbol in alphabet.symbols}
        self._give(self.reasoning, Role.REASONING_OPEN, Role.REASONING_CLOSE)
        self._give(_cores(description.content, alphabet), Role.CONTENT_OPEN, Role.CONTENT_CLOSE)
        for form in self.forms:
            close = "" if form.fenced else form.section_close
            self._give((form.section_open, close), Role.SECTION_OPEN, Role.CALL_CLOSE)
            for word in form.open:
                self._give((word, ""), Role.CALL_OPEN, Role.CALL_OPEN)
            for part in filter(_TAG.match, form.close):
                self._give(("", part), Role.CALL_CLOSE, Role.CALL_CLOSE)
        for literal in self.layout.literals:
            self._give((literal, ""), Role.LAYOUT, Role.LAYOUT)
        for end in ends:
            self._give((alphabet.encode(end), ""), Role.END, Role.END)
        self.top = Marks(self.roles)
        opens = Role.SECTION_OPEN, Role.CALL_OPEN
        self.call_opens = Marks(mark for mark, roles in self.roles.items() if roles.intersection(opens))
        other = [mark for mark, roles in self.roles.items() if roles & {Role.CALL_OPEN, Role.SECTION_OPEN, Role.END}]
        for form in self.forms:
            form.bound_by(other, encoded)
        self.again = {mark: Marks((mark, *self._openings(mark))) for mark in self.roles}
        """Marks that may follow one that is written twice: itself, or the whole opening that it begins."""
        self.plain = PlainTexts(self._special)
        """Texts that may continue a message outside calls."""
        self.plain_in_json = PlainTexts(lambda text: _STRING_END.search(text) or self._special(text))
        """… and inside a string of an answer that is JSON."""
        for call in description.calls:
            for mark in self.top.all_in(alphabet.encode(call.separator)):
                self.roles[mark].add(Role.LAYOUT)
        close = self.reasoning[1]
        self.thought_close = close if self.roles.get(close) == {Role.REASONING_CLOSE} else ""
        """The mark that ends a thought, and nothing else; empty where there is none."""
        regions = {Role.REASONING_OPEN, Role.REASONING_CLOSE, Role.CONTENT_OPEN, Role.END}
        self.regions = Marks(mark for mark, roles in self.roles.items() if roles & regions)
        """Marks that begin or end a thought or an answer."""
        self.marked = bool(description.literals)
        read_on = {end for end in description.ends if self._opens_call(alphabet.encode(end))} - {*map(str, stops)}
        free = (end for end in dict.fromkeys(ends) if end not in read_on)
        self.stops = tuple(end for end in free if not self._closes(alphabet.encode(end)))

    def begun_by(self, prompt: Sequence[Piece]) -> str:
        """Returns the reply's beginning in the prompt, controls as characters; reads no more of it than needed."""
        size, length = _TAIL, sum(1 if isinstance(piece, Control) else len(piece) for piece in prompt)
        while True:
            tail = "".join(map(self._encoded, _last(prompt, size)))
            # Behind an anchor, and with a whole mark of reasoning, the tail says all that the prompt does.
            if size >= length or (self.anchor in tail and len(tail.rstrip()) >= max(map(len, self.reasoning))):
                return self.begun(tail)
            size *= 16

    def _encoded(self, piece: Piece) -> str:
        if isinstance(piece, Control):
            return self.alphabet.symbol(piece.spelling) or UNKNOWN
        return SYMBOL.sub("\ufffd", piece)

    def begun(self, prompt: str) -> str:
        """The reply's beginning in the prompt: behind the anchor, else a mark of reasoning at its end."""
        _, found, begun = prompt.rpartition(self.anchor) if self.anchor else ("", "", "")
        if found and not any(Role.END in self.roles[mark] for mark in self.top.all_in(begun)):
            return begun
        return next((mark for mark in self.reasoning if self._begins(mark) and prompt.rstrip().endswith(mark)), "")

    def _begins(self, mark: str) -> bool:
        """Whether a mark at the prompt's end is the reply's; an end there is that of the message before."""
        return bool(mark) and Role.END not in self.roles[mark]

    def forms_of(self, mark: str) -> list[CompiledForm]:
        """The forms of calls that the mark opens."""
        return [form for form in self.forms if mark == form.section_open or mark in form.open]

    def _openings(self, mark: str) -> list[str]:
        if any(mark == form.section_open for form in self.forms):
            return []
        return [form.open[0] for form in self.forms if mark in form.open or form.open[0].startswith(mark)]

    def section_marks(self, forms: Sequence[CompiledForm]) -> Marks:
        """Marks that begin a call in the section of these forms, open the section anew, or close it."""
        return Marks([word for form in forms for word in (*form.open, form.section_open, form.section_close)])

    def _opens_call(self, mark: str) -> bool:
        """Whether a call may begin with the mark: its reader tells then what it is."""
        return any(opening.startswith(mark) for opening in self.call_opens.literals)

    def _closes(self, mark: str) -> bool:
        return bool(self.roles[mark] & {Role.REASONING_CLOSE, Role.CONTENT_CLOSE})

    def _special(self, text: str) -> object:
        """Blanks at the end may belong to a mark that follows."""
        return text[-1].isspace() or self.top.begins(text)

    def _give(self, marks: tuple[str, str], opens: Role, closes: Role) -> None:
        for mark, role in zip(marks, (opens, closes), strict=True):
            if mark:
                self.roles.setdefault(mark, set()).add(role)


def _cores(region: Region | None, alphabet: Alphabet) -> tuple[str, str]:
    if region is None:
        return "", ""
    return _core(alphabet.encode(region.open)), _core(alphabet.encode(region.close))


def _core(literal: str) -> str:
    """The literal without its layout; blanks alone are what they are."""
    return literal.strip() or literal


def _self_closed(end: str) -> str:
    """The end of a tag that closes itself, by the end of one that does not; empty where it ends no tag."""
    return f"{end[:-1]}/>" if end.endswith(">") and "<" not in end else ""


def _words(literal: str, alphabet: Alphabet) -> tuple[str, ...]:
    """The literal's parts, between which any blanks may stand: tags side by side, too."""
    return tuple(alphabet.encode(word) for word in _BETWEEN_TAGS.split(_core(literal)))


def _parts(literal: str) -> tuple[str, ...]:
    """The literal's tags and what is between them: each may be missing in a reply."""
    found = [part.strip() for part in re.split(f"({_TAG.pattern})", literal)]
    return tuple(part for part in found if part)


def _beginning(form: CallForm) -> re.Pattern[str]:
    bracket = (r"\[",) if form.section is not None else ()
    if form.members is not None:
        return re.compile(_gradual((*bracket, r"\{")))
    after = re.escape(form.head[0].after.strip()) if form.head else ""
    if form.pairs is None:
        return re.compile(_gradual((*bracket, _NAME, after, r"\{")))
    value = form.pairs.values[0].before.strip()
    key = _gradual((_NAME, re.escape(value[:1])))
    close = f"|{re.escape(form.close.strip())}(?P<empty>)" if form.close.strip() else ""
    return re.compile(_gradual((*bracket, _NAME, after), then=f"(?:{key}{close})"))


def _gradual(steps: Iterable[str], then: str = "(?P<whole>)", *, blanks: str = r"\s{0,8}") -> str:
    """A pattern of the steps one after the other, and of a text that ends before all of them are there."""
    for step in reversed(list(steps)):
        then = rf"{blanks}(?:\Z|{step}{then})"
    return then


def _another(assigns: str) -> str:
    return rf",\s*(?:\Z|[^,(){{}}\[\]\n]{{1,256}}?(?:\Z|{re.escape(assigns)}(?P<another>)))"


def _string_end(another: str, form: CallForm) -> str:
    """Another argument, or the end of the call, and behind that no more of what may be a string."""
    lines = "" if form.separator.strip() else "|\n(?P<line>)"
    call = rf"[)}}\]](?:\s*(?:\Z|[^\s\w.'\"+*=%(](?P<end>)){lines})"
    return rf"\s*(?:\Z|(?P<control>[{SYMBOLS}])|{another}|{call})"
