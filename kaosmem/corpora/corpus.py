"""The Corpus protocol: passages beyond one session, kept by an engine that proposes candidates."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from kaosmem.arguments import (
    check_count,
    check_metadata,
    check_several,
    check_text,
    check_time,
    json_text,
)
from kaosmem.corpora.labels import labels_of
from kaosmem.corpora.term_counts import TermCounts, word_of
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
from kaosmem.names import MAX_ID_CHARS, check_id, check_name, shown, shown_name
from kaosmem.retrieval.ranker import CollectionStatistics
from kaosmem.tokens import get_counter
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

CANDIDATES = 300
"""The number of passages that an engine proposes for a question."""
MAX_SOURCE_CHARS = 1_024
WEEK_S = 7 * 86_400.0
"""The time for which older versions are kept, unless it is given."""
_MAX_SEARCHED = 4_096
"""The engine is asked for no more, where it lets passages through that the filter refuses."""

Given: TypeAlias = Item | Passage | Mapping[str, Any]
"""A passage as callers give it: a mapping has id, text, source, and may have metadata and role."""
Moment: TypeAlias = int | datetime | str
"""A version by its number, or the newest one of a time."""

_FIELDS = frozenset(("id", "text", "source", "metadata", "role"))
_REMEDY = "give an item, or a mapping with id, text and source, and maybe metadata and role"


class CorpusVersion(NamedTuple):
    """A version of a corpus, and when it was written."""

    number: int
    at: datetime


class Found(NamedTuple):
    """A passage as an engine keeps and proposes it.

    Attributes:
        place: Number of the passage in the call that added it. Passages of a source that were
            added together and have consecutive places are neighbours.
        tokens: Tokens of the text by the default counter.
    """

    added_at: datetime
    place: int
    passage: Passage
    tokens: int

    def dump(self) -> str:
        """Return the passage as JSON text, which an engine keeps in one column: it is read as one."""
        passage = self.passage
        fields = [passage.id, passage.source, passage.text, passage.metadata, passage.role]
        return json_text([self.added_at.isoformat(), self.place, self.tokens, *fields])

    @classmethod
    def load(cls, dumped: str) -> Found:
        """Return the passage of a dump."""
        added_at, place, tokens, passage_id, source, text, metadata, role = json.loads(dumped)
        passage = Passage(passage_id, text, source, metadata, role)
        return cls(datetime.fromisoformat(added_at), place, passage, tokens)

    @property
    def order(self) -> tuple[datetime, int, str]:
        """Return its place in the order of the corpus, oldest first."""
        return self.added_at, self.place, self.passage.id

    @property
    def stamp(self) -> str:
        """Return the stamp of the file that the passage is from, "" without."""
        return str(self.passage.metadata.get("file", ""))

    def spot(self, step: int = 0) -> str:
        """Return the spot of the passage so many places further, if it is a neighbour."""
        given = f"{self.added_at.timestamp():.6f} {self.passage.source}".encode()
        return f"{blake2b(given, digest_size=12).hexdigest()}-{self.place + step}"


class Entry(NamedTuple):
    """A new passage, with the words that an engine finds it by.

    Attributes:
        words: The terms that kaosmem ranks by, in order, each as `word_of` writes it.
    """

    found: Found
    words: tuple[str, ...]

    @property
    def id(self) -> str:
        """Return the id of the passage."""
        return self.found.passage.id

    def row(self) -> dict[str, Any]:
        """Return the entry as a row of a table."""
        passage = self.found.passage
        return {
            "id": passage.id,
            "source": passage.source,
            "spot": self.found.spot(),
            "passage": self.found.dump(),
            "stamp": self.found.stamp,
            "labels": labels_of(passage.metadata),
            "words": " ".join(self.words),
        }


@dataclass(frozen=True, slots=True)
class Candidates:
    """The passages that an engine proposes for some terms, all of one version.

    Attributes:
        found: Best first, as the engine has it.
        statistics: The figures of the corpus, with the frequencies of the terms.
        version: Number of the version that they are from.
    """

    found: tuple[Found, ...]
    statistics: CollectionStatistics
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusReceipt:
    """The receipt of an erasure from a corpus. It holds no text. `Corpus.verify` checks it.

    Attributes:
        sources: The sources whose passages were erased.
        ids: The ids of passages that were erased by their id.
        passages: Number of passages that were erased from the newest version.
        version: The first version without them. No older version is left.
        at: The time of the erasure. A passage that is added later is another passage.
        leftovers: "none", or "unknown" if interrupted writers may have left files that no version
            names. `erase(..., alone=True)` deletes those too.
    """

    tenant: str
    sources: tuple[str, ...]
    ids: tuple[str, ...]
    passages: int
    version: int
    at: datetime
    leftovers: str = "none"

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the receipt as JSON values."""
        lists: dict[str, JSONValue] = {"sources": list(self.sources), "ids": list(self.ids)}
        return {**asdict(self), **lists, "at": self.at.isoformat()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> CorpusReceipt:
        """Return the receipt that `to_dict` returned. Raises InvalidArgumentError."""
        try:
            lists = {name: tuple(stored[name]) for name in ("sources", "ids")}
            return cls(**{**stored, **lists, "at": check_time(stored["at"], "at")})
        except (KeyError, TypeError, ValueError):
            raise InvalidArgumentError(
                "this is no receipt of a corpus; give the value that to_dict() returned"
            ) from None


class Change(NamedTuple):
    """The result of a change: the number of the version, and how many passages are gone."""

    version: int
    gone: int


class Hits(NamedTuple):
    """The passages that match, best first, with the counts of terms in their version."""

    found: Sequence[Found]
    counts: TermCounts
    version: int


@runtime_checkable
class Corpus(Protocol):
    """Passages of one tenant, kept by an engine. Any number of sessions and processes may share it.

    A call that changes passages makes one new version, or none if it fails. A reader sees the
    passages of one version. An engine is a subclass with the abstract methods.

    Attributes:
        leaves_files: Whether an interrupted writer may leave files that no version names.
    """

    leaves_files: ClassVar[bool] = False
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
        other = self._view()
        other._tenant = check_name(tenant, "tenant")
        return other

    def at(self, moment: Moment) -> Self:
        """Return the corpus as it was in a version, or at a time. It cannot be changed.

        Its calls raise NotFoundError where that version is no longer kept.
        """
        other = self._view()
        if type(moment) is int and moment >= 0:
            other._moment = moment
        elif isinstance(moment, datetime | str):
            other._moment = check_time(moment, "moment")
        else:
            raise InvalidArgumentError(
                f"version {shown_name(moment)} is not valid; give its number, or a time"
            )
        return other

    def _view(self) -> Self:
        """Return another view of the same place. It shares connections, which a copy may open anew."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    # Changes.

    async def add(self, passages: Iterable[Given]) -> int:
        """Add passages, and return the number of the new version.

        A passage takes the place of one with the same id.

        Raises:
            InvalidArgumentError: If a passage is not valid.
            DuplicateError: If two have the same id.
        """
        return (await self._checked_change(passages)).version

    async def replace(self, sources: str | Iterable[str], passages: Iterable[Given]) -> int:
        """Replace all passages of some sources by others, and return the number of the new version.

        Raises:
            InvalidArgumentError: If a passage is not valid, or of another source.
            DuplicateError: If two have the same id.
        """
        return (await self._checked_change(passages, source_names(sources))).version

    async def remove(self, source: str) -> int:
        """Remove a source, and return how many passages it had. Older versions keep them."""
        return (await self._checked_change((), source_names([source]))).gone

    async def erase(
        self, sources: str | Iterable[str] = (), *, ids: Iterable[str] = (), alone: bool = False
    ) -> CorpusReceipt:
        """Erase sources and passages from every version and file, and return a receipt.

        All older versions are given up with it. An erasure that is interrupted is finished by
        another call.

        Args:
            alone: Whether no other process writes to the corpus meanwhile. Then files that
                interrupted writers left are deleted too.
        """
        self._check_writable()
        names = source_names(sources)
        gone = check_ids(ids)
        at = utc_now()
        change = await self._change((), names, gone)
        version = await self._purge(alone=alone)
        return CorpusReceipt(
            tenant=self._tenant,
            sources=tuple(names),
            ids=tuple(gone),
            passages=change.gone,
            version=version,
            at=at,
            leftovers="none" if alone or not self.leaves_files else "unknown",
        )

    async def verify(self, receipt: CorpusReceipt) -> tuple[str, ...]:
        """Return a sentence for each reason why an erasure does not hold, none if it holds."""
        if receipt.tenant != self._tenant:
            raise InvalidArgumentError(
                "the receipt is of another tenant; verify it with for_tenant(receipt.tenant)"
            )
        reasons = []
        if any(each.number < receipt.version for each in await self.versions()):
            reasons.append("a version from before it is left; erase it again")
        named = [
            *await self._at_values("source", receipt.sources),
            *await self._at_values("id", receipt.ids),
        ]
        if any(each.added_at <= receipt.at for each in named):
            reasons.append("an erased passage is there; erase it again")
        return tuple(reasons)

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
            terms: Terms of `analyze`. A term that is repeated counts once.
            filter: Only passages whose metadata pass. The engine chooses among them.
        """
        asked = check_count(limit, "limit", least=1)
        words = list(dict.fromkeys(map(word_of, terms)))
        one_version = self
        while True:
            hits = await one_version._search(words, asked, filter)
            found = hits.found
            if filter is not None:
                found = [each for each in found if filter(each.passage.metadata)]
            is_enough = len(found) >= limit or asked >= _MAX_SEARCHED
            if is_enough or len(hits.found) < asked:
                break
            one_version = self.at(hits.version)
            asked = min(4 * asked, _MAX_SEARCHED)
        return Candidates(tuple(found[:limit]), hits.counts.statistics(terms), hits.version)

    async def statistics(self, terms: Iterable[str] = ()) -> CollectionStatistics:
        """Return the figures of the corpus, with the frequencies of these terms."""
        return (await self._counts()).statistics(terms)

    async def get(self, ids: Iterable[str]) -> list[Found]:
        """Return the passages with these ids, in their order. Unknown ids are passed over."""
        wanted = check_ids(ids)
        found = {each.passage.id: each for each in await self._at_values("id", wanted)}
        return [found[each] for each in wanted if each in found]

    async def at_spots(self, spots: Iterable[str]) -> list[Found]:
        """Return the passages at some spots (`Found.spot`). Spots without one are passed over."""
        return await self._at_values("spot", list(spots))

    # The engine's part.

    # The part of an engine.

    @abstractmethod
    async def sources(self) -> dict[str, str]:
        """Return the stamp of each source, as `metadata["file"]` of a passage has it, "" without."""

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
    async def compact(self) -> None:
        """Merge what many additions left, so that questions stay fast. Versions are kept."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections."""

    @abstractmethod
    async def _search(
        self, words: Sequence[str], limit: int, wanted: MetadataFilter | None
    ) -> Hits:
        """Return the passages that match best, and perhaps some that the filter refuses."""

    @abstractmethod
    async def _counts(self) -> TermCounts:
        """Return the counts of terms."""

    @abstractmethod
    async def _at_values(self, column: str, values: Sequence[str]) -> list[Found]:
        """Return the passages whose id, source or spot is one of some values."""

    @abstractmethod
    async def _change(
        self, entries: Sequence[Entry], sources: Sequence[str] = (), ids: Sequence[str] = ()
    ) -> Change:
        """Make one version with new entries, without the old ones of some sources and ids."""

    @abstractmethod
    async def _purge(self, *, alone: bool) -> int:
        """Give up all but the newest version, and return its number."""

    async def _checked_change(
        self, passages: Iterable[Given], sources: Sequence[str] | None = None
    ) -> Change:
        self._check_writable()
        entries = await asyncio.to_thread(entries_of, passages, sources)
        return await self._change(entries, sources or ())

    def _check_writable(self) -> None:
        if self._moment is not None:
            raise ReadOnlyError("this is an older version of the corpus; change the corpus itself")


def entries_of(given: Iterable[Given], sources: Collection[str] | None = None) -> list[Entry]:
    """Return the entries of new passages. Raises as `Corpus.add` and `Corpus.replace`.

    Args:
        sources: The sources that they may have. None is any.
    """
    added_at = utc_now()
    count = get_counter(None)
    entries = []
    seen = set()
    for place, each in enumerate(check_several(given, "passages")):
        passage = _passage(each)
        if passage.id in seen:
            raise DuplicateError(f"two passages have the id {shown(passage.id)}; give each its own")
        if sources is not None and passage.source not in sources:
            raise InvalidArgumentError(
                f"passage {shown(passage.id)} is of the source {shown(passage.source)}, which is "
                "not replaced; name it in sources"
            )
        seen.add(passage.id)
        found = Found(added_at, place, passage, count(passage.text))
        entries.append(Entry(found, tuple(map(word_of, analyze(passage.text)))))
    return entries


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


def ordinals_of(found: Sequence[Found]) -> list[int]:
    """Return an ordinal for each passage, in order: those of two neighbours differ by one."""
    ordinals = []
    ordinal = -1
    before: Found | None = None
    for each in found:
        is_next = (
            before is not None
            and each.added_at == before.added_at
            and each.place == before.place + 1
            and each.passage.source == before.passage.source
        )
        ordinal += 1 if is_next else 2
        ordinals.append(ordinal)
        before = each
    return ordinals


def _passage(given: Given) -> Passage:
    fields: Mapping[str, Any]
    if isinstance(given, Item):
        if given.key is not None or not isinstance(given.content, str):
            raise InvalidArgumentError(
                f"item {shown(given.id)} has a key or blocks; a corpus holds texts: give its id, "
                "text, source and metadata"
            )
        fields = {name: getattr(given, name) for name in ("id", "text", "role", "metadata")}
        fields["source"] = given.metadata.get("source", given.id)
    elif isinstance(given, Passage):
        fields = {name: getattr(given, name) for name in _FIELDS}
    elif isinstance(given, Mapping):
        fields = given
    else:
        raise InvalidArgumentError(f"a {type(given).__name__} is no passage; {_REMEDY}")
    if not {"id", "text", "source"} <= fields.keys() <= _FIELDS:
        raise InvalidArgumentError(f"a passage lacks a field, or has another one; {_REMEDY}")
    text = check_text(fields["text"], "text of a passage")
    source = _source(fields["source"])
    metadata = check_metadata(fields.get("metadata"))
    if metadata.setdefault("source", source) != source:
        raise InvalidArgumentError(
            f"passage {shown_name(fields['id'])} has another source in its metadata; give one"
        )
    role = check_text(fields.get("role", ""), "role")
    return Passage(check_id(fields["id"], "passage id"), text, source, metadata, role)


def _source(given: object) -> str:
    if isinstance(given, str) and 0 < len(given) <= MAX_SOURCE_CHARS:
        for start in range(0, len(given), MAX_ID_CHARS):
            check_id(given[start : start + MAX_ID_CHARS], "source")
        return given
    raise InvalidNameError(
        f"source {shown_name(given)} is not valid: use 1 to {MAX_SOURCE_CHARS} characters without "
        "control characters"
    )
