"""SessionMemory: a session's sections, kept in its log and packed into contexts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Literal

from kaosmem.arguments import check_several
from kaosmem.assembly import Context, assemble, check_budget, measure
from kaosmem.display import fitted, listed
from kaosmem.duplicates import statement
from kaosmem.errors import (
    CorruptionError,
    ForgetIncompleteError,
    ReadOnlyError,
    SourceUnavailableError,
    TestIsolationError,
    UnknownItemError,
    UnknownSectionError,
)
from kaosmem.filters import Filter, parse_filter
from kaosmem.formats import get_format, parse_message
from kaosmem.ingest import IngestReport
from kaosmem.names import check_item_id, check_name, shown
from kaosmem.persistence import Location, SessionLog, filesystem_of
from kaosmem.persistence import delete_session as _delete_session
from kaosmem.persistence import list_sessions as _list_sessions
from kaosmem.retrieval import Ranker
from kaosmem.retrieval.dates import dated
from kaosmem.sections import DEFAULT_SECTIONS, AttachedSection, Section, SectionSpec, Source, check_specs
from kaosmem.session.compaction import SectionCompaction
from kaosmem.session.graph import Graph
from kaosmem.session.hydration import Hydrated
from kaosmem.session.ingestion import Ingestion, Progress
from kaosmem.session.item_factory import ItemFactory
from kaosmem.session.opening import Opening, SharedSessions, unopened
from kaosmem.session.originals import Originals
from kaosmem.session.past import load_past
from kaosmem.session.roster import Roster
from kaosmem.session.saving import Saver
from kaosmem.tokens import TokenCounter, count_content
from kaosmem.types import ContentBlock, Item, JSONValue, Trust, check_content, check_text

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Clock = Callable[[], datetime]
_SHARED = SharedSessions()
_NOT_RECALLED = "what was evicted earlier cannot be recalled"
_SHOWN_SECTIONS, _SHOWN_NOTICES = 30, 10
"""How many a notebook shows."""


class SessionMemory:
    """What one session knows, in sections; `open` one, or take `test_mode()`.

    add, add_many, add_message, update, remove, get and search do no I/O; save, assemble_context, attach, fetch, expand
    and ingest are awaited. One instance belongs to one event loop at a time.
    """

    def __init__(
        self,
        opening: Opening,
        log: SessionLog,
        hydrated: Hydrated,
        *,
        clock: Clock,
        rng: random.Random,
        read_only: bool = False,
        one_loop: bool = False,
    ) -> None:
        self.session_id, self.counter = opening.session_id, opening.counter
        self._opening = opening
        self._log, self._sections, self._notices = log, hydrated.sections, list(hydrated.notices)
        self._roster = Roster(self._sections, counter=self.counter)
        self._saver = Saver(log, hydrated, counter=self.counter, rehydrate=opening.hydrate)
        self._factory = ItemFactory(
            self._sections, counter=self.counter, clock=clock, rng=rng, forgotten=self._saver.forgotten
        )
        self._originals = Originals(self._sections, log, counter=self.counter, forgotten=self._saver.forgotten)
        self._compactions = [
            SectionCompaction(section, strategy, self._originals, counter=self.counter, new_id=self._factory.free_id)
            for section in self._sections.values()
            if (strategy := section.spec.compaction) and not read_only
        ]
        if read_only and not log.seq:
            self._notices.append(f"no session {shown(self.session_id)} is stored here, so this one is empty")
        self._read_only = read_only
        self._one_loop = one_loop
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        held = [f"{name} {len(section):,}" for name, section in self._sections.items() if len(section)]
        access = ", read-only" if self._read_only else ""
        session_id = fitted(self.session_id, 60, tail=20)
        return f"<SessionMemory {session_id!r}{access}: {self.used:,} tokens; {listed(held, 6) or 'empty'}>"

    def _repr_html_(self) -> str:
        from kaosmem.notebook import bar, table

        sections = [section for section in self._sections.values() if len(section) or len(section.archive)]
        rows = [
            (
                section.spec.name,
                f"{len(section):,}",
                bar(section.used, section.budget),
                f"{len(section.archive):,}",
                section.spec.eviction,
            )
            for section in sections[:_SHOWN_SECTIONS]
        ]
        more = len(sections) - len(rows)
        return table(
            f"session {self.session_id}: {self.used:,} tokens",
            ("section", "items", "tokens", "archived", "eviction"),
            rows,
            numbers=("items", "archived"),
            after=[*([f"… and {more:,} more sections"] if more else []), *self.notices[:_SHOWN_NOTICES]],
        )

    @classmethod
    @unopened
    async def open(
        cls,
        url_or_fs: Location = "./.kaosmem",
        session_id: str = "default",
        *,
        namespace: str = "default",
        sections: Sequence[SectionSpec] = DEFAULT_SECTIONS,
        sources: Iterable[Source | Section] = (),
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        ranker: Ranker | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        single_writer: bool = False,
    ) -> AsyncIterator[SessionMemory]:
        """Open a session, new or stored; leaving the block saves it, an exception discards what is unsaved.

        url_or_fs: where sessions are: a path, a URL that fsspec understands, or a filesystem.
        sections: in order of declaration; with one of your own `(*DEFAULT_SECTIONS, SectionSpec(...))`.
        sources: shown beside the sections, as `attach` does; what needs a time or is required is attached inside.
        counter: the name of an encoding, "estimate" or a function from str to int; None is o200k_base.
        ranker: of sections without their own; None is `LinearRanker`. clock: gives aware times; None is the computer's.
        read_only: nothing can be changed. A process reads such a session once and shares what it holds among all who
            open it, until it changes where it is stored. Of a damaged one all that is intact is there (see `damage`).
        single_writer: nobody else writes to the session, so that the filesystem need not be able to tell writers apart.
        Raises NotOpenedError for anything but `async with`; InvalidNameError, InvalidArgumentError and
        UnknownEncodingError before any I/O; CorruptionError, UnsupportedVersionError.
        """
        check_name(session_id, "session id")
        check_name(namespace, "namespace")
        check_specs(sections)
        opening = Opening(url_or_fs, session_id, namespace, sections, counter, ranker)
        read = partial(_SHARED.read, opening) if read_only else partial(opening.read, single_writer=single_writer)
        log, hydrated = await asyncio.to_thread(read)
        memory = cls(
            opening,
            log,
            hydrated,
            clock=clock or _now,
            rng=random.SystemRandom(),
            read_only=read_only,
        )
        async with memory:
            for source in sources:
                await memory.attach(source)
            yield memory

    @classmethod
    def test_mode(
        cls,
        *,
        session_id: str = "test",
        sections: Sequence[SectionSpec] = DEFAULT_SECTIONS,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        clock: Clock | None = None,
    ) -> SessionMemory:
        """Return a new memory for a test: no disk, no network, the same ids and times in every run.

        It is kept in a filesystem of its own, `memory.fs`, from which `open` can open it again. It belongs to one
        event loop: use from a second while the first is open raises TestIsolationError. Arguments are as of `open`.
        """
        from kaosmem.persistence.memory import IsolatedMemoryFileSystem

        check_name(session_id, "session id")
        check_specs(sections)
        opening = Opening(IsolatedMemoryFileSystem(), session_id, "default", sections, counter, None)
        log, hydrated = opening.read()
        return cls(
            opening,
            log,
            hydrated,
            clock=clock or _test_clock(),
            rng=random.Random(0),
            one_loop=True,
        )

    async def __aenter__(self) -> SessionMemory:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not self._read_only:
                await self.save()
        finally:
            await self.close()

    async def close(self) -> None:
        """Wait for a snapshot being written and let go of the log; what is unsaved is lost, and changes are refused."""
        await self._saver.close()
        for section in self._sections.values() if not self._read_only else ():
            section.freeze("was closed; open it again to change it")

    # what it holds

    def __getitem__(self, section: str) -> Section:
        try:
            return self._sections[section]
        except (KeyError, TypeError):  # a list can't be a name either
            raise UnknownSectionError(
                f"no section {shown(section)}; there are {', '.join(self._sections)}; "
                "to have another, give a SectionSpec for it in sections"
            ) from None

    def __contains__(self, item_id: object) -> bool:
        return isinstance(item_id, str) and self._factory.section_of(item_id) is not None

    @property
    def notices(self) -> tuple[str, ...]:
        """What opening and keeping the session brought to light: damage, sections without a spec, another counter."""
        lost = (error for section in self._sections.values() for error in section.lost)
        not_recalled = (f"{_NOT_RECALLED}: {error}" for error in lost)
        not_compacted = (each.notice for each in self._compactions if each.notice)
        return (*map(str, self._log.damage), *self._notices, *not_recalled, *not_compacted, *self._saver.notices)

    @property
    def damage(self) -> tuple[CorruptionError, ...]:
        """What is damaged of what is stored, as far as it was read, and what that costs; empty for a sound session.

        Of a damaged session, opened read-only, all that is intact is there; `repair_session` rescues it into a new one.
        """
        said = {*map(str, self._log.damage)}
        lost = (error for section in self._sections.values() for error in section.lost)
        return (*self._log.damage, *(error for error in lost if error.byte is not None and str(error) not in said))

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
        """Tokens that all sections hold."""
        return sum(section.used for section in self._sections.values())

    def get(self, item_id: str) -> Item | None:
        """Return a live item, which counts as a use of it, or None. Raises InvalidNameError for what is no id."""
        section = self._factory.section_of(item_id)
        return None if section is None else section.get(item_id)

    def search(
        self,
        query: str,
        section: str | None = None,
        limit: int = 10,
        *,
        filter: Filter | None = None,  # noqa: A002
    ) -> list[tuple[Item, float]]:
        """Return the items most relevant to a query, with their scores, best first.

        section: a section or attached section; None is all that may be shown. filter: as in `assemble_context`.
        Raises UnknownSectionError, InvalidFilterError, and InvalidArgumentError for the limit.
        """
        wanted = None if filter is None else parse_filter(filter)
        return self._roster.rank(dated(check_text(query, "query"), self._clock), section, limit, wanted=wanted)

    async def fetch(self, item_id: str) -> Item:
        """Return an item in full, from the archive or an attached source if it is not live.

        Raises UnknownItemError, or SourceUnavailableError where a source that may have it can't be asked.
        """
        self._check_loop()
        if (live := self.get(item_id)) is not None:
            return live
        for section in self._sections.values():
            if archived := section.archive.get(item_id):
                return archived
        unavailable: SourceUnavailableError | None = None
        try:
            if (attached := await self._roster.get(item_id)) is not None:
                return attached
        except SourceUnavailableError as error:
            unavailable = error
        stored = await asyncio.to_thread(self._log.archived, check_item_id(item_id))
        if stored is None or item_id in self._saver.unpurged:
            if unavailable:
                raise unavailable
            missing = "; memory.damage says what is missing of the session" if self.damage else ""
            raise UnknownItemError(f"no item {shown(item_id)}, live or archived{missing}")
        return Item.from_dict(stored[1], stored[0])

    async def expand(self, item_id: str) -> list[Item]:
        """Return what an item was derived from, in any number of steps, in order; an item of no sources is its own.

        Raises as `fetch`.
        """
        return await self._originals.of(await self.fetch(item_id), self.fetch)

    @property
    def graph(self) -> Graph:
        """The section `graph` as entities and relationships. Raises UnknownSectionError."""
        return Graph(
            self["graph"],
            make=self._factory.make,
            writable=partial(self._writable, "graph"),
            counter=self.counter,
        )

    @property
    def sources(self) -> Mapping[str, Source]:
        """The attached sources by the names that they are shown under."""
        return self._roster.sources

    async def attach(
        self,
        source: Source | Section,
        *,
        name: str | None = None,
        timeout_s: float | None = None,
        required: bool = False,
    ) -> str:
        """Show a source, or a section of another session, beside the session's own; return under which name.

        It is proposed, budgeted and explained as a section is, by its own spec, and is not kept with the session.
        Nothing in it is changed; a section to be shared is best of a session opened read_only.
        name: None is the source's own, numbered where the session has that: `documents-2`.
        timeout_s: how long a turn waits for it, None for as long as it takes.
        required: whether its failure, or its being late, is raised by `assemble_context`; else the rest is assembled
            and `context.sources` says so.
        Raises InvalidNameError and InvalidArgumentError.
        """
        self._check_loop()
        attached = AttachedSection(source) if isinstance(source, Section) else source
        return self._roster.attach(attached, name, timeout_s=timeout_s, required=required)

    # what changes it

    def add(
        self,
        section: str,
        content: str | Iterable[ContentBlock | Mapping[str, JSONValue]],
        *,
        role: str | None = None,
        id: str | None = None,  # noqa: A002
        key: str | None = None,
        priority: int = 0,
        pinned: bool = False,
        tags: Iterable[str] = (),
        metadata: Mapping[str, JSONValue] | None = None,
        sources: Iterable[str] = (),
        trust: Trust | None = None,
    ) -> Item:
        """Add an item to a section, which may evict others to its archive.

        role: None is "system" in the section `role`, "user" in a history, else none; any other name is a user's.
        id: None is one made at random. priority: which items stay under the eviction `priority`, the highest.
        pinned: always shown, never evicted. metadata: for filters; the ranking goes by `source`, `title` and
            `timestamp` (ISO 8601). sources: ids of what it was derived from. trust: None is what role, section and
            sources say; no higher than the lowest of the sources.
        key: items of one section with the same one are versions of one thing. The newest is live; adding it moves the
            one before, pinned or not, with all that is in one unit with it, to where evicted items go.
        Raises UnknownSectionError, DuplicateItemError, InvalidNameError, InvalidContentError, InvalidArgumentError,
        UnknownItemError for a source that was forgotten, ItemTooLargeError, SectionFullError, ReadOnlyError; then
        nothing has changed.
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
        )
        target.add(item)
        # While its text is at hand: the turn that first shows it need not.
        statement(item)
        if target.spec.placement != "history":
            measure(item, self.counter, provenance=target.spec.provenance)
        return item

    def add_many(
        self, section: str, contents: Iterable[str | Iterable[ContentBlock | Mapping[str, JSONValue]]]
    ) -> list[Item]:
        """Add items in order, as `add` does each; where one is refused, those before it stay."""
        return [self.add(section, content) for content in check_several(contents, "contents")]

    def add_message(self, message: object, *, format: str, section: str = "messages") -> Item:  # noqa: A002
        """Add a provider's message, a dict or an object of its SDK, tool calls included.

        Raises as `add`, and UnknownFormatError.
        """
        parsed = parse_message(message, format)
        return self.add(section, parsed.content, role=parsed.role)

    def update(self, item_id: str, content: str | Iterable[ContentBlock | Mapping[str, JSONValue]]) -> Item:
        """Give a live item another content; it keeps its place, and what it was goes to the archive.

        Raises UnknownItemError and as `add`.
        """
        section = self._live(item_id)
        checked = check_content(content)
        item = replace(section.peek(item_id), content=checked, tokens=count_content(checked, self.counter))
        section.update(item)
        return item

    def remove(self, item_id: str) -> None:
        """Move a live item to its section's archive, where `fetch` finds it.

        Raises UnknownItemError or ReadOnlyError.
        """
        self._live(item_id).remove(item_id)

    async def forget(self, *item_ids: str) -> None:
        """Erase items and all that is derived from them: here, where the session is stored, and from its sources.

        All versions go, archived ones too. Whatever else a summary that goes stood for comes back, until the section is
        compacted again. What else is unsaved is saved. Once begun it is finished: by the next save of the session where
        this one fails. It costs as much as writing the session anew, for one item or many.
        Copies that others made of the files, and contexts handed over before, are theirs.
        Raises UnknownItemError, ReadOnlyError, ConflictError, CorruptionError and DurabilityError, and
        ForgetIncompleteError, all else being done, where a source holds an item and can't forget it, or can't be asked.
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
        if unable := await self._roster.forget(erased):
            raise ForgetIncompleteError(
                f"{listed(unable, 3)} can't forget what is forgotten here; erase it there", sources=unable
            )

    def _live(self, item_id: str) -> Section:
        section = self._factory.section_of(item_id)
        if section is None:
            raise UnknownItemError(f"no live item {shown(item_id)}; fetch() finds archived ones")
        return self._writable(section.spec.name)

    def _writable(self, section: str) -> Section:
        self._check_writable()
        return self[section]

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(
                f"session {self.session_id!r} was opened read-only; open it without read_only to change it"
            )

    # what it is shown as

    async def assemble_context(
        self,
        query: str | None = None,
        *,
        budget: int,
        format: str = "text",  # noqa: A002
        reserve: int = 0,
        sections: Iterable[str] | None = None,
        filter: Filter | None = None,  # noqa: A002
        overflow: Literal["raise", "cut"] = "raise",
    ) -> Context:
        """Pack what is worth most into `budget - reserve` tokens, as counted in that format.

        Sections over their own budgets are compacted first, where they have a compaction; where that fails, `notices`
        says so, and they are shown as they are.
        budget, reserve: in tokens; the reserve is kept free, for tool schemas and the reply.
        format: "text", "openai" or "anthropic".
        query: what ranks, in which yesterday, last week and the like are as the session's clock says; None is the text
            of the newest user message.
        sections: show only these sections and sources.
        filter: conditions on metadata, as `{"source": "a.md"}` (see `kaosmem.filters`). It narrows those sections of
            placement `query` in which any item has one of its fields, pinned items included.
        overflow: where what must be shown does not fit, "raise", or "cut" the longest texts of it in the middle, the
            system message excepted; `fetch` has them in full.
        Raises InvalidBudgetError, InvalidFilterError, InvalidArgumentError, UnknownFormatError, UnknownSectionError,
        WindowTooSmallError where what must be shown does not fit, and SourceUnavailableError where a source that is
        required fails.
        """
        self._check_loop()
        window = check_budget(budget, reserve)
        wanted = None if filter is None else parse_filter(filter)
        specs = self._roster.shown(sections)
        if self._compactions:
            await asyncio.gather(*(each.run() for each in self._compactions))
        query = self._roster.newest_question() if query is None else check_text(query, "query")
        await self._read_back([self._sections[name] for name in specs if name in self._sections])
        proposals, reports = await self._roster.propose(specs, dated(query, self._clock), window=window, wanted=wanted)
        context = assemble(
            list(specs.values()),
            proposals,
            budget=budget,
            reserve=reserve,
            format=get_format(format),
            counter=self.counter,
            query=query,
            overflow=overflow,
            decide=lambda item_id: self._roster.decide(item_id, shown_names=specs.keys(), wanted=wanted),
            sources=reports,
        )
        self._roster.use(context.items)
        return context

    async def _read_back(self, sections: Sequence[Section]) -> None:
        """Read what sections need to be asked; not on opening, as not all who open a session ask."""
        if error := await load_past(sections, self._log, self.counter):
            self._notices.append(f"{_NOT_RECALLED}: {error}")
        for section in sections:
            if section.lacks_index:
                await asyncio.to_thread(section.read_index)

    # what is kept

    async def save(self) -> None:
        """Commit all changes since the last save; when it returns they survive.

        What others have committed meanwhile is taken in, and comes before. Once begun, a save is finished even if
        whoever awaits it is cancelled.
        Raises ConflictError where both rewrote the same item or section, and DurabilityError; then they are unsaved.
        """
        self._check_loop()
        self._check_writable()
        await self._saver.save()

    # what comes in from files

    async def ingest(
        self,
        path_or_fs: Location,
        section: str = "documents",
        *,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Read a file or folder into a section as passages with source and lines; read again only what has changed.

        Passages of files that changed or vanished since this place was last ingested go to the archive.
        progress: called with each file's source, how many are read and how many there are to read.
        Raises NothingToIngestError, InvalidArgumentError, and as `add`.
        """
        self._check_loop()
        ingestion = Ingestion(self._writable(section), add=self.add, has=self.__contains__, counter=self.counter)
        return await ingestion.run(path_or_fs, progress=progress)

    def _check_loop(self) -> None:
        if not self._one_loop:
            return
        running = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop = running
        elif self._loop is not running:
            raise TestIsolationError(
                "this test memory is in use in another event loop that is still open; "
                "close that loop first, or make a memory for each test with SessionMemory.test_mode()"
            )


async def list_sessions(url_or_fs: Location, namespace: str = "default") -> list[str]:
    """Return the ids of the sessions stored there, sorted."""
    return await asyncio.to_thread(_list_sessions, url_or_fs, namespace)


async def delete_session(url_or_fs: Location, session_id: str, namespace: str = "default") -> None:
    """Delete a session and all that it kept. Raises InvalidNameError before any I/O."""
    await asyncio.to_thread(_delete_session, url_or_fs, session_id, namespace)


def _now() -> datetime:
    return datetime.now(UTC)


def _test_clock() -> Clock:
    start, seconds = datetime(2024, 1, 1, tzinfo=UTC), count()
    return lambda: start + timedelta(seconds=next(seconds))
