"""``antiphon grammar``: the grammar that constrains a reply, as the engine gets it; and where a text leaves it."""

from __future__ import annotations

from dataclasses import replace
from os.path import isfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from antiphon.api.chat.schema import FunctionDefinition
from antiphon.conversation import TRAINED, ResponseFormat, ToolChoice, ToolNamespace, ToolSpec
from antiphon.errors import RequestError
from antiphon.errors.extras import extra
from antiphon.grammar import ReplyShape
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, Tokenizer, decode, encode_pieces
from antiphon.wire.definitions import read_function

from .options import ConfigOption, FormatOption, JsonOption, ModelOption, TemplateOption, configure, print_json
from .select_format import read_input, select_format
from .terminal import say, tell

END = Control("<|im_end|>")
"""Ends a turn where no model's vocabulary is used."""


def command(
    tools: Annotated[Path | None, typer.Option(help="Tools as JSON: a list, as in a chat request.")] = None,
    builtin: Annotated[list[str] | None, typer.Option(help="browser or python, which the reply may call too.")] = None,
    schema: Annotated[Path | None, typer.Option(help="The JSON Schema of the answer.")] = None,
    required: Annotated[bool, typer.Option("--required", help="The reply must call a tool.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse keywords that cannot be enforced.")] = False,
    check: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A reply; prints where it leaves the grammar.")
    ] = None,
    format: FormatOption = None,
    model: ModelOption = None,
    chat_template: TemplateOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Print the grammar of a reply, or check a text against it (exit code 1: the text leaves it)."""
    with extra("local", "antiphon grammar"):  # after --help, which needs no extra
        from antiphon.grammar.compiler import Vocabulary, compile_grammar
    loaded = configure(config, model=model, format=format, chat_template=chat_template)
    selected = select_format(loaded.config, named=format)
    tokenizer: Tokenizer = selected.tokenizer or ByteTokenizer(dict.fromkeys([*selected.format.controls, END]))
    shape = ReplyShape(
        tools=tuple(
            _tool(entry, f"tools[{i}]", strict)
            for i, entry in enumerate(_read(tools, list[dict[str, Any]]) if tools else ())
        ),
        builtins=tuple(map(_builtin, builtin or ())),
        tool_choice=ToolChoice("required" if required else "auto"),
        response_format=ResponseFormat("json_schema", schema=_read(schema, dict[str, Any]), strict=strict)
        if schema
        else ResponseFormat(),
    )
    ends = [id for stop in (*selected.format.stops, END) if isinstance(stop, Control)
            if (id := tokenizer.control_id(stop)) is not None]  # fmt: skip
    compiled = compile_grammar(selected.format.grammar(shape), Vocabulary(tokenizer, ends))
    if check is None:
        print_json({"grammar": compiled.lark}) if json else tell(compiled.lark, end="")
        return
    scanner = ControlScanner(tokenizer.controls)
    ids = encode_pieces([*scanner.feed(check), *scanner.close()], tokenizer)
    matcher = compiled.matcher()
    violation = matcher.consume(ids)
    follows = decode(tokenizer, ids[: matcher.position])
    if json:
        print_json({"accepted": matcher.accepting, "follows": follows, "whole": violation is None})
    elif violation is not None:
        tell(f"leaves the grammar after {follows!r}")
        if isfile(check):
            say(f'{check} is a file; --check takes the text itself: --check "$(cat {check})"')
    else:
        tell("accepted" if matcher.accepting else "may go on, and must")
    if not matcher.accepting:
        raise typer.Exit(1)


def _read(file: Path, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(read_input(file), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"{file}: {error}") from None


def _builtin(name: str) -> ToolNamespace:
    if name not in TRAINED:
        raise RequestError(f"there is no built-in tool {name!r}", hint=f"Known: {', '.join(TRAINED)}.")
    return TRAINED[name]


def _tool(entry: dict[str, Any], path: str, strict: bool) -> ToolSpec:
    """A tool of a chat request, or the function alone, of any name."""
    try:
        function = msgspec.convert(entry.get("function", entry), FunctionDefinition)
    except msgspec.ValidationError as error:
        raise RequestError(f"{path}: {error}", hint='As in {"name": "f", "parameters": {…}}.') from None
    tool = read_function(function, path, any_name=True)
    return replace(tool, strict=strict or tool.strict)
