"""Packages that only some installations have: an import that fails names the extra which brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from . import ConfigError


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """Says of imports within the block that they are of the extra ``name``, which ``user`` needs.

    Errors: `ConfigError`, code ``extra_missing``, where it cannot be imported. A module of ours that is missing is a
    fault, and stays an `ImportError`.

    >>> with extra("local", "the embedded engine"):
    ...     import no_such_package
    Traceback (most recent call last):
    antiphon.errors.ConfigError: the embedded engine needs the extra 'local': 'no_such_package' is not installed
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "antiphon":
            raise
        absent = isinstance(error, ModuleNotFoundError) and error.name
        raise _missing(name, user, f"{error.name!r} is not installed" if absent else str(error)) from None


def require(package: str, name: str, user: str) -> None:
    """Raises `ConfigError` (``extra_missing``) where the package, of the extra ``name``, is not installed.

    For what is imported later, or in another process.
    """
    if find_spec(package) is None:
        raise _missing(name, user, f"{package!r} is not installed")


def _missing(name: str, user: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{user} needs the extra {name!r}: {reason}", code="extra_missing", hint=f"pip install 'antiphon[{name}]'"
    )
