"""Large artefacts as a source: a context shows handles, and `fetch` returns the whole."""

from __future__ import annotations

import asyncio
import base64
import codecs
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kaosmem.arguments import (
    Clock,
    check_clock,
    check_instance,
    check_metadata,
    check_text,
    check_ttl,
)
from kaosmem.display import visible
from kaosmem.errors import MissingFileError
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource, holding, proposed, related
from kaosmem.stores import BlobStore
from kaosmem.stores.blob import Bytes
from kaosmem.types import Content, JSONObject
from kaosmem.types.content import ImageBlock, Trust
from kaosmem.types.items import Item

FILES = SectionSpec("files", 4_000, 55, eviction="none")

PREVIEW_CHARS = 300
_DESCRIBED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class BlobHandle:
    """The shown part of an artefact: key, media type, size in bytes and beginning of its text.

    Attributes:
        metadata: `source`, `timestamp` and `speaker` appear in its label.
    """

    key: str
    content_type: str
    size: int
    preview: str = field(default="", repr=False)
    metadata: JSONObject = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_id(self.key, "blob key")
        check_text(self.content_type, "content_type")
        check_text(self.preview, "preview")
        object.__setattr__(self, "metadata", check_metadata(self.metadata))

    @classmethod
    def of(
        cls,
        key: str,
        data: bytes,
        *,
        content_type: str,
        metadata: JSONObject | None = None,
    ) -> BlobHandle:
        """Return the handle of some bytes. It has a preview if they are text in UTF-8."""
        most = 8 * PREVIEW_CHARS
        text = _text_of(data[:most], is_cut=len(data) > most) or ""
        preview = text[:PREVIEW_CHARS].rstrip()
        if preview and len(text) > PREVIEW_CHARS:
            preview += "…"
        return cls(key, content_type, len(data), preview, check_metadata(metadata))

    @property
    def text(self) -> str:
        """Return the handle as the context shows it."""
        title = f"{visible(self.key)} ({visible(self.content_type)}, {self.size:,} bytes)"
        if self.preview:
            return f"{title}: {self.preview}"
        return title


class BlobSource(StoreSource):
    """Artefacts as handles, the newest first.

    Above the spec's threshold, handles that match the query come first. Other handles are shown
    only if all fit, or if the query has no subject.

    `memory.fetch(id)` returns a text whole, an image as an ImageBlock, and for other bytes the
    handle with a URL. The source shows all artefacts of the store, also those of other processes.
    It lists the keys of the store again for a context after `refresh_s` seconds, since each key
    costs the store some time. It asks only for the media types and sizes of new keys, and reads no
    bytes. If the listing fails, the known handles are shown, and the context names the error.
    Handles of listed artefacts stand before those of uploads, by key. They have no preview and no
    metadata of `upload`: these are part of a handle. Each handle has the metadata `key`,
    `content_type` and `size`. Raises InvalidArgumentError for the store and the spec.

    Args:
        handles: The handles to show, oldest first; `upload` adds to them. The store is not listed.
            None: list the store.
        refresh_s: Seconds from one listing to the next, above 0.
        clock: Returns times with a zone.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.stores import InMemoryFileStore
    >>> source = BlobSource(InMemoryFileStore())
    >>> handle = await source.upload("report.txt", b"The rent is 900 euros.", content_type="text/plain")
    >>> memory = SessionMemory.test_mode()
    >>> name = await memory.attach(source)
    >>> print((await memory.assemble_context("rent", budget=200)).text)
    ## files
    [*] report.txt (text/plain, 22 bytes): The rent is 900 euros.
    <BLANKLINE>
    """

    def __init__(
        self,
        store: BlobStore,
        handles: Iterable[BlobHandle] | None = None,
        *,
        refresh_s: float = 30.0,
        clock: Clock | None = None,
        spec: SectionSpec = FILES,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._store = check_instance(store, BlobStore, "store")
        self._handles: dict[str, BlobHandle] = {}
        # The handles as items under their keys, so that sources of all names share them.
        self._shown = Section(holding(spec, ranker=BM25Ranker(), recent=0))
        self._is_listed = handles is None
        self._refresh = timedelta(seconds=check_ttl(refresh_s, "refresh_s"))
        self._clock = check_clock(clock)
        self._listed_at: datetime | None = None
        for handle in handles or ():
            self._put(handle)

    @property
    def handles(self) -> tuple[BlobHandle, ...]:
        """The handles, oldest first."""
        return tuple(self._handles.values())

    async def upload(
        self,
        key: str,
        data: Bytes,
        *,
        content_type: str,
        metadata: JSONObject | None = None,
    ) -> BlobHandle:
        """Store bytes without an expiry, and show their handle. The metadata are the handle's."""
        checked = check_metadata(metadata)
        await self._store.upload(key, data, content_type=content_type)
        handle = BlobHandle.of(key, bytes(data), content_type=content_type, metadata=checked)
        self._put(handle)
        return handle

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the handles.

        Listed artefacts may be gone by now: to fetch one says whether it is.
        """
        error = ""
        listed_at = self._listed_at
        is_due = listed_at is None or self._clock() >= listed_at + self._refresh
        if self._is_listed and is_due:
            try:
                await self._list()
            except (
                Exception
            ) as raised:  # whatever a store raises: the known handles are better than none
                error = type(raised).__name__
        await self._shown.index_for(cap, is_crowded=False)
        chosen = self._shown.proposer.propose(query, cap=cap, wanted=wanted, is_crowded=False)
        handles = [
            (self._handle(self._handles[unit.items[0].id]), unit.score)
            for unit in chosen.candidates
        ]
        proposal = proposed(handles, cap=cap)
        if len(self._handles) > self.spec.retrieval_threshold:
            proposal = related(proposal, query)
        offers_all = chosen.offers_all and proposal.offers_all
        unanswered = chosen.unanswered
        return replace(proposal, unanswered=unanswered, offers_all=offers_all, error=error)

    async def get(self, item_id: str) -> Item | None:
        """Return an artefact in full, or None. The handle of a lost artefact goes with it."""
        key = self._store_id(item_id)
        if key is None:
            return None
        try:
            handle = self._handles.get(key) or await self._described(key)
            if handle is None:
                return None
            data = await self._store.download(key)
            return self._handle(handle, await self._content(handle, data))
        except MissingFileError:
            self._discard(key)
            return None

    async def forget(self, item_ids: Collection[str]) -> None:
        """Delete artefacts from the store, and their handles."""
        for key in self._store_ids(item_ids):
            await self._store.delete(key)
            self._discard(key)

    def _put(self, handle: BlobHandle) -> None:
        self._discard(handle.key)
        self._handles[handle.key] = handle
        self._shown.add(replace(self._handle(handle), id=handle.key))

    def _discard(self, key: str) -> None:
        if self._handles.pop(key, None):
            self._shown.forget([key])

    async def _list(self) -> None:
        """Take the handles of new artefacts in the store, and leave out those that are gone."""
        # one that is uploaded meanwhile stays
        now = self._clock()
        known = set(self._handles)
        keys = await self._store.list_keys()
        for gone in known.difference(keys):
            self._discard(gone)
        new = [key for key in keys if key not in self._handles]
        for begin in range(0, len(new), _DESCRIBED_AT_ONCE):
            part = new[begin : begin + _DESCRIBED_AT_ONCE]
            for handle in await asyncio.gather(*map(self._described, part)):
                if handle is not None and handle.key not in self._handles:
                    self._put(handle)
        self._listed_at = now

    async def _described(self, key: str) -> BlobHandle | None:
        """Return a handle without preview, None if the artefact is gone or no store is listed."""
        if not self._is_listed:
            return None
        try:
            info = await self._store.describe(key)
        except MissingFileError:
            return None
        return BlobHandle(key, info.content_type, info.size)

    async def _content(self, handle: BlobHandle, data: bytes) -> Content:
        if handle.content_type.startswith("image/"):
            url = f"data:{handle.content_type};base64,{base64.b64encode(data).decode()}"
            return (ImageBlock(url, handle.content_type),)
        text = _text_of(data)
        if text is not None:
            return text
        return f"{handle.text}: {await self._store.presign_url(handle.key)}"

    def _handle(self, handle: BlobHandle, content: Content | None = None) -> Item:
        own = {"key": handle.key, "content_type": handle.content_type, "size": handle.size}
        metadata = {**handle.metadata, **own}
        return self._item(
            handle.key, handle.text if content is None else content, metadata=metadata
        )


def _text_of(data: bytes, *, is_cut: bool = False) -> str | None:
    """Return bytes as text in UTF-8, None if they are no text.

    Args:
        is_cut: Whether the bytes may end inside a character.
    """
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return None
    if "\x00" in text:
        return None
    return text
