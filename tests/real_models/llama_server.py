"""llama.cpp's server core by itself, in a process of its own: requests as lines of JSON, an answer a line.

Run as a file; it imports nothing of Antiphon. The first line says what to load; each later one is the name of a call of
`xllamacpp.Server` (``chat_completions``, ``completions``, ``embeddings``) and its body. The answer is the list of what
the call gave, one object or the chunks of a stream, each with the seconds after which it was there.
"""

import json
import os
import sys
import time


def main() -> None:
    # What the library prints must not look like an answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    server = load(settings)
    print("ready", file=answer, flush=True)
    for line in sys.stdin:
        method, body = json.loads(line)
        print(json.dumps(asked(server, method, body)), file=answer, flush=True)
    os._exit(0)


def load(settings: dict) -> object:  # type: ignore[type-arg]  # JSON
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = settings["model"], settings["context"], 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.use_jinja, params.verbosity, params.n_ubatch = True, 2, 512
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.embedding = settings["embeds"]
    if settings["as_ours"]:
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return xllamacpp.Server(params)


def asked(server: object, method: str, body: dict) -> list:  # type: ignore[type-arg]  # JSON
    began, found = time.perf_counter(), []

    def hear(chunk: object) -> None:
        found.append((time.perf_counter() - began, chunk))

    call = getattr(server, f"handle_{method}")
    try:
        given = call(body, hear) if body.get("stream") else call(body)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return [{"error": {"message": f"{type(error).__name__}: {error}"}}]
    if not body.get("stream"):
        hear(given)
    chunks = [(seconds, json.loads(one) if isinstance(one, str | bytes) else one) for seconds, one in found]
    return [{**chunk, "seconds": seconds} for seconds, chunk in chunks if isinstance(chunk, dict)]


if __name__ == "__main__":
    main()
