"""Stores by address: ``memory``, the path of a SQLite file, ``postgresql://…``, or ``NAME:…`` for a store of another
package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from antiphon.errors import ConfigError, near
from antiphon.plugins import STORES, load_plugin, plugin_names

from .address import MEMORY, store_name
from .memory import MemoryStore
from .postgres_address import SCHEMES
from .sqlite import SqliteStore
from .store import Store

StoreFactory = Callable[[str], Store]
"""Takes the whole address, ``NAME:…``, and opens the store. Raises `ConfigError` where it cannot."""

NO_STORES: Mapping[str, StoreFactory] = MappingProxyType({})


def store_at(address: str, *, stores: Mapping[str, StoreFactory] = NO_STORES) -> Store:
    """Opens the store at ``address``. ``stores`` are factories by name, which count before those of packages.

    Errors: `ConfigError`, code ``store_unknown`` for a name that nobody has, ``store_unusable`` for a file that cannot
    be opened, and what the store's own factory raises.
    """
    if address == MEMORY:
        return MemoryStore()
    name = store_name(address)
    if name is None:
        return SqliteStore(Path(address).expanduser())
    return _factory(name, stores)(address)


def _factory(name: str, stores: Mapping[str, StoreFactory]) -> StoreFactory:
    if name in stores:
        return stores[name]
    if name in SCHEMES:
        return _open_postgres
    found = load_plugin(STORES, name)
    if found is None:
        hint = f"{near(name, (*stores, *SCHEMES, *plugin_names(STORES)))} "
        raise ConfigError(
            f"unknown store {name!r}",
            code="store_unknown",
            hint=f"{hint}Or {MEMORY!r}, or the path of a file; ./{name}:… is a path.",
        )
    if not callable(found):
        raise ConfigError(f"the store {name!r} is no function that opens one", code="plugin_unusable")
    factory: StoreFactory = found
    return factory


@contextmanager
def needs_extra() -> Iterator[None]:
    """Around an import of what is installed as an extra. Raises `ConfigError` where it is not."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"the store needs a package that is not installed: {error.name}",
            code="store_unusable",
            hint="pip install 'antiphon[postgres]'",
        ) from error


def _open_postgres(address: str) -> Store:
    with needs_extra():
        from .postgres import PostgresStore
    return PostgresStore(address)
