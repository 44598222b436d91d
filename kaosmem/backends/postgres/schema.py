"""The tables of the PostgreSQL stores, as migrations. The table `migrations` counts those that a schema has had."""

MIGRATION_LOCK = 0x4B414F53
"""The advisory lock that one migrating process holds: `KAOS` in ASCII."""

_TENANT = "tenant text COLLATE \"C\" NOT NULL DEFAULT current_setting('kaosmem.tenant')"

_BASE = (
    "CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT now())",
)
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

MIGRATIONS: tuple[tuple[str, ...], ...] = ((*_BASE, *_HISTORIES, *_STATES, *_BOARDS),)
"""The statements of each version. Never change one that has been released: append another."""

_TABLES = (("threads", "messages", "states", "boards", "tasks"),)

POLICIES: tuple[tuple[str, ...], ...] = tuple(
    tuple(
        statement
        for table in tables
        for statement in (
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            # Without the setting this raises: a connection that names no tenant sees no rows.
            f"CREATE POLICY of_tenant ON {table} USING (tenant = current_setting('kaosmem.tenant'))",
        )
    )
    for tables in _TABLES
)
"""Row-level security for the tables of each version. It binds every role but superusers and those with BYPASSRLS."""
