"""The contract of every BlobStore."""

from __future__ import annotations

import asyncio
from typing import Any

from kaosmem.errors import MissingFileError
from kaosmem.stores.blob import BlobStore
from kaosmem.testing.contracts.store import (
    IDS,
    StoreContract,
    refuses,
)

_TEXT = "text/plain"


class BlobContract(StoreContract[BlobStore]):
    """Every BlobStore passes this: subclass it and provide `make`."""

    keys = IDS

    async def write(
        self,
        store,
        key,
        text,
    ):
        await store.upload(key, text.encode(), content_type=_TEXT)

    async def read(self, store, key):
        try:
            return (await store.download(key)).decode()
        except MissingFileError:
            return None

    async def drop(
        self,
        store,
        key,
        way,
    ):
        await store.delete(key)

    async def listed(self, store):
        return await store.list_keys()

    async def test_each_key_has_a_url_of_its_own(self, store):
        """Keys that resemble each other have different URLs."""
        for key in IDS:
            await self.write(store, key, "text")
        assert len({await store.presign_url(key) for key in IDS}) == len(IDS)

    async def test_bytes_come_back_unchanged(self, store):
        """None, every byte, and many, of any kind of buffer, as bytes."""
        every = bytes(range(256))
        given: Any
        for given in (b"", every, every * 40_000, bytearray(every), memoryview(every)[::2]):
            await store.upload("a", given, content_type="application/octet-stream")
            read = await store.download("a")
            assert read == bytes(given)
            assert isinstance(read, bytes)

    async def test_bytes_are_described(self, store):
        """By the media type and the size of the last upload."""
        await store.upload("a", b"<p>", content_type="text/html")
        await store.upload("a", b"12345", content_type="text/csv; charset=utf-8")
        store = await self.reopened(store)
        assert await store.describe("a") == ("text/csv; charset=utf-8", 5)

    async def test_an_upload_replaces_bytes_and_time_to_live(self, store):
        """The last one counts, with its time to live or without. A deletion ends both."""
        lives = {
            "a": (self.ttl_s, None),
            "b": (None, self.ttl_s),
            "c": (self.ttl_s, 3 * self.ttl_s),
        }
        for key, (first, last) in lives.items():
            await store.upload(key, b"1", content_type=_TEXT, ttl=first)
            await store.upload(key, b"2", content_type=_TEXT, ttl=last)
        await store.upload("d", b"1", content_type=_TEXT, ttl=self.ttl_s)
        await store.delete("d")
        await refuses(MissingFileError, store.download("d"))
        await store.upload("d", b"2", content_type=_TEXT)
        await self.wait(self.ttl_s)
        assert await store.list_keys() == ["a", "c", "d"]
        for key in ("a", "c", "d"):
            assert await store.download(key) == b"2"

    async def test_bytes_are_gone_when_their_time_has_come(self, store):
        """Then the key is unknown, which is a FileNotFoundError, and free for other bytes."""
        await store.upload("a", b"1", content_type=_TEXT, ttl=self.ttl_s)
        await self.wait(self.ttl_s / 2)
        assert await store.download("a") == b"1"
        store = await self.reopened(store)
        await self.wait(self.ttl_s / 2)
        assert await store.list_keys() == []
        for key in ("a", "unknown"):
            for gone in (store.download(key), store.describe(key), store.presign_url(key)):
                await refuses(MissingFileError, gone)
            await refuses(FileNotFoundError, store.download(key))
        await store.upload("a", b"2", content_type=_TEXT)
        await self.wait(self.ttl_s)
        assert await store.download("a") == b"2"

    async def test_connecting_is_as_often_as_one_likes(self, store):
        """The first use connects by itself. Stored bytes are there after a disconnect."""
        await store.upload("a", b"1", content_type=_TEXT)
        for _ in range(2):
            await store.connect()
        for _ in range(2):
            await store.disconnect()
        assert await store.download("a") == b"1"

    async def test_one_of_many_writers_wins_whole(self, store):
        """A reader gets the whole content of one of the writers."""
        written = [bytes([number]) * 10_000 for number in range(100)]
        await asyncio.gather(*(store.upload("a", data, content_type=_TEXT) for data in written))
        assert await store.download("a") in written
