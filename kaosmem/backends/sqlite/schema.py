"""The tables of the SQLite stores, as migrations. A file counts those that it has had in `PRAGMA user_version`."""

APPLICATION_ID = 0x4B414F53
"""`KAOS` in ASCII: tells a database of kaosmem from those of other programs."""

_HISTORIES = (
    """CREATE TABLE threads (
        id INTEGER PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, size INTEGER NOT NULL,
        UNIQUE (agent, session)
    )""",
    # Positions are 0, 1, 2, ...: any part of a long thread is read at once.
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, position INTEGER NOT NULL, run TEXT NOT NULL,
        message TEXT NOT NULL, UNIQUE (thread, position)
    )""",
    "CREATE INDEX messages_of_run ON messages (thread, run) WHERE run <> ''",
)
_STATES = (
    """CREATE TABLE states (
        id INTEGER PRIMARY KEY, session TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (session, name)
    )""",
)
_BOARDS = (
    """CREATE TABLE boards (
        id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, agent TEXT NOT NULL, max_retries INTEGER NOT NULL,
        UNIQUE (conversation, agent)
    )""",
    """CREATE TABLE tasks (
        board INTEGER NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL, title TEXT NOT NULL, status TEXT NOT NULL,
        retries INTEGER NOT NULL, UNIQUE (board, position)
    )""",
)
_DOCUMENTS = (
    # Ids are never used again, and a replaced document has a new one: they tell what has changed since.
    """CREATE TABLE collections (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, dimensions INTEGER NOT NULL,
        newest INTEGER NOT NULL DEFAULT 0, deletions INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE documents (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, collection INTEGER NOT NULL, id TEXT NOT NULL, content TEXT NOT NULL,
        metadata TEXT NOT NULL, embedding BLOB NOT NULL, UNIQUE (collection, id)
    )""",
    "CREATE INDEX documents_by_seq ON documents (collection)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = ((*_HISTORIES, *_STATES, *_BOARDS, *_DOCUMENTS),)
"""The statements of each version. Never change one that has been released: append another."""
