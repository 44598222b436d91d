"""The administration of a session: its place, its other writers, its indexes and its erasures."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kaosmem.arguments import check_instance
from kaosmem.errors import InvalidArgumentError, ReadOnlyError
from kaosmem.names import check_id, shown
from kaosmem.persistence.erasure import unerased
from kaosmem.persistence.storage.places import filesystem_of
from kaosmem.sections.proposal import Source
from kaosmem.sections.retention import RetentionPolicy
from kaosmem.sections.section import Section
from kaosmem.session.forgetting import ErasureReceipt
from kaosmem.session.open_session import OpenSession
from kaosmem.session.retention import RetentionReport, retain
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class SessionAdmin:
    """The administration of a session. `memory.admin` returns it.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode(session_id="deal-42")
    >>> item = memory.add("findings", "Ann owns the deal.")
    >>> memory.admin.session_id, memory.admin.used
    ('deal-42', 5)
    """

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._session.session_id

    @property
    def namespace(self) -> str:
        """The namespace of the session."""
        return self._session.opening.namespace

    @property
    def fs(self) -> AbstractFileSystem:
        """The filesystem of the session. `SessionMemory.open(fs, session_id)` opens it again."""
        return filesystem_of(self._session.opening.location)

    @property
    def counter(self) -> TokenCounter:
        """The counter of the session's tokens."""
        return self._session.counter

    @property
    def used(self) -> int:
        """Tokens in all sections."""
        return self._session.used

    @property
    def sources(self) -> Mapping[str, Source]:
        """The attached sources by name."""
        return self._session.registry.sources

    async def refresh(self, *, discard: bool = False) -> None:
        """Take in the commits of other writers since the session was read. Commit nothing.

        Args:
            discard: Drop the unsaved changes. This is the way to go on after a ConflictError:
                refresh, then repeat the turn. Sections that are never stored keep their items.

        Raises:
            ConflictError: If an unsaved change clashes with a commit, and nothing is discarded.
            ReadOnlyError: If the session was opened read-only or is closed.
            CorruptionError: If the stored session is damaged. Then nothing has changed.
            DurabilityError: If the storage fails. Then nothing has changed.

        >>> from kaosmem import SessionMemory
        >>> async with SessionMemory.open("./.kaosmem", "deal-42") as one, SessionMemory.open(
        ...     "./.kaosmem", "deal-42"
        ... ) as other:
        ...     item = one.add("findings", "Ann owns the deal.")
        ...     await one.save()
        ...     await other.admin.refresh()
        ...     print(other.get(item.id).text)
        Ann owns the deal.
        """
        session = self._session
        if session.read_only:
            raise ReadOnlyError(
                f"session {session.session_id!r} was opened read-only and stays as it was; open it "
                "again to see the newest"
            )
        session.check_writable()
        await session.saver.refresh(discard=discard)

    async def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read and index ahead of `assemble_context` and `search`, embeddings included.

        The work runs beside the event loop. Without it, the first question that ranks a section
        waits for the same work. Later changes are indexed by the next question. The tables of
        stored archives are read too, so that `search` finds archived items.

        Args:
            progress: Called with the number of indexed changes and the number of all changes.

        >>> import asyncio
        >>> from kaosmem import SessionMemory
        >>> async def main() -> None:
        ...     memory = SessionMemory.test_mode()
        ...     memory.add_many("documents", ["Notice is thirty days.", "The rent is due today."])
        ...     await memory.admin.prepare(progress=lambda done, total: print(f"{done} of {total}"))
        >>> asyncio.run(main())
        2 of 2
        """
        session = self._session
        sections = [
            section
            for section in session.sections.values()
            if section.spec.in_context or section.proposer.is_searched
        ]
        await session.read_back([section.spec.name for section in sections])
        await _index(sections, progress)

    async def retain(
        self,
        policy: RetentionPolicy,
        *,
        section: str = "findings",
        dry_run: bool = False,
    ) -> RetentionReport:
        """Archive or erase the items of a section that a policy names, and save.

        These items stay, and `kept` says why: pinned ones, those that every context must show,
        calls that wait for a result, and, in an erasure, the sources of live items that stay. A
        unit goes as a whole. Other unsaved changes are saved too.

        Args:
            policy: The conditions.
            section: The name of the section.
            dry_run: Change nothing, and report what would go.

        Raises:
            NotFoundError: If there is no such section.
            KaosmemError: As `SessionMemory.save`, and as `SessionMemory.forget` if items are
                erased.

        >>> from datetime import timedelta
        >>> from kaosmem import SessionMemory
        >>> from kaosmem.session import RetentionPolicy
        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add_many("findings", ["It rains.", "It snows.", "It is dry."])
        >>> policy = RetentionPolicy(max_tokens=8)
        >>> len((await memory.admin.retain(policy, dry_run=True)).items)
        1
        >>> report = await memory.admin.retain(policy)
        >>> [item.text for item in memory["findings"]]
        ['It snows.', 'It is dry.']
        """
        session = self._session
        check_instance(policy, RetentionPolicy, "policy")
        return await retain(session, session.section(section), policy, dry_run=dry_run)

    async def verify(self, receipt: ErasureReceipt) -> tuple[str, ...]:
        """Return a sentence for each reason why an erasure does not hold, none if it holds.

        The files of this session and the attached sources are read. An erasure holds if no file
        from before it is left, no file names an erased item, and the log goes on from the record
        that the receipt names. S3 is asked for old versions of the files from before the erasure.
        An item that was added later under an erased id is another item, by its time: with a clock
        that stands still it counts as the erased one.

        Raises:
            InvalidArgumentError: If it is no receipt, or one of another session.
            CorruptionError: If the stored session is damaged.
            DurabilityError: If the storage fails.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The account is DE89 3704 0044.")
        >>> receipt = await memory.forget(item.id)
        >>> await memory.admin.verify(receipt)
        ()
        """
        session = self._session
        if not isinstance(receipt, ErasureReceipt):
            raise InvalidArgumentError(
                f"receipt is a {type(receipt).__name__}; give an ErasureReceipt, such as "
                "ErasureReceipt.from_dict(stored)"
            )
        if (receipt.session_id, receipt.namespace) != (self.session_id, self.namespace):
            raise InvalidArgumentError(
                f"the receipt is of session {shown(receipt.session_id)} in namespace "
                f"{shown(receipt.namespace)}; verify it with that session"
            )
        reasons = await asyncio.to_thread(unerased, receipt.erasure, session.log.storage)
        sources = await session.registry.unerased(receipt.sources, session.shelves)
        return (*reasons, *sources)

    def record_outcome(
        self,
        procedure_id: str,
        *,
        worked: bool,
        run: str | None = None,
    ) -> Item:
        """Count whether a procedure worked, and return it with its new counts.

        Its label says "worked 4 of 5 times", and a ranking prefers what worked. A procedure that
        failed most of three times or more is said to fail. After two failures for each success, in
        six runs or more, it moves to the archive, and its metadata say why (`retired`). The
        formation counts the outcomes that users and tools state by itself.

        Args:
            procedure_id: The id of a live item.
            worked: Whether it worked.
            run: A name of the run. A run counts once, whoever reports it. The default counts anew.

        Raises:
            NotFoundError: If no live item has the id.
            ReadOnlyError: If the session cannot be changed.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> way = memory.add("findings", "To release: build, then upload.")
        >>> for run in ("monday", "tuesday", "tuesday"):
        ...     way = memory.admin.record_outcome(way.id, worked=True, run=run)
        >>> way.metadata["outcomes"]
        [2, 0]
        """
        session = self._session
        check_instance(worked, bool, "worked")
        name = secrets.token_hex(8) if run is None else check_id(run, "run")
        section = session.live_section(procedure_id)
        section.count_run(procedure_id, name, worked, session.clock())
        if procedure_id in section:
            return section.peek(procedure_id)
        retired = section.archive.get(procedure_id)
        assert retired is not None
        return retired

    async def close(self) -> None:
        """Wait for a running snapshot and release the log. `async with` does this.

        Unsaved changes are lost. The content of the session can still be read. Every change raises
        ReadOnlyError: also `save`, `refresh`, and a window of `assemble_context`.
        """
        await self._session.close()


async def _index(sections: Sequence[Section], progress: Callable[[int, int], None] | None) -> None:
    """Index sections beside the event loop until no change is left."""
    done = 0
    while lacking := [section for section in sections if section.proposer.unindexed]:
        before = sum(section.proposer.unindexed for section in lacking)
        await asyncio.gather(*(section.catch_up() for section in lacking))
        left = sum(section.proposer.unindexed for section in sections)
        done += max(0, before - left)
        if progress and before != left:
            progress(done, done + left)
