"""Calls as models write them beside the form that they were trained on, and texts that look like them and are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product

from antiphon.conversation import ToolSpec

WEATHER = ToolSpec(
    "get_weather",
    "Current weather of a city",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer"},
        },
        "required": ["city"],
    },
)
WRITE = ToolSpec(
    "write_file",
    "Writes text to a file",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "lines": {"type": "array"}},
        "required": ["path", "content"],
    },
)
TIME = ToolSpec("get_time", "The time", {"type": "object", "properties": {}})
TOOLS = (WEATHER, WRITE, TIME)

Call = tuple[ToolSpec, dict[str, object]]
CALLS: tuple[tuple[Call, ...], ...] = (
    ((WEATHER, {"city": "Paris"}),),
    ((WEATHER, {"city": 'São "P"', "unit": "celsius", "days": 3}),),
    ((WRITE, {"path": "a.py", "content": "if x:\n    print({'a': [1]})\n```\n"}),),
    ((TIME, {}),),
    ((WEATHER, {"city": "Paris"}), (WEATHER, {"city": "Rome"})),
)
LEADS = ("", "I will look that up.\n\n", "Sure! Here is the call:\n")


def _object(name: str, arguments: str) -> Callable[[Call], str]:
    return lambda call: json.dumps({name: call[0].name, arguments: call[1]})


def _indented(call: Call) -> str:
    return json.dumps({"name": call[0].name, "arguments": call[1]}, indent=2, ensure_ascii=False)


def _python(call: Call) -> str:
    return f"{call[0].name}({', '.join(f'{key}={value!r}' for key, value in call[1].items())})"


OBJECTS: dict[str, Callable[[Call], str]] = {
    **{
        f"{name} {arguments}": _object(name, arguments)
        for name, arguments in (
            ("name", "arguments"),
            ("name", "parameters"),
            ("function", "arguments"),
            ("tool", "args"),
            ("tool_name", "input"),
            ("action", "action_input"),
        )
    },
    "indented": _indented,
    "arguments first": lambda call: json.dumps({"arguments": call[1], "name": call[0].name}),
    "arguments as text": lambda call: json.dumps({"name": call[0].name, "arguments": json.dumps(call[1])}),
    "openai": lambda call: json.dumps(
        {"id": "call_1", "type": "function", "function": {"name": call[0].name, "arguments": json.dumps(call[1])}}
    ),
    "qualified": lambda call: json.dumps({"name": f"functions.{call[0].name}", "arguments": call[1]}),
    "python literal": lambda call: repr({"name": call[0].name, "arguments": call[1]}),
    "function of an object": lambda call: json.dumps({"function": {"name": call[0].name, "arguments": call[1]}}),
    "typed": lambda call: json.dumps({"type": "function", "name": call[0].name, "parameters": call[1]}),
    "api": lambda call: json.dumps({"name": f"default_api.{call[0].name}", "args": call[1]}),
    "recipient": lambda call: json.dumps({"recipient_name": f"functions.{call[0].name}", "parameters": call[1]}),
    "with a thought": lambda call: json.dumps(
        {"thought": "I need it.", "action": call[0].name, "action_input": call[1]}
    ),
    "comma at the end": lambda call: _indented(call)[:-2] + ",\n}",
    "bracket left out": lambda call: json.dumps({"name": call[0].name, "arguments": call[1]})[:-1],
}
ALONE = ("bracket left out",)
"""Of which only one is a reply."""
MARKED: dict[str, Callable[[Call], str]] = {
    "python call": _python,
    "call of an object": lambda call: f"{call[0].name}({json.dumps(call[1])})",
    "name and object": lambda call: f"{call[0].name}\n{json.dumps(call[1])}",
    "printed": lambda call: f"print({_python(call)})",
    "parameters as tags": lambda call: "<function={}>\n{}</function>".format(
        call[0].name,
        "".join(f"<parameter={key}>\n{_bare(value)}\n</parameter>\n" for key, value in call[1].items()),
    ),
}
MARKS = (
    ("<tool_call>", "</tool_call>"),
    ("<tool_call>\n", "\n</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("<tools>", "</tools>"),
    ("[TOOL_CALL]", "[/TOOL_CALL]"),
    ("```tool_call\n", "\n```"),
    ("```tool_code\n", "\n```"),
)


def spellings() -> Iterator[tuple[str, tuple[Call, ...]]]:
    """A reply, and the calls that it makes."""
    for calls, lead in product(CALLS, LEADS):
        for name, write in OBJECTS.items():
            if name in ALONE and len(calls) > 1:
                continue
            one = "\n".join(map(write, calls))
            yield lead + f"```json\n{one}\n```", calls
            yield lead + one, calls
        for write in (OBJECTS["name arguments"], OBJECTS["openai"]):
            listed = "[" + ", ".join(map(write, calls)) + "]"
            yield lead + listed, calls
            yield lead + f"```\n{listed}\n```", calls
            yield lead + f'{{"tool_calls": {listed}}}', calls
            yield lead + f'{{"role": "assistant", "content": null, "tool_calls": {listed}}}', calls
            yield lead + f'{{"tool_uses": {listed}}}', calls
            yield lead + listed[:-1], calls
        yield lead + "[" + ", ".join(map(_python, calls)) + "]", calls
    for calls, (open, close) in product(CALLS, MARKS):
        fence = open.startswith("```")
        for write in (OBJECTS["name arguments"], OBJECTS["python literal"], *MARKED.values()):
            written = [f"{open}{write(call)}{close}" for call in calls]
            if not (fence and "```" in written[0][3:-4]):
                yield "\n".join(written), calls
    yield from single()


def single() -> Iterator[tuple[str, tuple[Call, ...]]]:
    """Spellings of one call that are replies of their own."""
    for (call,), lead in product((calls for calls in CALLS if len(calls) == 1), LEADS):
        tool, arguments = call
        written = json.dumps(arguments)
        tags = "".join(f'<parameter name="{key}">{_bare(value)}</parameter>\n' for key, value in arguments.items())
        pairs = "".join(
            f"<arg_key>{key}</arg_key>\n<arg_value>{_bare(value)}</arg_value>\n" for key, value in arguments.items()
        )
        for text in (
            f'<invoke name="{tool.name}">\n{tags}</invoke>',
            f'<function_calls>\n<invoke name="{tool.name}">\n{tags}</invoke>\n</function_calls>',
            f'<function name="{tool.name}">{tags}</function>',
            f"<function={tool.name}>{written}</function>",
            f"<function={tool.name}>{written}",
            f'<tool_call name="{tool.name}">{written}</tool_call>',
            f"<tool_call>{tool.name}\n{pairs}</tool_call>",
            f'<tool_call>\n{{"name": "{tool.name}", "arguments": {written}}}',
            f'{{{{"name": "{tool.name}", "arguments": {written}}}}}',
            f'{{{{"name": "{tool.name}", "arguments": {written}}}}}}}',
            f'```json\n{{{{"name": "{tool.name}", "arguments": {written}}}}}\n```',
            f'<tool_call>\n{{{{"name": "{tool.name}", "arguments": {{{written}}}}}}}}}\n</tool_call>',
            f"[TOOL_CALLS]{tool.name}[ARGS]{written}",
            f"Action: {tool.name}\nAction Input: {written}",
            f"```tool_code\nprint(default_api.{_python(call)})\n```" if "```" not in written else "",
            f'```xml\n<tool_call>{{"name": "{tool.name}", "arguments": {written}}}</tool_call>\n```',
        ):
            if text:
                yield lead + text, (call,)


def _bare(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def look_alikes() -> Iterator[str]:
    """Texts that are no call: what follows, names, arguments, keys or the place say so."""
    call = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    fenced = f"```json\n{call}\n```"
    for behind in ("\nThis asks for the weather.", " is what such a call looks like.", "\n\n# and so on", "\n1. First"):
        for text in (call, fenced, f"[{call}]", f"Like this:\n{fenced}", f"<tool_call>{call}</tool_call>"):
            yield text + behind
    names = ("Ada", "weather", "get_weathers", "Get_Weather", "get weather", "getWeather", "GET_WEATHER", "", "tool")
    for name, write in product(names, (_object("name", "arguments"), _object("tool", "args"), _indented)):
        other = write((ToolSpec(name), {"city": "Paris"}))
        yield other
        yield f"```json\n{other}\n```"
        yield f"Here you are:\n{other}"
    arguments = (
        '{"town": "Paris"}', '{"city": 7}', "{}", "[]", '"Paris"', "7", '{"city": "a", "unit": "kelvin"}',
        '{"city": {"name": "Paris"}}', '{"city": "Paris", "extra": 1}', '{"city": null}',
        '{"city": "Paris", "days": "x"}',
    )  # fmt: skip
    for each in arguments:
        for text in (f'{{"name": "get_weather", "arguments": {each}}}', f'{{"tool": "get_weather", "args": {each}}}'):
            yield text
            yield f"```json\n{text}\n```"
            yield f"<tool_call>{text}</tool_call>"
    objects = (
        '{"name": "get_weather"}', '{"name": "Ada", "age": 36}', '{"city": "Paris"}', "{}", "[]", "[1, 2]",
        '{"arguments": {"city": "Paris"}}',
        '{"name": "get_weather", "description": "Weather", "parameters": {"city": "Paris"}}',
        '{"name": "get_weather", "arguments": {"city": "Paris"}, "result": "sunny"}', '{"id": 3, "type": "point"}',
        '{"get_weather": {"city": "Paris"}}', '{"tools": [{"name": "get_weather", "arguments": {"city": "Paris"}}]}',
    )  # fmt: skip
    for each in objects:
        yield each
        yield f"```json\n{each}\n```"
        yield f"The object:\n\n{each}\n"
    code = (
        'get_weather(city="Paris")', 'result = get_weather(city="Paris")', 'print(get_weather("Paris"))',
        f"call = {call}", f"calls = [{call}]", f"send({call});", f"const call = {call};\nrun(call);",
        'def get_weather(city):\n    return {"name": city}', 'import json\nget_weather(city="Paris")',
    )  # fmt: skip
    for each, language in product(code, ("python", "js", "py", "bash", "yaml")):
        yield f"```{language}\n{each}\n```"
    for each in code:
        yield each
        yield f"Use it so: `{each}`"
    for lead in ("For example:\n", "Here is an example of such a call:\n", "It would look like this:\n", "E.g.\n"):
        yield lead + call
        yield lead + fenced
        yield f"{lead}<tool_call>{call}</tool_call>"
    yield from (
        "Action: get_weather", "Action: none\nAction Input: {}", "Actions are taken. A call is none.", "A",
        'Action: get_weather\nAction Input: {"town": "Paris"}', "Action: get_weather and more\nAction Input: {}",
        '<invoke name="ls"><parameter name="city">Paris</parameter></invoke>', "<function=ls>{}</function>",
        "<tool name>", "<function f() {}", '{"name": "get_weather", "arguments": {"city": NaN}}',
        '{"recipient_name": "a.get_weather", "parameters": {}}',
    )  # fmt: skip
    for open, _ in MARKS[:5]:
        yield f"The tag {open.strip()} opens a call."
        yield f"{open}rm -rf /</x>"
        yield f"{open}python3 a.py"
    yield from (
        "`get_weather` takes a city.", "a < b and b > c", "[1] see below", "{x | x > 0}", "C: `{`", "```\n{\n```", "``",
        "```json", '{"name"', '{"name": "get_weather", "arguments": {"city": "Par', "<tool_call>", "<", "[", "{", "`",
    )  # fmt: skip
