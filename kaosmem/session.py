"""SessionMemory: a session's sections, kept in its log and packed into contexts."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from kaosmem.assembly import Context, Decision, Reason, assemble, check_budget, measure
from kaosmem.assembly.allocation import cap_of
from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    DuplicateItemError,
    DurabilityError,
    InvalidContentError,
    ReadOnlyError,
    TestIsolationError,
    UnknownItemError,
    UnknownSectionError,
)
from kaosmem.formats import get_format, parse_message
from kaosmem.hydration import OPEN, describe, drain, freeze, hydrate, release
from kaosmem.ingest import IngestReport
from kaosmem.ingestion import Ingestion, Progress
from kaosmem.names import check_item_id, check_name, shown
from kaosmem.persistence import Change, Location, SessionLog
from kaosmem.persistence import delete_session as _delete_session
from kaosmem.persistence import list_sessions as _list_sessions
from kaosmem.retrieval import Ranker
from kaosmem.sections import DEFAULT_SECTIONS, Proposal, Section, SectionSpec, check_specs
from kaosmem.tokens import TokenCounter, count_content, get_counter
from kaosmem.types import ContentBlock, Item, JSONValue, Trust, check_content, check_metadata, check_text

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Clock = Callable[[], datetime]
_ROLE_TRUST = {"system": Trust.APPLICATION, "user": Trust.USER, "assistant": Trust.MODEL, "tool": Trust.TOOL}


class SessionMemory:
    """What one session knows, in sections; `open` one, or take `test_mode()`.

    add, add_many, add_message, update, remove, get and search do no I/O; save, assemble_context, fetch and ingest are
    awaited. One instance belongs to one event loop at a time.
    """

    def __init__(
        self,
        log: SessionLog,
        sections: dict[str, Section],
        *,
        session_id: str,
        counter: TokenCounter,
        clock: Clock,
        rng: random.Random,
        read_only: bool = False,
        description: Mapping[str, JSONValue],
        notices: Iterable[str] = (),
        one_loop: bool = False,
    ) -> None:
        self.session_id = session_id
        self.counter = counter
        self.notices = tuple(notices)
        """What opening the session brought to light: damage, sections without a spec, another counter."""
        self._log, self._sections = log, sections
        self._clock, self._rng = clock, rng
        self._read_only, self._description = read_only, description
        self._unsaved: list[Change] = []
        self._saving = asyncio.Lock()
        self._snapshot: asyncio.Task[None] | None = None
        self._one_loop = one_loop
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        held = ", ".join(f"{name} {len(section)}" for name, section in self._sections.items() if len(section))
        return f"<SessionMemory {self.session_id!r}: {self.used} tokens; {held or 'empty'}>"

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url_or_fs: Location = "./.kaosmem",
        session_id: str = "default",
        *,
        namespace: str = "default",
        sections: Sequence[SectionSpec] = DEFAULT_SECTIONS,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        ranker: Ranker | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        single_writer: bool = False,
    ) -> AsyncIterator[SessionMemory]:
        """Open a session, new or stored; leaving the block saves it, an exception discards what is unsaved.

        url_or_fs: where sessions are: a path, a URL that fsspec understands, or a filesystem.
        single_writer: nobody else writes to the session, so that the filesystem need not be able to tell writers apart.
        Raises InvalidNameError before any I/O, CorruptionError, UnsupportedVersionError.
        """
        check_name(session_id, "session id")
        check_name(namespace, "namespace")
        check_specs(sections)
        memory = await asyncio.to_thread(
            cls._opened,
            url_or_fs,
            session_id,
            namespace,
            sections=sections,
            counter=get_counter(counter),
            ranker=ranker,
            clock=clock or _now,
            rng=random.SystemRandom(),
            read_only=read_only,
            single_writer=single_writer,
        )
        async with memory:
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
        event loop: use from a second while the first is open raises TestIsolationError.
        """
        from kaosmem.persistence.memory import IsolatedMemoryFileSystem

        check_name(session_id, "session id")
        check_specs(sections)
        return cls._opened(
            IsolatedMemoryFileSystem(),
            session_id,
            "default",
            sections=sections,
            counter=get_counter(counter),
            ranker=None,
            clock=clock or _test_clock(),
            rng=random.Random(0),
            one_loop=True,
        )

    @classmethod
    def _opened(
        cls,
        url_or_fs: Location,
        session_id: str,
        namespace: str,
        *,
        sections: Sequence[SectionSpec],
        counter: TokenCounter,
        ranker: Ranker | None,
        clock: Clock,
        rng: random.Random,
        read_only: bool = False,
        single_writer: bool = False,
        one_loop: bool = False,
    ) -> SessionMemory:
        with _collector_paused():
            log, recovered = SessionLog.open(
                url_or_fs, session_id, namespace=namespace, read_only=read_only, single_writer=single_writer
            )
            hydrated = hydrate(recovered, sections, counter, ranker)
        return cls(
            log,
            hydrated.sections,
            session_id=session_id,
            counter=counter,
            clock=clock,
            rng=rng,
            read_only=read_only,
            description=hydrated.description,
            notices=hydrated.notices,
            one_loop=one_loop,
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
        """Wait for a snapshot being written and let go of the log; what is unsaved is lost."""
        if self._snapshot is not None:
            await self._snapshot
        await asyncio.to_thread(self._log.close)

    # what it holds

    def __getitem__(self, section: str) -> Section:
        try:
            return self._sections[section]
        except KeyError:
            raise UnknownSectionError(
                f"no section {shown(section)}; there are {', '.join(self._sections)}; "
                "to have another, give a SectionSpec for it in sections"
            ) from None

    def __contains__(self, item_id: object) -> bool:
        return any(item_id in section for section in self._sections.values())

    @property
    def fs(self) -> AbstractFileSystem:
        """The filesystem that the session is in; `open(memory.fs, memory.session_id)` opens it again."""
        return self._log.fs

    @property
    def sections(self) -> tuple[SectionSpec, ...]:
        """The specs of all sections, in order of declaration."""
        return tuple(section.spec for section in self._sections.values())

    @property
    def used(self) -> int:
        """Tokens that all sections hold."""
        return sum(section.used for section in self._sections.values())

    def get(self, item_id: str) -> Item | None:
        """Return a live item, which counts as a use of it."""
        section = self._section_of(item_id)
        return None if section is None else section.get(item_id)

    def search(self, query: str, section: str | None = None, limit: int = 10) -> list[tuple[Item, float]]:
        """Return the items most relevant to a query, of one section or of all that may be shown, with their scores."""
        check_text(query, "query")
        searched = [self[section]] if section else [each for each in self._sections.values() if each.spec.in_context]
        found = [match for each in searched for match in each.rank(query, limit)]
        found.sort(key=lambda match: (-match[1], -match[0].created_at.timestamp(), match[0].id))
        return found[:limit]

    async def fetch(self, item_id: str) -> Item:
        """Return an item in full, from the archive if it is no longer live. Raises UnknownItemError."""
        self._check_loop()
        section = self._section_of(item_id)
        if section is not None and (live := section.get(item_id)):
            return live
        for each in self._sections.values():
            if archived := each.archive.get(item_id):
                return archived
        stored = await asyncio.to_thread(self._log.archived, check_item_id(item_id))
        if stored is None:
            raise UnknownItemError(f"no item {shown(item_id)}, live or archived")
        return Item.from_dict(stored[1], stored[0])

    def _section_of(self, item_id: str) -> Section | None:
        return next((section for section in self._sections.values() if item_id in section), None)

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

        Raises UnknownSectionError, DuplicateItemError, InvalidNameError, InvalidContentError, ItemTooLargeError,
        SectionFullError, ReadOnlyError; then nothing has changed.
        """
        target = self._writable(section)
        checked = check_content(content)
        role = _default_role(target.spec) if role is None else check_text(role, "role")
        sources = tuple(check_item_id(source) for source in sources)
        if id is not None and check_item_id(id) in self:
            raise DuplicateItemError(f"an item {shown(id)} is live; update() it, or leave the id out to have one made")
        if type(priority) is not int:
            raise InvalidContentError(f"priority is {shown(priority)}; give a whole number, higher for more important")
        item = Item(
            id=id or self._new_id(),
            section=section,
            role=role,
            content=checked,
            tokens=count_content(checked, self.counter),
            created_at=self._clock(),
            priority=priority,
            pinned=pinned,
            tags=tuple(check_text(tag, "a tag") for tag in tags),
            metadata=check_metadata(metadata),
            key=key if key is None else check_text(key, "key"),
            sources=sources,
            trust=self._trust(target.spec, role, sources, trust),
        )
        target.add(item)
        if target.spec.placement != "history":
            measure(item, self.counter)  # while its text is at hand: the turn that first shows it need not
        return item

    def add_many(
        self, section: str, contents: Iterable[str | Iterable[ContentBlock | Mapping[str, JSONValue]]]
    ) -> list[Item]:
        """Add items in order, as `add` does each."""
        return [self.add(section, content) for content in contents]

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
        """Move a live item to its section's archive. Raises UnknownItemError or ReadOnlyError."""
        self._live(item_id).remove(item_id)

    def _live(self, item_id: str) -> Section:
        section = self._section_of(item_id)
        if section is None:
            raise UnknownItemError(f"no live item {shown(item_id)}; fetch() finds archived ones")
        return self._writable(section.spec.name)

    def _writable(self, section: str) -> Section:
        if self._read_only:
            raise ReadOnlyError(
                f"session {self.session_id!r} was opened read-only; open it without read_only to change it"
            )
        return self[section]

    def _new_id(self) -> str:
        while (item_id := f"{self._rng.getrandbits(64):016x}") in self:
            pass
        return item_id

    def _trust(self, spec: SectionSpec, role: str, sources: Sequence[str], given: Trust | None) -> Trust:
        if not sources:
            default = Trust.APPLICATION if spec.placement == "static" else _ROLE_TRUST.get(role, Trust.MODEL)
            return default if given is None else Trust(given)
        if spec.placement == "static":
            raise ValueError(
                f"section {spec.name!r} is static: a derived item may not stand in the system message; "
                "add it to another section, or without sources"
            )
        known = [section.peek(source) for source in sources if (section := self._section_of(source))]
        lowest = min((item.trust for item in known), default=Trust.EXTERNAL)
        if len(known) < len(sources):
            lowest = Trust.EXTERNAL
        if given is not None and given > lowest:
            raise ValueError(
                f"trust {Trust(given).name} is higher than {lowest.name}, the lowest of the sources; leave trust out"
            )
        return lowest if given is None else Trust(given)

    # what it is shown as

    async def assemble_context(
        self,
        query: str | None = None,
        *,
        budget: int,
        format: str = "text",  # noqa: A002
        reserve: int = 0,
        sections: Iterable[str] | None = None,
    ) -> Context:
        """Pack what is worth most into `budget - reserve` tokens, as counted in that format.

        query: what ranks; None is the text of the newest user message. sections: show only these.
        Raises InvalidBudgetError, UnknownFormatError, UnknownSectionError, and WindowTooSmallError where what must be
        shown does not fit.
        """
        self._check_loop()
        window = check_budget(budget, reserve)
        layout = get_format(format)
        names = None if sections is None else {self[name].spec.name for name in sections}
        query = self._newest_question() if query is None else check_text(query, "query")
        shown_sections = {
            name: section
            for name, section in self._sections.items()
            if section.spec.in_context and (names is None or name in names)
        }
        proposals: dict[str, Proposal] = {
            name: section.propose(query, cap=cap_of(section.spec, window)) for name, section in shown_sections.items()
        }
        context = assemble(
            [section.spec for section in shown_sections.values()],
            proposals,
            budget=budget,
            reserve=reserve,
            format=layout,
            counter=self.counter,
            query=query,
            decide=lambda item_id: self._decide(item_id, frozenset(shown_sections)),
        )
        for name, section in shown_sections.items():
            section.use(item.id for item in context.items if item.section == name)
        return context

    def _newest_question(self) -> str:
        newest = [
            item
            for section in self._sections.values()
            if section.spec.placement == "history" and (item := section.newest_user_item)
        ]
        return max(newest, key=lambda item: item.created_at).text if newest else ""

    def _decide(self, item_id: str, shown_sections: frozenset[str]) -> Decision:
        """Return the decision on an item that was not proposed."""
        section = self._section_of(item_id)
        if section is not None:
            item, name = section.peek(item_id), section.spec.name
            reason = Reason.OUTRANKED if name in shown_sections else Reason.NOT_SHOWN
            return Decision(item_id, name, False, reason, None, None, item.tokens)
        for section in self._sections.values():
            if archived := section.archive.get(item_id):
                return Decision(item_id, section.spec.name, False, Reason.ARCHIVED, None, None, archived.tokens)
        raise UnknownItemError(f"no item {shown(item_id)} in memory; fetch() looks in the stored archive too")

    # what is kept

    async def save(self) -> None:
        """Commit all changes since the last save; when it returns they survive.

        Raises ConflictError where another writer has committed, and DurabilityError; then they are still unsaved.
        """
        self._check_loop()
        if self._read_only:
            raise ReadOnlyError(f"session {self.session_id!r} was opened read-only; open it without read_only to save")
        async with self._saving:
            self._unsaved += drain(self._sections.values())
            if not self._unsaved:
                return
            changes = self._unsaved
            description = describe(self._sections.values(), self.counter)
            if description != self._description:
                changes = [Change("", OPEN, description), *changes]
            seq = await asyncio.to_thread(self._log.commit, changes)
            self._unsaved, self._description = [], description
            # The state is that of record `seq` only if nothing came in while it was committed.
            unchanged = not any(section.journal for section in self._sections.values())
            if self._log.snapshot_due and unchanged and (self._snapshot is None or self._snapshot.done()):
                self._start_snapshot(seq)

    def _start_snapshot(self, seq: int) -> None:
        """Write the state as it is now, off the path of the turn."""
        frozen = freeze(self._sections.values(), self.counter)

        async def write() -> None:
            async with self._saving:
                try:
                    await asyncio.to_thread(
                        self._log.snapshot, frozen.header, frozen.items, archived=frozen.archived_entries, seq=seq
                    )
                except (ConflictError, CorruptionError, DurabilityError) as error:  # the log still holds all
                    self.notices += (f"no snapshot was written: {error}",)
                else:
                    release(self._sections.values(), frozen.archived)

        self._snapshot = asyncio.create_task(write())

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
        Raises NothingToIngestError.
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


def _default_role(spec: SectionSpec) -> str:
    if spec.name == "role":
        return "system"
    return "user" if spec.placement == "history" else ""


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the collector of garbage: what opening makes is all kept, and it would be looked through many times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _now() -> datetime:
    return datetime.now(UTC)


def _test_clock() -> Clock:
    start, seconds = datetime(2024, 1, 1, tzinfo=UTC), count()
    return lambda: start + timedelta(seconds=next(seconds))
