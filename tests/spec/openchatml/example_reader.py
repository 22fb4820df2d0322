"""A small reader of OpenChatML 2.2, written from docs/openchatml-format.md, whose clauses the numbers are.

It meets the first two levels of the suite: a start for readers in other languages. It leaves out tools that a message
declares (7.9), places within a frame, hints, infinite numbers, and what a reader of replies mends.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection
from types import SimpleNamespace as Frame
from typing import Any
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import yaml

CONTROL = re.compile(r"(<?)<\|(start|channel|message|call|constrain|return|end|literal|endliteral)\|>")
AUTHOR = re.compile(r"(?!functions\.[^.]+\.)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
ROLES = ("system", "developer", "user", "assistant", "tool")
LIMIT = 65_536
STRAY = ("start", "channel", "message", "constrain")
HEADER, TRUNCATED = "E-PARSE-HEADER", "E-STREAM-TRUNCATED"
PLAN = ("assistant", "commentary", None, None)
CORE_SCHEMA = (
    (r"|~|null|Null|NULL", lambda text: None),
    (r"true|True|TRUE", lambda text: True),
    (r"false|False|FALSE", lambda text: False),
    (r"0o[0-7]+", lambda text: int(text[2:], 8)),
    (r"0x[0-9a-fA-F]+", lambda text: int(text[2:], 16)),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
)


class Reader:
    def __init__(self, text: str, flags: Collection[str]) -> None:
        self.text, self.asked = text, "--harmony" in flags
        self.errors: list[tuple[int, str, str]] = []
        self.frames: list[Frame] = []
        self.open: dict[str, str] = {}
        self.ids: list[str] = []
        self.header: dict[str, Any] = {}
        at = self.read_header("--fragment" in flags)
        profile = inside(self.header, "profiles", "harmony")
        self.profile = profile if profile.get("enabled") is True else {}
        self.harmony = self.asked or bool(self.profile)
        self.whole = self.asked or bool(words(self.profile.get("require_channels")))  # 2.6
        tools = words(inside(self.header, "generation_settings").get("builtin_tools"))
        self.namespaces = {"functions", "browser", "python", *(tools or ())}
        self.read_frames(at)

    def error(self, at: int, message: str, code: str = HEADER) -> None:
        self.errors.append((at, code, message))

    def read_header(self, fragment: bool) -> int:
        """Returns where the frames begin (2.1)."""
        text, begin = self.text, self.text.startswith("\ufeff")
        first = re.compile(r"[ \t\r\n]*<\|start\|>").match(text, begin) or re.search(r"^<\|start\|>", text, re.M)
        end = frames_at = first.end() - len("<|start|>") if first else len(text)
        fence = re.compile(r"[ \t\r\n]*---[ \t]*\r?\n").match(text, begin)
        if fence and (close := re.compile(r"^(---|\.\.\.)[ \t]*\r?(\n|\Z)", re.M).search(text, fence.end(), end)):
            end, frames_at = close.span()
        if frames_at > LIMIT + begin:  # 2.2
            self.error(LIMIT, "the header does not end")
        elif text[begin:frames_at].strip(" \t\r\n"):
            self.read_yaml(text[begin:end])
        elif not fragment:
            self.error(0, "the transcript has no header")
        return frames_at

    def read_yaml(self, source: str) -> None:
        try:
            for token in yaml.scan(source, yaml.CSafeLoader):  # 2.2, before anything is built
                if isinstance(token, yaml.AliasToken | yaml.AnchorToken | yaml.TagToken):
                    raise yaml.MarkedYAMLError("an anchor, alias or tag", None, None, token.start_mark)
            node = yaml.compose(source, yaml.CSafeLoader)
            header = value_of(node)
            if not isinstance(header, dict):
                raise ValueError("no mapping")
            version = next((value.value for key, value in node.value if key.value == "version"), None)
            if not re.fullmatch(r"[12]\.[0-9]+", str(version)):  # 2.3
                raise ValueError(f"version {version}")
            self.header = {**header, "version": version}
        except yaml.MarkedYAMLError as error:
            mark: Any = error.problem_mark
            self.error(mark.index, str(error))
        except (yaml.YAMLError, ValueError) as error:
            self.error(0, str(error))

    def read_frames(self, at: int) -> None:
        text, state, frame, parts = self.text, "outside", new_frame(at), [""]
        for found in [*CONTROL.finditer(text, at), None]:
            start, end = found.span() if found else (len(text), len(text))
            spelled = found[0] if found else ""
            word = "close" if not found else "escape" if found[1] else found[2]
            if found and state == "literal":  # 3.5
                if found[2] != "endliteral":
                    continue
                start, word = start + len(found[1]), found[2]
            before, at = text[at:start], end
            if state == "outside":
                if before.strip(" \t\r\n") or word not in ("start", "close"):  # 1.1
                    self.error(start - len(before.lstrip(" \t\r\n")), "text outside frames")
                if word == "start":
                    state, frame, parts = "head", new_frame(start), [""]
            elif state == "head":
                parts[-1] += before + (spelled if word == "escape" else "")  # 3.4
                if sum(map(len, parts[::2])) > 4096:  # 5.1
                    self.error(frame.at, "a head without end")
                    state = "outside"
                elif word == "message":
                    state, frame.body_at = "body", end
                    self.read_head(frame, parts)
                elif word in ("channel", "constrain"):
                    parts += [word, ""]
                elif word != "escape":
                    self.error(start, "a head without a body", TRUNCATED if word == "close" else HEADER)
                    state = "outside"
            else:
                if state == "body" and (bad := re.search("[\ud800-\udfff]", before)):  # 3.5
                    self.error(start - len(before) + bad.start(), "no UTF-8")
                stray = word in STRAY or (state, word) == ("body", "endliteral")
                state = "literal" if word == "literal" else "body"
                frame.body += before + (spelled if stray else spelled[1:] if word == "escape" else "")  # 3.3
                frame.used.add(word)
                if stray:  # 4.2
                    self.error(start, f"{spelled} in a body")
                elif word == "close":  # 4.4
                    self.error(start, "a frame without end", TRUNCATED)
                if word in ("end", "call", "return", "close"):
                    state, frame.end = "outside", None if word == "close" else word
                    self.settle(frame, start)
        last = self.frames[-1] if self.frames else None
        if self.asked and last and (last.role, last.end, is_call(last)) == ("assistant", "end", False):  # 11.4
            self.error(len(text), "the turn does not end", TRUNCATED)

    def knows(self, tool: str) -> bool:
        namespace, dot, name = tool.partition(".")
        return namespace in self.namespaces and bool(name if dot else namespace != "functions")

    def qualified(self, name: str) -> str:
        return name if "." in name or self.knows(name) else f"functions.{name}"  # 5.7

    def value(self, frame: Frame, raw: str) -> str:
        if not re.fullmatch("[!-~]+", raw) or CONTROL.search(raw):  # 5.5
            self.error(frame.at, f"{raw} is no value")
        try:
            return unquote_to_bytes(raw).decode()
        except UnicodeError:
            return raw

    def read_head(self, frame: Frame, parts: list[str]) -> None:
        given: dict[str, str] = {}
        sections = parts[1::2]
        author, *attributes = re.findall(r"[^ \t]+", parts[0]) or [""]
        if not parts[0].startswith(author or " "):  # 5.1
            self.error(frame.at, "no role")
        if sections not in ([], ["channel"], ["constrain"], ["channel", "constrain"]):
            self.error(frame.at, "a channel and a type, once each and in this order")
        self.attributes(frame, attributes, given, "to call_id name intent content_type")
        frame.author = frame.role = author
        frame.known = author in ROLES or (bool(AUTHOR.fullmatch(author)) and (self.knows(author) or "to" in given))
        if not frame.known:  # 5.2
            self.error(frame.at, f"no role {author}")
        frame.written = frame.constrain = None
        rest = iter(parts[1:])
        for section in rest:
            text = next(rest)
            first, *attributes = re.findall(r"[^ \t]+", text) or [""]
            value = self.value(frame, first)
            frame.used.add(section)
            if section == "constrain":
                frame.constrain = value
            else:
                frame.written = value
                if value not in ("analysis", "commentary", "final") or not text.startswith(first):  # 5.9
                    self.error(frame.at, f"no channel {value}")
            self.attributes(frame, attributes, given, "to intent content_type" if section == "channel" else "")  # 5.4
        frame.channel = frame.written or "final"
        frame.to, frame.call_id, frame.intent = given.get("to"), given.get("call_id"), given.get("intent")
        frame.content_type = frame.constrain or given.get("content_type")
        if given.get("content_type", frame.content_type) != frame.content_type:  # 5.10
            self.error(frame.at, "two types")
        if frame.to not in (None, "assistant") and not self.knows(frame.to):  # 5.6
            self.error(frame.at, f"no recipient {frame.to}")
        if frame.intent not in (None, "preamble", "status", "debug"):  # 5.8
            self.error(frame.at, f"no intent {frame.intent}")
        frame.name = given.get("name")
        if author not in ROLES or author == "tool":  # 5.7
            frame.role, named = "tool", frame.name
            frame.name = self.qualified(named or "") if author == "tool" else author
            if not named if author == "tool" else named and self.qualified(named) != author:
                self.error(frame.at, "no name, or another")

    def attributes(self, frame: Frame, attributes: list[str], given: dict[str, str], allowed: str) -> None:
        seen: set[str] = set()
        for attribute in attributes:
            key, _, raw = attribute.partition("=")
            value = self.value(frame, raw)
            if key not in allowed.split() or key in seen or given.setdefault(key, value) != value:  # 5.3
                self.error(frame.at, f"{attribute} has no place here")
            seen.add(key)

    def settle(self, frame: Frame, footer_at: int) -> None:
        self.frames.append(frame)
        used = frame.used - {"escape", "close"}
        if self.header.get("version", "2")[0] == "1":  # 12.1
            newer = used - {"start", "message", "end"} or frame.role in ("developer", "tool")
            if newer or frame.to or frame.call_id or frame.intent:
                self.error(frame.at, "version 2 in version 1")
        allowed = inside(self.header, "capabilities")  # 2.5
        roles, channels, tokens = (words(allowed.get(key)) for key in ("roles", "channels", "tokens"))
        globs = tuple(role[:-1] for role in roles or () if role.endswith(".*"))
        if roles is not None and frame.author not in roles and not frame.author.startswith(globs):
            self.error(frame.at, f"{frame.author} is not listed")
        if channels is not None and frame.written not in (None, *channels):
            self.error(frame.at, f"{frame.channel} is not listed")
        if tokens is not None and not {f"<|{word}|>" for word in used} <= set(tokens):
            self.error(frame.at, "a control that is not listed")
        if self.whole and frame.role in ("assistant", "tool") and not frame.written:  # 11.1
            self.error(frame.at, "no channel", "E-PARSE-CHANNEL-MISSING")
        if is_call(frame):
            self.call(frame)
        elif frame.role == "tool" and frame.known:
            self.reply(frame)
        elif self.whole and (frame.role, frame.written, frame.to, frame.intent) == PLAN:  # 11.3
            self.error(frame.at, "commentary without an intent")
        if frame.constrain and not is_of_type(frame.body, frame.constrain):  # 6.1
            self.error(frame.body_at, "another type", "E-BODY-CONSTRAINT-VIOLATION")
        elif (frame.constrain or not self.harmony) and takes_json(frame) and arguments_of(frame.body) is None:  # 7.4
            self.error(frame.body_at, "arguments are an object", "E-CALL-SCHEMA")
        if frame.end and (frame.end == "call") != is_call(frame):  # 4.3
            self.error(footer_at, f"{frame.end} has no place here")

    def call(self, frame: Frame) -> None:
        key, usual = ("tool_calls_in", []) if frame.to.startswith("functions.") else ("builtins_in", ["analysis"])
        if frame.channel not in (words(self.profile.get(key)) or [*usual, "commentary"]):  # 7.1
            self.error(frame.at, f"called on {frame.channel}")
        unmarked = frame.content_type in (None, "json") and not frame.constrain
        if self.whole and unmarked and arguments_of(frame.body) is not None:  # 11.2
            self.error(frame.at, "JSON that is not marked")
        if frame.call_id in self.ids or not (frame.call_id or self.harmony):  # 7.2
            self.error(frame.at, "no call_id, or one that is used")
        if frame.call_id is None:
            frame.call_id = next(name for n in range(len(self.frames)) if (name := f"call_{n}") not in self.ids)
        self.ids.append(frame.call_id)
        self.open[frame.call_id] = frame.to

    def reply(self, frame: Frame) -> None:  # 7.5
        if frame.call_id is None:
            if frame.author == "tool" and not self.harmony:
                self.error(frame.at, "no call_id")
            frame.call_id = next((id for id, tool in self.open.items() if tool == frame.name), None)
        if frame.call_id not in self.ids:
            self.error(frame.at, "a reply to nothing", "E-CALL-SCHEMA")
        self.open.pop(frame.call_id, None)


def new_frame(at: int) -> Frame:
    return Frame(at=at, body="", used={"start", "message"})


def value_of(node: yaml.Node | None, depth: int = 1) -> Any:
    """A node of YAML 1.2's core schema as plain data (2.2)."""
    if isinstance(node, yaml.CollectionNode) and depth > 16:
        raise yaml.MarkedYAMLError("nested too deeply", None, None, node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        return [value_of(item, depth + 1) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in found:
                raise yaml.MarkedYAMLError("no word, or a key twice", None, None, key.start_mark)
            found[key.value] = value_of(value, depth + 1)
        return found
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return node and node.value
    return next((make(node.value) for form, make in CORE_SCHEMA if re.fullmatch(form, node.value)), node.value)


def inside(value: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def words(value: Any) -> list[str] | None:
    return [value] if isinstance(value, str) else value if isinstance(value, list) else None


def json_of(text: str) -> Any:
    return json.loads(text, parse_constant=int)  # which refuses NaN and Infinity


def arguments_of(text: str) -> dict[str, Any] | None:
    try:
        value = json_of(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def is_of_type(text: str, name: str) -> bool:
    read = {
        "json": json_of,
        "yaml": lambda text: list(yaml.parse(text, yaml.CSafeLoader)),
        "toml": tomllib.loads,
        "xml": ElementTree.XML,
    }
    try:
        read.get(name, str)(text)
    except (ValueError, RecursionError, yaml.YAMLError, SyntaxError):
        return False
    return True


def is_call(frame: Frame) -> bool:
    return frame.role == "assistant" and frame.to not in (None, "assistant")


def takes_json(frame: Frame) -> bool:
    function = is_call(frame) and frame.to.startswith("functions.")
    return function and frame.end is not None and frame.content_type in (None, "json")
