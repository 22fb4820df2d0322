"""Chat templates with markers that no model has: how each writes its replies can only be derived."""

from __future__ import annotations

_SYSTEM = "{%- if tools %}{{ '<|s|>' + (tools | tojson) + '<|e|>\n' }}{% endif %}"
_OTHERS = """{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|u|>' + m.content + '<|e|>\n' }}
{%- elif m.role == 'tool' %}{{ '<|r|>' + m.content + '<|e|>\n' }}
{%- else %}"""
_CLOSE = "{%- endif %}{%- endfor %}"


def template(
    *,
    reply: str,
    header: str = "<|a|>\n",
    end: str = "<|e|>",
    thought: str = "",
    text: str = "{{ m.content }}",
    prompt: str = "",
) -> str:
    """A template that writes a reply as a header, ``thought``, ``text``, the calls by ``reply``, and an end."""
    calls = f"{{%- if m.tool_calls %}}{reply}{{%- endif %}}"
    thinking = f"{{%- if m.reasoning_content %}}{thought}{{%- endif %}}" if thought else ""
    said = f"{{%- if m.content %}}{text}{{%- endif %}}"
    head, tail = _says(header), _says(end + "\n")
    opened = f"{{%- if add_generation_prompt %}}{_says(header)}{prompt}{{%- endif %}}"
    return _SYSTEM + _OTHERS + head + thinking + said + calls + tail + _CLOSE + opened


def _says(text: str) -> str:
    return "{{ " + repr(text) + " }}"


def each(body: str, separator: str = "") -> str:
    """The body for each call ``f`` with its ``c.id``."""
    between = f"{{%- if not loop.last %}}{_says(separator)}{{%- endif %}}" if separator else ""
    return "{%- for c in m.tool_calls %}{%- set f = c.function %}" + body + between + "{%- endfor %}"


ARGUMENTS = "{{ f.arguments | tojson }}"


def pairs(body: str, separator: str = "") -> str:
    """The body for each argument ``k`` with its value ``v``."""
    between = f"{{%- if not loop.last %}}{_says(separator)}{{%- endif %}}" if separator else ""
    return "{%- for k, v in f.arguments.items() %}" + body + between + "{%- endfor %}"


VALUE = "{{ v if v is string else v | tojson }}"

TEMPLATES: dict[str, str] = {
    "objects with names of their own": template(
        thought="{{ '<muse>' + m.reasoning_content + '</muse>\n' }}",
        reply=each('{{ \'<job>\' }}{"fn": {{ f.name | tojson }}, "with": ' + ARGUMENTS + "}{{ '</job>' }}", "\n"),
    ),
    "a list with the id first": template(
        thought="{{ '{{think ' + m.reasoning_content + ' think}}' }}".replace("{{think", "<|think>").replace(
            "think}}", "<think|>"
        ),
        reply="{{ '<|jobs|>[' }}"
        + each('{"ref": {{ c.id | tojson }}, "tool": {{ f.name | tojson }}, "input": ' + ARGUMENTS + "}", ", ")
        + "{{ ']<|done|>' }}",
    ),
    "an object within an object, its arguments as text": template(
        reply=each(
            '{{ \'[JOB]\' }}{"type": "function", "function": {"name": {{ f.name | tojson }}, '
            '"arguments": {{ f.arguments | tojson | tojson }}},'
            " \"id\": {{ c.id | tojson }}}{{ '[/JOB]' }}",
            "\n",
        ),
    ),
    "the name as a key": template(
        reply="{{ '<ask>\n' }}" + each("{ {{- f.name | tojson }}: " + ARGUMENTS + "}", "\n") + "{{ '\n</ask>' }}",
    ),
    "an id before the name": template(
        thought="{{ '<|inner|>' + m.reasoning_content + '<|/inner|>' }}",
        text="{{ '<|outer|>' + m.content + '<|/outer|>' }}",
        reply="{{ '<|jobs|>' }}"
        + each("{{ '<|job|>' + c.id + '<|does|>' + f.name + '<|using|>' }}" + ARGUMENTS + "{{ '<|/job|>' }}")
        + "{{ '<|/jobs|>' }}",
    ),
    "an id behind the name, a close of several tags": template(
        reply=each(
            "{{ '<|do|>' + f.name + '<|as|>' + c.id + '<|of|>\n' }}" + ARGUMENTS + "{{ '\n<|fin|><|od|>' }}", "\n"
        ),
    ),
    "a place in the name": template(
        reply="{{ '<|t|>' }}"
        + each(
            "{{ '<|one|>tools/' + f.name + '#' + loop.index0 | string + '<|in|>' }}" + ARGUMENTS + "{{ '<|/one|>' }}"
        )
        + "{{ '<|/t|>' }}",
    ),
    "arguments in tags with a line break between them": template(
        reply=each(
            "{{ '<act of=\"' + f.name + '\">\n' }}"
            + pairs("{{ '<with k=\"' + k + '\">' }}" + VALUE + "{{ '</with>' }}", "\n")
            + "{{ '\n</act>' }}",
            "\n",
        ),
    ),
    "arguments in tags": template(
        header="<bot>\n",
        end="</bot>",
        prompt="{{ '<muse>\n' }}",
        thought="{{ '<muse>\n' + m.reasoning_content + '\n</muse>\n\n' }}",
        reply="{{ '<acts>\n' }}"
        + each(
            "{{ '<act of=\"' + f.name + '\">\n' }}"
            + pairs("{{ '<with k=\"' + k + '\">' }}" + VALUE + "{{ '</with>\n' }}")
            + "{{ '</act>' }}",
            "\n",
        )
        + "{{ '\n</acts>' }}",
    ),
    "arguments in tags that say the kind": template(
        reply=each(
            "{{ '<|act|>' + f.name + '<|in|>' }}"
            + pairs(
                "{%- if v is string %}{{ '<v k=\"' + k + '\" is=\"text\">' + v }}{%- else %}"
                "{{ '<v k=\"' + k + '\" is=\"json\">' + (v | tojson) }}{%- endif %}{{ '</v>' }}"
            )
            + "{{ '<|/act|>' }}"
        ),
    ),
    "arguments on lines": template(
        thought="{{ '<|why|>' + m.reasoning_content + '<|/why|>' }}",
        reply=each(
            "{{ '<run>' + f.name + '\n' }}"
            + pairs("{{ '<key>' + k + '</key>\n<is>\n' }}" + VALUE + "{{ '\n</is>\n' }}")
            + "{{ '</run>' }}",
            "\n",
        ),
    ),
    "strings between quotes of the template's": template(
        reply=each(
            "{{ '<|go|>' + f.name + '{' }}"
            + pairs(
                "{{ k + ':' }}{%- if v is string %}{{ '<|q|>' + v + '<|q|>' }}{%- else %}{{ v | tojson }}{%- endif %}",
                ",",
            )
            + "{{ '}<|og|>' }}"
        ),
    ),
    "regions that are messages": template(
        header="<|m|>bot",
        end="<|x|>",
        thought="{{ '<|ponder|>' + m.reasoning_content + '<|x|><|m|>bot' }}",
        text="{{ '<|say|>' + m.content }}",
        reply="{{ '<|ask|>' }}" + each("{{ '<|one|>' + f.name + '<|with|>' }}" + ARGUMENTS + "{{ '<|/one|>' }}"),
    ),
    "words as marks": template(
        header="\n### Bot\n",
        end="<|e|>",
        thought="{{ 'Let me see: ' + m.reasoning_content + '\n### So\n' }}",
        reply=each("{{ '\n### Call ' + f.name + ' with ' }}" + ARGUMENTS + "{{ ' ### Done' }}"),
    ),
    "the arguments before the name": template(
        reply=each("{{ '<job>' }}{\"with\": " + ARGUMENTS + ", \"fn\": {{ f.name | tojson }}}{{ '</job>' }}", "\n"),
    ),
    "an id behind the arguments": template(
        reply=each("{{ '<job of=' + f.name + '>' }}" + ARGUMENTS + "{{ '<id>' + c.id + '</id></job>' }}"),
    ),
    "the way Python calls": template(
        thought="{{ '<muse>' + m.reasoning_content + '</muse>' }}",
        reply="{{ '```run\n' }}"
        + each(
            "{{ f.name + '(' }}"
            + pairs("{{ k + '=' }}{%- if v is string %}{{ v | tojson }}{%- else %}{{ v }}{%- endif %}", ", ")
            + "{{ ')' }}",
            "\n",
        )
        + "{{ '\n```' }}",
    ),
    "attributes that count calls": template(
        reply="{{ '<jobs>' }}"
        + each("{{ '<job n=\"' ~ loop.index ~ '\" of=\"' ~ f.name ~ '\">' }}" + ARGUMENTS + "{{ '</job>' }}")
        + "{{ '</jobs>' }}",
    ),
    "one object round all calls": template(
        reply="{{ '<|ask|>{\"calls\": [' }}"
        + each('{"name": {{ f.name | tojson }}, "arguments": ' + ARGUMENTS + "}", ", ")
        + "{{ ']}<|/ask|>' }}",
    ),
    "a name that is said twice": template(
        reply=each("{{ '<|to|>' + f.name + '<|it|><do what=\"' + f.name + '\">' }}" + ARGUMENTS + "{{ '</do>' }}"),
    ),
}

REFUSED: dict[str, str] = {
    "arguments that are counted and not named": template(
        reply=each(
            "{{ '<job>' + f.name + '<args>' }}" + pairs("{{ '<' ~ loop.index ~ '>' ~ k ~ '|' ~ v }}") + "{{ '</job>' }}"
        ),
    ),
}
"""Templates whose calls cannot be described."""
