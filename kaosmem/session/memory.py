"""SessionMemory: a session's sections, kept in its log and packed into contexts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, NoReturn

from kaosmem.arguments import Clock, check_collection, check_instance, check_text, utc_now
from kaosmem.assembly.allocation import check_required
from kaosmem.assembly.context import Context
from kaosmem.assembly.offers import ContextCall, Overflow
from kaosmem.assembly.why import Why
from kaosmem.display import comma_list, truncated
from kaosmem.errors import (
    ConcurrentUseError,
    ConflictError,
    CorruptionError,
    DurabilityError,
    InvalidArgumentError,
    SectionFullError,
)
from kaosmem.filters import Filter
from kaosmem.formation.changes import AppliedChange, Former
from kaosmem.formation.schedule import FormsFrom
from kaosmem.formats import Format, messages_apart, parse_message
from kaosmem.formats.streams import INTERRUPTED, Stream, new_stream
from kaosmem.ingest.listing import FileSelection
from kaosmem.ingest.passages import IngestReport
from kaosmem.ingest.patterns import check_patterns
from kaosmem.names import check_name
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.places import Location, unknown_session
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.proposal import Hit, Source
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec, check_specs
from kaosmem.session.admin import SessionAdmin
from kaosmem.session.archive import SessionArchive
from kaosmem.session.at import MemoryAt
from kaosmem.session.attachment import AttachedSection
from kaosmem.session.context_call import assemble
from kaosmem.session.forgetting import ErasureReceipt, forget
from kaosmem.session.formations import Formations
from kaosmem.session.graph import Graph
from kaosmem.session.ingestion import Ingestion, Progress
from kaosmem.session.message_sync import MessageSync, facts_taken_back
from kaosmem.session.open_session import OpenSession
from kaosmem.session.opening import SHARED_SESSIONS, Opening, Unopened
from kaosmem.session.options import DEFAULT_OPTIONS, SessionOptions
from kaosmem.session.proposals import Proposals
from kaosmem.session.saving.hydration import Hydrated
from kaosmem.session.saving.turns import TURNS_OF_PLACES, TurnQueue
from kaosmem.session.tracing import why
from kaosmem.session.what_if import WhatIf, what_if
from kaosmem.session.windows import Window
from kaosmem.telemetry import observed
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import AnyCounter
from kaosmem.trace.trace import parse_mode
from kaosmem.types import ContentBlock, JSONObject
from kaosmem.types.content import Trust, check_content
from kaosmem.types.items import Item, check_timestamp
from kaosmem.types.versions import Version


class SessionMemory:
    """One session's memory: typed sections, kept in a log and packed into contexts.

    Create one with `open` (stored) or `test_mode` (in memory, for tests). `add`, `add_many`,
    `add_message`, `update`, `remove` and `get` do no I/O, and `search` reads files of this machine
    at most. `save`, `assemble_context`,
    `sync_messages`, `attach`, `fetch`, `forget` and `ingest` are awaited. Rare things are in
    `windows`, `archive` and `admin`. One instance belongs to one event loop at a time.

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

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._turns = TurnQueue()
        self._formations = Formations(session)

    def __repr__(self) -> str:
        session = self._session
        access = ", read-only" if session.read_only else ""
        session_id = truncated(session.session_id, 60, tail=20)
        held = [f"{each.spec.name} {len(each):,}" for each in self if len(each)]
        sections = comma_list(held, 6) or "empty"
        return f"<SessionMemory {session_id!r}{access}: {session.used:,} tokens; {sections}>"

    def _repr_html_(self) -> str:
        return self._session._repr_html_()

    def __reduce__(self) -> NoReturn:
        # `copy` and `pickle` ask for this: two memories over one log would both write the same
        # changes.
        raise ConcurrentUseError(
            f"session {self._session.session_id!r} is one live memory and cannot be copied; pass "
            "the memory itself, or open the session once more with SessionMemory.open()"
        )

    # Opening and closing.

    @classmethod
    def open(
        cls,
        url_or_fs: Location = "./.kaosmem",
        session_id: str = "default",
        *,
        namespace: str = "default",
        sections: Sequence[SectionSpec] | None = DEFAULT_SECTIONS,
        counter: AnyCounter = None,
        ranker: Ranker | None = None,
        read_only: bool = False,
        in_turn: bool = False,
        trace: bool | None = None,
        options: SessionOptions = DEFAULT_OPTIONS,
    ) -> Unopened[SessionMemory]:
        """Open a session, new or stored.

        Leaving the block saves the session. An exception discards unsaved changes, and so does a
        save that fails then: call `save()` in the block where it may have to be tried again.

        Args:
            url_or_fs: A path, a URL that fsspec understands, or a filesystem.
            session_id: A name of 1 to 128 characters.
            namespace: A name that keeps the sessions of one tenant apart.
            sections: The specs in order of declaration. Add your own with `(*DEFAULT_SECTIONS,
                SectionSpec(...))`. None takes the specs that the session was stored with, and the
                default ones for a new session.
            counter: The name of an encoding or an OpenAI model, "estimate", or a function from str
                to int. The default is o200k_base.
            ranker: The ranker of sections without their own. The default is `LinearRanker`.
            read_only: The session cannot be changed. One process reads such a session once and
                shares it among all callers that open it. Of a damaged session, all intact items
                are there (see `damage`).
            in_turn: Wait until all earlier blocks with `in_turn` over this session have ended in
                this process, in any thread and event loop. Each block then reads what the one
                before saved.
            trace: True stores every call of `assemble_context` as a turn, with its decisions and
                without a second copy of any text. None keeps the last 20 turns in memory, False
                keeps none. `why` and `kaosmem view` show turns. A turn that shows an item of a
                section with `persistence="none"`, such as `working`, is stored without its request.
            options: Rare settings: the clock, and the treatment of a missing session and of other
                writers.

        Raises:
            NotOpenedError: If the result is used without `async with`.
            InvalidNameError: If a name is not valid. Nothing has been read then.
            InvalidArgumentError: If another argument is not valid. Nothing has been read then.
            NotFoundError: If the session is opened read-only and is not stored.
            CorruptionError: If the stored session is damaged.
            UnsupportedVersionError: If another version of the format wrote it.
            DurabilityError: If the storage fails.
            ConcurrentUseError: If a block with `in_turn` is inside another of the same session, or
                inside a turn of `Sessions`.

        >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
        ...     item = memory.add("findings", "Ann owns the deal.")
        >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
        ...     print(memory.get(item.id).text)
        Ann owns the deal.
        """
        check_name(session_id, "session id")
        check_name(namespace, "namespace")
        specs = None if sections is None else tuple(check_specs(sections).values())
        clock = check_instance(options, SessionOptions, "options").clock_or(utc_now)
        mode = parse_mode(trace)
        opening = Opening(url_or_fs, session_id, namespace, specs, counter, ranker)

        async def opened() -> AsyncIterator[SessionMemory]:
            async with TURNS_OF_PLACES.take(opening.place) if in_turn else nullcontext():
                log, hydrated = await _read(opening, options, read_only=read_only)
                session = OpenSession(
                    opening,
                    log,
                    hydrated,
                    clock=clock,
                    present=clock,
                    rng=random.SystemRandom(),
                    read_only=read_only,
                    trace=mode,
                )
                async with cls(session) as memory:
                    yield memory

        return Unopened(asynccontextmanager(opened)())

    @classmethod
    def test_mode(
        cls,
        *,
        session_id: str = "test",
        sections: Sequence[SectionSpec] = DEFAULT_SECTIONS,
        counter: AnyCounter = None,
        ranker: Ranker | None = None,
        trace: bool | None = None,
        options: SessionOptions = DEFAULT_OPTIONS,
    ) -> SessionMemory:
        """Return a new memory for a test: no disk, no network, the same ids and times in every run.

        Its clock begins in 2024 unless the options have one. So without one, no fact is taken for
        one that is yet to begin. Sessions that share a store need session ids of their own, so that
        their items have different ids.
        `memory.admin.fs` is its own filesystem in memory. `open(memory.admin.fs, ...)` opens the
        session again. The arguments are those of `open`.

        >>> SessionMemory.test_mode().add("findings", "Ann owns the deal.").id
        '629f6fbed82c07cd'
        """
        from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem

        check_name(session_id, "session id")
        specs = tuple(check_specs(sections).values())
        clock = check_instance(options, SessionOptions, "options").clock_or(_test_clock())
        opening = Opening(IsolatedMemoryFileSystem(), session_id, "default", specs, counter, ranker)
        log, hydrated = opening.read()
        session = OpenSession(
            opening,
            log,
            hydrated,
            clock=clock,
            present=options.clock,
            rng=random.Random(0 if session_id == "test" else session_id),
            trace=parse_mode(trace),
        )
        return cls(session)

    async def __aenter__(self) -> SessionMemory:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        session = self._session
        is_told = session.saver.is_in_conflict
        try:
            if kind is None and not session.read_only and not session.is_closed:
                await self._formations.finish(self.save)
                await self.save()
        except ConflictError:
            if not is_told:
                raise
        except DurabilityError as error:
            lost = DurabilityError(
                f"leaving the block did not save the session: {error.__cause__ or error}; its "
                "unsaved changes are gone; call save() inside the block, where a save can be tried "
                "again"
            )
            lost.errno = error.errno
            raise lost from error
        finally:
            await session.close()

    async def save(self) -> None:
        """Commit all changes since the last save. When this returns, they survive a kill.

        Commits of other writers are taken in first. Once begun, a save is finished even if its
        caller is cancelled. If it fails, the changes are not saved. After a ConflictError,
        `admin.refresh(discard=True)` drops them: go on from the stored session and repeat the
        turn. Without it, leaving the block tries once more and does not raise the error again.

        Raises:
            ConflictError: If both writers changed the same item or section.
            ReadOnlyError: If the session cannot be changed.
            DurabilityError: If the storage fails.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The rent is 900 euros.")
        >>> await memory.save()
        """
        session = self._session
        with observed("save_session", session=session.session_id):
            session.check_writable()
            session.expire()
            await session.saver.save()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold a turn. Turns of one instance follow each other in the order of their calls.

        Without it, turns that run at once interleave their messages. Turns of two instances do not
        wait for each other; `open(..., in_turn=True)` lets these wait.

        Raises:
            ConcurrentUseError: If the call is inside a turn that has not ended, also in a task that
                was started there, or in a second event loop.

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
        async with self._turns.take():
            yield

    # Sections.

    def __getitem__(self, section: str) -> Section:
        return self._session.section(section)

    def __iter__(self) -> Iterator[Section]:
        return iter(self._session.sections.values())

    def __contains__(self, item_id: object) -> bool:
        return isinstance(item_id, str) and self._session.factory.section_of(item_id) is not None

    @property
    def sections(self) -> tuple[SectionSpec, ...]:
        """The specs of all sections, in order of declaration."""
        return tuple(section.spec for section in self)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences on damage, on sections without a spec, on another counter, and the like."""
        return self._session.notices

    @property
    def damage(self) -> tuple[CorruptionError, ...]:
        """The damage of the stored session, as far as it was read. It is empty for a sound session.

        A damaged session that is opened read-only holds all intact items. `repair_session` copies
        them into a new session.
        """
        return self._session.damage

    # Adding and changing.

    def add(
        self,
        section: str,
        content: str | Iterable[ContentBlock | JSONObject],
        *,
        role: str | None = None,
        id: str | None = None,
        key: str | None = None,
        priority: int = 0,
        pinned: bool = False,
        tags: Iterable[str] = (),
        metadata: JSONObject | None = None,
        sources: Iterable[str] = (),
        trust: Trust | None = None,
        ttl_s: float | None = None,
    ) -> Item:
        """Add an item to a section. The section may evict other items to its archive.

        A tool's result that is too large for its history is stored whole in the archive. The
        section shows the beginning and the end, under another id, with a note that names the whole.
        So its call stays answered.

        Outside histories, an item that says the same as the live one of its key is not added: the
        live one is returned. So a program may add its instructions whenever it starts.

        Args:
            section: The name of the section.
            content: A text, or blocks.
            role: The default is "system" in the section `role`, "user" in a history, else none. Any
                other name is a user's.
            id: The default is a random id.
            key: Items of one section with the same key are versions of one thing. The new item
                supersedes the live one, which moves to the archive with its whole unit, pinned or
                not. If its `timestamp` lies in the future, it does so when it begins, and the live
                one holds until then. An empty key is refused, as by the stores.
            priority: Under the eviction `priority`, items with the lowest priority are evicted
                first.
            pinned: The item is always shown and never evicted.
            tags: Words of your own.
            metadata: For filters. The ranking uses `source`, `title` and `timestamp` (ISO 8601).
            sources: Ids of the items that this one was derived from.
            trust: The default follows from role, section and sources. It is at most the lowest
                trust of the sources.
            ttl_s: Seconds, by the session's clock, until the item expires. From then on no context
                and no search shows it, also not one about the past. The next context or save moves
                it to the archive, from where nothing recalls it; `forget` erases it. An item ends
                no later than the first of its live sources.

        Raises:
            NotFoundError: If the section is unknown, or a source was forgotten.
            DuplicateError: If an item with the id is live.
            InvalidNameError: If an id is not valid.
            InvalidArgumentError: If another argument is not valid.
            SectionFullError: If the section has no room. Nothing has changed then.
            ReadOnlyError: If the session cannot be changed.

        >>> memory = SessionMemory.test_mode()
        >>> metadata = {"source": "msa.pdf"}
        >>> item = memory.add("documents", "Notice is thirty days.", metadata=metadata)
        >>> item.tokens
        5
        """
        target = self._session.writable(section)
        item = self._session.factory.make(
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
        check_timestamp(item.metadata)
        if id is None and not target.spec.is_history:
            known = target.same_as(item)
            if known is not None:
                return known
        self._check_required(target, item)
        try:
            target.add(item)
        except SectionFullError:
            # The longest copy of a tool's result that fits is shown, and the result is archived.
            factory = self._session.factory
            for copy in factory.shortened(target.spec, item):
                with suppress(SectionFullError):
                    return target.add_shortened(item, copy, new_id=factory.free_id)
            raise
        if item.key is not None and target.current_id(item.key) is None:
            self._session.note(
                f"the item {item.id!r} is not shown as the current version of {item.key!r}: it is "
                "older than a version that was removed; if that one was wrong, forget it, and add "
                "the item again"
            )
        return item

    def add_many(
        self,
        section: str,
        contents: Iterable[str | Iterable[ContentBlock | JSONObject]],
    ) -> list[Item]:
        """Add items in order, as `add` does. If an item is refused, the items before it stay."""
        return [self.add(section, content) for content in check_collection(contents, "contents")]

    def add_message(
        self,
        message: object,
        *,
        format: str | Format | None = None,
        section: str = "messages",
        id: str | None = None,
        key: str | None = None,
        metadata: JSONObject | None = None,
    ) -> Item:
        """Add a provider's message, tool calls included, or a `ChatMessage`.

        A system message becomes a part of the conversation, too: the caller chose it.
        `sync_messages` leaves out those at the beginning of a list. Instructions belong into the
        section `role`, or into `system` of `assemble_context`.

        Args:
            message: A dict or an object of the provider's SDK, a whole reply or its message, or a
                `ChatMessage`. In "openai-responses", several items of one reply are a list.
            format: The provider's format: "openai", "openai-responses", "anthropic", "gemini" or
                "bedrock". A `ChatMessage` needs none, and keeps its trust and pin.
            section: The name of the section.
            id: The default is a random id.
            key: As in `add`.
            metadata: As in `add`. The default are those of a `ChatMessage`, with its `created_at`
                as the `timestamp` if they have none.

        Raises:
            InvalidArgumentError: If the message is not of this format.
            KaosmemError: As `add`.

        >>> memory = SessionMemory.test_mode()
        >>> reply = {"role": "assistant", "content": "Ann owns the deal."}
        >>> memory.add_message(reply, format="openai").role
        'assistant'
        """
        parsed = parse_message(message, format)
        return self.add(
            section,
            parsed.content,
            role=parsed.role,
            id=id,
            key=key,
            pinned=parsed.pinned,
            metadata=parsed.stated if metadata is None else metadata,
            trust=parsed.trust,
        )

    @asynccontextmanager
    async def collecting(self, format: str, *, section: str = "messages") -> AsyncIterator[Stream]:
        """Store a streamed reply as one message at the end of the block.

        Give each event of the SDK's stream to `add`. If the stream ends early, by an error, a
        cancellation or a `break`, the message holds what came, without calls whose arguments are
        cut, and its metadata have `interrupted`. If nothing came, nothing is stored.

        Args:
            format: The provider's format: "openai", "openai-responses", "anthropic", "gemini" or
                "bedrock".
            section: The name of the section.

        Raises:
            InvalidArgumentError: If the format has no streams, or an event is no dict or object.
            KaosmemError: As `add`, at the end of the block.

        >>> memory = SessionMemory.test_mode()
        >>> async with memory.collecting("openai") as reply:
        ...     for text in ("Ann ", "owns it."):
        ...         reply.add({"choices": [{"delta": {"content": text}}]})
        ...     reply.add({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        >>> reply.item.text, reply.item.metadata
        ('Ann owns it.', {})
        """
        stream = new_stream(format)
        try:
            yield stream
        finally:
            message = stream.message()
            if message is not None:
                stream.item = self.add_message(
                    message,
                    format=format,
                    section=section,
                    metadata=None if stream.is_complete else INTERRUPTED,
                )

    async def sync_messages(
        self,
        messages: Iterable[object],
        *,
        format: str | Format | None = None,
        section: str = "messages",
    ) -> list[Item]:
        """Store a conversation that the caller holds as a whole, each message once.

        Give the full list before each call of the model, as frameworks hand it over. Messages are
        compared by role and content, so that they need no ids, and the objects may be new. They are
        known again after the section shortened, summarised or evicted them, and in another process,
        as long as the section holds one of the newest of them, or a summary of it.

        - Messages after the newest known one are added.
        - A list that begins later, or whose earlier messages were rewritten, adds nothing for these:
          the section keeps the words as they were said.
        - If the list goes on from an earlier message, the section's later ones were taken back. They
          move to the archive, and so do the facts that were formed from them alone. A section
          belongs to one conversation, therefore.
        - System messages at the beginning are left out: they are the caller's instructions. Later
          ones are added, as `add_message` does.
        - If the newest messages were forgotten, take them out of the list, too. Else they are new.

        Args:
            messages: All messages, or the newest ones, oldest first.
            format: The provider's format, as in `add_message`.
            section: The name of the section.

        Returns:
            The items of the messages that were added.

        Raises:
            InvalidArgumentError: If a message is not of this format.
            KaosmemError: As `add`. The messages before it stay.

        >>> memory = SessionMemory.test_mode()
        >>> messages = [{"role": "user", "content": "Who owns the deal?"}]
        >>> len(await memory.sync_messages(messages, format="openai"))
        1
        >>> messages.append({"role": "assistant", "content": "Ann."})
        >>> [item.text for item in await memory.sync_messages(messages, format="openai")]
        ['Ann.']
        """
        target = self._session.writable(section)
        sync = MessageSync(
            target,
            messages_apart(list(check_collection(messages, "messages")), format),
            parse=lambda message: parse_message(message, format),
            fetch=self._session.fetch,
        )
        plan = await sync.plan()
        for item_id in plan.withdrawn:
            self.remove(item_id)
        added = []
        for place, message in plan.new:
            item_id = f"{place}-{self._session.factory.free_id()}"
            added.append(self.add_message(message, id=item_id, section=section))
        if plan.withdrawn:
            for each in self:
                taken_back = facts_taken_back(each, plan.withdrawn, added)
                if taken_back:
                    each.retire(taken_back, at=self._session.clock())
        return added

    def update(self, item_id: str, content: str | Iterable[ContentBlock | JSONObject]) -> Item:
        """Replace the content of a live item.

        The item keeps its place, and the old content moves to the archive.

        Raises:
            NotFoundError: If no live item has the id.
            KaosmemError: As `add`.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The rent is 900 euros.")
        >>> memory.update(item.id, "The rent is 950 euros.").text
        'The rent is 950 euros.'
        """
        section = self._session.live_section(item_id)
        checked = check_content(content)
        tokens = count_content(checked, self._session.counter)
        item = replace(section.peek(item_id), content=checked, tokens=tokens)
        self._check_required(section, item)
        section.update(item, at=self._session.clock())
        return item

    def remove(self, item_id: str) -> None:
        """Move a live item to its section's archive, where `fetch` finds it.

        Raises:
            NotFoundError: If no live item has the id.
            ReadOnlyError: If the session cannot be changed.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The rent is 900 euros.")
        >>> memory.remove(item.id)
        >>> item.id in memory
        False
        """
        section = self._session.live_section(item_id)
        section.remove(item_id, at=self._session.clock())

    async def forget(self, *item_ids: str) -> ErasureReceipt:
        """Erase items and everything derived from them, and return a receipt.

        The items are erased from memory, from the session's files and from its sources, all
        archived versions too. `admin.verify` checks the receipt at any later time.

        If a summary is erased, its other originals come back until the section is compacted again.
        Other unsaved changes are saved. If this call fails after it began, the next save finishes
        it. The cost is that of writing the session anew, for one item or many. Copies of the files,
        old versions that a bucket keeps (see `receipt.old_versions`), and contexts that were handed
        over before, are out of reach.

        Raises:
            NotFoundError: If an item is unknown.
            ReadOnlyError: If the session cannot be changed.
            ConflictError: If another writer changed the same item or section.
            CorruptionError: If the stored session is damaged.
            DurabilityError: If the storage fails.
            SourceError: If a source holds an item and cannot delete it. All other work is done
                then, and the error has the receipt. If a shelf of formed facts fails or is not
                known here, the session loses nothing, and the error has no receipt.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The account is DE89 3704 0044.")
        >>> receipt = await memory.forget(item.id)
        >>> item.id in memory
        False
        >>> await memory.admin.verify(receipt)
        ()
        """
        return await forget(self._session, item_ids)

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
        or vanished move to the archive. A changed file in a folder that was read may be read alone.

        Args:
            path_or_fs: A path, a URL, or a filesystem.
            section: The name of the section.
            include: Patterns of the files to take, as .gitignore writes them, such as "*.md" or
                "docs/". The default takes all files.
            exclude: Patterns of the files and folders to leave out.
            gitignore: Whether to leave out the files that .gitignore files in the folder name.
            progress: Called with each file's source, the number of files read, and the number of
                files to read.

        Raises:
            MissingFileError: If there is no such place, or nothing in it can be read.
            InvalidArgumentError: If a pattern is not valid.
            SectionFullError: If the section would evict something. What was read before stays.
            KaosmemError: As `add`.

        >>> from pathlib import Path
        >>> size = Path("notes.md").write_text("The rent is 900 euros.")
        >>> memory = SessionMemory.test_mode()
        >>> report = await memory.ingest("notes.md")
        >>> report.items_added
        1
        """
        target = self._session.writable(section)
        ingestion = Ingestion(self._session, target, add=self.add)
        choice = FileSelection(
            check_patterns(include, "include"), check_patterns(exclude, "exclude"), gitignore
        )
        async with self._session.ingesting:
            return await ingestion.run(path_or_fs, choice, progress=progress)

    async def attach(
        self,
        source: Source | Section,
        *,
        name: str | None = None,
        timeout_s: float | None = None,
        required: bool = False,
    ) -> str:
        """Show a source, or a section of another session, beside this session's sections.

        The source takes part in the budget and the decisions by its own spec. It is not stored with
        the session, and nothing in it is changed. To share a section, open its session with
        `read_only=True`.

        Args:
            source: A source, or a section of another session.
            name: The default is the source's own name, with a number if it is taken
                (`documents-2`).
            timeout_s: Seconds that a turn waits for the source. The default is no limit.
            required: `assemble_context` raises if the source fails or is late. Otherwise the
                context is assembled without it, and `context.sources` says so.

        Returns:
            The name that the source is shown under.

        Raises:
            InvalidNameError: If the name is not valid.
            InvalidArgumentError: If another argument is not valid, or the name is taken.

        >>> from kaosmem.sources import FactSource
        >>> from kaosmem.stores import InMemoryLongTermMemory
        >>> facts = InMemoryLongTermMemory()
        >>> fact_id = await facts.save("analyst", "The customer prefers calls.")
        >>> memory = SessionMemory.test_mode()
        >>> await memory.attach(FactSource(facts, "analyst"), timeout_s=2)
        'facts'
        """
        attached = AttachedSection(source) if isinstance(source, Section) else source
        return self._session.registry.attach(attached, name, timeout_s=timeout_s, required=required)

    def _check_required(self, section: Section, item: Item) -> None:
        """Refuse an item that no context could show though it must be shown."""
        if section.spec.placement != "static" or not section.spec.in_context:
            return
        present = self._session.present
        now = None if present is None else present()
        required = section.proposer.required_with(item, now)
        if required:
            check_required(section.spec, required, item, self._session.counter)

    # Asking.

    async def assemble_context(
        self,
        query: str | None = None,
        *,
        budget: int,
        format: str | Format = "text",
        reserve: int = 0,
        sections: Iterable[str] | None = None,
        filter: Filter | None = None,
        overflow: Overflow = "raise",
        min_confidence: float = 0.0,
        window: str | Window | None = None,
        system: str = "",
        tools: Iterable[object] = (),
    ) -> Context:
        """Pack the most valuable content into `budget - reserve` tokens, counted exactly.

        A section with a compaction that exceeds its own budget is compacted first. If that fails,
        the section is shown as it is, and `notices` says so.

        Args:
            query: Ranks the items. The default is the newest user message, after a question that
                has no reply yet. If the session has no user message, an attached history's is
                taken. "Yesterday" and the like follow the session's clock.
            budget: Tokens of the request, counted in its format.
            format: "text", "openai", "openai-responses", "anthropic", "gemini", "bedrock", "blocks"
                for `context.chat_messages`, or a `kaosmem.formats.Format` of your own.
            reserve: Tokens that stay free for the reply.
            sections: Names of the sections and sources to show. The default is all of them.
            filter: Conditions on metadata, such as `{"source": "a.md"}` (see `kaosmem.filters`).
                The filter narrows everything that depends on the query: sections of placement
                `query` and sources, pinned items too, and earlier messages that are recalled. An
                item without the field does not pass, unless the filter says `{"$if_present":
                {"source": "a.md"}}`. `context.notices` names sections that the filter empties
                since no item has the field, or its values are of another type.
            overflow: If the required items do not fit, "raise" an error, or "cut" their longest
                texts in the middle. A system message is never cut. `fetch` returns the whole text.
            min_confidence: 0 to 1. If the confidence of the context is lower, all retrieved items
                are left out. Required, pinned and `recent` items stay, and so do sections of at
                most `retrieval_threshold` items that fit whole.
            window: Continue the window of this name, or as a `Window` says. The request is the
                previous one, unchanged, plus new messages, then a block of retrieved items that are
                not visible yet. If that does not fit, or something visible changed, the window is
                packed anew: `context.rebased` says why. A window is saved with the session. The
                default packs each call anew.
            system: The instructions of this call. They stand first in the request, before static
                sections, and are not stored. They may differ from call to call while a window goes
                on. Thinking that the provider bound to others is then left out, as
                `context.notices` says.
            tools: The schemas of this call's tools in the format: dicts, or objects of the SDK.
                They are counted, and not stored. `context.tools` has them.

        Raises:
            InvalidArgumentError: If an argument is not valid.
            NotFoundError: If a section is unknown.
            ReadOnlyError: If a window is given, and the session cannot be changed.
            WindowTooSmallError: If the required items do not fit.
            SourceError: If a required source fails.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("documents", "Notice is thirty days.", metadata={"source": "msa.pdf"})
        >>> context = await memory.assemble_context("How long is the notice?", budget=100)
        >>> context.used
        12
        >>> context.decision(item.id).reason
        <Reason.NEWEST: 'newest'>
        >>> added = memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(100)])
        >>> context = await memory.assemble_context(
        ...     "Which wine goes with oysters?", budget=100, min_confidence=0.5
        ... )
        >>> context.items
        ()
        """
        session = self._session
        with observed("assemble_context", session=session.session_id) as contexts:
            call = ContextCall(
                query,
                budget=budget,
                format=format,
                reserve=reserve,
                filter=filter,
                overflow=overflow,
                min_confidence=min_confidence,
                system=system,
                tools=tools,
            )
            specs = session.registry.shown(sections)
            if window is not None:
                if not isinstance(window, Window):
                    window = Window(window)
                session.check_writable()
            context = await assemble(session, call, specs, window)
            contexts.append(context)
            if self._formations.planned:
                self._formations.note_turn()
        return context

    def why(self, words: str, *, turn: int = -1) -> Why:
        """Return why an item was in or out of a turn, in one or two sentences with numbers.

        A turn is one call of `assemble_context`. The last 20 are kept in memory. With
        `open(..., trace=True)` all are stored, and the first question about an older one reads the
        session's files.

        Args:
            words: The id or the key of an item, a part of its source or text, or most of its words.
            turn: The number of the turn, from 1. Negative numbers count from the end.

        Raises:
            NotFoundError: If the turn is not kept.

        >>> memory = SessionMemory.test_mode()
        >>> for name in ("Ann", "Bob"):
        ...     item = memory.add("findings", f"{name} owns the deal.", key="owner")
        >>> context = await memory.assemble_context("Who owns the deal?", budget=100)
        >>> print(memory.why("Ann owns the deal"))
        'Ann owns the deal.' (findings) is out: 'Bob owns the deal.' with the same key replaced it on 2024-01-01.
        """
        return why(self._session, check_text(words, "words"), turn)

    async def what_if(
        self,
        query: str | None = None,
        *,
        budgets: Iterable[int],
        rankers: Iterable[Ranker] = (),
        format: str | Format = "text",
        filter: Filter | None = None,
    ) -> WhatIf:
        """Return what other budgets and rankers would show. No use is marked, no turn is kept.

        The result prints as a table: fill, items, and the differences between budgets and rankers.
        Compaction is left out, and each context is packed anew, as without a window. Required items
        that do not fit are cut.

        Args:
            query: As in `assemble_context`, and so are `format` and `filter`.
            budgets: Tokens of each request, at least one number.
            rankers: Rankers to compare with those of the session. Each takes the place of the one
                of `open`, for the sections without their own, and indexes these sections anew.

        Raises:
            InvalidArgumentError: If an argument is not valid.
            WindowTooSmallError: If the required items do not fit a budget, even cut.
            SourceError: If a required source fails.

        >>> from kaosmem import BM25Ranker
        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(40)])
        >>> found = await memory.what_if(
        ...     "What does room 17 cost?", budgets=[20, 40], rankers=[BM25Ranker()]
        ... )
        >>> [(*asked, context.used) for asked, context in found.contexts.items()]
        [(20, 'own', 13), (20, 'bm25', 13), (40, 'own', 33), (40, 'bm25', 33)]
        >>> [item.text for item in found.difference(40).items("in")]
        ['Room 38 costs 38 euros.', 'Room 39 costs 39 euros.']
        """
        return await what_if(
            self._session,
            query,
            budgets=budgets,
            rankers=rankers,
            format=format,
            filter=filter,
        )

    def at(
        self,
        *,
        as_of: datetime | date | str | None = None,
        known_at: datetime | date | str | None = None,
    ) -> MemoryAt:
        """Return a view of the session at another time, which is asked like the session.

        The view finds archived and evicted items, and reads the whole session to do so.

        Args:
            as_of: Show only items that held at this time: a datetime, a date, or a text in ISO
                8601. An item holds from its timestamp, else from when it was added, until its
                successor with the same key begins or it is removed.
            known_at: Show only items that the session had been told by this time, as it knew them
                then.

        Raises:
            InvalidArgumentError: If a time is not valid, or none is given.

        >>> memory = SessionMemory.test_mode()
        >>> for day, name in (("2023-05-08", "Ann"), ("2024-06-01", "Bob")):
        ...     item = memory.add(
        ...         "findings", f"{name} owns the deal.", key="owner", metadata={"timestamp": day}
        ...     )
        >>> then = memory.at(as_of="2023-12-01")
        >>> context = await then.assemble_context("Who owns the deal?", budget=100)
        >>> [item.text for item in context.items]
        ['Ann owns the deal.']
        """
        return MemoryAt(self._session, as_of, known_at)

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

        Args:
            query: The text to match.
            section: A section or an attached section. The default is every section that may be
                shown.
            limit: Maximum number of hits, at least 0.
            filter: Conditions on metadata, which every hit meets.
            archived: Find evicted and superseded items too; `hit.is_archived` marks them. A search
                opens no archives: of a stored session, the first context or `await
                memory.admin.prepare()` does so. Until then `notices` names the archived items that
                a search left out. No search finds removed items (`fetch` returns them) or texts
                from before an update (`at(known_at=...)` shows them).

        Raises:
            NotFoundError: If the section is unknown.
            InvalidArgumentError: If another argument is not valid.

        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add_many("documents", ["Notice is thirty days.", "The rent is 900 euros."])
        >>> [item.text for item, score in memory.search("How high is the rent?")]
        ['The rent is 900 euros.']
        """
        session = self._session
        return session.registry.search(
            query, section, limit, filter=filter, archived=archived, clock=session.clock
        )

    def get(self, item_id: str) -> Item | None:
        """Return a live item, or None. This counts as a use.

        Raises:
            InvalidNameError: If the id is not valid.
        """
        section = self._session.factory.section_of(item_id)
        if section is None:
            return None
        return section.get(item_id)

    async def fetch(self, item_id: str) -> Item:
        """Return a whole item: live, archived, or from an attached source.

        Raises:
            NotFoundError: If no place has the item.
            SourceError: If a source that may hold the item cannot be asked.

        >>> memory = SessionMemory.test_mode()
        >>> first = memory.add("findings", "Ann owns the deal.", key="owner")
        >>> second = memory.add("findings", "Bob owns the deal.", key="owner")
        >>> first.id in memory
        False
        >>> (await memory.fetch(first.id)).text
        'Ann owns the deal.'
        """
        return await self._session.fetch(item_id)

    async def versions(self, key: str, section: str | None = None) -> list[Version[Item]]:
        """Return the versions of a key, oldest first: live, superseded, evicted and removed items.

        A version holds from its timestamp, else from when it was added, until its successor begins
        or it is removed. An update corrects a version and makes no new one.

        Args:
            key: The key of the items.
            section: The default is every section that has the key. Versions of two sections do not
                end one another.

        Raises:
            NotFoundError: If the section is unknown.
            CorruptionError: If the archive is damaged.

        >>> memory = SessionMemory.test_mode()
        >>> for day, name in (("2023-05-08", "Ann"), ("2024-06-01", "Bob")):
        ...     item = memory.add(
        ...         "findings", f"{name} owns the deal.", key="owner", metadata={"timestamp": day}
        ...     )
        >>> for version in await memory.versions("owner"):
        ...     print(version.item.text, version.valid_until and version.valid_until.date())
        Ann owns the deal. 2024-06-01
        Bob owns the deal. None
        """
        session = self._session
        names = session.sections if section is None else [self[section].spec.name]
        return await session.version_history.versions(check_text(key, "key"), names)

    # Formation.

    async def form(
        self,
        former: Former | FormsFrom | None = None,
        *,
        section: str = "findings",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[AppliedChange]:
        """Form lasting knowledge from what was said since the last formation.

        Each formed item names its sources and quotes them. A proposed change that its sources do
        not say is refused and counted (see `proposals`). A message is formed once, by each former:
        also after a crash, and by two workers. Unsaved changes are saved before, and the formed ones
        after each batch of messages.

        Args:
            former: A former, or a plan that also says from which sections. The default runs the
                plans of all sections (`SectionSpec(forms_from=...)`).
            section: The section that gets the items. It has the placement `query`.
            progress: Called after each batch with the number of messages of a section that are done,
                and of all that wait.

        Returns:
            The applied changes, in order. Each prints its text.

        Raises:
            InvalidArgumentError: If the section cannot be formed.
            NotFoundError: If a section is unknown.
            KaosmemError: As `save`.

        >>> from kaosmem.formation import PatternFormer
        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("messages", "Good morning! I live in Oslo. How are you?")
        >>> for change in await memory.form(PatternFormer()):
        ...     print(change)
        I live in Oslo.
        >>> await memory.form(PatternFormer())
        []
        """
        formations = self._formations.planned
        if former is not None:
            formations = [self._formations.of(section, former)]
        elif not formations:
            raise InvalidArgumentError(
                "no section of this session has forms_from; give a former, or a SectionSpec with "
                "forms_from to `open`"
            )
        return await self._formations.form(formations, progress)

    @property
    def proposals(self) -> Proposals:
        """The proposals of formations that wait for a person, and the counts of refused ones."""
        return Proposals(self._session)

    # Tools for the model.

    def tools(self, format: str = "openai") -> list[Any]:
        """Return the schemas of the tools by which a model asks and changes its memory.

        The tools are `search_memory`, `read_memory`, `remember`, `correct_memory` and
        `forget_memory`. `call_tool` runs a call.

        Args:
            format: The provider's format, such as "openai" or "anthropic".

        Raises:
            InvalidArgumentError: If tools cannot be written in this format.

        >>> SessionMemory.test_mode().tools("anthropic")[0]["name"]
        'search_memory'
        """
        from kaosmem.session.tools import (
            tool_schemas,  # few programs need it, and it needs pydantic
        )

        return tool_schemas(format)

    async def call_tool(
        self,
        name: str,
        arguments: str | JSONObject,
        *,
        section: str = "findings",
        max_tokens: int = 2_000,
    ) -> str:
        """Run a model's call of a tool, and return the result for the model.

        A search covers the sections, their archives and the attached sources. The model replaces,
        corrects and forgets only what it remembered by these tools. An error that the model can
        mend is a result that begins with "error:".

        Args:
            name: The name of the tool.
            arguments: A mapping, or JSON text as the model wrote it.
            section: The section that gets what the model remembers. It is not static.
            max_tokens: Size of the result, at least 1. A longer result is cut.

        Raises:
            NotFoundError: If there is no section with this name.
            InvalidArgumentError: If the section is static, or max_tokens is below 1.

        >>> memory = SessionMemory.test_mode()
        >>> fact = {"text": "Ann owns the deal.", "key": "deal/owner"}
        >>> await memory.call_tool("remember", fact)
        'remembered as 629f6fbed82c07cd'
        >>> await memory.call_tool("search_memory", '{"query": "Who owns the deal?"}')
        '[629f6fbed82c07cd] (findings, assistant, 2024-01-01) Ann owns the deal.'
        """
        from kaosmem.session.tools import MemoryTools

        return await MemoryTools(self, max_tokens, section=section).call(name, arguments)

    # Rare things.

    @property
    def graph(self) -> Graph:
        """The section `graph` as entities and relationships. Raises NotFoundError."""
        return Graph(self._session, "graph")

    @property
    def windows(self) -> dict[str, int]:
        """The windows by name, with the tokens of each one's last request.

        A window that the next call packs anew whatever happens has 0 tokens.

        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("messages", "Who owns the deal?")
        >>> context = await memory.assemble_context(budget=1_000, window="main")
        >>> memory.windows
        {'main': 10}
        """
        held = self._session.saver.windows.held
        return {name: window.used for name, window in held.items()}

    @property
    def archive(self) -> SessionArchive:
        """The archives of all sections: their size, and the originals of derived items."""
        return SessionArchive(self._session)

    @property
    def admin(self) -> SessionAdmin:
        """The administration: the session's place, other writers, indexes and erasures."""
        return SessionAdmin(self._session)


async def _read(
    opening: Opening,
    options: SessionOptions,
    *,
    read_only: bool,
) -> tuple[SessionLog, Hydrated]:
    """Read a session in another thread. Raises NotFoundError if none is there to be read."""
    with observed("open_session", session=opening.session_id):
        if not read_only:
            read = partial(opening.read, single_writer=options.single_writer)
            return await asyncio.to_thread(read)
        log, hydrated = await asyncio.to_thread(SHARED_SESSIONS.read, opening)
        if not options.missing_ok and not log.seq and not log.damage:
            place = opening.location, opening.session_id, opening.namespace
            raise await asyncio.to_thread(unknown_session, *place)
        return log, hydrated


def _test_clock() -> Clock:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    seconds = count()
    return lambda: start + timedelta(seconds=next(seconds))
