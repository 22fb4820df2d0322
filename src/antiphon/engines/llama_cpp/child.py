"""The child process: llama.cpp's server core, alone. Run as a file; it imports nothing of Antiphon.

One line of JSON on standard input says what to load and where to listen (so that the key is in no argument list); one
line on standard output says that it is ready, or why not. Standard input stays open: its end means that the parent is
gone, and then this process goes too, whatever it is doing.
"""

import json
import os
import shutil
import sys
import threading


def main() -> None:
    # What a library prints must not look like our answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=leave_with_parent, args=(orders["folder"],), daemon=True).start()
    guard(orders["memory"])
    try:
        server = load(orders)
    except Exception as error:  # noqa: BLE001 — whatever it is, the parent must hear it
        answer.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        answer.flush()
        # The library logs the reason from a thread of its own. The parent reads it, and then ends this process.
        threading.Event().wait()
    answer.write(json.dumps({"ready": True}) + "\n")
    answer.flush()
    threading.Event().wait()  # The server runs in threads of its own; it lives as long as `server` does.
    del server


def leave_with_parent(folder: str) -> None:
    while os.read(0, 4096):  # Not through `sys.stdin`, whose lock would be taken when the interpreter ends.
        pass
    shutil.rmtree(folder, ignore_errors=True)  # A parent that was killed cannot.
    os._exit(0)


def guard(memory: int | None) -> None:
    """When memory runs out it is this process that ends, not its parent; and it leaves no core file with texts."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("800")


def load(orders: dict) -> object:  # type: ignore[type-arg]  # JSON
    import xllamacpp

    params = xllamacpp.CommonParams()
    for name, value in orders["params"].items():
        setattr(params, name, value)
    params.model.path = orders["model"]
    params.mmproj.path = orders.get("projector", "")
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = orders["threads"]
    if not orders["flash_attention"]:
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if orders["pooling"]:
        params.pooling_type = getattr(xllamacpp.llama_pooling_type, orders["pooling"])
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
