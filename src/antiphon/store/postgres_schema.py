"""The tables of the PostgreSQL store: in the schema ``antiphon``, with the version that they have."""

from __future__ import annotations

from typing import LiteralString

import psycopg

from antiphon.errors import ConfigError

VERSION = 1
_LOCK = 0x616E746970686F6E
"""Of whoever makes or changes the tables; it ends with the transaction."""
_IS_THERE = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'antiphon' AND tablename = 'schema_version'"

_CHANGES: tuple[tuple[LiteralString, ...], ...] = (
    (
        "CREATE SCHEMA IF NOT EXISTS antiphon",
        "CREATE TABLE antiphon.schema_version (version integer NOT NULL)",
        "INSERT INTO antiphon.schema_version VALUES (0)",
        """
        CREATE TABLE antiphon.record (
            id uuid PRIMARY KEY, kind text COLLATE "C" NOT NULL, owner bytea NOT NULL, name bytea NOT NULL,
            value bytea NOT NULL, created double precision NOT NULL, expires double precision,
            version bigint NOT NULL, entries bigint NOT NULL, chain bytea NOT NULL, checksum bytea NOT NULL
        )
        """,
        "CREATE INDEX record_name ON antiphon.record (kind, owner, name)",
        "CREATE INDEX record_expires ON antiphon.record (expires, id) WHERE expires IS NOT NULL",
        """
        CREATE TABLE antiphon.entry (
            record uuid NOT NULL, number bigint NOT NULL, value bytea NOT NULL, chain bytea NOT NULL,
            PRIMARY KEY (record, number)
        )
        """,
        """
        CREATE TABLE antiphon.lease (
            kind text COLLATE "C" NOT NULL, owner bytea NOT NULL, name bytea NOT NULL,
            fence bigint NOT NULL, holder text NOT NULL, signal bytea NOT NULL, ends timestamptz NOT NULL,
            PRIMARY KEY (kind, owner, name)
        ) WITH (fillfactor = 50)
        """,
        "CREATE SEQUENCE antiphon.fence",
    ),
)
"""What each version adds. ``id`` is `key_id` of the other three, which are bytes because a text of PostgreSQL has no
zero; ``entries`` and ``chain`` are of the record's entries, an entry's ``chain`` of those up to it."""


def version_of(connection: psycopg.Connection) -> int:
    """The version of the tables, 0 where there are none."""
    if connection.execute(_IS_THERE).fetchone() is None:
        return 0
    found = connection.execute("SELECT version FROM antiphon.schema_version").fetchone()
    return int(found[0]) if found else 0


def prepare(connection: psycopg.Connection, *, migrate: bool = False) -> int:
    """Makes the tables where there are none; with ``migrate`` brings older ones to this version. The version before.

    Raises `ConfigError` for tables of another version, `psycopg.Error` where the server refuses.
    """
    with connection.transaction():
        version = version_of(connection)
        if version == VERSION:
            return version
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = version_of(connection)  # Another process may have been faster.
        if version > VERSION or (version and version < VERSION and not migrate):
            raise ConfigError(
                f"the session store has tables of version {version}; this program knows {VERSION}",
                code="store_unusable",
                hint="antiphon store migrate brings older ones to this version, when no older server uses them.",
            )
        for statements in _CHANGES[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute("UPDATE antiphon.schema_version SET version = %s", [VERSION])
        return version
