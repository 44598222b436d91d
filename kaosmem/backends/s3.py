"""Blobs in a bucket of S3, or of any service that speaks its protocol."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from kaosmem.arguments import Clock, check_count, check_ttl
from kaosmem.errors import (
    DurabilityError,
    InvalidArgumentError,
    InvalidNameError,
    MissingExtraError,
)
from kaosmem.names import shown, shown_location
from kaosmem.stores.blob import (
    BlobInfo,
    BlobStore,
    checked,
    checksum,
    unknown_blob,
)

if TYPE_CHECKING:
    from obstore import Attributes, GetResult
    from obstore.store import S3Store

_EXPIRES = "kaosmem-expires"
"""The metadata field of an object that holds the end of its life, in seconds since 1970."""
_KEY = "kaosmem-key"
"""The metadata field of an object that holds its key, in UTF-8 and base64, if its name is not the
key.
"""
_CHECKSUM = "kaosmem-sha256"
"""The metadata field of an object that holds the checksum of its bytes.

Objects of others have none.
"""
_RESERVED = ".kaosmem/"
"""The prefix of names that are no keys."""
_ENCODED = f"{_RESERVED}keys/"
"""The prefix of objects whose keys cannot be names."""
_MAX_NAME_CHARS = 200  # servers that keep files allow 255 bytes for a segment of a name
_MAX_KEY_BYTES = 700  # S3 allows 1,024 with the prefix
_UNKNOWN_TYPE = "application/octet-stream"
"""The media type of an object of others that has none."""


class S3FileStore(BlobStore):
    """A BlobStore in a bucket: each key is one object, replaced at once or not at all.

    The name of the object is the key, below the prefix of the URL. So other programs find it, and
    their objects can be listed and downloaded, too. A key that S3 cannot hold as a name, such as
    one with an empty segment, has an object below `.kaosmem/keys/`. Bytes that were uploaded here
    carry a checksum, which each download verifies.

    Raises MissingExtraError without the extra `s3`, InvalidNameError for the URL; every call raises
    DurabilityError if the server fails or does not answer in time.

    Example, not run here because it needs a bucket::

        files = S3FileStore("s3://agent-files/tenant-7")
        await files.upload("report.csv", data, content_type="text/csv", ttl=86_400)
        url = await files.presign_url("report.csv", expires_s=600)

    Args:
        url: `s3://bucket` or `s3://bucket/prefix`. The bucket must exist. Give each tenant a prefix
            of its own.
        clock: Returns times with a zone. The times to live are measured by it.
        max_connections: Requests of one event loop under way at once. More calls than that wait for
            their turn.
        timeout_s: Seconds that one request, or the wait for its turn, may take.
        options: Settings of obstore's S3Store, such as `endpoint`, `region`, `access_key_id` and
            `secret_access_key`. Missing settings come from the environment (`AWS_ACCESS_KEY_ID` and
            so on).
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        max_connections: int = 32,
        timeout_s: float = 30.0,
        **options: Any,
    ) -> None:
        super().__init__(clock=clock)
        try:
            from obstore.store import S3Store
        except ImportError as error:
            raise MissingExtraError(
                "S3FileStore needs the extra 's3': pip install 'kaosmem[s3]'"
            ) from error
        self._timeout_s = check_ttl(timeout_s, "timeout_s")
        self._max_connections = check_count(max_connections, "max_connections", least=1)
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )
        limits: Any = {"timeout": f"{timeout_s}s", "allow_http": True}
        again: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=timeout_s)}
        try:
            self._store: S3Store = S3Store.from_url(
                url, client_options=limits, retry_config=again, **options
            )
        except Exception as error:  # whose message may show a key
            raise InvalidNameError(
                f"no blobs can be kept in {shown_location(url)} ({type(error).__name__}); "
                "give s3://<bucket>/<prefix> and the settings of its server"
            ) from None

    async def _put(
        self,
        key: str,
        data: bytes,
        content_type: str,
        expiry: float | None,
    ) -> None:
        """Store bytes. More than 5 MiB are sent in parts, side by side."""
        attributes = _attributes(key, content_type, expiry) | {_CHECKSUM: checksum(data)}
        async with self._turn():
            await self._store.put_async(_path(key), data, attributes=attributes)

    async def _get(self, key: str) -> bytes:
        async with self._turn():
            found = await self._found(key)
            data = bytes(await found.bytes_async())
        wanted = found.attributes.get(_CHECKSUM)
        return data if wanted is None else checked(key, data, wanted)

    async def _describe(self, key: str) -> BlobInfo:
        async with self._turn():
            found = await self._found(key, head=True)
        return BlobInfo(found.attributes.get("Content-Type", _UNKNOWN_TYPE), found.meta["size"])

    async def _delete(self, key: str) -> None:
        async with self._turn():
            await self._store.delete_async(_path(key))

    async def list_keys(self) -> list[str]:
        """Return the keys whose bytes are not expired, sorted, objects of others included.

        Each object costs a request.
        """
        return sorted(
            _key(path, each) for path, each in await self._all() if not self._is_expired(each)
        )

    async def delete_all(self) -> None:
        """Delete the objects that were uploaded here.

        Objects of others stay. Each object costs a request.
        """
        own = [path for path, each in await self._all() if _CHECKSUM in each.attributes]
        await self._delete_all_of(own)

    async def _url(self, key: str, expires_s: float) -> str:
        from obstore import sign_async

        async with self._turn():
            await self._found(key, head=True)
            return await sign_async(self._store, "GET", _path(key), timedelta(seconds=expires_s))

    async def delete_expired(self) -> int:
        """Delete the objects whose time to live is over, and return their number.

        Each object costs a request.

        Expired bytes can't be downloaded in any case.
        """
        expired = [path for path, each in await self._all() if self._is_expired(each)]
        await self._delete_all_of(expired)
        return len(expired)

    async def _delete_all_of(self, paths: list[str]) -> None:
        with _as_durability_error():
            if paths:
                await self._store.delete_async(paths)

    async def _all(self) -> list[tuple[str, GetResult]]:
        """Return the path and the attributes of the object of each key."""
        found: list[tuple[str, GetResult]] = []

        async def look(path: str) -> None:
            async with self._turn():
                head = await self._head(path)
                if head is not None:
                    found.append((path, head))

        with _as_durability_error():
            async for batch in self._store.list():
                paths = [meta["path"] for meta in batch]
                await asyncio.gather(*(look(path) for path in paths if _is_blob(path)))
        return found

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Take part in the requests of this event loop: at most `max_connections` at once."""
        turns = self._turns.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(self._max_connections)
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                await turns.acquire()
        except TimeoutError:
            raise DurabilityError(
                f"none of {self._max_connections} requests to the blob store ended within "
                f"{self._timeout_s:g} s; "
                "nothing has changed, try again with fewer calls at once, or raise max_connections "
                "or timeout_s"
            ) from None
        try:
            with _as_durability_error():
                yield
        finally:
            turns.release()

    async def _found(self, key: str, *, head: bool = False) -> GetResult:
        """Return an answer whose bytes are still to be read. Raises MissingFileError."""
        found = await self._head(_path(key), head=head)
        if found is None or self._is_expired(found):
            raise unknown_blob(key)
        return found

    async def _head(self, path: str, *, head: bool = True) -> GetResult | None:
        try:
            return await self._store.get_async(path, options={"head": head})
        except FileNotFoundError:
            return None

    def _is_expired(self, found: GetResult) -> bool:
        expires = found.attributes.get(_EXPIRES)
        return expires is not None and datetime.fromtimestamp(float(expires), UTC) <= self._clock()


def _attributes(
    key: str,
    content_type: str,
    expiry: float | None,
) -> Attributes:
    if not (content_type.isascii() and content_type.isprintable()):
        raise InvalidArgumentError(
            f"content_type is {shown(content_type)}; give a media type such as text/csv"
        )
    given = {"Content-Type": content_type}
    if _path(key) != key:
        given[_KEY] = b64encode(key.encode()).decode()
    if expiry is None:
        return given
    return given | {_EXPIRES: repr(expiry)}


def _path(key: str) -> str:
    """Return the name of a key's object. Different keys have different names."""
    segments = key.split("/")
    is_short = len(key.encode()) <= _MAX_KEY_BYTES
    if is_short and not key.startswith(_RESERVED) and all(map(_is_name, segments)):
        return key
    name = quote(key, safe="")
    return _ENCODED + (
        f"k-{name}" if len(name) <= _MAX_NAME_CHARS else f"h-{sha256(key.encode()).hexdigest()}"
    )


def _is_name(segment: str) -> bool:
    """Return whether a server keeps a segment of a name as it is.

    Some take a backslash for a slash.
    """
    return (
        segment not in ("", ".", "..")
        and "\\" not in segment
        and len(quote(segment, safe="")) <= _MAX_NAME_CHARS
    )


def _is_blob(path: str) -> bool:
    """Return whether an object is that of a key."""
    return path.startswith(_ENCODED) or not path.startswith(_RESERVED)


def _key(path: str, found: GetResult) -> str:
    """Return the key of an object."""
    stored = found.attributes.get(_KEY)
    return path if stored is None else b64decode(stored).decode()


@contextmanager
def _as_durability_error() -> Iterator[None]:
    """Raise errors of obstore as DurabilityError."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise DurabilityError(
            f"the blob store failed: {type(error).__name__}; check the bucket, its keys and its "
            "server, read what is "
            "stored, then try again"
        ) from error
