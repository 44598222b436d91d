"""The Corpus protocol: passages beyond one session, kept by an engine that proposes candidates."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from kaosmem.arguments import (
    check_count,
    check_instance,
    check_metadata,
    check_several,
    check_text,
    check_time,
    json_text,
)
from kaosmem.errors import (
    DuplicateError,
    InvalidArgumentError,
    InvalidNameError,
    NotFoundError,
    ReadOnlyError,
)
from kaosmem.filters import MetadataFilter
from kaosmem.ingest.passages import Passage
from kaosmem.language.analysis import analyze
from kaosmem.names import check_id, check_name, shown, shown_name
from kaosmem.retrieval.ranker import CollectionStatistics
from kaosmem.stores.labels import labels_of
from kaosmem.tokens import get_counter
from kaosmem.types.items import Item

T = TypeVar("T")

CANDIDATES = 300
"""The number of passages that an engine proposes for a question."""
MAX_SOURCE_CHARS = 1_024
WEEK_S = 7 * 86_400.0
"""The time for which older versions are kept, unless it is given."""
_MAX_SEARCHED = 4_096
"""The engine is asked for no more, where it lets passages through that the filter refuses."""
NAME = "xz"
"""Begins the words of the name of a source. No word of a text begins so."""
OF_PASSAGES = ""
"""Counts of words have the number of passages under this word."""
OF_ALL_WORDS = " "
"""Counts of words have the number of all words of texts under this word."""
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")

Given: TypeAlias = Item | Passage | Mapping[str, Any]
"""A passage as callers give it: a mapping has id, text, source, and may have metadata and role.

A corpus keeps and proposes passages as items, in no section. Their metadata have the source.
"""
Moment: TypeAlias = int | datetime | str
"""A version by its number, or the newest one of a time."""

_REMEDY = "give an item, or a mapping with id, text and source, and maybe metadata and role"


class CorpusVersion(NamedTuple):
    """A version of a corpus, and when it was written."""

    number: int
    at: datetime


class Candidates(NamedTuple):
    """The passages that an engine proposes for some terms, all of one version.

    Attributes:
        found: Best first, as the engine has it.
        statistics: The figures of the corpus, with the frequencies of the terms.
        version: Number of the version that they are from.
    """

    found: Sequence[Item]
    statistics: CollectionStatistics
    version: int = 0


class Change(NamedTuple):
    """New passages, and the sources and ids whose passages they replace."""

    new: Sequence[Item]
    sources: Sequence[str] = ()
    ids: Sequence[str] = ()


class CorpusChange(NamedTuple):
    """The result of a change.

    Attributes:
        version: Number of the new version, that of the newest one if nothing has changed.
        gone: Number of passages that were replaced or removed.
    """

    version: int
    gone: int


class Snapshot(Protocol):
    """One version of a tenant's passages. Its methods run in a worker thread."""

    def search(self, terms: Sequence[str], limit: int, wanted: MetadataFilter | None) -> Candidates:
        """Return the passages that match best, and perhaps some that the filter refuses.

        Args:
            limit: Maximum number of passages, 0 for the statistics alone.
        """

    def lookup(self, column: str, values: Sequence[str]) -> list[Item]:
        """Return the passages whose `id`, `source` or `spot` is one of some values."""

    def sources(self) -> dict[str, str]:
        """Return the stamp of each source."""


@runtime_checkable
class Corpus(Protocol):
    """Passages of one tenant, kept by an engine. Any number of sessions and processes may share it.

    A call that changes passages makes one new version, or none if it fails. A reader sees the
    passages of one version. An engine is a subclass with the abstract methods.
    """

    _tenant: str
    _moment: int | datetime | None

    def __init__(self, tenant: str) -> None:
        self._tenant = check_name(tenant, "tenant")
        self._moment = None

    @property
    def tenant(self) -> str:
        """Return the tenant whose passages these are."""
        return self._tenant

    def for_tenant(self, tenant: str) -> Self:
        """Return the corpus of another tenant at the same place. Raises InvalidNameError."""
        other = copy(self)
        other._tenant = check_name(tenant, "tenant")
        return other

    def at(self, moment: Moment) -> Self:
        """Return the corpus as it was in a version, or at a time. It cannot be changed.

        Its calls raise NotFoundError where that version is no longer kept.
        """
        other = copy(self)
        if isinstance(moment, datetime | str):
            other._moment = check_time(moment, "moment")
        else:
            other._moment = check_count(moment, "version", least=0)
        return other

    # Changes.

    async def add(self, passages: Iterable[Given]) -> CorpusChange:
        """Add passages. A passage takes the place of one with the same id.

        Raises:
            InvalidArgumentError: If a passage is not valid.
            DuplicateError: If two have the same id.
        """
        self._check_writable()
        new = await asyncio.to_thread(_checked, passages)
        return await self._change(Change(new))

    async def replace(
        self, sources: str | Iterable[str], passages: Iterable[Given]
    ) -> CorpusChange:
        """Replace all passages of some sources by others.

        Raises:
            InvalidArgumentError: If a passage is not valid, or of another source.
            DuplicateError: If two have the same id.
        """
        self._check_writable()
        names = source_names(sources)
        new = await asyncio.to_thread(_checked, passages, names)
        return await self._change(Change(new, names))

    async def remove(self, source: str) -> CorpusChange:
        """Remove the passages of a source. Older versions keep them."""
        return await self.replace([source], ())

    async def erase(
        self, sources: str | Iterable[str] = (), *, ids: Iterable[str] = (), alone: bool = False
    ) -> CorpusChange:
        """Erase sources and passages from every version and file.

        All older versions are given up with it. An erasure that is interrupted is finished by
        another call.

        Args:
            alone: Whether no other process writes to the corpus meanwhile. Then files that
                interrupted writers left are deleted too.
        """
        self._check_writable()
        change = await self._change(Change((), source_names(sources), check_ids(ids)))
        return CorpusChange(await self._purge(alone=alone), change.gone)

    async def compact(self, *, counts: bool = True) -> None:
        """Merge what many additions left, so that questions stay fast, and count the terms.

        Versions that are not too old are kept.

        Args:
            counts: Whether terms are counted, by which passages are ranked. It reads all passages.
        """
        self._check_writable()
        await self._merge(counts=counts)

    # Questions.

    async def candidates(
        self,
        terms: Sequence[str],
        *,
        limit: int = CANDIDATES,
        filter: MetadataFilter | None = None,
    ) -> Candidates:
        """Return the passages that match some terms best by BM25, at most `limit`.

        Args:
            terms: Terms of `analyze`. A term that is repeated counts once. Without a term, any
                passages are returned.
            filter: Only passages whose metadata pass. The engine chooses among them.
        """
        asked = check_count(limit, "limit", least=1)
        different = list(dict.fromkeys(terms))
        one_version = self
        while True:
            proposed = await one_version._search(different, asked, filter)
            found = proposed.found
            if filter is not None:
                found = [each for each in found if filter(each.metadata)]
            is_enough = len(found) >= limit or asked >= _MAX_SEARCHED
            if is_enough or len(proposed.found) < asked:
                return proposed._replace(found=found[:limit])
            one_version = self.at(proposed.version)
            asked = min(4 * asked, _MAX_SEARCHED)

    async def statistics(self, terms: Iterable[str] = ()) -> CollectionStatistics:
        """Return the figures of the last count of terms, with the frequencies of some terms.

        `compact` and `erase` count. The figures of a version do not change.
        """
        return (await self._search(list(terms), 0)).statistics

    async def get(self, ids: Iterable[str]) -> list[Item]:
        """Return the passages with these ids, in any order. Unknown ids are passed over."""
        return await self.lookup("id", check_ids(ids))

    async def lookup(self, column: str, values: Sequence[str]) -> list[Item]:
        """Return the passages whose `id`, `source` or `spot` is one of some values."""
        return await self._ask(lambda at: at.lookup(column, values)) or []

    async def sources(self) -> dict[str, str]:
        """Return the stamp of each source, as `metadata["file"]` of a passage has it, "" without."""
        return await self._ask(lambda at: at.sources()) or {}

    async def _search(
        self, terms: Sequence[str], limit: int, wanted: MetadataFilter | None = None
    ) -> Candidates:
        found = await self._ask(lambda at: at.search(terms, limit, wanted))
        return found or Candidates((), statistics_of(terms, {}))

    # The part of an engine.

    @abstractmethod
    async def versions(self) -> list[CorpusVersion]:
        """Return the versions that are kept, oldest first."""

    @abstractmethod
    async def tenants(self) -> list[str]:
        """Return the tenants that have been given passages and were not erased as a whole."""

    @abstractmethod
    async def erase_tenant(self) -> None:
        """Erase all passages of the tenant, with every version and file."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections."""

    @abstractmethod
    async def _ask(self, ask: Callable[[Snapshot], T]) -> T | None:
        """Return the answer of the version that is asked for, None if the tenant has no passages."""

    @abstractmethod
    async def _change(self, change: Change) -> CorpusChange:
        """Make one version with new passages, without the old ones of some sources and ids."""

    @abstractmethod
    async def _merge(self, *, counts: bool) -> None:
        """Do what `compact` says."""

    @abstractmethod
    async def _purge(self, *, alone: bool) -> int:
        """Count the terms, give up all but the newest version, and return its number."""

    async def _number(self) -> int | None:
        """Return the number of the version that is asked for, None for the newest one."""
        if not isinstance(self._moment, datetime):
            return self._moment
        older = [each.number for each in await self.versions() if each.at <= self._moment]
        if not older:
            raise not_kept()
        return older[-1]

    def _check_writable(self) -> None:
        if self._moment is not None:
            raise ReadOnlyError("this is an older version of the corpus; change the corpus itself")


def source_names(given: str | Iterable[str]) -> list[str]:
    """Return the names of sources, each once. Raises InvalidNameError."""
    names = [given] if isinstance(given, str) else check_several(given, "sources")
    return list(dict.fromkeys(map(_source, names)))


def check_ids(given: Iterable[str]) -> list[str]:
    """Return ids of passages, each once. Raises InvalidNameError."""
    return list(dict.fromkeys(check_id(each, "passage id") for each in check_several(given, "ids")))


def utc_now() -> datetime:
    """Return the time, in microseconds."""
    return datetime.now(UTC)


def not_kept() -> NotFoundError:
    """Return the error for a version that is gone, or never was."""
    return NotFoundError("this version of the corpus is not kept; versions() lists the kept ones")


def row_of(item: Item) -> dict[str, Any]:
    """Return the row of a table: `passage` has all of a passage, the other columns find it."""
    time = item.created_at.isoformat()
    fields = [item.id, item.role, item.text, item.tokens, time, dict(item.metadata)]
    return {
        "id": item.id,
        "source": item.metadata["source"],
        "spot": spot_of(item),
        "passage": json_text(fields),
        "stamp": str(item.metadata.get("file", "")),
        "labels": labels_of(item.metadata),
        "words": words_of(item),
    }


def passage_in(dumped: str) -> Item:
    """Return the passage of the column `passage`."""
    item_id, role, text, tokens, time, metadata = json.loads(dumped)
    return Item(item_id, "", role, text, tokens, datetime.fromisoformat(time), metadata=metadata)


def words_of(item: Item) -> str:
    """Return the words that an engine finds a passage by: those of its text, then of its source."""
    text = " ".join(map(word_of, analyze(item.text)))
    names = analyze(str(item.metadata["source"]))
    return text + "".join(f" {NAME}{word_of(term)}" for term in names)


def query_words(terms: Iterable[str]) -> list[str]:
    """Return the words that find terms in texts, and in names of sources."""
    words = list(map(word_of, terms))
    return words + [NAME + word for word in words]


def spot_of(item: Item, step: int = 0) -> str:
    """Return the spot of the passage so many places further, if it is a neighbour.

    Passages of a source that were added together are neighbours. Each is a microsecond later than
    the one before it.
    """
    source = blake2b(str(item.metadata["source"]).encode(), digest_size=12).hexdigest()
    return f"{source}-{round(item.created_at.timestamp() * 1e6) + step}"


def ordinals_of(found: Sequence[Item]) -> list[int]:
    """Return an ordinal for each passage, in order: those of two neighbours differ by one."""
    ordinals = []
    ordinal = -1
    expected = ""
    for each in found:
        ordinal += 1 if spot_of(each) == expected else 2
        ordinals.append(ordinal)
        expected = spot_of(each, 1)
    return ordinals


def statistics_of(terms: Iterable[str], counts: Mapping[str, int]) -> CollectionStatistics:
    """Return the figures of a corpus from the counts of words."""
    frequencies = {term: counts.get(word_of(term), 0) for term in terms}
    return CollectionStatistics(
        counts.get(OF_PASSAGES, 0), counts.get(OF_ALL_WORDS, 0), frequencies
    )


def word_of(term: str) -> str:
    """Return a term as a word of small ASCII letters, which no engine takes apart.

    Different terms have different words.

    >>> word_of("rent"), word_of("c++")
    ('rent', 'xgdclcl')
    """
    if term.isascii() and term.isalpha() and term.islower() and term[0] != "x":
        return term
    return "x" + term.encode().hex().translate(_LETTERS)


def _checked(given: Iterable[Given], sources: Collection[str] | None = None) -> list[Item]:
    """Return new passages. Raises as `Corpus.add` and `Corpus.replace`.

    Args:
        sources: The sources that they may have. None is any.
    """
    time = utc_now()
    new: dict[str, Item] = {}
    for each in check_several(given, "passages"):
        passage = _passage(each, time)
        if passage.id in new:
            raise DuplicateError(f"two passages have the id {shown(passage.id)}; give each its own")
        source = passage.metadata["source"]
        if sources is not None and source not in sources:
            raise InvalidArgumentError(
                f"passage {shown(passage.id)} is of the source {shown(source)}, which is not "
                "replaced; name it in sources"
            )
        new[passage.id] = passage
        time += timedelta(microseconds=1)
    return list(new.values())


def _passage(given: Given, time: datetime) -> Item:
    if isinstance(given, Item):
        if given.key is not None or not isinstance(given.content, str):
            raise InvalidArgumentError(
                f"item {shown(given.id)} has a key or blocks; a corpus holds texts: give its id, "
                "text, source and metadata"
            )
        source = str(given.metadata.get("source", given.id))
        given = Passage(given.id, given.text, source, dict(given.metadata), given.role)
    elif isinstance(given, Mapping):
        try:
            given = Passage(**{"metadata": {}, **given})
        except TypeError:
            raise InvalidArgumentError(
                f"a passage lacks a field, or has another one; {_REMEDY}"
            ) from None
    check_instance(given, Passage, "passage")
    passage_id = check_id(given.id, "passage id")
    text = check_text(given.text, "text of a passage")
    role = check_text(given.role, "role")
    metadata = {**check_metadata(given.metadata), "source": _source(given.source)}
    return Item(passage_id, "", role, text, get_counter(None)(text), time, metadata=metadata)


def _source(given: object) -> str:
    if isinstance(given, str) and 0 < len(given) <= MAX_SOURCE_CHARS and "\0" not in given:
        return given
    raise InvalidNameError(
        f"source {shown_name(given)} is not valid: use 1 to {MAX_SOURCE_CHARS} characters"
    )
