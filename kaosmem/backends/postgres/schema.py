"""The tables of the PostgreSQL stores, as migrations. The table `migrations` lists those that a schema has had."""

MIGRATION_LOCK = 0x4B414F53
"""The advisory lock that one migrating process holds: `KAOS` in ASCII."""

_TENANT = "tenant text COLLATE \"C\" NOT NULL DEFAULT current_setting('kaosmem.tenant')"

LEDGER = """CREATE TABLE IF NOT EXISTS migrations (
    part text NOT NULL, version integer NOT NULL, done_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (part, version)
)"""
_HISTORIES = (
    f"""CREATE TABLE threads (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_TENANT}, agent text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL, size bigint NOT NULL, UNIQUE (tenant, agent, session)
    )""",
    # Positions are 0, 1, 2, ...: any part of a long thread is read at once.
    f"""CREATE TABLE messages (
        {_TENANT}, thread bigint NOT NULL REFERENCES threads ON DELETE CASCADE, position bigint NOT NULL,
        run text COLLATE "C" NOT NULL, message text NOT NULL, UNIQUE (thread, position) DEFERRABLE INITIALLY DEFERRED
    )""",
    "CREATE INDEX messages_of_run ON messages (thread, run) WHERE run <> ''",
)
_STATES = (
    f"""CREATE TABLE states (
        id bigint GENERATED ALWAYS AS IDENTITY, {_TENANT}, session text COLLATE "C" NOT NULL, name bytea NOT NULL,
        value text NOT NULL, PRIMARY KEY (tenant, session, name)
    )""",
)
_BOARDS = (
    f"""CREATE TABLE boards (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_TENANT}, conversation text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL, max_retries bigint NOT NULL, UNIQUE (tenant, conversation, agent)
    )""",
    f"""CREATE TABLE tasks (
        {_TENANT}, board bigint NOT NULL REFERENCES boards ON DELETE CASCADE, position bigint NOT NULL,
        id text COLLATE "C" NOT NULL, title bytea NOT NULL, status text NOT NULL, retries bigint NOT NULL,
        PRIMARY KEY (board, position)
    )""",
)

_DOCUMENTS = (
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    f"""CREATE TABLE collections (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_TENANT}, name text COLLATE "C" NOT NULL,
        dimensions integer NOT NULL, UNIQUE (tenant, name)
    )""",
    # `direction` is the embedding at length 1, in single precision. `fields` are the metadata, NULL if jsonb cannot
    # hold them.
    f"""CREATE TABLE documents (
        {_TENANT}, collection bigint NOT NULL REFERENCES collections ON DELETE CASCADE, id text COLLATE "C" NOT NULL,
        content text NOT NULL, metadata text NOT NULL, fields jsonb, embedding bytea NOT NULL,
        direction public.vector NOT NULL, PRIMARY KEY (collection, id)
    )""",
)
_FACTS = (
    # `terms` are the words of the content, each as a number, as often as it occurs.
    f"""CREATE TABLE facts (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_TENANT}, agent text COLLATE "C" NOT NULL,
        namespace text COLLATE "C" NOT NULL, id text NOT NULL, key text COLLATE "C" NOT NULL, content bytea NOT NULL,
        metadata text NOT NULL, valid_from timestamptz NOT NULL, valid_until timestamptz,
        known_from timestamptz NOT NULL, expiry double precision, terms bigint[] NOT NULL, length bigint NOT NULL,
        analysis integer NOT NULL, UNIQUE (tenant, agent, namespace, id)
    )""",
    "CREATE INDEX facts_by_key ON facts (tenant, agent, namespace, key, valid_from)",
    "CREATE INDEX facts_that_expire ON facts (tenant, expiry) WHERE expiry IS NOT NULL",
    "CREATE INDEX facts_by_term ON facts USING gin (terms)",
)
_MEANINGS = (
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    f"""CREATE TABLE meanings (
        fact bigint PRIMARY KEY REFERENCES facts ON DELETE CASCADE, {_TENANT}, direction public.vector NOT NULL
    )""",
)


def _of_tenants(*tables: str) -> tuple[str, ...]:
    """Return the statements by which a connection sees one tenant's rows of some tables.

    They bind every role but superusers and those with BYPASSRLS. A connection that names no tenant gets an error.
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
    "tables": ((*_HISTORIES, *_STATES, *_BOARDS, *_of_tenants("threads", "messages", "states", "boards", "tasks")),),
    "facts": ((*_FACTS, *_of_tenants("facts")),),
    "meanings": ((*_MEANINGS, *_of_tenants("meanings")),),
    "vectors": ((*_DOCUMENTS, *_of_tenants("collections", "documents")),),
}
"""The statements of each version, by part. A part is made when a store first needs it.

`vectors` and `meanings` need an extension, and `meanings` needs the part `facts`.
Never change a version that has been released: append another.
"""
