"""Tools from plain Python functions: the schema is the signature, the description is the docstring."""

from __future__ import annotations

import asyncio
import inspect
import threading
import typing
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import msgspec

from antiphon.conversation import FUNCTIONS, ToolSpec
from antiphon.structs import ready

from .call import TOOL_BUSY, BadArguments, DescribedTool, DescribedToolSet, ToolCall, ToolError, ToolFailure, ToolOutput

# Threads for one tool's calls. A call that hangs keeps its thread, and no other tool's.

THREADS = 16
"""How many threads a tool has at once, those included whose calls were given up."""

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


class ToolThreads(Executor):
    """At most ``most`` daemon threads: what hangs in one does not keep the program from ending.

    Calls beyond those wait. When every thread is still busy with a call that was given up, `submit` raises
    `ToolFailure` with ``E-TOOL-BUSY``.
    """

    def __init__(self, most: int = THREADS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._running: set[_Job] = set()
        self._waiting: deque[_Job] = deque()

    def submit(self, fn: Callable[Given, Returned], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Returned]:
        """``fn`` in a thread. Errors: `ToolFailure`."""
        job = _Job(lambda: fn(*args, **kwargs))
        with self._lock:
            if len(self._running) < self._most:
                self._start(job)
            elif all(running.given_up for running in self._running):
                hung = f"all {self._most} threads of this tool hang in earlier calls"
                raise ToolFailure(ToolError(TOOL_BUSY, hung, retryable=True))
            else:
                self._waiting.append(job)
        return job

    def _start(self, job: _Job) -> None:
        threading.Thread(target=self._work, args=(job,), name="tool", daemon=True).start()
        self._running.add(job)

    def _work(self, job: _Job | None) -> None:
        while job is not None:
            job.run()
            job = self._next(job)

    def _next(self, done: _Job) -> _Job | None:
        with self._lock:
            self._running.discard(done)
            if not self._waiting:
                return None
            job = self._waiting.popleft()
            self._running.add(job)
            return job


class _Job(Future[Any]):
    """One call of a function."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self._function = function
        self.given_up = False

    def cancel(self) -> bool:
        self.given_up = True
        return super().cancel()

    def run(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._function()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            self.set_exception(error)
        else:
            self.set_result(result)


WANTED = "Each parameter needs a name, and a type that JSON can carry (str, list[int] …)."


class FunctionTool(DescribedTool):
    """A function, ``async`` or not, as a tool.

    Each parameter needs an annotation that JSON can carry (what msgspec converts: numbers, strings, lists, dataclasses,
    enums, Literal …). The docstring's first part describes the tool, its Args section the parameters. A function that
    is not ``async`` runs in ``executor``, or in the tool's own `ToolThreads`; when its deadline passes the model gets
    its answer and the thread's late result is dropped, for a thread cannot be stopped.
    """

    def __init__(
        self, function: Callable[..., Any], *, namespace: str = FUNCTIONS, executor: Executor | None = None
    ) -> None:
        self._function = function
        self._executor = executor or ToolThreads()
        self._arguments = _argument_struct(function)
        import docstring_parser  # Here and not above: most servers have no such tool.

        doc = docstring_parser.parse(inspect.getdoc(function) or "")
        described = {param.arg_name: param.description for param in doc.params if param.description}
        self.spec = ToolSpec(
            name=function.__name__,
            description="\n\n".join(text for text in (doc.short_description, doc.long_description) if text),
            parameters=_schema(self._arguments, described),
            namespace=namespace,
        )

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            typed = msgspec.structs.asdict(msgspec.convert(dict(arguments), ready(self._arguments)))
        except msgspec.ValidationError as error:
            raise ToolFailure(BadArguments(str(error)).error) from error
        if inspect.iscoroutinefunction(self._function):
            value = await self._function(**typed)
        else:
            value = await self._in_thread(typed)
        if isinstance(value, ToolOutput):
            return value
        return ToolOutput(content=value if isinstance(value, str) else msgspec.to_builtins(value, str_keys=True))

    async def _in_thread(self, typed: Mapping[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        value, raised = await loop.run_in_executor(self._executor, _settled, partial(self._function, **typed))
        if raised is not None:
            raise raised
        return value


class FunctionToolSet(DescribedToolSet):
    """Functions that come together, as a tool set."""

    def __init__(
        self, functions: Iterable[Callable[..., Any]], *, namespace: str = FUNCTIONS, executor: Executor | None = None
    ) -> None:
        super().__init__(FunctionTool(f, namespace=namespace, executor=executor) for f in functions)

    @classmethod
    def of_module(cls, module: ModuleType, *, executor: Executor | None = None) -> FunctionToolSet:
        """The public functions that a module defines itself (``__all__``, if it has one)."""
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        found = [getattr(module, name) for name in names]
        own = [f for f in found if inspect.isfunction(f) and f.__module__ == module.__name__]
        return cls(own, executor=executor)


def _settled(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Gives the result or the error: a future that is to raise ``StopIteration`` would never be done."""
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
        return None, error


def _argument_struct(function: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: {parameter} cannot be a tool's parameter; name each one")
        if name not in hints:
            raise TypeError(f"{function.__name__}: the parameter {name!r} has no annotation")
        field = (name, hints[name])
        fields.append(field if parameter.default is parameter.empty else (*field, parameter.default))
    return msgspec.defstruct(f"{function.__name__}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(arguments: type[msgspec.Struct], described: Mapping[str, str]) -> dict[str, Any]:
    (top,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    own: dict[str, Any] = components.pop(top["$ref"].rpartition("/")[2])
    own.pop("title", None)
    for name, text in described.items():
        if name in own.get("properties", {}):
            own["properties"][name].setdefault("description", text)
    return own | ({"$defs": components} if components else {})
