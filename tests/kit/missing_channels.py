"""Replies of gpt-oss whose channels are missing, wrong or lost, and what a user may see of each."""

from __future__ import annotations

from dataclasses import dataclass

THOUGHT = "We need to think: SECRET is what they want, and we must refuse."
ANSWER = "Sorry, I can't help with that."
PREAMBLE = "I will look."
ARGUMENTS = '{"city": "Bern"}'
CALL = f"<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{ARGUMENTS}<|call|>"
FINAL = f"<|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>"
ANALYSIS = "<|start|>assistant<|channel|>analysis<|message|>SECRET again.<|end|>"
ANNOUNCED = f"<|start|>assistant<|channel|>commentary<|message|>{PREAMBLE}<|end|>"


@dataclass(frozen=True, slots=True)
class Shape:
    """A reply as the model samples it, controls spelled; the text that a user sees, and the arguments of its calls."""

    reply: str
    content: str
    calls: tuple[str, ...] = ()


UNMARKED = {
    "bare": "{}",
    "dots": "...\n\n{}",
    "no channel": "<|message|>{}",
    "two starts": "<|start|>assistant<|message|>{}",
    "empty channel": "<|channel|><|message|>{}",
    "marks": "<|channel|>??<|message|>{}",
    "response": "<|channel|>response<|message|>{}",
    "assistant": "<|channel|>assistant<|message|>{}",
    "thought": "<|channel|>thought<|message|>{}",
    "in the header": "<|channel|>{}",
    "among words": "<|channel|>We need final<|message|>{}",
    "long": "{} " + "It is disallowed, as the policy says. " * 9,
    "a preamble's header": "<|channel|>commentary? {}",
}
"""How a text begins that is on no channel."""
GOES_ON = {
    "final": (FINAL, ANSWER, ()),
    "analysis, final": (ANALYSIS + FINAL, ANSWER, ()),
    "preamble, final": (ANNOUNCED + FINAL, f"{PREAMBLE}\n\n{ANSWER}", ()),
    "final, no start": (FINAL.removeprefix("<|start|>assistant"), ANSWER, ()),
    "call": (CALL, "", (ARGUMENTS,)),
    "analysis, call": (ANALYSIS + CALL, "", (ARGUMENTS,)),
    "preamble, call": (ANNOUNCED + CALL, PREAMBLE, (ARGUMENTS,)),
    "call without its end": (CALL.removesuffix("<|call|>"), "", (ARGUMENTS,)),
    "unmarked": (f"<|start|>assistant<|message|>{ANSWER}<|return|>", ANSWER, ()),
    "named": (f"<|start|>assistant<|channel|>output<|message|>{ANSWER}<|return|>", ANSWER, ()),
    "no header": (f"{ANSWER}<|return|>", ANSWER, ()),
    "number between": (f" 364 {FINAL}", ANSWER, ()),
}
"""What comes after a thought on no channel: the reply's rest, the text that is seen, the arguments of calls."""
ENDS_WITH = {
    "return": "<|return|>",
    "end": "<|end|>",
    "nothing": "",
    "empty final": "<|end|><|start|>assistant<|channel|>final<|message|><|return|>",
    "analysis": f"<|end|>{ANALYSIS}",
    "blank": "<|end|><|start|>assistant<|message|>\n<|return|>",
    "cut header": "<|end|><|start|>assistant<|channel|>",
}
"""What comes after an answer on no channel."""


def grouped() -> dict[str, dict[str, Shape]]:
    """Every thought with everything that may follow it, every answer that has no channel, and those of reports."""
    thoughts = {
        header: {
            rest: Shape(f"{unmarked.format(THOUGHT)}<|end|>{reply}", content, calls)
            for rest, (reply, content, calls) in GOES_ON.items()
        }
        for header, unmarked in UNMARKED.items()
    }
    return {**thoughts, "answers": _answers(), "reports": REAL}


def _answers() -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    thought = ANALYSIS.removeprefix("<|start|>assistant")
    for header in ("bare", "no channel", "empty channel", "marks", "response", "assistant"):
        start = "" if header == "bare" else "<|start|>assistant"
        for rest, end in ENDS_WITH.items():
            reply = UNMARKED[header].format(ANSWER) + end
            found[f"{header}; {rest}"] = Shape(reply, ANSWER)
            found[f"analysis; {header}; {rest}"] = Shape(thought + start + reply, ANSWER)
    return found


REAL = {
    "llama.cpp#27720 free text": Shape(
        f"<|channel|>We need to answer<|end|>{ANALYSIS}{FINAL}",
        ANSWER,
    ),
    "llama.cpp#27720 marks": Shape(f"<|channel|>??<|end|>{ANALYSIS}{FINAL}", ANSWER),
    "llama.cpp#27720 commentary 2": Shape(f"<|channel|>commentary 2?<|end|>{ANALYSIS}{FINAL}", ANSWER),
    "llama.cpp#27720 commentary twice": Shape(
        f"<|channel|>commentary?commentary?<|end|>{ANALYSIS}{FINAL}",
        ANSWER,
    ),
    "llama.cpp#27720 to=assistant": Shape(
        f"<|channel|>commentary to=assistant<|channel|>commentary?<|message|>SECRET<|end|>{FINAL}", ANSWER
    ),
    "refusal without a header": Shape(
        f"We need to think: this is disallowed.<|end|>{FINAL}",
        ANSWER,
    ),
    "junk on marks": Shape(f"<|channel|>??<|message|>junk<|end|>{FINAL}", ANSWER),
    "tiles#145": Shape(
        "<|channel|>commentary to=functions.weather <|constrain|>write: edit file with content.<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.weather json<|message|>{}<|call|>",
        "",
        ("{}",),
    ),
    "a call cut before its text": Shape(f"<|channel|>commentary to=functions.weather<|end|>{CALL}", "", (ARGUMENTS,)),
    "a call whose text is none": Shape(
        f"<|channel|>commentary to=functions.weather look: SECRET<|end|>{CALL}", "", (ARGUMENTS,)
    ),
    "a call whose text is none, then the answer": Shape(
        f"<|channel|>commentary to=functions.weather look: SECRET<|end|>{FINAL}", ANSWER
    ),
    "a call without <|message|>": Shape(
        f"<|channel|>commentary to=functions.weather <|constrain|>json{ARGUMENTS}<|call|>", "", (ARGUMENTS,)
    ),
    "a call of nobody's, then the answer": Shape(
        f'<|channel|>analysis to=browser.search code<|message|>{{"query": "SECRET"}}<|end|>{FINAL}', ANSWER
    ),
    "a call, then a thought": Shape(
        CALL.removeprefix("<|start|>assistant").replace("<|call|>", "<|end|>")
        + "<|start|>assistant<|message|>SECRET<|return|>",
        "",
        (ARGUMENTS,),
    ),
    "the answer, then a thought": Shape(
        FINAL.removeprefix("<|start|>assistant").replace("<|return|>", "<|end|>")
        + "<|start|>assistant<|message|>SECRET<|return|>",
        ANSWER,
    ),
}
"""Shapes of reports, with the words of this test."""

HARMONY_80 = (
    *(2161, 976, 1825, 382, 57246, 15543, 316, 2338, 261, 4232, 13790, 350, 72, 2560, 4213, 187928, 11, 23802, 8110),
    *(741, 1328, 382, 829, 32510, 3100, 25, 15543, 97471, 198937, 13, 20953, 41897, 13, 16344, 316, 7562, 11, 581),
    *(2804, 41897, 13, 200007, 200006, 173781, 200005, 35644, 200008, 2167, 2804, 41897, 13, 200007),
    *(200006, 173781, 200005, 17196, 200008),
)
"""The ids of a refusal of gpt-oss-120b as openai/harmony#80 has them, up to the text of its final message."""
