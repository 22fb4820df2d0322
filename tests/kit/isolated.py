"""Pieces of work for processes of their own: some end well, the others as no piece should."""

from __future__ import annotations

import json
import os
import resource
import socket

from antiphon.errors import Position, RequestError, TemplateError


def echo(piece: bytes) -> bytes:
    return piece


def seen(piece: bytes) -> bytes:
    """The surroundings of the piece, as JSON."""
    descriptors = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_open(number)]
    sockets = [number for number in descriptors if _is_socket(number)]
    return json.dumps(
        {
            "pid": os.getpid(),
            "environment": dict(os.environ),
            "descriptors": descriptors,
            "sockets": sockets,
            "memory": resource.getrlimit(resource.RLIMIT_AS)[0],
            "processor": resource.getrlimit(resource.RLIMIT_CPU)[0],
            "written": resource.getrlimit(resource.RLIMIT_FSIZE)[0],
        }
    ).encode()


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _is_socket(number: int) -> bool:
    try:
        socket.socket(fileno=os.dup(number)).close()
    except OSError:
        return False
    return True


def refuse(piece: bytes) -> bytes:
    raise TemplateError(piece.decode(), code="bad_template", position=Position(line=3), hint="Look there.")


def point(piece: bytes) -> bytes:
    raise RequestError(piece.decode(), position=Position(path="a.b"))


def spin(piece: bytes) -> bytes:
    while True:
        pass


def power(piece: bytes) -> bytes:
    """One operation that holds the interpreter's lock for hours."""
    return str(10 ** int(piece)).encode()


def wait(piece: bytes) -> bytes:
    """Computes nothing, for ever; says its process id in the file that the piece names."""
    with open(os.open(piece, os.O_WRONLY), "w") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        os.read(os.pipe()[0], 1)


def grow(piece: bytes) -> bytes:
    return bytes(int(piece))


class Panic(BaseException):
    """As a library in Rust raises it."""


def panic(piece: bytes) -> bytes:
    raise Panic


def abort(piece: bytes) -> bytes:
    os.abort()


def mistake(piece: bytes) -> bytes:
    raise ZeroDivisionError(piece.decode())


def leave(piece: bytes) -> bytes:
    """Changes a module, for whoever comes next in the same process."""
    earlier = getattr(json, "left", "")
    json.left = piece.decode()  # type: ignore[attr-defined]
    return earlier.encode()
