"""Runs inside the sandbox, as the session's interpreter: reads cells, runs them, sends their output.

It imports nothing of Antiphon. Its first line of input is its settings; each further line is a cell, and the reply to
it is as `interpreter.py` describes. The code's standard output and error are one pipe: the first ``output`` bytes of
it are sent and the rest is counted.
"""

import _thread
import ast
import contextlib
import errno
import io
import json
import linecache
import os
import resource
import select
import struct
import sys
import threading
import traceback

STACK = 2 << 20
"""Bytes of a thread's stack: as many threads as the default limit allows fit into the default memory."""
CAPABILITIES, HEADER_VERSION, DROP_BOUNDING = 64, 0x20080522, 24


class Output:
    """Text that cells write to descriptors 1 and 2, read by a thread so that a full pipe never blocks a cell.

    One thread, one pipe and one buffer serve all cells, since a cell may leave no descriptors for another pipe, and no
    memory or maps for another thread, which would be waited for without end. If the thread cannot go on, the
    interpreter ends.
    """

    def __init__(self, limit: int) -> None:
        self.stored = memoryview(bytearray(limit))
        self.chunk = memoryview(bytearray(65536))
        self.size = self.seen = 0
        self.null = os.open(os.devnull, os.O_WRONLY)
        self.source, self.writer = os.pipe()
        self.ended, self.end_of_cell = os.pipe()
        os.set_blocking(self.source, False)
        self.begun, self.read = _thread.allocate_lock(), _thread.allocate_lock()
        self.begun.acquire()
        self.read.acquire()
        _thread.start_new_thread(self.read_cells, ())
        self.read.acquire()  # it has all that it needs

    def begin(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.readv(self.source, [self.chunk])  # what was written after the last cell is of no cell
        self.size = self.seen = 0
        self.point_to(self.writer)
        self.begun.release()

    def end(self) -> tuple[bytes, int]:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a cell may put anything there
                stream.flush()
        self.point_to(self.null)
        os.write(self.end_of_cell, b".")
        self.read.acquire()
        return bytes(self.stored[: self.size]), self.seen

    def point_to(self, descriptor: int) -> None:
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)

    def read_cells(self) -> None:
        try:
            waiting = select.poll()
            waiting.register(self.source, select.POLLIN)
            waiting.register(self.ended, select.POLLIN)
            self.read.release()
            while self.begun.acquire():
                self.read_cell(waiting)
                self.read.release()
        finally:
            os._exit(1)

    def read_cell(self, waiting: "select.poll") -> None:
        """Reads until the cell has ended, though code may still write to the pipe."""
        while self.ended not in (events := dict(waiting.poll())):
            if events[self.source] != select.POLLIN:
                raise OSError(errno.EBADF, "the code closed what its output is read from")
            self.take(os.readv(self.source, [self.chunk]))
        os.read(self.ended, 1)
        with contextlib.suppress(BlockingIOError):
            self.take(os.readv(self.source, [self.chunk]))  # a pipe has no more than this at once

    def take(self, count: int) -> None:
        kept = min(count, len(self.stored) - self.size)
        self.stored[self.size : self.size + kept] = self.chunk[:kept]
        self.size += kept
        self.seen += count


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
    """Gives up root for good, before any cell, with every capability in each of the sets."""
    import ctypes  # only where there is root to give up

    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(CAPABILITIES):
        libc.prctl(DROP_BOUNDING, capability, 0, 0, 0)  # those that the kernel does not know fail, which is as well
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    header, none = (ctypes.c_uint32 * 2)(HEADER_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, none):  # becoming somebody else leaves the inheritable ones
        raise OSError(ctypes.get_errno(), "capset")


def limit(which: int, value: int) -> None:
    """Sets a limit for good; where the machine's is lower, that one stays."""
    _, most = resource.getrlimit(which)
    least = value if most == resource.RLIM_INFINITY else min(value, most)
    resource.setrlimit(which, (least, least))


def settle() -> tuple[io.BufferedReader, Replies, int]:
    """Reads the settings and lives by them: user, descriptors, limits, paths. Tells the server that it is done.

    Gives the requests, the replies, and how many bytes of a cell's output are sent.
    """
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
        limit(getattr(resource, name), value)
    threading.stack_size(STACK)
    for path in settings["packages"]:
        os.scandir(path).close()  # what the worker's user may not see is refused before there is a cell
    sys.path[:] = [path for path in sys.path if path] + settings["packages"]
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
    replies = Replies(pipe, settings["header"], settings["images"], settings["image_bytes"])
    replies.send(settings["nonce"], True)
    return requests, replies, settings["output"]


def serve(requests: io.BufferedReader, replies: Replies, output_limit: int) -> None:
    """Runs cells until there are no more."""
    namespace = {"__name__": "__main__", "__builtins__": __builtins__}
    output = Output(output_limit)
    for number, line in enumerate(requests, 1):
        request = json.loads(line)
        output.begin()
        ok = run(request["code"], number, namespace)
        try:
            pictures = replies.figures()
        except Exception as error:  # noqa: BLE001 - drawing runs the code's own objects
            print(f"the figures could not be drawn: {error}", file=sys.stderr)
            pictures = ()
        text, seen = output.end()
        replies.send(request["nonce"], ok, text, seen, pictures)


def main() -> None:
    work = settle()
    try:
        serve(*work)
        os._exit(0)
    finally:
        os._exit(1)  # at once: what cells left (threads, handlers, no memory at all) has no say in it


if __name__ == "__main__":
    main()
