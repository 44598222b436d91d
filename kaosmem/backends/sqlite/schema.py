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
_FACTS = (
    """CREATE TABLE shelves (
        id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, namespace TEXT NOT NULL,
        facts INTEGER NOT NULL DEFAULT 0, terms INTEGER NOT NULL DEFAULT 0, UNIQUE (agent, namespace)
    )""",
    # `terms` is a JSON object of the occurrences of each term, by which the postings of a fact are found.
    """CREATE TABLE facts (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, shelf INTEGER NOT NULL, key TEXT NOT NULL,
        content TEXT NOT NULL, metadata TEXT NOT NULL, valid_from TEXT NOT NULL, valid_until TEXT,
        known_from TEXT NOT NULL, expiry REAL, terms TEXT NOT NULL
    )""",
    "CREATE INDEX facts_by_key ON facts (shelf, key, valid_from)",
    "CREATE INDEX facts_that_expire ON facts (expiry) WHERE expiry IS NOT NULL",
    # An index of words for each shelf: no shelf's facts count in the scores of another.
    """CREATE TABLE postings (
        shelf INTEGER NOT NULL, live INTEGER NOT NULL, term TEXT NOT NULL, fact INTEGER NOT NULL,
        occurrences INTEGER NOT NULL, length INTEGER NOT NULL, PRIMARY KEY (shelf, live, term, fact)
    ) WITHOUT ROWID""",
    "CREATE TABLE analysis (version INTEGER NOT NULL)",
)
_GRAPH = (
    "CREATE TABLE entities (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, entity TEXT NOT NULL)",
    """CREATE TABLE relationships (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, target TEXT NOT NULL,
        type TEXT NOT NULL, relationship TEXT NOT NULL
    )""",
    "CREATE INDEX relationships_by_source ON relationships (source, type)",
    "CREATE INDEX relationships_by_target ON relationships (target, type)",
)

_MEANINGS = (
    # The embedding of a fact at length 1, in single precision.
    "CREATE TABLE meanings (fact INTEGER PRIMARY KEY, direction BLOB NOT NULL)",
    "CREATE TRIGGER meaning_of_fact AFTER DELETE ON facts BEGIN DELETE FROM meanings WHERE fact = OLD.seq; END",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = ((*_HISTORIES, *_STATES, *_BOARDS, *_DOCUMENTS, *_FACTS, *_GRAPH), _MEANINGS)
"""The statements of each version. Never change one that has been released: append another."""
