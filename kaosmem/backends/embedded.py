"""All seven kinds of stores in one folder, without a server."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kaosmem.arguments import Clock
from kaosmem.backends.folder import FolderFileStore
from kaosmem.backends.sqlite.database import SqliteDatabase, local_path
from kaosmem.backends.sqlite.stores import (
    SqliteGraphStore,
    SqliteHistoryProvider,
    SqliteLongTermMemory,
    SqliteShortTermMemory,
    SqliteTaskStore,
)
from kaosmem.backends.sqlite.vectors import SqliteVectorStore
from kaosmem.clients import EmbeddingClient
from kaosmem.persistence.storage.places import Location

# No namespace of sessions begins so: sessions may be kept in the same folder.
_DATABASE, _BLOBS = "_stores.sqlite", "_blobs"


@dataclass(frozen=True, slots=True)
class Stores:
    """The seven stores of one folder.

    `async with` opens them, and closes them at the end. Without it the first use opens them; call
    `close` at the end.
    """

    database: SqliteDatabase
    history: SqliteHistoryProvider
    state: SqliteShortTermMemory
    facts: SqliteLongTermMemory
    vectors: SqliteVectorStore
    graph: SqliteGraphStore
    tasks: SqliteTaskStore
    files: FolderFileStore

    async def __aenter__(self) -> Stores:
        await self.database.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def delete_all(self) -> None:
        """Delete everything in all seven stores."""
        for store in (
            self.history,
            self.state,
            self.facts,
            self.vectors,
            self.graph,
            self.tasks,
            self.files,
        ):
            await store.delete_all()

    async def close(self) -> None:
        """Wait for calls under way, and close the database. Later calls raise NotOpenedError."""
        await self.database.close()


def open_stores(
    folder: str | os.PathLike[str],
    *,
    embedding_client: EmbeddingClient | None = None,
    files: Location | None = None,
    clock: Clock | None = None,
) -> Stores:
    """Return a store of each kind over one local folder, which several processes may share.

    Raises InvalidNameError for a URL; at the first use, DurabilityError, CorruptionError,
    UnsupportedVersionError.

    Args:
        embedding_client: Makes missing embeddings of documents.
        files: Another place for blobs, such as `s3://bucket/agent`. The default is a folder inside
            `folder`.
        clock: Returns times with a zone.

    >>> from kaosmem.backends import open_stores
    >>> async with open_stores("./agent") as stores:
    ...     await stores.state.update_state("room-7", {"step": 2})
    {'step': 2}
    >>> async with open_stores("./agent") as stores:  # in another process, for example
    ...     await stores.state.get_state("room-7")
    {'step': 2}
    """
    root = local_path(folder)
    database = SqliteDatabase(root / _DATABASE)
    return Stores(
        database,
        SqliteHistoryProvider(database, clock=clock),
        SqliteShortTermMemory(database),
        SqliteLongTermMemory(database, clock=clock),
        SqliteVectorStore(database, embedding_client),
        SqliteGraphStore(database),
        SqliteTaskStore(database),
        FolderFileStore(root / _BLOBS if files is None else files, clock=clock),
    )
