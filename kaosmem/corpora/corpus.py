"""The Corpus protocol: passages beyond one session, kept by an engine that proposes candidates."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from kaosmem.arguments import (
    check_collection,
    check_count,
    check_metadata,
    check_text,
    check_time,
    check_ttl,
    json_text,
)
from kaosmem.errors import (
    DuplicateError,
    InvalidArgumentError,
    InvalidNameError,
    NotFoundError,
    ReadOnlyError,
)
from kaosmem.filters import Filter, MetadataFilter
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
_MAX_SEARCHED = 4_096
"""The engine is asked for so many, where it lets passages through that the filter refuses."""
SOURCE_WORD_PREFIX = "xz"
"""Begins the words of the name of a source. No word of a text begins so."""
PASSAGE_COUNT_KEY = ""
"""Counts of words have the number of passages under this word."""
WORD_COUNT_KEY = " "
"""Counts of words have the number of all words of texts under this word."""
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")

PassageInput: TypeAlias = Item | Mapping[str, Any]
"""A passage as callers give it: a mapping has id, text, source, and may have metadata and role.

A corpus proposes passages as items, in no section. Their metadata have the source.
"""
StampsBySource: TypeAlias = dict[str, str]
"""By source, its stamp: `metadata["file"]` of its passages, "" without."""
VersionOrTime: TypeAlias = int | datetime | str
"""A version by its number, or the newest one of a time."""

MICROSECOND = timedelta(microseconds=1)
_NEEDED = {"id", "text", "source"}
_FIELDS = _NEEDED | {"metadata", "role"}


class Row(NamedTuple):
    """A passage as an engine keeps it: `passage` has all of it, the other columns find it.

    Attributes:
        passage: JSON, which `passage_in` reads.
        stamp: `metadata["file"]`, by which an ingestion knows a file that has not changed.
        words: Words with spaces between, as `words_of` returns them.
    """

    id: str
    source: str
    passage: str
    stamp: str
    labels: Sequence[str]
    words: str


class CorpusVersion(NamedTuple):
    """A version of a corpus, and when it was written."""

    number: int
    at: datetime


class ProposedPassages(NamedTuple):
    """The passages that an engine proposes for some terms, all of one version.

    Attributes:
        found: Best first, as the engine has it.
        statistics: The figures of the corpus, with the frequencies of the terms.
        version: Number of the version that they are from.
    """

    found: Sequence[Item]
    statistics: CollectionStatistics
    version: int = 0


class PassageChange(NamedTuple):
    """New passages, and the sources and ids whose passages they replace."""

    new: Sequence[Row]
    sources: Sequence[str] = ()
    ids: Sequence[str] = ()


class ChangeResult(NamedTuple):
    """The result of a change.

    Attributes:
        version: Number of the new version, that of the newest one if nothing has changed.
        gone: Number of passages that were replaced or removed.
    """

    version: int
    gone: int


class Snapshot(Protocol):
    """One version of a tenant's passages. Its methods run in a worker thread."""

    @property
    def version(self) -> int:
        """Return the number of the version."""

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many passages had some words at the last count. Unknown words may be missing."""

    def search(
        self,
        words: Sequence[str],
        limit: int,
        wanted: Filter,
    ) -> list[str]:
        """Return the column `passage` of the best matches, and perhaps of some that the filter refuses.

        Args:
            words: Without a word, any passages are returned.
        """

    def get(self, ids: Sequence[str]) -> list[str]:
        """Return the column `passage` of the passages with some ids."""

    def sources(self) -> StampsBySource:
        """Return the stamp of each source."""


@runtime_checkable
class Corpus(Protocol):
    """Passages of one tenant, kept by an engine. Any number of sessions and processes may share it.

    A call that changes passages makes one new version, or none if it fails. A reader sees the
    passages of one version. An engine is a subclass with the abstract methods.
    """

    tenant: str
    _moment: int | datetime | None

    def __init__(self, tenant: str) -> None:
        self.tenant = check_name(tenant, "tenant")
        self._moment = None

    def for_tenant(self, tenant: str) -> Self:
        """Return the corpus of another tenant at the same place. Raises InvalidNameError."""
        other = copy(self)
        other.tenant = check_name(tenant, "tenant")
        return other

    def at(self, moment: VersionOrTime) -> Self:
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

    async def add(self, passages: Iterable[PassageInput]) -> ChangeResult:
        """Add passages. A passage takes the place of one with the same id.

        Raises:
            InvalidArgumentError: If a passage is not valid.
            DuplicateError: If two have the same id.
        """
        self._check_writable()
        new = await asyncio.to_thread(_checked, passages)
        return await self._change(PassageChange(new))

    async def replace(
        self, sources: str | Iterable[str], passages: Iterable[PassageInput]
    ) -> ChangeResult:
        """Replace all passages of some sources by others.

        Raises:
            InvalidArgumentError: If a passage is not valid, or of another source.
            DuplicateError: If two have the same id.
        """
        self._check_writable()
        names = source_names(sources)
        new = await asyncio.to_thread(_checked, passages, names)
        return await self._change(PassageChange(new, names))

    async def remove(self, source: str) -> ChangeResult:
        """Remove the passages of a source. Older versions keep them."""
        return await self.replace([source], ())

    async def erase(
        self,
        source: str | Iterable[str] = (),
        *,
        ids: Iterable[str] = (),
        alone: bool = False,
    ) -> ChangeResult:
        """Erase passages from every version and file.

        All older versions are given up with it. An erasure that is interrupted is finished by
        another call.

        Args:
            source: A source, or several.
            alone: Whether no other process writes to the corpus meanwhile. Then files that
                interrupted writers left are deleted too.
        """
        self._check_writable()
        change = await self._change(PassageChange((), source_names(source), check_ids(ids)))
        return ChangeResult(await self._purge(alone=alone), change.gone)

    async def compact(self, *, keep_s: float = WEEK_S, counts: bool = True) -> None:
        """Merge what many additions left, so that questions stay fast, and count the terms.

        Args:
            keep_s: Seconds for which older versions are kept.
            counts: Whether terms are counted, by which passages are ranked. It reads all passages.
        """
        self._check_writable()
        keep = timedelta(seconds=check_ttl(keep_s, "keep_s"))
        await self._merge(keep, counts=counts)

    # Questions.

    async def candidates(
        self,
        terms: Sequence[str],
        *,
        limit: int = CANDIDATES,
        filter: MetadataFilter | None = None,
    ) -> ProposedPassages:
        """Return the passages that match some terms best by BM25, at most `limit`.

        Args:
            terms: Terms of `analyze`. A term that is repeated counts once. Without a term, any
                passages are returned.
            filter: Only passages whose metadata pass. The engine chooses among them.
        """
        check_count(limit, "limit", least=1)
        different = list(dict.fromkeys(terms))
        given = {} if filter is None else filter.given

        def ask(at: Snapshot) -> ProposedPassages:
            found: list[Item] = []
            for asked in (limit, max(limit, _MAX_SEARCHED)):
                proposed = list(map(passage_in, at.search(query_words(different), asked, given)))
                found = [each for each in proposed if filter is None or filter(each.metadata)]
                if len(found) >= limit or len(proposed) < asked:
                    break
            return ProposedPassages(found[:limit], _statistics(at, different), at.version)

        return await self._ask(ask)

    async def statistics(self, terms: Iterable[str] = ()) -> CollectionStatistics:
        """Return the figures of the last count of terms, with the frequencies of some terms.

        `compact` and `erase` count. The figures of a version do not change.
        """
        asked = list(terms)
        return await self._ask(lambda at: _statistics(at, asked))

    async def get(self, ids: Iterable[str]) -> list[Item]:
        """Return the passages with these ids, in any order. Unknown ids are passed over."""
        asked = check_ids(ids)
        return list(map(passage_in, await self._ask(lambda at: at.get(asked))))

    async def sources(self) -> dict[str, str]:
        """Return the stamp of each source, as `metadata["file"]` of a passage has it, "" without."""
        return await self._ask(lambda at: at.sources())

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

    async def close(self) -> None:
        """Let go of connections, if the engine has any."""
        return

    @abstractmethod
    async def _ask(self, ask: Callable[[Snapshot], T]) -> T:
        """Return the answer of the version that is asked for, `EMPTY` without any."""

    @abstractmethod
    async def _change(self, change: PassageChange) -> ChangeResult:
        """Make one version with new passages, without the old ones of some sources and ids."""

    async def _merge(self, keep: timedelta, *, counts: bool) -> None:
        """Do what `compact` says, if the engine needs it."""
        return

    @abstractmethod
    async def _purge(self, *, alone: bool) -> int:
        """Count the terms, give up all but the newest version, and return its number."""

    async def _number(self) -> int | None:
        """Return the number of the version that is asked for, None for the newest one."""
        if not isinstance(self._moment, datetime):
            return self._moment
        older = [each.number for each in await self.versions() if each.at <= self._moment]
        if not older:
            raise no_such_version()
        return older[-1]

    def _check_writable(self) -> None:
        if self._moment is not None:
            raise ReadOnlyError("this is an older version of the corpus; change the corpus itself")


def source_names(given: str | Iterable[str]) -> list[str]:
    """Return the names of sources, each once. Raises InvalidNameError."""
    if isinstance(given, str):
        return [_source(given)]
    names = check_collection(given, "sources")
    return list(dict.fromkeys(map(_source, names)))


def check_ids(given: Iterable[str]) -> list[str]:
    """Return ids of passages, each once. Raises InvalidNameError."""
    checked = [check_id(each, "passage id") for each in check_collection(given, "ids")]
    return list(dict.fromkeys(checked))


def utc_now() -> datetime:
    """Return the time, in microseconds."""
    return datetime.now(UTC)


def no_such_version() -> NotFoundError:
    """Return the error for a version that is gone, or never was."""
    return NotFoundError("this version of the corpus is not kept; versions() lists the kept ones")


def passage_in(dumped: str) -> Item:
    """Return the passage of the column `passage`."""
    item_id, role, text, tokens, time, metadata = json.loads(dumped)
    return Item(item_id, "", role, text, tokens, datetime.fromisoformat(time), metadata=metadata)


def words_of(text: str, source: str) -> str:
    """Return the words that an engine finds a passage by: those of its text, then of its source."""
    words = " ".join(map(word_of, analyze(text)))
    of_source = [f" {SOURCE_WORD_PREFIX}{word_of(term)}" for term in analyze(source)]
    return words + "".join(of_source)


def count_words(counts: Counter[str], texts: Iterable[str]) -> None:
    """Count passages, each of which is its words with spaces between, as `words_of` returns them.

    >>> counts = Counter()
    >>> count_words(counts, ["rent euro rent", "rent"])
    >>> counts["rent"], counts[PASSAGE_COUNT_KEY], counts[WORD_COUNT_KEY]
    (2, 2, 4)
    """
    for text in texts:
        words = text.split()
        counts.update({PASSAGE_COUNT_KEY, *words})
        counts[WORD_COUNT_KEY] += len(words) - text.count(f" {SOURCE_WORD_PREFIX}")


def query_words(terms: Iterable[str]) -> list[str]:
    """Return the words that find terms in texts, and in names of sources."""
    words = list(map(word_of, terms))
    return words + [SOURCE_WORD_PREFIX + word for word in words]


def word_of(term: str) -> str:
    """Return a term as a word of small ASCII letters, which no engine takes apart.

    Different terms have different words.

    >>> word_of("rent"), word_of("c++")
    ('rent', 'xgdclcl')
    """
    if term.isascii() and term.isalpha() and term.islower() and term[0] != "x":
        return term
    return "x" + term.encode().hex().translate(_LETTERS)


def _statistics(at: Snapshot, terms: Sequence[str]) -> CollectionStatistics:
    """Return the figures of a version at its last count."""
    counts = at.counts([PASSAGE_COUNT_KEY, WORD_COUNT_KEY, *map(word_of, terms)])
    frequencies = {term: counts.get(word_of(term), 0) for term in terms}
    return CollectionStatistics(
        counts.get(PASSAGE_COUNT_KEY, 0), counts.get(WORD_COUNT_KEY, 0), frequencies
    )


def _checked(given: Iterable[PassageInput], sources: Collection[str] | None = None) -> list[Row]:
    """Return new passages. Raises as `Corpus.add` and `Corpus.replace`.

    The passages of one call are neighbours: each is a microsecond later than the one before it.

    Args:
        sources: The sources that they may have. None is any.
    """
    time = utc_now()
    new: dict[str, Row] = {}
    for each in check_collection(given, "passages"):
        row = _row(each, time)
        if row.id in new:
            raise DuplicateError(f"two passages have the id {shown(row.id)}; give each its own")
        if sources is not None and row.source not in sources:
            raise InvalidArgumentError(
                f"passage {shown(row.id)} is of the source {shown(row.source)}, which is not "
                "replaced; name it in sources"
            )
        new[row.id] = row
        time += MICROSECOND
    return list(new.values())


def _row(given: PassageInput, time: datetime) -> Row:
    if isinstance(given, Item):
        given = _fields_of(given)
    if not isinstance(given, Mapping) or not _FIELDS >= given.keys() >= _NEEDED:
        raise InvalidArgumentError(
            "a passage lacks a field, or has another one; give an item, or a mapping with id, text "
            "and source, and maybe metadata and role"
        )
    item_id = check_id(given["id"], "passage id")
    text = check_text(given["text"], "text of a passage")
    role = check_text(given.get("role", ""), "role")
    source = _source(given["source"])
    metadata = {**check_metadata(given.get("metadata")), "source": source}
    dumped = json_text([item_id, role, text, get_counter(None)(text), time.isoformat(), metadata])
    stamp = str(metadata.get("file", "")).replace("\0", "")
    return Row(item_id, source, dumped, stamp, labels_of(metadata), words_of(text, source))


def _fields_of(item: Item) -> dict[str, Any]:
    if item.key is not None or not isinstance(item.content, str):
        raise InvalidArgumentError(
            f"item {shown(item.id)} has a key or blocks; a corpus holds texts: give its id, "
            "text, source and metadata"
        )
    return {
        "id": item.id,
        "text": item.content,
        "source": str(item.metadata.get("source", item.id)),
        "metadata": item.metadata,
        "role": item.role,
    }


def _source(given: object) -> str:
    if isinstance(given, str) and 0 < len(given) <= MAX_SOURCE_CHARS and "\0" not in given:
        return given
    raise InvalidNameError(
        f"source {shown_name(given)} is not valid: use 1 to {MAX_SOURCE_CHARS} characters"
    )
