"""Runs inside the sandbox, as the session's interpreter: reads cells, runs them, sends their output.

It imports nothing of Antiphon. Its first line of input is its settings; each further line is a cell, and the reply to
it is as `reply.py` describes. The code's standard output and error are one pipe: the first ``output`` bytes of it are
sent and the rest is counted.
"""

import ast
import io
import json
import linecache
import os
import resource
import struct
import sys
import threading
import traceback


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

    def close(self) -> tuple[bytes, int]:
        sys.stdout.flush()
        sys.stderr.flush()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)
        self.thread.join(1.0)
        return bytes(self.stored), self.seen


class Replies:
    """The pipe of replies, in the form that the settings name."""

    def __init__(self, pipe: io.BufferedWriter, header: str, images: int, image_bytes: int) -> None:
        self.pipe = pipe
        self.header = struct.Struct(header)
        self.images = images
        self.image_bytes = image_bytes

    def send(self, nonce: str, ok: bool, text: bytes = b"", seen: int = 0, pictures: tuple[bytes, ...] = ()) -> None:
        sizes = [len(picture) for picture in pictures] + [0] * (self.images - len(pictures))
        self.pipe.write(self.header.pack(bytes.fromhex(nonce), ok, seen, len(text), *sizes))
        self.pipe.write(text + b"".join(pictures))
        self.pipe.flush()

    def figures(self) -> tuple[bytes, ...]:
        """matplotlib's open figures as PNG, as many and as large as fit; they are closed, as a notebook does."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return ()
        found = []
        for number in pyplot.get_fignums()[: self.images]:
            data = io.BytesIO()
            pyplot.figure(number).savefig(data, format="png")
            if data.tell() <= self.image_bytes:
                found.append(data.getvalue())
        pyplot.close("all")
        return tuple(found)


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


def become(user: int) -> None:
    """Gives up root for good, before any cell."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def main() -> None:
    requests = os.fdopen(os.dup(0), "rb")
    pipe = os.fdopen(os.dup(1), "wb")
    settings = json.loads(requests.readline())
    if settings["user"] is not None:
        become(settings["user"])
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    for name, value in settings["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    for path in settings["packages"]:
        os.scandir(path).close()  # what the worker's user may not see is refused before there is a cell
    sys.path[:] = [path for path in sys.path if path] + settings["packages"]
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    replies = Replies(pipe, settings["header"], settings["images"], settings["image_bytes"])
    replies.send(settings["nonce"], True)
    namespace = {"__name__": "__main__", "__builtins__": __builtins__}
    for number, line in enumerate(requests, 1):
        request = json.loads(line)
        output = Output(settings["output"])
        ok = run(request["code"], number, namespace)
        try:
            pictures = replies.figures()
        except Exception as error:  # noqa: BLE001 - drawing runs the code's own objects
            print(f"the figures could not be drawn: {error}", file=sys.stderr)
            pictures = ()
        text, seen = output.close()
        replies.send(request["nonce"], ok, text, seen, pictures)


if __name__ == "__main__":
    main()
