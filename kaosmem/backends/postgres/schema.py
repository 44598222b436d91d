"""The tables of stores in PostgreSQL, by version: each row belongs to a tenant."""

from __future__ import annotations

from kaosmem.backends.sql.database import TABLES, TENANT_TABLES

MIGRATION_LOCK = 0x4B414F53
"""The advisory lock that one migrating process holds: `KAOS` in ASCII."""

_TENANT = "tenant text COLLATE \"C\" NOT NULL DEFAULT current_setting('kaosmem.tenant')"

LEDGER = """CREATE TABLE IF NOT EXISTS migrations (
    part text NOT NULL, version integer NOT NULL, done_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (part, version)
)"""
_TYPES = {
    "number": "number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "tenant": _TENANT,
    "owner": f"{_TENANT},",
    "text": 'text COLLATE "C"',
    "integer": "bigint",
    "real": "double precision",
    "bytes": "bytea",
    "clustered": "",
}
_DOCUMENTS = (
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    # `direction` is the embedding at length 1, in single precision. `labels` tell the metadata.
    f"""CREATE TABLE documents (
        {_TENANT}, collection bigint NOT NULL REFERENCES collections ON DELETE CASCADE, id text COLLATE "C" NOT NULL,
        content text NOT NULL, metadata text NOT NULL, labels text[] NOT NULL, embedding bytea NOT NULL,
        direction public.vector NOT NULL, PRIMARY KEY (collection, id)
    )""",
)
# The embedding of a fact at length 1, in single precision.
_MEANINGS = f"""CREATE TABLE meanings (
    fact bigint PRIMARY KEY REFERENCES facts ON DELETE CASCADE, {_TENANT},
    direction public.vector NOT NULL
)"""


# Each tenant's passages have a table of their own, which `passages` names, and so have its terms.
_CORPORA = (
    "CREATE SEQUENCE corpus_numbers",
    """CREATE TABLE corpora (
        tenant text COLLATE "C" PRIMARY KEY, passages text NOT NULL, has_bm25 boolean NOT NULL
    )""",
    """CREATE TABLE corpus_versions (
        number bigint PRIMARY KEY, tenant text COLLATE "C" NOT NULL REFERENCES corpora ON DELETE CASCADE,
        at timestamptz NOT NULL
    )""",
    "CREATE INDEX corpus_versions_of_tenant ON corpus_versions (tenant, number)",
)


def _of_tenants(*tables: str) -> tuple[str, ...]:
    """Return the statements by which a connection sees one tenant's rows of some tables.

    They bind every role but superusers and those with BYPASSRLS. A connection that names no tenant
    gets an error.
    """
    return tuple(
        statement
        for table in tables
        for statement in (
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            f"CREATE POLICY of_tenant ON {table} USING (tenant = current_setting('kaosmem.tenant'))",
        )
    )


MIGRATIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "tables": ((*(each.format_map(_TYPES) for each in TABLES), *_of_tenants(*TENANT_TABLES)),),
    "corpora": (_CORPORA,),
    "vectors": ((*_DOCUMENTS, _MEANINGS, *_of_tenants("documents", "meanings")),),
}
"""The statements of each version, by part. A part is made when a store first needs it.

`vectors` needs an extension, and the tables of the part before it.
Never change a version that has been released: append another.
"""
