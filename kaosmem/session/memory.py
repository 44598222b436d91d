"""SessionMemory: a session's sections, kept in its log and packed into contexts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Literal, NoReturn

from kaosmem.arguments import Clock, check_clock, check_instance, check_several, check_time
from kaosmem.assembly import Context, assemble, check_budget, check_required
from kaosmem.display import fitted, listed
from kaosmem.errors import (
    ConcurrentUseError,
    ConflictError,
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    ReadOnlyError,
    SectionFullError,
    SourceError,
)
from kaosmem.filters import Filter, parse_filter
from kaosmem.formats import Format, get_format, parse_message
from kaosmem.ingest import Choice, IngestReport, check_patterns
from kaosmem.language.dates import PAST_CUES, PastCues
from kaosmem.names import check_item_id, check_name, shown, shown_name
from kaosmem.persistence import Location, SessionLog, filesystem_of, unknown_session
from kaosmem.retrieval import Query, Ranker
from kaosmem.sections import (
    DEFAULT_SECTIONS,
    Hit,
    Section,
    SectionSpec,
    Source,
    check_specs,
    read_evicted,
)
from kaosmem.session.attachment import AttachedSection
from kaosmem.session.compaction import SectionCompaction
from kaosmem.session.graph import Graph
from kaosmem.session.ingestion import Ingestion, Progress
from kaosmem.session.item_factory import ItemFactory
from kaosmem.session.opening import Opening, SharedSessions, unopened
from kaosmem.session.receipts import OLD_VERSIONS, ErasureReceipt
from kaosmem.session.roster import Roster
from kaosmem.session.saving.hydration import Hydrated
from kaosmem.session.saving.past import Originals, Timeline, check_archived, load_past
from kaosmem.session.saving.saver import Saver
from kaosmem.session.saving.turns import Queues, Turns
from kaosmem.session.windows import NamedWindows, WindowCall
from kaosmem.tokens import TokenCounter, count_content
from kaosmem.types import ContentBlock, Item, JSONValue, Trust, Version, check_content, check_text

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_SHARED, _QUEUES = SharedSessions(), Queues()
_NOT_RECALLED = "what was evicted earlier cannot be recalled"
_READ_AT_ONCE = 4_096
"""How many archived items `prepare` reads at a time."""
_SHOWN_SECTIONS, _SHOWN_NOTICES = 30, 10
"""How many a notebook shows."""


class SessionMemory:
    """One session's memory: typed sections, kept in a log and packed into contexts.

    Create one with `open` (stored) or `test_mode` (in memory, for tests).
    add, add_many, add_message, update, remove, get and search do no I/O. save, assemble_context,
    attach, fetch, expand, forget and ingest are awaited. One instance belongs to one event loop at
    a time.

    >>> memory = SessionMemory.test_mode()
    >>> memory.add("findings", "Ann owns the deal.", key="owner")
    <Item 629f6fbed82c07cd in findings, no role, 5 tokens>
    >>> memory.add("messages", "Who owns the deal?").role
    'user'
    >>> context = await memory.assemble_context(budget=100)
    >>> print(context.text)
    ## messages
    [user] Who owns the deal?
    ## findings
    [*] Ann owns the deal.
    <BLANKLINE>
    """

    def __init__(
        self,
        opening: Opening,
        log: SessionLog,
        hydrated: Hydrated,
        *,
        clock: Clock,
        rng: random.Random,
        past_cues: PastCues,
        read_only: bool = False,
        one_loop: bool = False,
    ) -> None:
        self.session_id = opening.session_id
        self.counter = opening.counter
        self._opening = opening
        self._log = log
        self._sections = hydrated.sections
        self._notices = list(hydrated.notices)
        self._roster = Roster(self._sections, counter=self.counter)
        saver = self._saver = Saver(
            log, hydrated, place=opening.place, counter=self.counter, rehydrate=opening.hydrate
        )
        self._factory = ItemFactory(
            self._sections,
            counter=self.counter,
            clock=clock,
            rng=rng,
            forgotten=self._saver.forgotten,
        )
        self._originals = Originals(
            self._sections, log, counter=self.counter, forgotten=self._saver.forgotten
        )
        self._compactions = [
            SectionCompaction(
                section,
                strategy,
                self._originals,
                counter=self.counter,
                new_id=self._factory.free_id,
            )
            for section in self._sections.values()
            if (strategy := section.spec.compaction) and not read_only
        ]
        self._read_only = read_only
        self._is_closed = False
        self._one_loop = one_loop
        self._clock = clock
        self._past_cues = check_instance(past_cues, PastCues, "past_cues")
        # Not `self`: in a cycle, a closed session would wait for the garbage collector.
        self._timeline = Timeline(
            self._sections, log, counter=self.counter, unpurged=lambda: saver.unpurged
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = Turns()

    def __repr__(self) -> str:
        held = [
            f"{name} {len(section):,}" for name, section in self._sections.items() if len(section)
        ]
        access = ", read-only" if self._read_only else ""
        session_id = fitted(self.session_id, 60, tail=20)
        return f"<SessionMemory {session_id!r}{access}: {self.used:,} tokens; {listed(held, 6) or 'empty'}>"

    def _repr_html_(self) -> str:
        from kaosmem.display import bar, table

        sections = [
            section for section in self._sections.values() if len(section) or len(section.archive)
        ]
        rows = [
            (
                section.spec.name,
                f"{len(section):,}",
                bar(section.used, section.budget),
                f"{len(section.archive):,}",
                section.spec.policy.name,
            )
            for section in sections[:_SHOWN_SECTIONS]
        ]
        more = len(sections) - len(rows)
        return table(
            f"session {self.session_id}: {self.used:,} tokens",
            ("section", "items", "tokens", "archived", "eviction"),
            rows,
            numbers=("items", "archived"),
            after=[
                *([f"… and {more:,} more sections"] if more else []),
                *self.notices[:_SHOWN_NOTICES],
            ],
        )

    @classmethod
    @unopened
    async def open(
        cls,
        url_or_fs: Location = "./.kaosmem",
        session_id: str = "default",
        *,
        namespace: str = "default",
        sections: Sequence[SectionSpec] | None = DEFAULT_SECTIONS,
        sources: Iterable[Source | Section] = (),
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        ranker: Ranker | None = None,
        clock: Clock | None = None,
        past_cues: PastCues = PAST_CUES,
        read_only: bool = False,
        missing_ok: bool = False,
        single_writer: bool = False,
        in_turn: bool = False,
    ) -> AsyncIterator[SessionMemory]:
        """Open a session, new or stored.

        Leaving the block saves it; an exception discards unsaved changes.

        url_or_fs: a path, a URL that fsspec understands, or a filesystem.
        sections: in order of declaration; add your own with `(*DEFAULT_SECTIONS,
            SectionSpec(...))`. None takes the specs that the session was stored with, and the
            default ones for a new session.
        sources: attached for the block, as by `attach` without further arguments.
        counter: the name of an encoding or an OpenAI model, "estimate", or a function from str to
            int. The default is o200k_base.
        ranker: for sections without their own. The default is `LinearRanker`.
        clock: returns aware times. The default is the computer's clock.
        past_cues: words that ask about the past. `PAST_CUES.including(...)` adds a language.
        read_only: the session cannot be changed. One process reads such a session once and shares
            it among all callers that open it. Of a damaged session, all intact items are there (see
            `damage`).
        missing_ok: with read_only, an id that is not stored gives an empty session instead of
            NotFoundError.
        single_writer: no other process writes to the session, so the filesystem need not tell
            writers apart.
        in_turn: wait until all earlier blocks with `in_turn` over this session have ended in this
            process, in any thread and event loop. Each block then reads what the one before saved.
        Raises NotOpenedError without `async with`; InvalidNameError, InvalidArgumentError
        before any I/O; NotFoundError, CorruptionError, UnsupportedVersionError, DurabilityError;
        and ConcurrentUseError for `in_turn` inside such a block of the same session.

        >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
        ...     item = memory.add("findings", "Ann owns the deal.")
        >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
        ...     print(memory.get(item.id).text)
        Ann owns the deal.
        """
        check_name(session_id, "session id")
        check_name(namespace, "namespace")
        specs = None if sections is None else tuple(check_specs(sections).values())
        clock = _now if clock is None else check_clock(clock)
        opening = Opening(url_or_fs, session_id, namespace, specs, counter, ranker)
        read = (
            partial(_SHARED.read, opening)
            if read_only
            else partial(opening.read, single_writer=single_writer)
        )
        async with _QUEUES.take(opening.place) if in_turn else nullcontext():
            log, hydrated = await asyncio.to_thread(read)
            if read_only and not missing_ok and not log.seq and not log.damage:
                raise await asyncio.to_thread(unknown_session, url_or_fs, session_id, namespace)
            memory = cls(
                opening,
                log,
                hydrated,
                clock=clock,
                rng=random.SystemRandom(),
                past_cues=past_cues,
                read_only=read_only,
            )
            async with memory:
                for source in sources:
                    memory._attach(source)
                yield memory

    @classmethod
    def test_mode(
        cls,
        *,
        session_id: str = "test",
        sections: Sequence[SectionSpec] = DEFAULT_SECTIONS,
        sources: Iterable[Source | Section] = (),
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        ranker: Ranker | None = None,
        clock: Clock | None = None,
        past_cues: PastCues = PAST_CUES,
    ) -> SessionMemory:
        """Return a new memory for a test: no disk, no network, the same ids and times in every run.

        `memory.fs` is its own filesystem in memory; `open(memory.fs, ...)` opens the session again.
        The memory belongs to one event loop. Use from a second loop while the first is open raises
        ConcurrentUseError. The arguments are those of `open`.

        >>> SessionMemory.test_mode().add("findings", "Ann owns the deal.").id
        '629f6fbed82c07cd'
        """
        from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem

        check_name(session_id, "session id")
        specs = tuple(check_specs(sections).values())
        clock = _test_clock() if clock is None else check_clock(clock)
        opening = Opening(IsolatedMemoryFileSystem(), session_id, "default", specs, counter, ranker)
        log, hydrated = opening.read()
        memory = cls(
            opening,
            log,
            hydrated,
            clock=clock,
            rng=random.Random(0),
            past_cues=past_cues,
            one_loop=True,
        )
        for source in sources:
            memory._attach(source)
        return memory

    def __reduce__(self) -> NoReturn:
        # `copy` and `pickle` ask for this: two memories over one log would both write the same
        # changes.
        raise ConcurrentUseError(
            f"session {self.session_id!r} is one live memory and cannot be copied; pass the memory "
            "itself, or open the "
            "session once more with SessionMemory.open()"
        )

    async def __aenter__(self) -> SessionMemory:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_told = self._saver.is_in_conflict
        try:
            if kind is None and not self._read_only and not self._is_closed:
                await self.save()
        except ConflictError:
            if not is_told:
                raise
        finally:
            await self.close()

    async def close(self) -> None:
        """Wait for a running snapshot and release the log.

        Unsaved changes are lost. What the session holds can still be read. Everything that would
        change it raises
        ReadOnlyError: `save`, `refresh` and a window of `assemble_context` too.
        """
        await self._saver.close()
        self._is_closed = True
        if not self._read_only:
            for section in self._sections.values():
                section.freeze("was closed; open it again to change it")

    # what it holds

    def __getitem__(self, section: str) -> Section:
        found = self._sections.get(section) if isinstance(section, str) else None
        if found is None:
            raise NotFoundError(
                f"no section {shown_name(section)}; there are {', '.join(self._sections)}; "
                "to have another, give a SectionSpec for it in sections"
            )
        return found

    def __iter__(self) -> Iterator[Section]:
        return iter(self._sections.values())

    def __contains__(self, item_id: object) -> bool:
        return isinstance(item_id, str) and self._factory.section_of(item_id) is not None

    @property
    def notices(self) -> tuple[str, ...]:
        """Return the notices: damage, sections without a spec, another counter, archives that a search left out."""
        lost = (error for section in self._sections.values() for error in section.ledger.lost)
        not_recalled = (f"{_NOT_RECALLED}: {error}" for error in lost)
        not_compacted = (each.notice for each in self._compactions if each.notice)
        unread = (
            f"a search left out {count:,} archived items of section {shown(name)}, whose texts are "
            "in files; "
            "await prepare() before it"
            for name, count in self._roster.unread.items()
        )
        windows = self._saver.windows.notices.values()
        return (
            *(*map(str, self._log.damage), *self._notices, *not_recalled),
            *(*not_compacted, *self._saver.notices, *windows, *unread),
        )

    @property
    def damage(self) -> tuple[CorruptionError, ...]:
        """The damage of the stored session, as far as it was read; empty for a sound session.

        A damaged session that is opened read-only holds all intact items. `repair_session` copies
        them into a new session.
        """
        said = {*map(str, self._log.damage)}
        lost = (error for section in self._sections.values() for error in section.ledger.lost)
        return (
            *self._log.damage,
            *(error for error in lost if error.byte is not None and str(error) not in said),
        )

    @property
    def fs(self) -> AbstractFileSystem:
        """The filesystem that the session is in; `open(memory.fs, memory.session_id)` opens it again."""
        return filesystem_of(self._opening.location)

    @property
    def sections(self) -> tuple[SectionSpec, ...]:
        """The specs of all sections, in order of declaration."""
        return tuple(section.spec for section in self._sections.values())

    @property
    def used(self) -> int:
        """Tokens in all sections."""
        return sum(section.used for section in self._sections.values())

    def get(self, item_id: str) -> Item | None:
        """Return a live item, or None.

        This counts as a use. Raises InvalidNameError for an invalid id.
        """
        section = self._factory.section_of(item_id)
        return None if section is None else section.get(item_id)

    def search(
        self,
        query: str,
        section: str | None = None,
        limit: int = 10,
        *,
        filter: Filter | None = None,
        archived: bool = True,
    ) -> list[Hit]:
        """Return the items that match a query best, with their scores, best first.

        A hit unpacks as `(item, score)`.

        section: a section or an attached section. The default is every section that may be shown.
        filter: conditions on metadata, which every hit meets.
        archived: find evicted and superseded items too; `hit.is_archived` marks them. A search
            reads no files: `await memory.prepare()` reads stored archives first. Until then
            `notices` names what a search left out.
        Raises NotFoundError, InvalidArgumentError for the limit.

        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add_many("documents", ["Notice is thirty days.", "The rent is 900 euros."])
        >>> [item.text for item, score in memory.search("How high is the rent?")]
        ['The rent is 900 euros.']
        """
        wanted = None if filter is None else parse_filter(filter)
        asked = Query.read(check_text(query, "query"), self._clock)
        found = self._roster.search(asked, section, limit, wanted=wanted, archived=archived)
        if all(hit.item.expires_at is None for hit in found):
            return found
        now = self._clock()
        return [hit for hit in found if not hit.item.is_expired(now)]

    async def fetch(self, item_id: str) -> Item:
        """Return a whole item: live, archived, or from an attached source.

        Raises NotFoundError, or SourceError if a source that may hold the item cannot be asked.

        >>> memory = SessionMemory.test_mode()
        >>> first = memory.add("findings", "Ann owns the deal.", key="owner")
        >>> second = memory.add("findings", "Bob owns the deal.", key="owner")
        >>> first.id in memory
        False
        >>> (await memory.fetch(first.id)).text
        'Ann owns the deal.'
        """
        self._check_loop()
        live = self.get(item_id)
        if live is not None:
            return live
        for section in self._sections.values():
            if archived := section.archive.get(item_id):
                return archived
        unavailable: SourceError | None = None
        try:
            attached = await self._roster.get(item_id)
            if attached is not None:
                return attached
        except SourceError as error:
            unavailable = error
        stored = await asyncio.to_thread(self._log.archived, check_item_id(item_id), check_archived)
        if stored is None or item_id in self._saver.unpurged:
            if unavailable:
                raise unavailable
            missing = "; memory.damage says what is missing of the session" if self.damage else ""
            raise NotFoundError(f"no item {shown(item_id)}, live or archived{missing}")
        return Item.from_dict(stored[1], stored[0])

    async def versions(self, key: str, section: str | None = None) -> list[Version[Item]]:
        """Return the versions of a key, oldest first: live, superseded, evicted and removed items.

        A version holds from its timestamp, else from when it was added, until its successor begins
        or it is removed. An update corrects a version and makes no new one.
        section: the default is every section that has the key; their versions do not end one
            another.
        Raises NotFoundError and CorruptionError.

        >>> memory = SessionMemory.test_mode()
        >>> for day, name in (("2023-05-08", "Ann"), ("2024-06-01", "Bob")):
        ...     item = memory.add("findings", f"{name} owns the deal.", key="owner", metadata={"timestamp": day})
        >>> for version in await memory.versions("owner"):
        ...     print(version.item.text, version.valid_until and version.valid_until.date())
        Ann owns the deal. 2024-06-01
        Bob owns the deal. None
        """
        self._check_loop()
        names = self._sections if section is None else [self[section].spec.name]
        return await self._timeline.versions(check_text(key, "key"), names)

    async def expand(self, item_id: str) -> list[Item]:
        """Return the originals of a derived item, in order, through any number of steps.

        An item without sources is its own original. Raises as `fetch`.

        >>> memory = SessionMemory.test_mode()
        >>> said = memory.add_many("messages", ["The rent is 900 euros.", "It is due on the first."])
        >>> summary = memory.add("findings", "Rent: 900 euros, due on the first.", sources=[item.id for item in said])
        >>> [item.text for item in await memory.expand(summary.id)]
        ['The rent is 900 euros.', 'It is due on the first.']
        """
        return await self._originals.of(await self.fetch(item_id), self.fetch)

    @property
    def graph(self) -> Graph:
        """The section `graph` as entities and relationships. Raises NotFoundError."""
        return Graph(
            self["graph"],
            make=self._factory.make,
            writable=partial(self._writable, "graph"),
            counter=self.counter,
            clock=self._clock,
        )

    @property
    def sources(self) -> Mapping[str, Source]:
        """The attached sources by name."""
        return self._roster.sources

    async def attach(
        self,
        source: Source | Section,
        *,
        name: str | None = None,
        timeout_s: float | None = None,
        required: bool = False,
    ) -> str:
        """Show a source, or a section of another session, beside this session's sections.

        Return its name.

        The source takes part in the budget and the decisions by its own spec. It is not stored with
        the session, and nothing in it is changed. To share a section, open its session with
        `read_only=True`.
        name: the default is the source's own name, with a number if it is taken (`documents-2`).
        timeout_s: seconds that a turn waits for the source. The default is no limit.
        required: `assemble_context` raises if the source fails or is late. Otherwise the context is
            assembled without it, and `context.sources` says so.
        Raises InvalidNameError and InvalidArgumentError.

        >>> from kaosmem.sources import FactSource
        >>> from kaosmem.stores import InMemoryLongTermMemory
        >>> facts = InMemoryLongTermMemory()
        >>> fact_id = await facts.save("analyst", "The customer prefers calls.")
        >>> memory = SessionMemory.test_mode()
        >>> await memory.attach(FactSource(facts, "analyst"), timeout_s=2)
        'facts'
        """
        self._check_loop()
        return self._attach(source, name, timeout_s=timeout_s, required=required)

    def _attach(
        self,
        source: Source | Section,
        name: str | None = None,
        *,
        timeout_s: float | None = None,
        required: bool = False,
    ) -> str:
        attached = AttachedSection(source) if isinstance(source, Section) else source
        return self._roster.attach(attached, name, timeout_s=timeout_s, required=required)

    # what changes it

    def add(
        self,
        section: str,
        content: str | Iterable[ContentBlock | Mapping[str, JSONValue]],
        *,
        role: str | None = None,
        id: str | None = None,
        key: str | None = None,
        priority: int = 0,
        pinned: bool = False,
        tags: Iterable[str] = (),
        metadata: Mapping[str, JSONValue] | None = None,
        sources: Iterable[str] = (),
        trust: Trust | None = None,
        ttl_s: float | None = None,
    ) -> Item:
        """Add an item to a section. The section may evict other items to its archive.

        role: the default is "system" in the section `role`, "user" in a history, else none. Any
            other name is a user's.
        id: the default is a random id.
        key: items of one section with the same key are versions of one thing. The new item
            supersedes the live one, which moves to the archive with its whole unit, pinned or not.
        priority: under the eviction `priority`, items with the lowest priority are evicted first.
        pinned: the item is always shown and never evicted.
        metadata: for filters. The ranking uses `source`, `title` and `timestamp` (ISO 8601).
        sources: ids of the items that this one was derived from.
        trust: the default follows from role, section and sources. It is at most the lowest trust of
            the sources.
        ttl_s: seconds, by the session's clock, until the item expires. From then on no context and
            no search shows it, also not one about the past. The next context or save moves it to
            the archive, from where nothing recalls it; `forget` erases it. An item ends no later
            than the first of its live sources.
        Raises NotFoundError, DuplicateError, InvalidNameError, InvalidArgumentError,
        NotFoundError for a source that was forgotten, SectionFullError, ReadOnlyError; then
        nothing has changed.

        A tool's result that is too large for its history is stored whole in the archive. The
        section shows the beginning and the end, under another id, with a note that names the whole.
        So its call stays answered.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("documents", "Notice is thirty days.", metadata={"source": "msa.pdf"})
        >>> item.tokens
        5
        """
        target = self._writable(section)
        item = self._factory.make(
            target.spec,
            content,
            role=role,
            id=id,
            key=key,
            priority=priority,
            pinned=pinned,
            tags=tags,
            metadata=metadata,
            sources=sources,
            trust=trust,
            ttl_s=ttl_s,
        )
        self._check_required(target, item)
        try:
            target.add(item)
        except SectionFullError:
            for copy in self._factory.shortened(target.spec, item):
                with suppress(SectionFullError):
                    return target.add_shortened(item, copy, new_id=self._factory.free_id)
            raise
        return item

    def add_many(
        self,
        section: str,
        contents: Iterable[str | Iterable[ContentBlock | Mapping[str, JSONValue]]],
    ) -> list[Item]:
        """Add items in order, as `add` does. If an item is refused, the items before it stay."""
        return [self.add(section, content) for content in check_several(contents, "contents")]

    def add_message(
        self,
        message: object,
        *,
        format: str | Format | None = None,
        section: str = "messages",
    ) -> Item:
        """Add a provider's message, a dict or an object of its SDK, tool calls included; or a ChatMessage.

        format: the provider's format, "anthropic" or "openai". A ChatMessage needs none, and keeps its trust and pin.
        Raises as `add`, and InvalidArgumentError.

        >>> memory = SessionMemory.test_mode()
        >>> reply = {"role": "assistant", "content": "Ann owns the deal."}
        >>> memory.add_message(reply, format="openai").role
        'assistant'
        """
        parsed = parse_message(message, format)
        return self.add(
            section, parsed.content, role=parsed.role, pinned=parsed.pinned, trust=parsed.trust
        )

    def update(
        self, item_id: str, content: str | Iterable[ContentBlock | Mapping[str, JSONValue]]
    ) -> Item:
        """Replace the content of a live item.

        The item keeps its place, and the old content moves to the archive.

        Raises NotFoundError and as `add`.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The rent is 900 euros.")
        >>> memory.update(item.id, "The rent is 950 euros.").text
        'The rent is 950 euros.'
        """
        section = self._live(item_id)
        checked = check_content(content)
        item = replace(
            section.peek(item_id), content=checked, tokens=count_content(checked, self.counter)
        )
        self._check_required(section, item)
        section.update(item, at=self._clock())
        return item

    def remove(self, item_id: str) -> None:
        """Move a live item to its section's archive, where `fetch` finds it.

        Raises NotFoundError or ReadOnlyError.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The rent is 900 euros.")
        >>> memory.remove(item.id)
        >>> item.id in memory
        False
        """
        self._live(item_id).remove(item_id, at=self._clock())

    async def forget(self, *item_ids: str) -> ErasureReceipt:
        """Erase items and everything derived from them: from memory, from the session's files and from its sources.

        Returns a receipt, which `verify` checks at any later time.

        All versions are erased, archived ones too. If a summary is erased, its other originals come back until the
        section is compacted again. Other unsaved changes are saved. If this call fails after it began, the next save
        finishes it. The cost is that of writing the session anew, for one item or many. Copies of the files, old
        versions that a bucket keeps (see `receipt.old_versions`), and contexts that were handed over before, are out
        of reach.
        Raises NotFoundError, ReadOnlyError, ConflictError, CorruptionError and DurabilityError. Raises
        SourceError, after all other work, if a source holds an item and cannot delete it.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The account is DE89 3704 0044.")
        >>> receipt = await memory.forget(item.id)
        >>> item.id in memory
        False
        >>> await memory.verify(receipt)
        ()
        """
        self._check_loop()
        self._check_writable()
        for item_id in item_ids:
            if check_item_id(item_id) not in self._saver.unpurged:
                await self.fetch(item_id)
        for compaction in self._compactions:
            await compaction.undo(item_ids)
        erased = await self._saver.forget(item_ids)
        _SHARED.drop(self._opening)
        sources, unable = await self._roster.forget(erased.item_ids)
        log_id, record, checksum = erased.mark
        keeps_versions = await asyncio.to_thread(self._log.keeps_versions)
        created_at = {
            item_id: tuple(sorted(times)) for item_id, times in sorted(erased.created_at.items())
        }
        receipt = ErasureReceipt(
            session_id=self.session_id,
            namespace=self._opening.namespace,
            at=max((self._clock(), *chain.from_iterable(created_at.values()))),
            created_at=created_at,
            old_versions=OLD_VERSIONS[keeps_versions],
            log_id=log_id,
            record=record,
            checksum=checksum,
            items=tuple(dict.fromkeys(item_ids)),
            derived=tuple(sorted(erased.derived.difference(item_ids))),
            finished=tuple(sorted(erased.item_ids.difference(item_ids, erased.derived))),
            windows=tuple(sorted(erased.windows)),
            files=tuple(sorted(erased.files)),
            sources=sources,
        )
        if unable:
            raise SourceError(
                f"{listed(unable, 3)} can't forget what is forgotten here; erase it there",
                sources=unable,
                receipt=receipt,
            )
        return receipt

    async def verify(self, receipt: ErasureReceipt) -> tuple[str, ...]:
        """Return a sentence for each reason why an erasure does not hold, none if it holds.

        The files of this session and the attached sources are read. An erasure holds if no file
        from before it is left, no file names an erased item, and the log goes on from the record
        that the receipt names. S3 is asked for old versions of the files from before the erasure.
        An item that was added later under an erased id is another item.
        Raises InvalidArgumentError for the receipt of another session, CorruptionError and
        DurabilityError.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The account is DE89 3704 0044.")
        >>> receipt = await memory.forget(item.id)
        >>> await memory.verify(receipt)
        ()
        """
        self._check_loop()
        place = self.session_id, self._opening.namespace
        if (receipt.session_id, receipt.namespace) != place:
            raise InvalidArgumentError(
                f"the receipt is of session {shown(receipt.session_id)} in namespace "
                f"{shown(receipt.namespace)}; "
                "verify it with that session"
            )
        reasons = await asyncio.to_thread(self._log.unerased, receipt.erasure)
        return (*reasons, *await self._roster.unerased(receipt.sources))

    def _check_required(self, section: Section, item: Item) -> None:
        """Refuse an item that no context could show though it must be shown."""
        if section.spec.placement != "static" or not section.spec.in_context:
            return
        if required := section.proposer.required_with(item):
            check_required(section.spec, required, item, self.counter)

    def _live(self, item_id: str) -> Section:
        section = self._factory.section_of(item_id)
        if section is None:
            raise NotFoundError(f"no live item {shown(item_id)}; fetch() finds archived ones")
        return self._writable(section.spec.name)

    def _writable(self, section: str) -> Section:
        self._check_writable()
        return self[section]

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(
                f"session {self.session_id!r} was opened read-only; open it without read_only to "
                "change it"
            )
        if self._is_closed:
            raise ReadOnlyError(f"session {self.session_id!r} was closed; open it again to go on")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold a turn: turns of one instance come one after another, in the order in which they are asked for.

        Without it, turns that run at once interleave their messages. Turns of two instances do not wait for each
        other; `open(..., in_turn=True)` lets these wait. Raises ConcurrentUseError inside a turn that has not ended,
        also in a task that was started there, and in a second event loop.

        >>> memory = SessionMemory.test_mode()
        >>> async def ask(number):
        ...     async with memory.turn():
        ...         memory.add("messages", f"question {number}")
        ...         await asyncio.sleep(0)  # the model thinks
        ...         memory.add("messages", f"answer {number}", role="assistant")
        >>> import asyncio
        >>> results = await asyncio.gather(ask(1), ask(2))
        >>> [item.text for item in memory["messages"]]
        ['question 1', 'answer 1', 'question 2', 'answer 2']
        """
        self._check_loop()
        async with self._turns.take():
            yield

    # what it is shown as

    async def assemble_context(
        self,
        query: str | None = None,
        *,
        budget: int,
        format: str | Format = "text",
        reserve: int = 0,
        sections: Iterable[str] | None = None,
        filter: Filter | None = None,
        overflow: Literal["raise", "cut"] = "raise",
        min_confidence: float = 0.0,
        as_of: datetime | date | str | None = None,
        known_at: datetime | date | str | None = None,
        window: str | None = None,
        rebase: bool = False,
        block: int | None = None,
        model: str | None = None,
    ) -> Context:
        """Pack the most valuable content into `budget - reserve` tokens, counted exactly in the format.

        A section with a compaction that exceeds its own budget is compacted first. If that fails, the section is shown
        as it is, and `notices` says so.
        query: ranks the items. The default is the text of the newest user message. "Yesterday" and the like follow the
            session's clock.
        budget, reserve: in tokens. The reserve is kept free for tool schemas and the reply.
        format: "text", "openai", "anthropic", or a `kaosmem.formats.Format` of your own.
        sections: names of the sections and sources to show. The default is all of them.
        filter: conditions on metadata, such as `{"source": "a.md"}` (see `kaosmem.filters`). It narrows everything that
            depends on the query: sections of placement `query` and sources, pinned items too, and earlier messages
            that are recalled. An item without the field does not pass, unless the filter says
            `{"$if_present": {"source": "a.md"}}`. `context.notices` names sections that the filter empties since no
            item has the field, or its values are of another type.
        overflow: if the required items do not fit, "raise" an error, or "cut" their longest texts in the middle. A
            system message is never cut. `fetch` returns the whole text.
        min_confidence: 0 to 1. If the confidence of the context is lower, everything that was retrieved is left out.
            Required, pinned and `recent` items stay, and so do sections of at most `retrieval_threshold` items that
            fit whole.
        as_of: show only items that held at this time: a datetime, or a text in ISO 8601. An item holds from its
            timestamp, else from when it was added, until its successor with the same key begins or it is removed.
        known_at: show only items that the session had been told by this time, as it knew them then. Both find archived
            and evicted items, and read the whole session to do so. Sources leave newer items out.
        window: continue the window of this name. The request is its previous one, unchanged, plus what this turn
            appends: new messages, then a block of retrieved items that are not visible yet. If that does not fit, or
            something visible changed, the window is packed anew: `context.rebased` says why. It is saved with the
            session. The default packs each call anew.
        rebase: pack the window anew.
        block: tokens of a window's block. The default is a sixteenth of the budget, at most 4,096.
        model: the model that the window is sent to. Thinking from before a rebase is left out. A model without
            preserved thinking keeps that of the last message if its calls were just answered. The default is a model
            with preserved thinking.
        Raises InvalidArgumentError and NotFoundError;
        WindowTooSmallError if the required items do not fit; SourceError if a required source fails.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("documents", "Notice is thirty days.", metadata={"source": "msa.pdf"})
        >>> context = await memory.assemble_context("How long is the notice?", budget=100)
        >>> context.used
        12
        >>> context.decision(item.id).reason
        <Reason.NEWEST: 'newest'>
        >>> added = memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(100)])
        >>> context = await memory.assemble_context("Which wine goes with oysters?", budget=100, min_confidence=0.5)
        >>> context.items
        ()
        """
        self._check_loop()
        tokens = check_budget(budget, reserve)
        wanted = None if filter is None else parse_filter(filter)
        call = self._window_call(window, tokens, block, rebase, model, as_of or known_at)
        call = call and replace(call, wanted=wanted, reserve=reserve)
        specs = self._roster.shown(sections)
        as_of = None if as_of is None else check_time(as_of, "as_of")
        known_at = None if known_at is None else check_time(known_at, "known_at")
        chosen = get_format(format)
        roster = await self._roster_at(specs, as_of, known_at, chosen)
        query = roster.newest_question() if query is None else check_text(query, "query")
        asked = Query.read(query, self._clock, self._past_cues, as_of=as_of, known_at=known_at)
        limit = None if call is None else call.limits.block
        proposals, reports = await roster.propose(
            specs, asked, window=tokens, wanted=wanted, block=limit, clock=self._clock
        )
        pack = partial(
            assemble,
            list(specs.values()),
            budget=budget,
            reserve=reserve,
            format=chosen,
            counter=self.counter,
            query=query,
            overflow=overflow,
            min_confidence=min_confidence,
            decide=lambda item_id: roster.decide(
                item_id, query=asked, shown_names=specs.keys(), wanted=wanted, now=self._clock()
            ),
            sources=reports,
        )
        if call is None:
            context, packing = pack(proposals)
        else:
            context, packing = self._saver.windows.turn(
                call,
                specs,
                proposals,
                pack,
                sections=self._sections,
                attached=roster.attached_sections,
            )
        if roster is self._roster:  # a look into the past is no use
            roster.use(packing.items)
        return context

    async def _roster_at(
        self,
        names: Iterable[str],
        as_of: datetime | None,
        known_at: datetime | None,
        chosen: Format,
    ) -> Roster:
        """Return the roster of the sections as they are now, compacted and read, or as they were at a time."""
        await self._expire()
        if as_of or known_at:
            return self._roster.over(
                await self._timeline.sections_at(as_of=as_of, known_at=known_at)
            )
        await asyncio.gather(*(each.run(chosen) for each in self._compactions))
        await self._read_back([self._sections[name] for name in names if name in self._sections])
        return self._roster

    def _window_call(
        self,
        window: str | None,
        budget: int,
        block: int | None,
        rebase: bool,
        model: str | None,
        past: object,
    ) -> WindowCall | None:
        if window is None:
            for name, value in {"block": block, "rebase": rebase, "model": model}.items():
                if value is not None and value is not False:
                    raise InvalidArgumentError(
                        f"{name} is for a window; name one, such as window='main'"
                    )
            return None
        self._check_writable()
        call = WindowCall(window, budget, block, rebase, model)
        if past:
            raise InvalidArgumentError(
                f"window {shown(window)} cannot look into the past; leave out as_of and known_at, "
                "or leave out window"
            )
        return call

    @property
    def windows(self) -> NamedWindows:
        """Return the windows by name, with the tokens of each one's last request.

        A window that the next call packs anew whatever happens has 0 tokens.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("messages", "Who owns the deal?")
        >>> context = await memory.assemble_context(budget=1_000, window="main")
        >>> memory.windows
        {'main': 10}
        >>> memory.windows.remove("main")
        >>> memory.windows
        {}
        """
        return NamedWindows(self._saver.windows, check_writable=self._check_writable)

    async def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read and index ahead of `assemble_context` and `search`, embeddings included.

        The work runs beside the event loop. Without it, the first question that ranks a section
        waits for the same work; later changes are indexed by the next question.
        The texts of stored archives are read too, and stay in memory, so that `search` finds them.
        progress: called with the number of changes that are indexed and the number of all.

        >>> import asyncio
        >>> async def main() -> None:
        ...     memory = SessionMemory.test_mode()
        ...     memory.add_many("documents", ["The notice period is two months.", "The rent is due on the first."])
        ...     await memory.prepare(progress=lambda done, total: print(f"{done} of {total}"))
        >>> asyncio.run(main())
        2 of 2
        """
        self._check_loop()
        sections = [
            each
            for each in self._sections.values()
            if each.spec.in_context or each.proposer.is_searched
        ]
        for section in sections:
            section.held.past.keeps_texts = True
        await self._read_back(sections)
        done = 0
        while lacking := [section for section in sections if section.proposer.unindexed]:
            before = sum(section.proposer.unindexed for section in lacking)
            await asyncio.gather(
                *(asyncio.to_thread(section.index.catch_up) for section in lacking)
            )
            left = sum(section.proposer.unindexed for section in sections)
            done += max(0, before - left)
            if progress and before != left:
                progress(done, done + left)
            if not left:
                for section in sections:
                    if unread := section.proposer.unindexed_evicted():
                        section.ledger.take_in(await asyncio.to_thread(read_evicted, unread))
        for section in sections:
            lacking_text = section.held.past.without_text
            for start in range(0, len(lacking_text), _READ_AT_ONCE):
                read = await asyncio.to_thread(
                    read_evicted, lacking_text[start : start + _READ_AT_ONCE]
                )
                section.ledger.take_in(read)

    async def _expire(self) -> None:
        """Move the items whose time to live is over to the archive.

        Summaries of them give way to their originals.
        """
        own = [
            section
            for section in self._sections.values()
            if section.held.ends and not section.frozen
        ]
        if not own:
            return
        now = self._clock()
        due = [item_id for section in own for item_id in section.held.expired(now)]
        if not due:
            return
        with suppress(
            CorruptionError
        ):  # what is archived can't come back; the summaries expire as well
            for compaction in self._compactions:
                await compaction.undo(due)
        for section in own:
            section.expire(section.held.expired(now))

    async def _read_back(self, sections: Sequence[Section]) -> None:
        """Read the parts of sections that a question needs.

        Opening skips this, as many callers never ask.
        """
        if not any(section.held.past.unloaded for section in sections):
            return
        if error := await load_past(
            sections, self._log, self.counter, unpurged=self._saver.unpurged
        ):
            self._notices.append(f"{_NOT_RECALLED}: {error}")

    # what is kept

    async def save(self) -> None:
        """Commit all changes since the last save. When this returns, they survive a kill.

        Commits of other writers are taken in first. Once begun, a save is finished even if its
        caller is cancelled. Raises ConflictError if both writers changed the same item or section,
        and DurabilityError. The changes are then not saved. After a ConflictError,
        `refresh(discard=True)` drops them: go on from the stored session and repeat the turn.
        Without it, leaving the block tries once more and does not raise the error again.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The rent is 900 euros.")
        >>> await memory.save()
        """
        self._check_loop()
        self._check_writable()
        await self._expire()
        await self._saver.save()

    async def refresh(self, *, discard: bool = False) -> None:
        """Take in what other writers have committed since the session was read.

        Nothing is committed.

        discard: drop the unsaved changes. This is the way to go on after a ConflictError: refresh,
            then repeat the turn. Sections that are never stored keep their items.
        Raises ConflictError if an unsaved change clashes with a commit, and nothing is discarded.
        Raises ReadOnlyError, CorruptionError and DurabilityError. Then nothing has changed.

        >>> async with SessionMemory.open("./.kaosmem", "deal-42") as one, SessionMemory.open(
        ...     "./.kaosmem", "deal-42"
        ... ) as other:
        ...     item = one.add("findings", "Ann owns the deal.")
        ...     await one.save()
        ...     await other.refresh()
        ...     print(other.get(item.id).text)
        Ann owns the deal.
        """
        self._check_loop()
        if self._read_only:
            raise ReadOnlyError(
                f"session {self.session_id!r} was opened read-only and stays as it was; open it "
                "again to see the newest"
            )
        self._check_writable()
        await self._saver.refresh(discard=discard)

    # what comes in from files

    async def ingest(
        self,
        path_or_fs: Location,
        section: str = "documents",
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        gitignore: bool = True,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Read a file or folder into a section, as passages with their source and lines.

        The next call for this place reads only files that changed. Passages of files that changed
        or vanished move to the archive.
        include: patterns of the files to take, as .gitignore writes them, such as "*.md" or
            "docs/". The default takes all files.
        exclude: patterns of the files and folders to leave out.
        gitignore: whether to leave out what the .gitignore files in the folder name.
        progress: called with each file's source, the number of files read, and the number of files
            to read.
        Raises MissingFileError, InvalidArgumentError, and as `add`.

        >>> from pathlib import Path
        >>> size = Path("notes.md").write_text("The rent is 900 euros.")
        >>> memory = SessionMemory.test_mode()
        >>> report = await memory.ingest("notes.md")
        >>> report.items_added
        1
        """
        self._check_loop()
        ingestion = Ingestion(
            self._writable(section),
            add=self.add,
            has=self.__contains__,
            counter=self.counter,
            clock=self._clock,
        )
        choice = Choice(
            check_patterns(include, "include"), check_patterns(exclude, "exclude"), gitignore
        )
        return await ingestion.run(path_or_fs, choice, progress=progress)

    def _check_loop(self) -> None:
        if not self._one_loop:
            return
        running = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop = running
        elif self._loop is not running:
            raise ConcurrentUseError(
                "this test memory is in use in another event loop that is still open; "
                "close that loop first, or make a memory for each test with "
                "SessionMemory.test_mode()"
            )


def _now() -> datetime:
    return datetime.now(UTC)


def _test_clock() -> Clock:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    seconds = count()
    return lambda: start + timedelta(seconds=next(seconds))
