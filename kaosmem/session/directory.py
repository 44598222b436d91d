"""The stored sessions of a place: listing and deleting them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from kaosmem.arguments import Clock, check_clock, check_ttl
from kaosmem.persistence.storage import places
from kaosmem.persistence.storage.places import Location, StoredSession


async def list_sessions(url_or_fs: Location, namespace: str = "default") -> list[str]:
    """Return the ids of the sessions of a namespace, sorted.

    Raises InvalidNameError and DurabilityError.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await list_sessions("./.kaosmem")
    ['deal-42']
    """
    return await asyncio.to_thread(places.list_sessions, url_or_fs, namespace)


async def stored_sessions(url_or_fs: Location, namespace: str = "default") -> list[StoredSession]:
    """Return the sessions of a namespace with their sizes and last saves, the last saved first.

    No session is opened. Raises InvalidNameError and DurabilityError.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> for session in await stored_sessions("./.kaosmem"):
    ...     print(session.session_id, session.size_bytes > 0, session.saved is not None)
    deal-42 True True
    """
    return await asyncio.to_thread(places.stored_sessions, url_or_fs, namespace)


async def list_namespaces(url_or_fs: Location) -> list[str]:
    """Return the namespaces that hold a session, sorted.

    Raises InvalidNameError and DurabilityError.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./tenants", "deal-42", namespace="acme") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await list_namespaces("./tenants")
    ['acme']
    """
    return await asyncio.to_thread(places.list_namespaces, url_or_fs)


async def delete_session(
    url_or_fs: Location,
    session_id: str,
    namespace: str = "default",
) -> bool:
    """Delete a session and all that it kept, and return whether there was one.

    Raises InvalidNameError before any I/O.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await delete_session("./.kaosmem", "deal-42")
    True
    >>> await list_sessions("./.kaosmem")
    []
    """
    return await asyncio.to_thread(places.delete_session, url_or_fs, session_id, namespace)


async def delete_namespace(url_or_fs: Location, namespace: str) -> list[str]:
    """Delete all sessions of a namespace, and return their ids.

    Raises InvalidNameError before any I/O.

    Sessions that a writer makes meanwhile are deleted too, as far as they are seen: stop the
    tenant's writers before.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./tenants", "deal-42", namespace="acme") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await delete_namespace("./tenants", "acme")
    ['deal-42']
    >>> await list_namespaces("./tenants")
    []
    """
    return await asyncio.to_thread(places.delete_namespace, url_or_fs, namespace)


async def delete_idle_sessions(
    url_or_fs: Location,
    namespace: str = "default",
    *,
    idle_s: float,
    clock: Clock | None = None,
) -> list[str]:
    """Delete the sessions of a namespace that were not saved for some time, and return their ids.

    This is the time to live of sessions: call it now and then. A session counts as used when it is
    saved with a change. A session whose filesystem tells no times stays.

    Args:
        url_or_fs: A path, a URL, or a filesystem.
        namespace: The namespace of the sessions.
        idle_s: Seconds since the last save.
        clock: A function that returns aware times. The default is the computer's clock, which
            should agree with the filesystem's.

    Raises:
        InvalidNameError: If the namespace is not valid.
        InvalidArgumentError: If another argument is not valid.
        DurabilityError: If the storage fails.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await delete_idle_sessions("./.kaosmem", idle_s=30 * 86_400)
    []
    """
    before = check_clock(clock)() - timedelta(seconds=check_ttl(idle_s, "idle_s"))
    return await asyncio.to_thread(places.delete_idle_sessions, url_or_fs, namespace, before=before)
