# /// script
# dependencies = ["lm-eval[api]>=0.4.13"]
# ///
"""lm-eval with tasks of its own kind from files: generation over chats and over texts, and multiple choice."""

import json
import os
import tempfile
from pathlib import Path

from steps import CHAT, OBEDIENT, URL, finish, step

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": "any"}

import lm_eval
from lm_eval.tasks import TaskManager

GENERATE = """\
task: generate
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/generate.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n\\n"], max_gen_toks: 16}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
CHOOSE = """\
task: choose
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/choose.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: gold
target_delimiter: " "
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
QUESTIONS = [{"question": f"say: {city}", "answer": city} for city in ("Bern", "Basel")]
CHOICES = [
    {"question": "The capital of France is", "choices": ["Paris", "banana"], "gold": 0},
    {"question": "The sun rises in the", "choices": ["soup", "east"], "gold": 1},
    {"question": "Two plus two equals", "choices": ["four", "tree"], "gold": 0},
]


def results(kind, task, path, **how):
    """The metrics of one task, and its samples."""
    arguments = f"model={CHAT},base_url={URL}/{path},num_concurrent=2,max_retries=1"
    done = lm_eval.simple_evaluate(model=kind, model_args=arguments, tasks=[task], task_manager=tasks, **how)
    return done["results"][task], done["samples"][task]


folder = Path(tempfile.mkdtemp())
for name, text, documents in (("generate", GENERATE, QUESTIONS), ("choose", CHOOSE, CHOICES)):
    (folder / f"{name}.yaml").write_text(text.format(folder=folder))
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
os.environ["HF_HOME"] = str(folder / "cache")
tasks = TaskManager(include_path=str(folder), include_defaults=False)


@step
def chat_generate():
    scores, samples = results("local-chat-completions", "generate", "chat/completions", apply_chat_template=True)
    assert len(samples) == len(QUESTIONS)
    assert scores["exact_match,none"] == 1.0 if OBEDIENT else all(one["resps"][0][0] for one in samples)


@step
def completions_generate():
    scores, samples = results("local-completions", "generate", "completions")
    assert len(samples) == len(QUESTIONS)
    assert scores["exact_match,none"] == 1.0 if OBEDIENT else all(one["resps"] for one in samples)


@step
def completions_multiple_choice():
    """The default model knows these; what a scripted one finds likely is nobody's knowledge."""
    scores, samples = results("local-completions", "choose", "completions")
    assert len(samples) == len(CHOICES)
    assert scores["acc,none"] == 1.0 or OBEDIENT, samples


finish("lm-eval")
