"""Runs inside the sandbox, as the session's interpreter: reads cells, runs them, sends their output.

It imports nothing of Antiphon. The request and the reply are one line of JSON each, on descriptors of their own; the
code's standard output and error are one pipe, of which the first ``output`` bytes are sent and the rest is counted.
"""

import ast
import base64
import codecs
import io
import json
import linecache
import os
import resource
import sys
import threading
import traceback

MAX_IMAGES = 8
MAX_IMAGE_BYTES = 2_000_000


class Output:
    """What a cell writes to descriptors 1 and 2, read by a thread so that a full pipe never blocks the cell."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.stored = bytearray()
        self.seen = 0
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(writer)
        self.thread = threading.Thread(target=self.read, args=(reader,), daemon=True)
        self.thread.start()

    def read(self, reader: int) -> None:
        while chunk := os.read(reader, 65536):
            self.seen += len(chunk)
            self.stored += chunk[: self.limit - len(self.stored)]
        os.close(reader)

    def close(self) -> tuple[str, int]:
        sys.stdout.flush()
        sys.stderr.flush()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)
        self.thread.join(1.0)
        text = codecs.decode(bytes(self.stored), "utf-8", "replace")
        return text, self.seen


def run(source: str, number: int, namespace: dict[str, object]) -> bool:
    """Runs one cell; the value of a last expression is shown, as a notebook does. True when it raised nothing."""
    name = f"<cell {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    try:
        tree = ast.parse(source, name)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, name, "exec"), namespace)  # noqa: S102 - what the sandbox is for
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307 - the same
            if value is not None:
                print(repr(value))
        return True
    except SystemExit as leave:
        print(f"SystemExit: {leave.code}", file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - a cell may raise anything
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(error)
    return False


def images() -> list[str]:
    """matplotlib's open figures, as PNG in base64; they are closed, as a notebook does."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    found = []
    for number in pyplot.get_fignums()[:MAX_IMAGES]:
        data = io.BytesIO()
        pyplot.figure(number).savefig(data, format="png")
        if data.tell() <= MAX_IMAGE_BYTES:
            found.append(base64.b64encode(data.getvalue()).decode())
    pyplot.close("all")
    return found


def main() -> None:
    limits = json.loads(sys.argv[1])
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for name, value in limits["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    sys.path[:] = [path for path in sys.path if path] + limits["packages"]
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    namespace = {"__name__": "__main__", "__builtins__": __builtins__}
    for number, line in enumerate(requests, 1):
        output = Output(limits["output"])
        ok = run(json.loads(line)["code"], number, namespace)
        try:
            pictures = images()
        except Exception as error:  # noqa: BLE001 - drawing runs the code's own objects
            print(f"the figures could not be drawn: {error}", file=sys.stderr)
            pictures = []
        text, seen = output.close()
        reply = {"ok": ok, "text": text, "bytes": seen, "images": pictures}
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


if __name__ == "__main__":
    main()
