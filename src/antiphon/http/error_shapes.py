"""How errors are written: the shape of a body, and which shape is where; OpenAI's, where an API has no own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from antiphon.wire.errors import ErrorBody, ErrorDetail


class ApiError(msgspec.Struct, frozen=True, kw_only=True):
    """The one error from which every shape is written (resolution X-20)."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    request_id: str = ""

    @property
    def placed(self) -> str:
        """The message with the field at fault, for bodies that have no place of their own for it."""
        return f"{self.param}: {self.message}" if self.param and self.param not in self.message else self.message


def openai_error(error: ApiError) -> object:
    return ErrorBody(ErrorDetail(message=error.message, type=error.type, param=error.param, code=error.code))


class ErrorShape(msgspec.Struct, frozen=True, kw_only=True):
    """``body`` makes what is sent as JSON, ``event`` the last event of a stream that broke (None: the body too).

    ``statuses``: where an error has another status than OpenAI's. ``id_header``: one more header that has the id of
    the request, on every answer.
    """

    body: Callable[[ApiError], object] = openai_error
    event: Callable[[ApiError], object] | None = None
    statuses: Mapping[int, int] = msgspec.field(default_factory=dict)
    id_header: str | None = None


OPENAI_ERRORS = ErrorShape()


class ErrorShapes:
    """Which shape errors have where: ``usual``, but below each of ``places`` (paths), the longest that fits.

    Below the path of each of ``marked`` (header, path) a request with the header has another.
    """

    def __init__(
        self,
        usual: ErrorShape = OPENAI_ERRORS,
        places: Mapping[str, ErrorShape] = MappingProxyType({}),
        marked: Mapping[tuple[str, str], ErrorShape] = MappingProxyType({}),
    ) -> None:
        self._usual = usual
        longest_first = sorted(places.items(), key=lambda one: len(one[0]), reverse=True)
        self._places = [(place, f"{place}/", shape) for place, shape in longest_first]
        self._marked = [(header, place, f"{place}/", shape) for (header, place), shape in marked.items()]

    def at(self, path: str, headers: Mapping[str, str]) -> ErrorShape:
        """The shape of errors at that path, for a request with those headers."""
        for header, place, below, shape in self._marked:
            if (path == place or path.startswith(below)) and header in headers:
                return shape
        found = (shape for place, below, shape in self._places if path == place or path.startswith(below))
        return next(found, self._usual)
