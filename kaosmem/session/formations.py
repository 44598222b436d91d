"""The upkeep of a session's sections: formations and retentions, on request and by their specs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kaosmem.errors import KaosmemError
from kaosmem.formation.changes import AppliedChange, Former
from kaosmem.formation.schedule import FormsFrom
from kaosmem.session.open_session import OpenSession
from kaosmem.session.retention import retain

if TYPE_CHECKING:
    from kaosmem.session.forming import SectionFormation


class Formations:
    """Runs the formations and retentions of one session, one at a time.

    Attributes:
        planned: The formations of the sections that are formed by themselves, in their order.

    Args:
        session: The session.
    """

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        session.closing.append(self.stop)
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.TimerHandle] = []
        self.planned: list[SectionFormation] = []
        for name, section in session.sections.items():
            if section.spec.forms_from is not None:
                self.planned.append(self.of(name, section.spec.forms_from))

    def of(self, section: str, former: Former | FormsFrom) -> SectionFormation:
        """Return the formation of one section.

        Args:
            former: A plan, or a former for the messages.

        Raises:
            InvalidArgumentError: If the section cannot be formed.
            NotFoundError: If a section is unknown.
        """
        from kaosmem.session.forming import SectionFormation  # few sessions need it

        plan = former if isinstance(former, FormsFrom) else FormsFrom(former)
        return SectionFormation(self._session, section, plan)

    async def form(
        self,
        formations: Sequence[SectionFormation],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[AppliedChange]:
        """Form sections from all that was said since their marks, and save after each batch.

        Args:
            progress: As in `SessionMemory.form`.

        Raises:
            KaosmemError: As `SessionMemory.save`, and as the former.
        """
        saver = self._session.saver

        async def after_batch(done: int, total: int) -> None:
            await saver.save()  # no batch is paid for twice
            if progress is not None:
                progress(done, total)

        self._session.check_writable()
        kept: list[AppliedChange] = []
        async with self._lock:
            await saver.save()
            await saver.refresh()
            for formation in formations:
                applied = await formation.run(after_batch)
                await saver.save()  # the next section may be formed from this one
                await formation.deliver()
                kept += formation.lasting(applied)
            await saver.save()
            for formation in formations:
                await formation.take_back()
        return kept

    def note_turn(self) -> None:
        """Start the formations that are due after a turn. No turn waits for them."""
        self._stop_timers()
        loop = asyncio.get_running_loop()
        for formation in self.planned:
            every_turns = formation.plan.every_turns
            idle_s = formation.plan.idle_s
            if every_turns and formation.has_waiting(every_turns) and not self._lock.locked():
                self._start(formation)
            if idle_s:
                self._timers.append(loop.call_later(idle_s, self._start, formation))

    async def finish(self, save: Callable[[], Awaitable[None]]) -> None:
        """Run the formations and retentions of the session's end, after those under way.

        Args:
            save: Saves the session, so that its last messages are formed too.
        """
        await self.settle()
        for formation in self.planned:
            if formation.plan.at_close:
                await save()
                await self.form_beside(formation)
        for name, section in self._session.sections.items():
            policy = section.spec.retention
            if policy is not None:
                work = partial(retain, self._session, section, policy)
                await self._noting_failure(f"no retention of {name!r}", work)
        for formation in self.planned:
            if formation.plan.shelf is not None:
                await save()
                failure = _unformed(formation)
                await self._noting_failure(failure, formation.deliver, save, formation.take_back)

    async def settle(self) -> None:
        """Wait until no formation is under way, and start no more by idleness."""
        self._stop_timers()
        while self._tasks:
            await asyncio.wait([*self._tasks])

    def stop(self) -> None:
        """End all formations. What they have not applied is formed the next time."""
        self._stop_timers()
        for task in self._tasks:
            task.cancel()

    def _stop_timers(self) -> None:
        while self._timers:
            self._timers.pop().cancel()

    def _start(self, formation: SectionFormation) -> None:
        task = asyncio.create_task(self.form_beside(formation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def form_beside(self, formation: SectionFormation) -> None:
        """Form a section from all that is saved. The changes are saved with the next save."""
        if self._session.read_only or self._session.is_closed:
            return

        steps = (formation.take_back, formation.deliver, formation.run)
        await self._noting_failure(_unformed(formation), *steps)

    async def _noting_failure(self, failure: str, *work: Callable[[], Awaitable[object]]) -> None:
        """Do work that nobody asked for, in order: an error becomes a notice."""
        try:
            async with self._lock:
                for step in work:
                    await step()
        except Exception as error:
            why = f": {error}" if isinstance(error, KaosmemError) else ""
            self._session.note(
                f"{failure}, by {type(error).__name__}{why}; nothing is lost, and the next time "
                "tries again"
            )


def _unformed(formation: SectionFormation) -> str:
    return f"section {formation.name!r} was not formed"
