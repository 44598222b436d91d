"""Blobs in a folder of any filesystem."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from kaosmem.arguments import Clock
from kaosmem.errors import InvalidArgumentError
from kaosmem.persistence.steps import Delete, List, Read, Write
from kaosmem.persistence.storage.places import (
    Location,
    Storage,
    as_durability_error,
    filesystem_of,
    folder_storage,
)
from kaosmem.stores.blob import (
    BlobInfo,
    BlobStore,
    changed_blob,
    checked,
    checksum,
    unknown_blob,
)

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

_DATA, _KEY = "data", "key"
_KEY_PATH = f"{_KEY}/key"
_MAX_TYPE_CHARS = 128
_TRIES = 10


class FolderFileStore(BlobStore):
    """A BlobStore in a folder of a local disk, or of any filesystem that fsspec knows.

    Each upload is a file of its own, whole before it counts and durable before the call returns.
    Its name holds the checksum, the size, the expiry and the media type. It lies in a folder that
    is named by a hash of the key. A small file beside it holds the key. Bytes that have changed
    since raise CorruptionError. `presign_url` signs where the filesystem can sign. A `file://` URL
    does not expire.

    Args:
        location: A path, a URL that fsspec understands, or a filesystem. Use a folder for blobs
            alone.
        clock: Returns times with a zone.

    >>> from kaosmem.backends import FolderFileStore
    >>> blobs = FolderFileStore("blobs")
    >>> await blobs.upload("report.txt", b"The rent is 900 euros.", content_type="text/plain")
    >>> await FolderFileStore("blobs").download("report.txt")  # in another process, for example
    b'The rent is 900 euros.'
    """

    def __init__(self, location: Location, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._location = location

    async def _put(
        self,
        key: str,
        data: bytes,
        content_type: str,
        expiry: float | None,
    ) -> None:
        media_type = quote(content_type, safe="")
        if len(media_type) > _MAX_TYPE_CHARS:
            raise InvalidArgumentError(
                f"content_type has {len(media_type):,} characters, at most {_MAX_TYPE_CHARS} can "
                "be stored; "
                "give a media type such as text/csv"
            )

        def upload(storage: Storage) -> None:
            _keep_key(storage, key)
            before = _files(storage)
            seq = before[-1].seq + 1 if before else 1
            ends = math.inf if expiry is None else expiry
            new = _File(seq, checksum(data), len(data), ends, media_type)
            storage.perform(Write(new.path, (data,)))
            for each in before:
                storage.perform(Delete(each.path, at_once=True))
            _keep_key(storage, key)  # a deletion may have taken it meanwhile

        await self._perform(key, upload)

    async def _get(self, key: str) -> bytes:
        def download(storage: Storage) -> bytes:
            for _ in range(_TRIES):
                files = self._current(storage)
                for file in files:
                    try:
                        data: bytes = storage.perform(Read(file.path))
                    except FileNotFoundError:  # replaced just now
                        break
                    if len(data) == file.size:
                        return checked(key, data, file.checksum)
                else:
                    if files:
                        raise changed_blob(key)
                    break
            raise unknown_blob(key)

        return await self._perform(key, download)

    async def _describe(self, key: str) -> BlobInfo:
        def describe(storage: Storage) -> BlobInfo:
            file = self._newest(storage, key)
            return BlobInfo(unquote(file.media_type), file.size)

        return await self._perform(key, describe)

    async def _delete(self, key: str) -> None:
        def delete(storage: Storage) -> None:
            for file in _files(storage):
                storage.perform(Delete(file.path, at_once=True))
            if storage.perform(List(_KEY)):
                storage.perform(Delete(_KEY_PATH, at_once=True))
            if _files(storage):  # an upload came meanwhile
                _keep_key(storage, key)

        await self._perform(key, delete)

    async def list_keys(self) -> list[str]:
        """Return the keys whose bytes are not expired, sorted.

        Each key costs the reading of a small file.
        """

        def keys(filesystem: AbstractFileSystem, paths: list[str]) -> list[str]:
            newest: dict[str, _File] = {}
            for path in paths:
                file = _file(path)
                if file is not None:
                    key_path = _key_path(path)
                    newest[key_path] = max(file, newest.get(key_path, file))
            now = self._clock().timestamp()
            held = {path for path, file in newest.items() if file.expiry > now}
            return sorted(filesystem.cat_file(path).decode() for path in held.intersection(paths))

        return await self._over_all(keys, "listing the blobs")

    async def delete_all(self) -> None:
        """Delete the files of all keys; files with other names stay."""
        await self._sweep(math.inf)

    async def delete_expired(self) -> int:
        """Delete the files whose time to live is over, and return their number.

        Call it now and then. Expired bytes can't be downloaded in any case.
        """
        return await self._sweep(self._clock().timestamp())

    async def _url(self, key: str, expires_s: float) -> str:
        def presign(storage: Storage) -> str:
            return self._signed(
                "/".join((*_folders(key), self._newest(storage, key).path)), expires_s
            )

        return await self._perform(key, presign)

    async def _perform(self, key: str, work: Callable[[Storage], T]) -> T:
        """Return what `work` returns, done in a thread. Raises DurabilityError."""
        storage = folder_storage(self._location, *_folders(key))
        with as_durability_error("the blob store"):
            return await asyncio.to_thread(work, storage)

    async def _sweep(self, latest: float) -> int:
        """Delete the files that expire at a time or before it, and return their number."""

        def sweep(filesystem: AbstractFileSystem, paths: list[str]) -> int:
            doomed: list[str] = []
            keys = {path for path in paths if path.endswith(f"/{_KEY_PATH}")}
            for path in paths:
                file = _file(path)
                if file is not None and file.expiry <= latest:
                    doomed.append(path)
                elif file is not None:
                    keys.discard(_key_path(path))
            # An upload under way stores its key once more.
            for path in (*doomed, *keys):
                filesystem.rm_file(path)
            return len(doomed)

        return await self._over_all(sweep, "deleting blobs")

    async def _over_all(self, work: Callable[[AbstractFileSystem, list[str]], T], doing: str) -> T:
        """Return what `work` returns, done in a thread with the paths of all files.

        Raises DurabilityError.
        """

        def over_all() -> T:
            filesystem = filesystem_of(self._location)
            filesystem.invalidate_cache()
            return work(filesystem, list(filesystem.find("")))

        with as_durability_error(doing):
            return await asyncio.to_thread(over_all)

    def _current(self, storage: Storage) -> list[_File]:
        """Return the newest file, and older ones in case it is not whole; none if it is expired."""
        files = _files(storage)[::-1]
        if files and files[0].expiry > self._clock().timestamp():
            return files
        return []

    def _newest(self, storage: Storage, key: str) -> _File:
        """Return the newest file of a key. Raises MissingFileError."""
        if files := self._current(storage):
            return files[0]
        raise unknown_blob(key)

    def _signed(self, path: str, expires_s: float) -> str:
        from fsspec.implementations.local import LocalFileSystem

        from kaosmem.persistence.storage.objects import inner_filesystem

        filesystem, path = inner_filesystem(filesystem_of(self._location), path)
        if isinstance(filesystem, LocalFileSystem):
            return Path(path).as_uri()
        try:
            return str(filesystem.sign(path, expiration=math.ceil(expires_s)))
        except NotImplementedError:
            return str(filesystem.unstrip_protocol(path))


class _File(NamedTuple):
    """The name of a file. Of several files under one key, the greatest counts."""

    seq: int
    checksum: str
    size: int
    expiry: float
    media_type: str

    @property
    def path(self) -> str:
        return (
            f"{_DATA}/{self.seq:012d}-{self.checksum}-{self.size}-{self.expiry!r}-{self.media_type}"
        )


def _key_path(path: str) -> str:
    """Return the path of the key of a file."""
    folder = path.rpartition(f"/{_DATA}/")[0]
    return f"{folder}/{_KEY_PATH}"


def _file(path: str) -> _File | None:
    """Return the parts of a file's name, None for a foreign file."""
    parts = path.rpartition("/")[2].split("-", 4)
    try:
        seq, digest, size, expiry, media_type = parts
        return _File(int(seq), digest, int(size), float(expiry), media_type)
    except ValueError:
        return None


def _files(storage: Storage) -> list[_File]:
    """Return the files under a key, the newest last."""
    return sorted(filter(None, map(_file, storage.perform(List(_DATA)))))


def _keep_key(storage: Storage, key: str) -> None:
    """Store the key beside its files, for `list_keys`."""
    if not storage.perform(List(_KEY)):
        storage.perform(Write(_KEY_PATH, (key.encode(),)))


def _folders(key: str) -> tuple[str, str]:
    """Return the folders of a key. Different keys have different folders, on any filesystem."""
    digest = blake2b(key.encode(), digest_size=20).hexdigest()
    return digest[:2], digest[2:]
