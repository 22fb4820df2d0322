"""`antiphon serve` in front of servers that others run."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request

from kit.program import answer_to, in_process, serving

CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "Paris."
[models.far]
engine = "vllm"
url = "http://127.0.0.1:{port}"
tokenizer = "o200k_harmony"
"""


def test_a_model_whose_server_is_down_is_503_and_the_others_answer(tmp_path: Path, deaf_port: int) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(port=deaf_port))
    with serving(tmp_path) as (_, base):
        url = f"{base}/v1/chat/completions"

        def ask(model: str) -> tuple[int, dict[str, str], str]:
            body = json.dumps({"model": model, "messages": [{"role": "user", "content": "?"}]}).encode()
            with answer_to(Request(url, body, {"content-type": "application/json"})) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()  # type: ignore[attr-defined]  # HTTPResponse has them

        with answer_to(Request(url.replace("chat/completions", "models"))) as cards:
            listed = json.load(cards)["data"]
        assert [card["id"] for card in listed] == ["demo", "far", "all-minilm-l6-v2"]
        assert all(card["created"] > 1_600_000_000 for card in listed)
        for _ in range(2):
            status, headers, body = ask("far")
            assert (status, json.loads(body)["error"]["code"]) == (503, "engine_unreachable")
            assert int(headers["retry-after"]) > 0
            assert "cannot be reached" in body
            assert str(deaf_port) not in body
            assert ask("demo")[0] == 200


def test_doctor_and_models_know_a_model_that_runs_elsewhere(tmp_path: Path, deaf_port: int) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(port=deaf_port))
    doctor = in_process("doctor", home=tmp_path, ANTIPHON_MODEL="far")
    assert doctor.returncode == 1
    assert f"http://127.0.0.1:{deaf_port}: the server that runs 'far' cannot be reached" in doctor.stdout
    models = json.loads(in_process("models", "--json", home=tmp_path).stdout)["models"]
    (row,) = (row for row in models if row["name"] == "far")
    assert (row["state"], row["source"]) == ("elsewhere", f"http://127.0.0.1:{deaf_port}")
