"""The upkeep of a session's sections: formations and retentions, on request and by their specs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kaosmem.errors import KaosmemError
from kaosmem.formation.changes import NOT_PEOPLE, AppliedChange, Former
from kaosmem.formation.schedule import FormsFrom
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.session.retention import Retention


class Formations:
    """Runs the formations and retentions of one session, one at a time.

    Args:
        session: The session.
    """

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        session.closing.append(self.stop)
        for plan in self.plans.values():
            self._know_shelf(plan)
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def plans(self) -> dict[str, FormsFrom]:
        """The plans of the sections that are formed by themselves."""
        found = {}
        for name, section in self._session.sections.items():
            if section.spec.forms_from is not None:
                found[name] = section.spec.forms_from
        return found

    async def form(self, plans: dict[str, FormsFrom]) -> list[AppliedChange]:
        """Form sections from all that was said since their marks, and save.

        Raises:
            InvalidArgumentError: If a section cannot be formed.
            KaosmemError: As `SessionMemory.save`, and as the former.
        """
        from kaosmem.session.forming import SectionFormation, formed_by  # few sessions need it

        session = self._session
        session.check_writable()
        formations = {}
        for name, plan in plans.items():
            formations[name] = SectionFormation(session, name, plan)
            self._know_shelf(plan)
        async with self._lock:
            await session.saver.save()
            await session.saver.refresh()
            names = {*plans, *(name for plan in plans.values() for name in plan.sections)}
            await session.read_back([session.sections[name] for name in names])
            applied: dict[str, list[AppliedChange]] = {}
            for name, formation in formations.items():
                applied[name] = await formation.run()
                await session.saver.save()  # the next section may be formed from this one
                await formation.deliver()
            await session.saver.save()
        kept = []
        for name, changes in applied.items():
            kept += formed_by(changes, session.section(name))
        return kept

    def note_turn(self) -> None:
        """Start the formations that are due after a turn. No turn waits for them."""
        for name, plan in self.plans.items():
            if self._is_due(name, plan) and not self._lock.locked():
                self._start(self._form_beside(name, plan))
            if plan.idle_s is not None:
                self._wait_for_idleness(name, plan, plan.idle_s)

    def _is_due(self, name: str, plan: FormsFrom) -> bool:
        """Return whether enough messages of people wait, whichever worker took their turns."""
        if plan.every_turns is None:
            return False
        marks = self._session.section(name).ledger.marks
        found = 0
        for source in plan.sections:
            section = self._session.section(source)
            since = marks.get(plan.mark(source), 0)
            for ordinal in reversed(section.held):
                if ordinal < since or found == plan.every_turns:
                    break
                found += section.held[ordinal].role.casefold() not in NOT_PEOPLE
        return found == plan.every_turns

    async def finish(self, save: Callable[[], Awaitable[None]]) -> None:
        """Run the formations and retentions of the session's end, after those under way.

        Args:
            save: Saves the session, so that its last messages are formed too.
        """
        await self.settle()
        for name, plan in self.plans.items():
            if plan.at_close:
                await save()
                await self._form_beside(name, plan)
        for section in self._session.sections.values():
            if section.spec.retention is not None:
                retention = Retention(self._session, section, section.spec.retention)
                await self._noting_failure(f"no retention of {section.spec.name!r}", retention.run)

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
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _know_shelf(self, plan: FormsFrom) -> None:
        """Remember a shelf, so that `forget` reaches it."""
        if plan.shelf is not None:
            self._session.shelves[plan.shelf.name] = plan.shelf

    def _wait_for_idleness(self, name: str, plan: FormsFrom, idle_s: float) -> None:
        earlier = self._timers.get(name)
        if earlier is not None:
            earlier.cancel()
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(
            idle_s, lambda: self._start(self._form_beside(name, plan))
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _form_beside(self, name: str, plan: FormsFrom) -> None:
        """Form a section from all that is saved. The changes are saved with the next save."""
        session = self._session
        if session.read_only or session.is_closed:
            return
        from kaosmem.session.forming import SectionFormation

        async def form() -> None:
            formation = SectionFormation(session, name, plan)
            await formation.run()
            await formation.deliver()
            section = session.section(name)
            if section.spec.retention is not None and not section.spec.retention.erase:
                Retention(session, section, section.spec.retention).archive()

        await self._noting_failure(f"section {name!r} was not formed", form)

    async def _noting_failure(self, failure: str, work: Callable[[], Awaitable[object]]) -> None:
        """Run work that nobody asked for: an error becomes a notice."""
        try:
            async with self._lock:
                await work()
        except Exception as error:
            why = f": {error}" if isinstance(error, KaosmemError) else ""
            self._session.note(
                f"{failure}, by {type(error).__name__}{why}; nothing is lost, and the next time "
                "tries again"
            )


def plan_for(former: Former | FormsFrom, section: Section) -> FormsFrom:
    """Return the plan of a call: as it is given, or with the default sections."""
    if isinstance(former, FormsFrom):
        return former
    own = section.spec.forms_from
    return FormsFrom(former, own.sections) if own is not None else FormsFrom(former)
