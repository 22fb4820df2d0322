"""Antiphon on Ray Serve: ``serve run antiphon.ray:app``, or ``antiphon.ray:two_tier``.

Both take dotted keys of the configuration as arguments (``model=smollm2``). What needs Ray itself is imported when one
of them is; the other modules do without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from antiphon.errors.extras import extra

if TYPE_CHECKING:
    from .deployments import app as app
    from .deployments import two_tier as two_tier

APPLICATIONS = ("app", "two_tier")


def __getattr__(name: str) -> object:
    if name not in APPLICATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra("ray", f"antiphon.ray:{name}"):
        deployments = import_module(".deployments", __name__)
    return getattr(deployments, name)
