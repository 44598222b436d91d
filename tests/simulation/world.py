"""One simulated world: a disk or an object store, a clock, processes, faults, and what must hold at every moment."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import secrets
from collections import Counter, deque
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from kaosmem import SectionSpec, SessionMemory, SessionOptions
from kaosmem.compaction import SummarizationCompaction
from kaosmem.errors import KaosmemError, NotFoundError
from kaosmem.persistence import checkpoint, log
from kaosmem.persistence.storage import local, objects, places
from kaosmem.persistence.storage.local import LocalStorage
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.sections import lazy_index
from kaosmem.session import forgetting
from kaosmem.session import memory as session_memory
from kaosmem.session.opening import SharedSessions
from kaosmem.session.saving import turns
from kaosmem.testing import ScriptedLLM, paths_holding
from tests.gist import gist
from tests.simulation import power_loss
from tests.simulation.account import Account, ViolationError
from tests.simulation.disk import File, SimulatedDisk
from tests.simulation.objects import Client, Store, arrive
from tests.simulation.schedule import KilledError, current

SECTIONS = (
    SectionSpec("role", 200_000, placement="static", eviction="none"),
    SectionSpec("messages", 150, placement="history", recall=0.0),
    SectionSpec("findings", 100, eviction="lru"),
    SectionSpec("documents", retrieval_threshold=3),
    SectionSpec(
        "talk",
        300,
        placement="history",
        recall=0.0,
        compaction=SummarizationCompaction(ScriptedLLM(gist), 100, 20, max_summary_tokens=90),
    ),
)
BOUND = 2_000
"""No operation makes more calls to its disk or network."""

START = 1_767_225_600.0
ROOT = "/disk"
SAMPLES = 3
"""How many states that a power loss may leave are looked at in one moment, as far as they differ."""

CRITICAL = frozenset("sync sync_folder replace unlink truncate write put delete".split())
CHANGING = frozenset(
    "open write truncate sync make_folder sync_folder remove_folder replace unlink".split()
)
FILLING = frozenset("open write make_folder replace".split())
FAILING = CHANGING | frozenset("close read size list is_folder is_link is_at lock age_s".split())
"""`unlock` cannot fail on Linux."""

_QUIET = frozenset("is_link is_folder size is_at age_s close".split())


class DiscardError(Exception):
    """Leave a session without saving it."""


@dataclass
class Faults:
    """What goes wrong for one process.

    rate: of calls that fail. lasting: from which of its calls on all fail, and how many. kill: at
        which of its calls
    that change something it is killed. sync: which of its syncs loses what was written. made,
    changing, syncs: how many calls there were so far.
    """

    rate: float = 0.0
    lasting: tuple[int, int] | None = None
    kill: int | None = None
    sync: int | None = None
    made: int = 0
    changing: int = 0
    syncs: int = 0

    def count(self, name):
        """Count a call, and return whether it changes something."""
        self.made += 1
        self.changing += name in CRITICAL
        return name in CRITICAL


@dataclass
class World:
    """seed: decides everything.

    is_local: a disk, else an object store. skipped: numbers of acts that are left out.
    """

    seed: int
    is_local: bool
    skipped: frozenset[int] = frozenset()
    account: Account = field(default_factory=Account)
    store: Store = field(default_factory=Store)
    clock: float = START
    session: str = "s"
    steps: int = 0
    checks: int = 0

    copies: list[dict[str, bytes]] = field(default_factory=list)

    def __post_init__(self):
        self.rng = random.Random(self.seed)
        self.disk = SimulatedDisk()
        self.said = []
        self.io = deque(maxlen=60)
        self.schedule = None
        self.power_at = None
        self.changing = self.shaken = (
            0  # for so many episodes, somebody may meet what a kill has left
        )
        self.counts = Counter()
        self.looks = 0.0
        self.first = None  # in the line of writers
        self._looked = set()
        self.numbers = count(1)
        self.acts = count()

    def say(self, line):
        """Note what happened, for who reads a failure."""
        process = current()
        self.said.append(f"{process.name if process else '--'}: {line}")
        self.io.append(self.said[-1])

    # what processes see

    def location(self, process=None):
        """Return where the sessions are."""
        return ROOT if self.is_local else Client(self, process)

    def called(self, process, name, path):
        """Let time pass at a call, and all that may happen meanwhile."""
        self.io.append(f"    {process.name} {name} {path}")
        if name in ("replace", "put"):
            self.counts.update(
                kind for kind in ("snap", "archive", "index") if f"/{kind}/" in str(path)
            )
        process.state["call"] = name
        process.schedule.step(process)

    def each_step(self, process):
        """Do what the world does at a call of a process."""
        self.clock += 0.01
        faults = process.state["faults"]
        is_critical = faults.count(process.state["call"])
        if process.calls > BOUND:
            raise ViolationError(f"{process.state['doing']} makes more than {BOUND} calls")
        if is_critical and faults.kill == faults.changing:
            self.kill(process)
            raise KilledError
        self.changing += is_critical
        if is_critical and self.changing == self.power_at:
            self.say("the power fails")
            self.counts["power loss"] += 1
            self.shaken = 2
            process.schedule.kill_all()
            raise KilledError
        if self.store.late and self.rng.random() < 0.1:
            arrive(self.store, self.rng, self.account.tick())
        if is_critical and self.rng.random() < self.looks:
            process.schedule.apart(process, self.look)

    def line_up(self, process):
        """Let a process wait for the first place in the line of writers."""
        process.schedule.wait(
            process, lambda: self.first is None or self.first.is_killed or self.first.is_over
        )
        self.first = process
        turn = Future()
        turn.set_result(lambda: setattr(self, "first", None))
        return turn

    def kill(self, process):
        """End a process: the system closes its files, and the page cache stays."""
        self.say("is killed")
        self.counts["kill"] += 1
        self.shaken = 2
        process.is_killed = True
        for descriptor in process.descriptors:
            self.disk.close(descriptor)
        process.descriptors.clear()

    def disk_fault(self, process, name, given):
        """Return what becomes of a call to the disk."""
        faults = process.state["faults"]
        if name not in FAILING:
            return ""
        is_lasting = (
            faults.lasting is not None and 0 <= faults.made - faults.lasting[0] < faults.lasting[1]
        )
        faults.syncs += name == "sync"
        is_spoiled = name == "sync" and faults.syncs == faults.sync
        if (
            not is_lasting
            and not is_spoiled
            and self.rng.random() >= faults.rate * (3 if name == "write" else 1)
        ):
            return ""
        kinds = ["error"]
        kinds += ["late"] * (name in CHANGING and name != "open")
        kinds += ["full"] * (name in FILLING)
        kinds += ["short"] * (name == "write") * 2
        kinds += ["lost pages"] * (name == "sync")
        kinds += ["missing"] * (
            name == "make_folder" or (name == "open" and bool(given[1] & os.O_CREAT))
        )
        kind = "lost pages" if is_spoiled else self.rng.choice(kinds)
        if is_spoiled:  # then the file can't be cut, either
            faults.lasting = faults.made + 1, self.rng.choice([1, 2, 5])
        self.say(f"{name} fails: {kind}")
        self.counts[kind] += 1
        return kind

    def network_fault(self, process, name, path, *, changes):
        """Return what becomes of a request."""
        faults = process.state["faults"]
        is_lasting = (
            faults.lasting is not None and 0 <= faults.made - faults.lasting[0] < faults.lasting[1]
        )
        if not is_lasting and self.rng.random() >= faults.rate * (3 if changes else 0.5):
            return ""
        kinds = ["error", "late", "late", "lost", "doubled"] if changes else ["error"]
        kind = self.rng.choice(kinds[: 1 if is_lasting else None])
        self.say(f"{name} {path}: {kind}")
        self.counts[kind] += 1
        return kind

    # what is stored

    @property
    def files(self):
        """What is stored now, by path."""
        if self.is_local:
            return {path: data for path, data in self.disk.image.items() if data is not None}
        return {path: data for path, (data, _) in self.store.objects.items()}

    def sampled(self):
        """Return what a disk may hold after a power loss now."""
        return dict(power_loss.sample(self.disk, self.rng))

    @property
    def is_durable(self):
        """Whether a power loss now would take nothing that is seen, half-written files apart."""
        return not self.is_local or _is_synced(self.disk.root)

    @contextmanager
    def holding(self, image):
        """Let the world hold other files."""
        disk = self.disk
        before = self.store.objects
        if self.is_local:
            self.disk = SimulatedDisk(image)
        else:
            self.store.objects = {
                path: (data, self.clock) for path, data in image.items() if data is not None
            }
        try:
            yield
        finally:
            self.disk = disk
            self.store.objects = before

    # oracles

    def look(self):
        """Check what a power loss, or the death of all processes, would leave now."""
        for image in (
            [self.sampled() for _ in range(SAMPLES)] if self.is_local else [dict(self.files)]
        ):
            state = hash((frozenset(image.items()), self.account.ticks))
            if state not in self._looked:
                self._looked.add(state)
                self.checks += 1
                with self.holding(image):
                    self.check()
                    self.check_erased()

    def check(self):
        """Check what is stored against the account. Nobody may be at work. Return what was seen."""
        calls = self.disk.calls
        seen = self.seen()
        if self.is_local and self.disk.calls != calls:
            raise ViolationError("reading wrote something")
        for held in self.account.items.values():
            self.account.check(held, seen[held.id])
        return seen

    def seen(self):
        """Return the values of all items, as one who opens the session sees them."""
        with asyncio.Runner() as runner:
            return runner.run(self._seen())

    async def _seen(self):
        seen = {}
        try:
            with suppress(DiscardError):
                async with self.opened() as memory:
                    if damage := [
                        each for each in memory.damage if "unfinished commit" not in str(each)
                    ]:
                        raise ViolationError(f"there is damage: {damage}")
                    seen = await self.values(memory)
                    self.account.check_order(item.id for item in memory["documents"])
                    await self._check_keys(memory, seen)
                    raise DiscardError
        except (KaosmemError, OSError) as error:
            raise ViolationError(f"the session cannot be opened: {error!r}") from error
        return seen

    def opened(self, process=None, **options):
        """Return the session, not yet opened."""
        skew = process.state["skew"] if process else 0.0
        return SessionMemory.open(
            self.location(process),
            self.session,
            sections=SECTIONS,
            counter="estimate",
            ranker=BM25Ranker(),
            options=SessionOptions(clock=lambda: datetime.fromtimestamp(self.clock + skew, UTC)),
            **options,
        )

    async def values(self, memory):
        """Return the value of each item of the account in a session."""
        seen = {}
        for held in self.account.items.values():
            if held.is_clean and held.id not in memory:  # the files are searched for its texts
                seen[held.id] = None
                continue
            try:
                item = await memory.fetch(held.id)
            except NotFoundError:
                seen[held.id] = None
                continue
            seen[held.id] = (
                str(item.content),
                held.id in memory if held.section == "documents" else None,
            )
        live = [each for each, value in seen.items() if value is not None and value[1]]
        for item_id in live[-1:]:
            value = seen[item_id]
            found = memory.search(value[0].partition(" ")[0], "documents")
            if not found or found[0][0].id != item_id:
                raise ViolationError(f"{item_id} is live, and not found by its words")
        return seen

    async def _check_keys(self, memory, seen):
        keys = {
            held.key
            for held in self.account.items.values()
            if held.key and seen[held.id] is not None
        }
        for key in sorted(keys):
            versions = await memory.versions(key)
            found = {version.item.id for version in versions}
            known = [
                each
                for each in self.account.items.values()
                if each.key == key and seen[each.id] is not None
            ]
            # After a loss an older text may be found. It is no version if it was corrected.
            stored = {each.id for each in known if seen[each.id] in each.possible()}
            if stored - found:
                raise ViolationError(f"versions of {key!r} lack {sorted(stored - found)}")
            texts = {
                mark
                for each in self.account.items.values()
                if each.erasing == "done"
                for mark in each.marks
            }
            if any(str(version.item.content).partition(" ")[0] in texts for version in versions):
                raise ViolationError(f"a forgotten version of {key!r} is shown")

    def check_erased(self):
        """Raise ViolationError if a file holds a text that was forgotten while nobody else was at work."""
        marks = [
            mark for held in self.account.items.values() if held.is_clean for mark in held.marks
        ]
        if marks and (found := paths_holding(self.files, *marks)):
            raise ViolationError(f"{found[0]} holds a text that was forgotten")


class DiskView:
    """The calls of one process to the disk."""

    def __init__(self, world, process):
        self._world = world
        self._process = process
        self._disk = world.disk

    def __getattr__(self, name):
        return partial(self._call, name, getattr(self._disk, name))

    def _call(self, name, call, *given):
        world = self._world
        process = self._process
        if process is None:
            return call(*given)
        if process.is_killed or process.is_over:
            if name in ("close", "unlock"):
                return None
            raise KilledError
        if name not in _QUIET:
            world.called(process, name, given[0])
        if name == "line_up":
            return world.line_up(process)
        if name == "lock":
            file = self._disk._files[given[0]][0]
            process.schedule.wait(process, lambda: file.locked_by in (None, given[0]))
        fault = world.disk_fault(process, name, given) if name != "unlock" else ""
        if fault == "short" and len(given[1]) > 1:
            given = (given[0], given[1][: len(given[1]) // 2], *given[2:])
            fault = ""
        if fault == "late" or (fault and name == "close"):
            self._do(process, name, call, *given)
        if fault == "lost pages":
            self._disk.lose_pages(given[0])
        if fault:
            number = {"full": errno.ENOSPC, "missing": errno.ENOENT}.get(fault, errno.EIO)
            raise OSError(number, os.strerror(number), str(given[0]))
        return self._do(process, name, call, *given)

    @staticmethod
    def _do(process, name, call, *given):
        result = call(*given)
        if name == "open":
            process.descriptors.add(result)
        elif name == "close":
            process.descriptors.discard(given[0])
        return result


class _ByProcess:
    """Something that the processes of the world each have of their own."""

    def __init__(self, made):
        self._made = made

    def __getattr__(self, name):
        process = current()
        own = (
            self._made()
            if process is None
            else process.state.setdefault(self._made.__name__, self._made())
        )
        return getattr(own, name)


def _lines():
    return turns.KeyedQueues("a save is inside a save")


@contextmanager
def simulated(world):
    """Put the world in the place of the disk, the network, the clock, chance and threads."""
    numbers = count(1)
    own_rng = random.Random(world.seed + 1)
    time = SimpleNamespace(time=lambda: world.clock, sleep=lambda seconds: _sleep(world, seconds))
    open_folder = places.folder_storage
    list_folders = places.session_folders

    def folder_storage(location, parent, name, **options):
        if isinstance(location, str):
            return LocalStorage(Path(ROOT), parent, name, disk=DiskView(world, current()))
        return open_folder(location, parent, name, **options)

    def session_folders(location, namespace):
        if not isinstance(location, str):
            return list_folders(location, namespace)
        return sorted(
            {path.split("/")[3] for path in world.files if "/log/" in path or "/snap/" in path}
        )

    async def to_thread(call, *given, **named):
        if own_rng.random() < 0.5:
            await asyncio.sleep(0)
        return call(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "folder_storage", folder_storage)
        patch.setattr(places, "session_folders", session_folders)
        patch.setattr(asyncio, "to_thread", to_thread)
        patch.setattr(
            secrets, "token_hex", lambda size=8: f"{next(numbers):0{2 * size}x}"[-2 * size :]
        )
        patch.setattr(random, "SystemRandom", lambda: random.Random(next(numbers)))
        for module in (session_memory, forgetting):
            patch.setattr(module, "SHARED_SESSIONS", _ByProcess(SharedSessions))
        patch.setattr(turns, "_SAVE_QUEUES", _ByProcess(_lines))
        for module in (local, log, objects):
            patch.setattr(module, "time", time)
        for function in (
            log.SessionLog.__init__,
            log.SessionLog.open.__func__,
            log.SessionLog.over.__func__,
        ):
            patch.setitem(function.__kwdefaults__, "clock", time.time)
        patch.setitem(objects.ObjectStorage.__init__.__kwdefaults__, "clock", time.time)
        patch.setattr(log, "MIN_LOG_BYTES", world.rng.choice([1_000, 3_000, 10_000]))
        patch.setattr(checkpoint, "ROLL_UP", 2)
        patch.setattr(lazy_index, "MIN_STORED", 4)
        yield


def _is_synced(node):
    if isinstance(node, File):
        return not node.unsynced and node.durable == node.content
    changed = {name for change in node.unsynced for name, _ in change}
    return all(name.startswith(".") for name in changed) and all(
        _is_synced(each) for name, each in node.entries.items() if not name.startswith(".")
    )


def _sleep(world, seconds):
    world.clock += seconds
    process = current()
    if process is not None and not process.is_killed:
        process.schedule.step(process)
