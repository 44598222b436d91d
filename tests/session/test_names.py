"""Names of sections and sessions are data, never a part of another's path."""

from __future__ import annotations

import pytest

from kaosmem import delete_session, list_sessions
from kaosmem.errors import InvalidNameError
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.stored import ids_at, memory_at


async def test_two_pairs_of_names_are_never_one_place(tmp_path):
    """A namespace can't take a part of a session's id over: with a slash it is refused, with a colon kept apart."""
    for namespace, session_id in (("a", "b/c"), ("a/b", "c")):
        with pytest.raises(InvalidNameError):
            await memory_at(tmp_path, session_id, namespace=namespace).__aenter__()
    for place in (tmp_path, IsolatedMemoryFileSystem()):
        pairs = [("a:b", "c"), ("a", "b:c"), ("a", "b.c"), ("a.b", "c")]
        for namespace, session_id in pairs:
            async with memory_at(place, session_id, namespace=namespace) as memory:
                memory.add("messages", "text", id=f"{namespace} {session_id}")
        for namespace, session_id in pairs:
            assert await ids_at(place, session_id, namespace=namespace) == [
                f"{namespace} {session_id}"
            ]
        await delete_session(place, "c", "a:b")
        assert await list_sessions(place, "a") == ["b.c", "b:c"]
