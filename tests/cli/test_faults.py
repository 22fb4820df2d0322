"""A server that the system gives no more files, and one that cannot work: it says so and goes on, or does not start."""

from __future__ import annotations

import http.client
import json
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

from kit.program import CONFIG, no_more_files, refused_in_turn, serving
from kit.waiting import PATIENCE, wait_until


def ask(connection: http.client.HTTPConnection, **fields: object) -> int:
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_a_server_that_may_open_no_more_files_serves_who_is_there_and_recovers(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    with serving(tmp_path) as (server, url), closing(connection_to(url, PATIENCE)) as kept:

        def newcomer_served() -> bool:
            with closing(connection_to(url, 5)) as new, suppress(OSError, http.client.HTTPException):
                return ask(new) == 200
            return False

        assert ask(kept, session_id="s") == 200
        with no_more_files(server.pid):
            assert not newcomer_served()
            assert [ask(kept) for _ in range(3)] == [200] * 3
            assert ask(kept, session_id="s") == 200
            assert ask(kept, stream=True) == 200
        wait_until(newcomer_served)
        assert server.poll() is None


def connection_to(url: str, patience: float) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=patience)


def broken_models(good: Path, folder: Path) -> dict[str, str]:
    """Tables of models that cannot work, by what is wrong with them."""
    whole = good.read_bytes()
    files = {
        "no weights": whole[: len(whole) // 100 * 60],
        "half a header": whole[:2000],
        "no model": b"This is no model at all. " * 100,
        "nothing": b"",
    }
    tables: dict[str, str] = {}
    for number, (what, content) in enumerate(files.items()):
        path = folder / f"broken{number}.gguf"
        path.write_bytes(content)
        tables[what] = f'source = "{path}"\nformat = "chatml"\n'
    (folder / "broken.jinja").write_text("{% for message in messages %}{{ message.content }")
    return tables | {
        "no file": f'source = "{folder}/gone.gguf"\nformat = "chatml"\n',
        "template": f'source = "{good}"\nchat_template = "{folder}/broken.jinja"\n',
        "no template": f'source = "{good}"\nchat_template = "{folder}/gone.jinja"\n',
        "format": f'source = "{good}"\nformat = "no such format"\n',
        "tokenizer": f'engine = "vllm"\nurl = "http://127.0.0.1:9"\ntokenizer = "{folder}/gone.json"\n',
    }


def test_a_model_that_cannot_work_ends_the_server_before_it_says_that_it_serves(
    smollm2_path: Path, tmp_path: Path
) -> None:
    tables = broken_models(smollm2_path, tmp_path)
    for number, table in enumerate(tables.values()):
        (tmp_path / f"{number}.toml").write_text(f'model = "bad"\n[models.bad]\n{table}')
    told = refused_in_turn(tmp_path, *(("--config", str(tmp_path / f"{i}.toml")) for i in range(len(tables))))
    for what, (code, text) in zip(tables, told, strict=True):
        assert (code != 0, text.count("error: "), "Traceback" in text) == (True, 1, False), (what, code, text)
