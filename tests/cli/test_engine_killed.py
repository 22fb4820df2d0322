"""A server whose engine dies in mid-stream: the client gets an error, and the next request is answered."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from kit.program import engines_of, serving


def test_a_killed_engine_costs_its_streams_and_nothing_else(smollm2_path: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        f'model = "real"\n[models.real]\nsource = "{smollm2_path}"\nformat = "chatml"\nthreads = 1\nslots = 1\n'
    )
    with serving(tmp_path) as (server, url), openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=60) as client:
        ask = [{"role": "user", "content": "Count from one to a thousand."}]
        stream = iter(client.chat.completions.create(model="real", messages=ask, stream=True, max_tokens=2000))
        next(stream)
        next(stream)
        (engine,) = engines_of(server.pid)
        engine.kill()
        with pytest.raises(openai.APIError):
            for _ in stream:
                pass
        answer = client.chat.completions.create(model="real", messages=ask, max_tokens=3)
        assert answer.choices[0].finish_reason == "length"
        assert server.poll() is None, "the server never dies with its engine"
