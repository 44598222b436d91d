"""Lives of a session: episodes of processes at work, and what befalls the files between them."""

from __future__ import annotations

import hashlib
import random
from contextlib import suppress

from kaosmem import SessionMemory
from kaosmem.errors import (
    ConflictError,
    DurabilityError,
    InvalidArgumentError,
    KaosmemError,
    NotFoundError,
    SectionFullError,
    WindowTooSmallError,
)
from tests.simulation.account import Attempt, Held, ViolationError
from tests.simulation.disk import SimulatedDisk
from tests.simulation.loss import befall
from tests.simulation.objects import arrive
from tests.simulation.schedule import Process, Schedule
from tests.simulation.world import Faults, World, simulated

REFUSALS = SectionFullError, InvalidArgumentError, NotFoundError, WindowTooSmallError
ACTS = (
    *("add",) * 6,
    *("save",) * 5,
    *("update", "update", "remove", "key", "key", "derive"),
    *("assemble", "window", "window", "compact", "fetch", "refresh", "forget", "expire"),
)


def mark(name):
    """Return what stands in one text and nowhere else."""
    return "m" + hashlib.sha256(name.encode()).hexdigest()[:15]


class Writer:
    """One process with the session open."""

    def __init__(self, world, process, acts):
        self.world = world
        self.process = process
        self.acts = acts
        self.rng = world.rng
        self.account = world.account
        self.unsaved = []
        self.opened = self.account.tick()
        self.alone = False
        self.memory: SessionMemory
        process.state["unsaved"] = self.unsaved

    async def main(self):
        manager = self.world.opened(self.process)
        self.alone = len(self.process.schedule.living) == 1
        if not await self.did("open", self.enter(manager)):
            return
        for act in self.acts:
            number = next(self.world.acts)
            if number in self.world.skipped:
                continue
            self.rng = random.Random(f"{self.world.seed} {number}")
            self.world.counts[act] += 1
            if not await self.act(act):
                return
        if self.rng.random() < 0.2:
            self.world.say("goes away without saving")
            with suppress(KaosmemError):
                await self.memory.admin.close()
            return
        await self.saving("leave", manager.__aexit__(None, None, None))

    async def enter(self, manager):
        self.memory = await manager.__aenter__()

    async def did(self, name, work):
        """Do an operation, and return whether it succeeded. Raises ConflictError."""
        self.process.calls, self.process.state["doing"] = 0, name
        try:
            await work
        except (ConflictError, *REFUSALS):
            raise
        except DurabilityError as error:
            self.world.say(f"{name}: {str(error)[:100]}")
            return False
        except KaosmemError as error:
            raise ViolationError(f"{name} raises {error!r}") from error
        except OSError as error:
            raise ViolationError(f"{name} raises a bare {error!r}") from error
        return True

    async def act(self, name):
        """Do one thing, and return whether the process goes on."""
        with suppress(*REFUSALS):
            match name:
                case "add" | "key" | "derive" | "expire":
                    self.add(name)
                case "update" | "remove":
                    self.change(name)
                case "save":
                    return await self.saving("save", self.memory.save())
                case "forget":
                    return await self.forget()
                case "refresh":
                    return await self.refresh(discard=False)
                case "fetch":
                    await self.fetch()
                case "compact":
                    await self.did(
                        name, self.memory.assemble_context(budget=5_000, sections=["talk"])
                    )
                    self.world.counts["compacted"] += any(
                        item.sources for item in self.memory["talk"]
                    )
                case _:
                    await self.assemble(is_window=name == "window")
        return True

    # changes

    def text(self, held):
        """Return a new text of an item."""
        word = mark(f"{held.id}-{next(self.world.numbers)}")
        held.marks.append(word)
        text = " ".join([word] * (self.rng.choice([3, 3, 3, 3, 3, 3, 80])))
        held.texts.add(text)
        return text

    def value(self, held, text, *, live=True):
        return text, live if held.section == "documents" else None

    def add(self, kind):
        for _ in range(self.rng.randint(1, 3) if kind == "add" else 1):
            number = next(self.world.numbers)
            section = self.rng.choice(
                ["messages", "findings", "documents", "documents", "talk", "talk", "role"]
            )
            section = {"key": "findings", "derive": "documents", "expire": "findings"}.get(
                kind, section
            )
            live = [item.id for item in self.memory["documents"]]
            sources = [self.rng.choice(live)] if kind == "derive" and live else []
            key = self.rng.choice(["fee", "owner"]) if kind == "key" else None
            held = Held(f"i{number}", section, key, frozenset(sources))
            if any(self.account.items[each].erasing for each in sources):
                held.erasing = "tried"  # a forgetting under way takes in what is derived meanwhile
            text = self.text(held)
            self.memory.add(
                section,
                text,
                id=held.id,
                key=key,
                sources=sources,
                role="user" if section == "talk" else None,
                ttl_s=50.0 if kind == "expire" else None,
            )
            self.world.say(f"adds {held.id} to {section}{f' of {sources[0]}' if sources else ''}")
            self.account.items[held.id] = held
            self.unsaved.append((held, Attempt(self.value(held, text))))

    def change(self, kind):
        live = [held for held in self.account.items.values() if held.id in self.memory]
        if not live:
            return
        held = self.rng.choice(live)
        if kind == "remove":
            text = str(self.memory[held.section].peek(held.id).content)
            self.memory.remove(held.id)
        else:
            text = self.text(held)
            self.memory.update(held.id, text)
        self.world.say(f"{kind}s {held.id}")
        self.unsaved.append((held, Attempt(self.value(held, text, live=kind != "remove"))))

    # what touches the files

    async def saving(self, name, work):
        """Save, and note what became of it. Return whether the process goes on."""
        self.account.began(self.unsaved)
        self.world.say(f"{name}s {len(self.unsaved)} changes")
        self.alone &= len(self.process.schedule.living) == 1
        try:
            is_saved = await self.did(name, work)
        except ConflictError as error:
            self.world.say(f"{name}: {str(error)[:100]}")
            return name != "leave" and await self.refresh(discard=True)
        if is_saved:
            self.world.say(f"{name}d")
            self.account.acknowledged(self.unsaved)
            self.note_clean()
        return is_saved or self.rng.random() < 0.8

    async def refresh(self, *, discard):
        self.account.began(self.unsaved)  # some of it may be there, its answer lost
        try:
            is_done = await self.did("refresh", self.memory.admin.refresh(discard=discard))
        except ConflictError:
            return False
        if is_done and discard:
            self.account.dropped(self.unsaved)
        return is_done

    async def forget(self):
        known = [
            held for held in self.account.items.values() if held.erasing != "done" and held.born
        ]
        if not known:
            return True
        target = self.rng.choice(known)
        doomed = {held: held.erasing for held in self.account.erased_with(target.id)}
        own = {held for held, _ in self.unsaved}
        surely = [held for held in doomed if held.settled or held in own]
        self.account.began(self.unsaved)
        for held in doomed:
            held.erasing = "tried"
        self.world.say(f"forgets {target.id} and with it {sorted(held.id for held in doomed)}")
        self.alone &= len(self.process.schedule.living) == 1
        try:
            is_done = await self.did("forget", self.memory.forget(target.id))
        except NotFoundError:
            for held, before in doomed.items():
                held.erasing = before
            raise
        except ConflictError as error:
            self.world.say(f"forget: {str(error)[:100]}")
            return False
        if not is_done:
            return self.rng.random() < 0.8
        self.account.acknowledged(self.unsaved)
        for held in surely:
            held.erasing = "done"
        self.world.say(f"forgot {target.id}{'' if self.alone else ' beside others'}")
        self.world.counts["forgotten"] += 1
        self.note_clean()
        return True

    def note_clean(self):
        """After a save that nobody was beside, no file holds what was forgotten.

        A request that takes effect late may bring back a file. The next writer to open the session
        deletes it.
        """
        store = self.world.store
        is_alone = self.alone and len(self.process.schedule.living) == 1
        if is_alone and not store.late and store.came_late < self.opened:
            for held in self.account.items.values():
                held.is_clean |= held.erasing == "done"
            self.process.schedule.apart(self.process, self.world.look)

    async def fetch(self):
        held = self.rng.choice([*self.account.items.values()] or [Held("none", "documents")])
        is_gone = held.erasing == "done"
        if await self.did("fetch", self.memory.fetch(held.id)) and is_gone and self.alone:
            raise ViolationError(f"forgotten item {held.id} is fetched")

    async def assemble(self, *, is_window):
        options = {"window": "main", "format": "openai"} if is_window else {}
        found = []

        async def work():
            found.append(await self.memory.assemble_context("the fee", budget=600, **options))

        if not await self.did("assemble", work()):
            return
        context = found[0]
        if context.used > 600:
            raise ViolationError(f"a context of {context.used} tokens, budget 600")
        said = context.text if not is_window else str(context.messages)
        for held in self.account.items.values():
            if held.erasing == "done" and self.alone and any(word in said for word in held.marks):
                raise ViolationError(f"a context shows forgotten {held.id}")


class Reader:
    """One process that reads the session and goes."""

    def __init__(self, world, process):
        self.world = world
        self.process = process
        self.account = world.account
        process.state["unsaved"] = []

    async def main(self):
        before = {held.id: held.possible() for held in self.account.items.values()}
        began = self.account.tick()
        self.process.calls, self.process.state["doing"] = 0, "read"
        try:
            async with self.world.opened(self.process, read_only=True) as memory:
                if damage := [
                    each for each in memory.damage if "unfinished commit" not in str(each)
                ]:
                    raise ViolationError(f"a reader is told of damage: {damage}")
                self.world.say("reads")
                self.world.counts["read"] += 1
                ids = {
                    spec.name: [item.id for item in memory[spec.name]] for spec in memory.sections
                }
                texts = {
                    item.id: str(item.content)
                    for spec in memory.sections
                    for item in memory[spec.name]
                }
        except NotFoundError:
            if any(None not in possible for possible in before.values()):
                raise ViolationError("a reader finds no session") from None
            return
        except (DurabilityError, ConflictError) as error:
            self.world.say(f"read: {str(error)[:100]}")
            return
        except (KaosmemError, OSError) as error:
            raise ViolationError(f"reading raises {error!r}") from error
        for item_id, possible in before.items():
            if item_id not in self.account.items:
                continue
            held = self.account.items[item_id]
            since = {each.value for each in held.attempts if (each.ended or began) >= began}
            if item_id in texts and held.section == "documents":
                self.account.check(held, (texts[item_id], True), possible | since)
            elif held.section == "documents" and held.erasing == "":
                allowed = {
                    value
                    for value in possible | since | held.possible()
                    if value is None or not value[1]
                }
                if not allowed:
                    raise ViolationError(f"a reader misses {item_id}")
        self.account.check_order(ids["documents"])


def lived(seed, *, is_local, steps, skipped=frozenset()):
    """Live until so many steps are made, and return the world.

    Raises ViolationError with what happened.

    skipped: numbers of acts of processes that are left out.
    """
    world = World(seed, is_local, skipped=skipped)
    with simulated(world):
        try:
            while world.steps < steps:
                episode(world)
        except BaseException as error:
            story = "\n".join(world.said[-150:])
            calls = "\n".join(world.io)
            where = "disk" if is_local else "objects"
            violation = ViolationError(
                f"seed {seed}, {where}: {error}\n{story}\nthe last calls:\n{calls}"
            )
            violation.acts = next(world.acts)
            raise violation from error
    return world


def episode(world):
    """Let some processes work at once, to the end of each; then check what they leave."""
    rng = world.rng
    schedule = Schedule(rng, world.each_step)
    world.looks = 0.3 if world.shaken else rng.choice([0.0, 0.02])
    world.shaken = max(0, world.shaken - 1)
    world.changing, world.power_at = (
        0,
        rng.randint(1, 60) if rng.random() < 0.4 and world.is_local else None,
    )
    processes = [process(world, number) for number in range(rng.choice([1, 1, 2, 2, 3]))]
    world.say(f"{len(processes)} processes begin")
    try:
        schedule.run(processes)
    finally:
        world.steps += schedule.steps
    for each in processes:
        world.account.dropped(each.state["unsaved"])
        for descriptor in each.descriptors & world.disk.descriptors:
            world.disk.close(descriptor)
    has_failed = world.power_at is not None and world.changing >= world.power_at
    if has_failed or (not world.is_durable and rng.random() < 0.5):
        world.say("the power is back")
        world.disk = SimulatedDisk(world.sampled())
    while world.store.late and rng.random() < 0.7:  # others arrive in a later episode
        arrive(world.store, rng, world.account.tick())
    seen = world.check()
    if (
        world.is_durable and not world.store.late
    ):  # else what a killed process left may yet be lost, or come
        world.account.settle(seen)
    world.check_erased()
    if world.is_durable and not world.store.late:
        world.copies = [*world.copies[-4:], world.files]
        if rng.random() < 0.6:
            befall(world)
    jump = rng.choice([0.0, 1.0, 100.0, 100_000.0, -1_000.0])
    world.clock += jump
    world.counts["clock back" if jump < 0 else "clock ahead"] += jump != 0


def process(world, number):
    """Return a process that is about to begin."""
    rng = world.rng
    acts = [rng.choice(ACTS) for _ in range(rng.randint(1, 12))]
    is_reader = number > 0 and rng.random() < 0.3

    async def main(process):
        await (Reader(world, process) if is_reader else Writer(world, process, acts)).main()

    made = Process(f"p{number}", main)
    faults = Faults()
    match rng.randrange(7):
        case 0:
            faults.lasting = rng.randint(1, 100), rng.choice([5, 1_000_000])
        case 1:
            faults.kill = rng.randint(1, 40)
        case 2 if world.is_local:
            faults.sync = rng.randint(1, 6)
        case 2 | 3:
            faults.rate = rng.choice([0.01, 0.05, 0.2])
    made.state.update(
        faults=faults, skew=rng.choice([0.0, 0.0, 3_600.0, -100_000.0]), doing="", unsaved=[]
    )
    return made
