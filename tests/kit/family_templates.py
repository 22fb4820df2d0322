"""Templates of our own that write calls as the families of models do."""

from __future__ import annotations

from kit.reply_templates import ARGUMENTS, VALUE, each, pairs, template

_THINK = "{{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}"
_TAGGED = "{{ '<function=' + f.name + '>\n' }}"
_DSML_VALUE = (
    '{%- if v is string %}{{ \'" string="true">\' + v }}'
    '{%- else %}{{ \'" string="false">\' + (v | tojson) }}{%- endif %}'
)
_CDATA = "{%- if '<' in v or '&' in v or '\n' in v %}{{ '<![CDATA[' + v + ']]>' }}{%- else %}{{ v }}{%- endif %}"
_NESTED = """{%- macro nested(v) %}
{%- if v is mapping %}
{%- for k, i in v.items() %}{{ '](!<' + k + '>' }}{{- nested(i) }}{{ '](!</' + k + '>' }}{%- endfor %}
{%- elif v is string %}{{ v }}
{%- elif v is iterable %}{%- for i in v %}{{ '](!<item>' }}{{- nested(i) }}{{ '](!</item>' }}{%- endfor %}
{%- else %}{{ v | tojson }}{%- endif %}{%- endmacro %}"""
_GEMMA = """{%- macro gemma(v) %}
{%- if v is string %}{{ '<|"|>' + v + '<|"|>' }}
{%- elif v is mapping %}{{ '{' }}
{%- for k, i in v | dictsort %}
{{- k + ':' }}{{- gemma(i) }}{%- if not loop.last %}{{ ',' }}{% endif %}{%- endfor %}{{ '}' }}
{%- elif v is iterable %}{{ '[' }}
{%- for i in v %}{{- gemma(i) }}{%- if not loop.last %}{{ ',' }}{% endif %}{%- endfor %}{{ ']' }}
{%- else %}{{ v | tojson }}{%- endif %}{%- endmacro %}"""
_KIND = (
    "{{ 'string' if v is string else 'null' if v is none else 'boolean' if v is boolean else 'number' if v is number"
    " else 'object' if v is mapping else 'array' }}"
)

FAMILIES: dict[str, str] = {
    "hermes": template(
        thought=_THINK,
        reply=each(
            '{{ \'<tool_call>\n{"name": "\' + f.name + \'", "arguments": \' }}' + ARGUMENTS + "{{ '}\n</tool_call>' }}",
            "\n",
        ),
    ),
    "xml parameter": template(
        thought=_THINK,
        text="{{ m.content + ('\n\n' if m.tool_calls else '') }}",
        reply=each(
            "{{ '<tool_call>\n' }}"
            + _TAGGED
            + pairs(
                "{{ '<parameter=' + k + '>\n' }}{{ v if v is string else v | tojson if v is iterable else v | string }}"
                "{{ '\n</parameter>\n' }}"
            )
            + "{{ '</function>\n</tool_call>' }}",
            "\n",
        ),
    ),
    "arg key": template(
        thought="{{ '<think>' + m.reasoning_content + '</think>\n' }}",
        reply=each(
            "{{ '<tool_call>' + f.name + '\n' }}"
            + pairs("{{ '<arg_key>' + k + '</arg_key>\n<arg_value>' }}" + VALUE + "{{ '</arg_value>\n' }}")
            + "{{ '</tool_call>' }}",
            "\n",
        ),
    ),
    "dsml": template(
        thought="{{ '<think>' + m.reasoning_content + '</think>' }}",
        reply="{{ '\n\n<｜DSML｜function_calls>\n' }}"
        + each(
            "{{ '<｜DSML｜invoke name=\"' + f.name + '\">\n' }}"
            + pairs("{{ '<｜DSML｜parameter name=\"' + k }}" + _DSML_VALUE + "{{ '</｜DSML｜parameter>\n' }}")
            + "{{ '</｜DSML｜invoke>\n' }}"
        )
        + "{{ '</｜DSML｜function_calls>' }}",
    ),
    "kimi k2": template(
        reply="{{ '<|tool_calls_section_begin|>' }}"
        + each(
            "{{ '<|tool_call_begin|>' + c.id + '<|tool_call_argument_begin|>' }}"
            + ARGUMENTS
            + "{{ '<|tool_call_end|>' }}"
        )
        + "{{ '<|tool_calls_section_end|>' }}",
    ),
    "kimi k3": template(
        header='<|open|>message role="assistant"<|sep|>',
        end="<|close|>message<|sep|><|end_of_msg|>",
        thought="{{ '<|open|>think<|sep|>' + m.reasoning_content + '<|close|>think<|sep|>' }}",
        text="{{ '<|open|>response<|sep|>' + m.content + '<|close|>response<|sep|>' }}",
        reply="{{ '<|open|>tools<|sep|>' }}"
        + each(
            "{{ '<|open|>call tool=\"' ~ f.name ~ '\" index=\"' ~ loop.index ~ '\"<|sep|>' }}"
            + pairs(
                "{{ '<|open|>argument key=\"' + k + '\" type=\"' }}"
                + _KIND
                + "{{ '\"<|sep|>' }}"
                + VALUE
                + "{{ '<|close|>argument<|sep|>' }}"
            )
            + "{{ '<|close|>call<|sep|>' }}"
        )
        + "{{ '<|close|>tools<|sep|>' }}",
    ),
    "mistral list": template(
        reply="{{ '[TOOL_CALLS][' }}"
        + each(
            '{{ \'{"name": "\' + f.name + \'", "arguments": \' }}' + ARGUMENTS + "{{ ', \"id\": \"' + c.id + '\"}' }}",
            ", ",
        )
        + "{{ ']' }}",
        end="</s>",
    ),
    "mistral named": template(
        reply=each("{{ '[TOOL_CALLS]' + f.name + '[CALL_ID]' + c.id + '[ARGS]' }}" + ARGUMENTS),
        end="</s>",
    ),
    "deepseek r1": template(
        prompt="{{ '<think>\n' }}",
        thought="{{ '<think>\n' + m.reasoning_content + '\n</think>\n' }}",
        reply="{{ '<｜tool▁calls▁begin｜>' }}"
        + each(
            "{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + f.name + '\n```json\n' }}"
            + ARGUMENTS
            + "{{ '\n```<｜tool▁call▁end｜>' }}",
            "\n",
        )
        + "{{ '<｜tool▁calls▁end｜>' }}",
    ),
    "gemma": _GEMMA
    + template(
        header="<|turn>model\n",
        end="<turn|>",
        thought="{{ '<|channel>thought\n' + m.reasoning_content + '\n<channel|>' }}",
        reply=each("{{ '<|tool_call>call:' + f.name }}{{- gemma(f.arguments) }}{{ '<tool_call|>' }}"),
    ),
    "command": template(
        header="<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        end="<|END_OF_TURN_TOKEN|>",
        thought="{{ '<|START_THINKING|>' + m.reasoning_content + '<|END_THINKING|>' }}",
        text="{{ '<|START_RESPONSE|>' + m.content + '<|END_RESPONSE|>' }}",
        reply="{{ '<|START_ACTION|>[\n    ' }}"
        + each(
            '{{ \'{"tool_call_id": "\' ~ loop.index0 ~ \'", "tool_name": "\' ~ f.name ~ \'", "parameters": \' }}'
            + ARGUMENTS
            + "{{ '}' }}",
            ",\n    ",
        )
        + "{{ '\n]<|END_ACTION|>' }}",
    ),
    "functionary 3.2": template(
        header="<|head|>assistant\n>>>",
        text="{{ 'all\n' + m.content }}{%- if m.tool_calls %}{{ '>>>' }}{%- endif %}",
        reply=each("{{ f.name + '\n' }}" + ARGUMENTS, ">>>"),
    ),
    "function tag": template(
        reply=each("{{ '<function=' + f.name + '>' }}" + ARGUMENTS + "{{ '</function>' }}"),
    ),
    "bare object": template(
        text="{%- if not m.tool_calls %}{{ m.content }}{%- endif %}",
        reply="{%- if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{%- endif %}"
        + each('{{ \'{"name": "\' + f.name + \'", "parameters": \' }}' + ARGUMENTS + "{{ '}' }}"),
    ),
    "name as key": template(
        reply="{{ '<|tools_prefix|>[' }}"
        + each("{{ '{\"' + f.name + '\": ' }}" + ARGUMENTS + "{{ '}' }}", ", ")
        + "{{ ']<|tools_suffix|>' }}",
    ),
    "xml attribute": template(
        thought=_THINK,
        reply=each(
            "{{ '<function name=\"' + f.name + '\">' }}"
            + pairs(
                "{{ '<param name=\"' + k + '\">' }}{%- if v is string %}"
                + _CDATA
                + "{%- else %}{{ v | tojson }}{%- endif %}{{ '</param>' }}"
            )
            + "{{ '</function>' }}",
            "\n",
        ),
    ),
    "nested tags": _NESTED
    + template(
        reply="{{ '](!<tool_call>\n' }}"
        + each(
            "{{ '](!<invoke name=\"' + f.name + '\">' }}"
            + pairs("{{ '](!<' + k + '>' }}{{- nested(v) }}{{ '](!</' + k + '>' }}")
            + "{{ '](!</invoke>\n' }}"
        )
        + "{{ '](!</tool_call>' }}",
    ),
    "solar": template(
        header="<|begin|>assistant",
        end="<|end|>",
        thought="{{ '<|think|>' + m.reasoning_content + '<|end|><|begin|>assistant' }}",
        text="{%- if not m.tool_calls %}{{ '<|content|>' + m.content }}{%- endif %}",
        reply="{{ '<|tool_calls|>' }}"
        + each(
            "{{ '<|tool_call:begin|>' + c.id + '<|tool_call:name|>' + f.name + '<|tool_call:args|>' }}"
            + ARGUMENTS
            + "{{ '<|tool_call:end|>' }}"
        ),
    ),
    "muse": template(
        header="<|start|>assistant",
        end="<|eot|>",
        thought="{{ ' to=self<|message|>' + m.reasoning_content + '<|eom|><|start|>assistant' }}",
        text="{%- if not m.tool_calls %}{{ ' to=user<|message|>' + m.content }}{%- endif %}",
        reply=each(
            "{{ ' to=' + f.name + '<|message|><atem:function_calls>\n<atem:invoke name=\"' + f.name + '\">\n' }}"
            + pairs("{{ '<atem:parameter name=\"' + k + '\">' }}" + VALUE + "{{ '</atem:parameter>\n' }}")
            + "{{ '</atem:invoke>\n</atem:function_calls>' }}",
            "<|eom|><|start|>assistant",
        ),
    ),
}

OTHERS: dict[str, str] = {
    "arg key, tight": template(
        thought="{{ '<think>' + m.reasoning_content + '</think>' }}",
        reply=each(
            "{{ '<tool_call>' + f.name }}"
            + pairs("{{ '<arg_key>' + k + '</arg_key><arg_value>' }}" + VALUE + "{{ '</arg_value>' }}")
            + "{{ '</tool_call>' }}",
        ),
    ),
    "invoke": template(
        thought=_THINK,
        reply="{{ '<mini:calls>\n' }}"
        + each(
            "{{ '<invoke name=\"' + f.name + '\">\n' }}"
            + pairs("{{ '<parameter name=\"' + k + '\">' }}" + VALUE + "{{ '</parameter>\n' }}")
            + "{{ '</invoke>\n' }}"
        )
        + "{{ '</mini:calls>' }}",
    ),
    "typed attributes": template(
        reply="{{ '<cofl:calls>' }}"
        + each(
            "{{ '<cofl:call id=\"' + c.id + '\" name=\"' + f.name + '\">' }}"
            + pairs(
                "{%- if v is string %}{{ '<cofl:value name=\"' + k + '\" type=\"raw\">' + v }}{%- else %}"
                "{{ '<cofl:value name=\"' + k + '\" type=\"json\">' + (v | tojson) }}{%- endif %}{{ '</cofl:value>' }}"
            )
            + "{{ '</cofl:call>' }}"
        )
        + "{{ '</cofl:calls>' }}",
    ),
    "Python in a list": template(
        reply="{{ '<|tool_call_start|>[' }}"
        + each(
            "{{ f.name + '(' }}"
            + pairs("{{ k + '=' }}{%- if v is string %}{{ v | tojson }}{%- else %}{{ v }}{%- endif %}", ", ")
            + "{{ ')' }}",
            ", ",
        )
        + "{{ ']<|tool_call_end|>' }}",
    ),
    "a list between tags": template(
        thought="{{ '<thinking>' + m.reasoning_content + '</thinking>' }}",
        reply="{{ '<TOOLCALL>[' }}"
        + each('{{ \'{"name": "\' + f.name + \'", "arguments": \' }}' + ARGUMENTS + "{{ '}' }}", ", ")
        + "{{ ']</TOOLCALL>' }}",
    ),
}
"""More of them, which fewer tests read."""
