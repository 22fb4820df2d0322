"""Starts ``antiphon serve`` as the command line of ``llama-server`` wants it: ``llama_server.py [OPTION…]``.

The models of llama.cpp's tests are not fetched: SmolLM2 answers in their place, MiniLM embeds and ranks. An option that
neither has a counterpart nor is the engine's own affair ends the program, so that the test that gives it fails.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from antiphon.http.gate.keys import Key, KeyFile, Scope, digest  # noqa: E402 - the path must be there first
from kit.stored import stored_model  # noqa: E402

FLAGS = frozenset(
    "offline cont-batching embedding reranking metrics kv-unified swa-full slots no-slots no-ui jinja no-jinja verbose"
    " no-cache-idle-slots no-mmproj any-name json".split()
)
"""Options without a value that there is a counterpart of, or that only say how an engine is to be fast."""
VALUES = frozenset(
    "port host temp seed hf-repo hf-file alias ctx-size parallel n-predict api-key chat-template chat-template-file"
    " reasoning-format reasoning batch-size ubatch-size threads n-gpu-layers fa ctk ctv cache-ram cors-origins"
    " sleep-idle-seconds pooling".split()
)
"""Those with a value."""
LOCAL = "http://localhost,http://localhost:*,http://127.0.0.1,http://127.0.0.1:*,http://[::1],http://[::1]:*"
"""Origins that llama.cpp calls localhost."""
KNOWN = {"chatml": "chatml"}
"""Templates that both have by a name."""


def options(arguments: Sequence[str]) -> dict[str, str]:
    """The options by their names. Raises `SystemExit` for one that there is no counterpart of."""
    found, rest = {}, list(arguments)
    while rest:
        name = rest.pop(0).lstrip("-")
        if name in FLAGS:
            found[name] = ""
        elif name in VALUES:
            found[name] = rest.pop(0)
        else:
            raise SystemExit(f"--{name} has no counterpart")
    return found


def configuration(given: dict[str, str], folder: Path) -> dict[str, Any]:
    """The configuration that says the same."""
    name, *others = sorted(given.get("alias", "model").split(","))
    others += ["*"] if "any-name" in given else []
    slots = int(given.get("parallel", 1))
    entry: dict[str, Any] = {
        "source": str(stored_model("smollm2")),
        "aliases": others,
        "slots": slots,
        "context": int(given.get("ctx-size", 4096)) // slots,
        "sampling.temperature": float(given["temp"]),
    }
    if "n-predict" in given:
        entry["default_output_tokens"] = int(given["n-predict"])
    if "embedding" in given or "reranking" in given:
        source = str(stored_model("all-minilm-l6-v2"))
        entry = {"source": source, "task": "embed", "aliases": others, "slots": slots}
    template = given.get("chat-template", "")
    if template and template in KNOWN:
        entry["format"] = KNOWN[template]
    elif template:
        entry["chat_template"] = str(folder / "template.jinja")
        (folder / "template.jinja").write_text(template)
    if "chat-template-file" in given:
        entry["chat_template"] = str(Path(given["chat-template-file"]).absolute())
    keys = {}
    if "api-key" in given:
        keys["server.keys"] = str(folder / "keys.json")
        secret = digest(given["api-key"].encode())
        KeyFile(folder / "keys.json").add(Key(name="suite", digest=secret, scopes=(Scope.INFERENCE,)))
    return {
        "model": name,
        "server.host": given["host"],
        "server.port": int(given["port"]),
        "server.expose_reasoning": given.get("reasoning-format") != "none",
        "server.origins": LOCAL if given.get("cors-origins") == "localhost" else given.get("cors-origins", ""),
        "server.playground": "no-ui" not in given,
        **keys,
        "server.public_metrics": True,
        "engine.idle_unload": float(given.get("sleep-idle-seconds", 0)),
        "engine.threads": 1,
        "sessions.store": "memory",
        "log.access": False,
        **{f'models."{name}".{key}': value for key, value in entry.items()},
    }


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp(prefix="llama-server-"))
    settings = configuration(options(sys.argv[1:]), folder)
    more = ["--json"] if "--json" in sys.argv else []
    file = folder / "antiphon.toml"
    file.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items()))
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    program = "from antiphon.cli import main; main()"
    os.execv(sys.executable, [sys.executable, "-c", program, "serve", "--config", str(file), *more])
