"""Bytes under keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from hashlib import sha256
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from kaosmem.arguments import Clock, check_clock, check_text, check_ttl
from kaosmem.errors import CorruptionError, InvalidArgumentError, MissingFileError
from kaosmem.names import check_id, shown
from kaosmem.stores.expiry import Expiries

Bytes: TypeAlias = bytes | bytearray | memoryview


class BlobInfo(NamedTuple):
    """The media type that bytes were stored with, and their number."""

    content_type: str
    size: int


def unknown_blob(key: str) -> MissingFileError:
    """Return the error for a key without bytes."""
    return MissingFileError(f"nothing is stored under {shown(key)}, or its time to live is over")


def checksum(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return sha256(data).hexdigest()


def checked(
    key: str,
    data: bytes,
    wanted: str,
) -> bytes:
    """Return bytes that have a checksum. Raises CorruptionError for others."""
    if checksum(data) != wanted:
        raise changed_blob(key)
    return data


def changed_blob(key: str) -> CorruptionError:
    """Return the error for bytes that are not the stored ones."""
    return CorruptionError(
        f"the bytes under {shown(key)} have changed since they were stored; upload them again"
    )


class BlobStore(ABC):
    """Bytes under keys, such as files that agents made.

    A key is any text of 1 to 256 characters without control characters. A `/` has no special
    meaning. All methods but `connect` and `disconnect` raise InvalidNameError for another key.

    A store is a subclass with the abstract methods, which get checked values.

    Args:
        clock: Returns times with a zone. None: the computer's clock.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = check_clock(clock)

    async def connect(self) -> None:
        """Open the store's connections. Without this call, the first use opens them."""
        return

    async def disconnect(self) -> None:
        """Close the store's connections. The stored bytes stay, and the store can be used again."""
        return

    async def upload(
        self,
        key: str,
        data: Bytes,
        *,
        content_type: str,
        ttl: float | None = None,
    ) -> None:
        """Store bytes, in place of earlier bytes under this key.

        Raises InvalidArgumentError for data that are no bytes, the content type and the ttl.

        Args:
            content_type: A media type, such as `text/csv`, for readers of the URL.
            ttl: Seconds until the bytes expire. None: never.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(
                f"data is a {type(data).__name__}; give bytes, encode() makes them of a str"
            )
        check_text(content_type, "content_type")
        expiry = None
        if ttl is not None:
            expiry = self._clock().timestamp() + check_ttl(ttl)
        await self._put(check_id(key, "blob key"), bytes(data), content_type, expiry)

    async def download(self, key: str) -> bytes:
        """Return the bytes.

        Raises MissingFileError, and CorruptionError if they are not the stored ones.
        """
        return await self._get(check_id(key, "blob key"))

    async def describe(self, key: str) -> BlobInfo:
        """Return the media type and the size of the bytes without reading them.

        Raises MissingFileError.
        """
        return await self._describe(check_id(key, "blob key"))

    async def delete(self, key: str) -> None:
        """Delete the bytes, if they exist."""
        await self._delete(check_id(key, "blob key"))

    async def presign_url(self, key: str, *, expires_s: float = 3_600) -> str:
        """Return a URL that gives the bytes to its holder for this number of seconds.

        Raises MissingFileError, and InvalidArgumentError for the seconds.
        """
        check_ttl(expires_s, "expires_s")
        return await self._url(check_id(key, "blob key"), expires_s)

    @abstractmethod
    async def list_keys(self) -> list[str]:
        """Return the keys whose bytes are not expired, sorted."""

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""

    @abstractmethod
    async def _put(
        self,
        key: str,
        data: bytes,
        content_type: str,
        expiry: float | None,
    ) -> None:
        """Store bytes, in place of earlier bytes, in one step.

        Args:
            expiry: The time at which the bytes are gone, in seconds since 1970. None: never.
        """

    @abstractmethod
    async def _get(self, key: str) -> bytes:
        """Return the bytes. Raises MissingFileError and CorruptionError."""

    @abstractmethod
    async def _describe(self, key: str) -> BlobInfo:
        """Return the media type and the size of the bytes. Raises MissingFileError."""

    @abstractmethod
    async def _delete(self, key: str) -> None:
        """Delete the bytes, if they exist."""

    @abstractmethod
    async def _url(self, key: str, expires_s: float) -> str:
        """Return a URL for so many seconds. Raises MissingFileError."""


class InMemoryFileStore(BlobStore):
    """A BlobStore in this process; its URLs are `memory://` and the key, percent-encoded.

    Args:
        clock: Gives times with a zone.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._blobs: dict[str, tuple[bytes, str]] = {}
        self._expiries: Expiries[str] = Expiries(self._clock)

    async def list_keys(self) -> list[str]:
        self._drop_due()
        return sorted(self._blobs)

    async def delete_all(self) -> None:
        for key in [*self._blobs]:
            await self._delete(key)

    async def _put(
        self,
        key: str,
        data: bytes,
        content_type: str,
        expiry: float | None,
    ) -> None:
        self._drop_due()
        self._expiries.set(key, expiry)
        self._blobs[key] = data, content_type

    async def _get(self, key: str) -> bytes:
        return self._blob(key)[0]

    async def _describe(self, key: str) -> BlobInfo:
        data, content_type = self._blob(key)
        return BlobInfo(content_type, len(data))

    async def _delete(self, key: str) -> None:
        self._blobs.pop(key, None)
        self._expiries.discard(key)

    async def _url(self, key: str, expires_s: float) -> str:
        self._blob(key)
        return f"memory://{quote(key)}"

    def _blob(self, key: str) -> tuple[bytes, str]:
        self._drop_due()
        try:
            return self._blobs[key]
        except KeyError:
            raise unknown_blob(key) from None

    def _drop_due(self) -> None:
        for key in self._expiries.pop_due():
            del self._blobs[key]
