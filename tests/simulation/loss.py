"""What befalls the files of a session while nobody is at work: they are deleted, swapped, or old copies come back."""

import asyncio
import json

from kaosmem import repair_session
from kaosmem.errors import CorruptionError, KaosmemError, NotFoundError
from kaosmem.persistence.layout import log_file
from kaosmem.persistence.storage.places import delete_session
from tests.simulation.account import ViolationError
from tests.simulation.disk import SimulatedDisk
from tests.simulation.world import ROOT, DiscardError

LOSSES = "is deleted", "are swapped", "is an old copy", "is there again"


def befall(world):
    """Damage some files, and check that nothing is lost or wrong without a word.

    Then bring them back, or repair.
    """
    before = world.files
    done, files = _damaged(world, before)
    if files == before:
        return
    world.say(f"between the processes, {done}")
    world.counts[next(each for each in LOSSES if done.endswith(each))] += 1
    _put(world, files)
    wrong = _check_told(world, read_only=True) | _check_told(world, read_only=False)
    if wrong and world.rng.random() < 0.5 and _repaired(world):
        return
    _put(world, before)


def _damaged(world, files):
    rng = world.rng
    paths = sorted(
        path for path in files if f"/{world.session}/" in path and not path.endswith("/lock")
    )
    end = max((each for each in paths if "/log/" in each), default="")
    # A log that ends with an earlier commit cannot be told from one that never went on. On a disk,
    # this is so for the only commit of a segment, if its writer was killed before the identity
    # named the segment: nobody was told of it.
    if not (world.is_local and _named(world, files) == end):
        paths = [path for path in paths if path != end]
    if not paths:
        return "", files
    path = rng.choice(paths)
    short = path.partition(f"/{world.session}/")[2]
    match rng.choice(["delete", "swap", "old"][: 2 if path == end else 3]):
        case "delete":
            return f"{short} is deleted", {
                each: data for each, data in files.items() if each != path
            }
        case "swap":
            folder = path.rpartition("/")[0]
            other = rng.choice([each for each in paths if each.rpartition("/")[0] == folder])
            return f"{short} and {other.rpartition('/')[2]} are swapped", files | {
                path: files[other],
                other: files[path],
            }
    copies = [copy for copy in world.copies if copy.get(path) not in (None, files[path])]
    if copies:
        return f"{short} is an old copy", files | {path: rng.choice(copies)[path]}
    gone = sorted(
        {
            each
            for copy in world.copies
            for each in copy
            if each not in files and f"/{world.session}/" in each
        }
    )
    if not gone:
        return "", files
    path = rng.choice(gone)
    return f"{path.partition(f'/{world.session}/')[2]} is there again", files | {
        path: next(copy[path] for copy in world.copies if path in copy)
    }


def _named(world, files):
    """Return the path of the segment that the identity of the session names."""
    folder = f"{ROOT}/default/{world.session}"
    identity = files.get(f"{folder}/session.json")
    return f"{folder}/{log_file(json.loads(identity)['segment'])}" if identity else ""


def _put(world, files):
    """Let these be the files, whole and durable."""
    if world.is_local:
        folders = {path: None for path, data in world.disk.image.items() if data is None}
        world.disk = SimulatedDisk({**folders, **files})
    else:
        known = world.store.objects
        world.store.objects = {
            path: known[path] if path in known and known[path][0] == data else (data, world.clock)
            for path, data in files.items()
        }


def _check_told(world, *, read_only):
    """Return whether something is missing or wrong.

    Raises ViolationError if the session does not say so.
    """
    wrong, told = asyncio.run(_looked(world, read_only=read_only))
    if wrong and not told:
        how = "read-only" if read_only else "for writing"
        raise ViolationError(f"opened {how}, and not told: {wrong}")
    return bool(wrong)


async def _looked(world, *, read_only):
    """Return what is missing or wrong in a session, and whether opening it says that there is damage."""
    wrong = ""
    is_told = False
    try:
        async with world.opened(read_only=read_only) as memory:
            is_told = bool(memory.damage)
            for held in world.account.items.values():
                value, is_told_now = await _value(memory, held)
                is_told |= is_told_now
                try:
                    world.account.check(held, value)
                except ViolationError as error:
                    wrong = wrong or str(error)
            raise DiscardError
    except DiscardError:
        return wrong, is_told
    except CorruptionError as error:
        return f"it is not opened: {error}", True
    except NotFoundError as error:  # nothing may ever have been saved
        is_saved = any(None not in held.possible() for held in world.account.items.values())
        return f"it is not opened: {error}" if is_saved else "", True
    except (KaosmemError, OSError) as error:
        raise ViolationError(f"opening raises {error!r}") from error


async def _value(memory, held):
    """Return the value of an item, and whether its reading says that there is damage."""
    try:
        item = await memory.fetch(held.id)
    except NotFoundError as error:
        return None, "damage" in str(error)
    except CorruptionError:
        return None, True
    return (str(item.content), held.id in memory if held.section == "documents" else None), False


def _repaired(world):
    """Go on in a repaired session, with what is intact; return whether there is one."""
    try:
        report = asyncio.run(repair_session(world.location(), world.session))
    except CorruptionError:
        return False
    except NotFoundError:
        return False
    if report.into is None:
        raise ViolationError("something is lost, and repair finds nothing")
    if not report.damage:
        raise ViolationError("a repair names no damage")
    world.counts["repaired"] += 1
    old = world.session
    world.session = report.into
    world.say(f"the session is repaired into {report.into}")
    for held in world.account.items.values():
        held.is_placed = False
    seen = world.seen()
    for held in world.account.items.values():
        value = seen[held.id]
        if value is not None and value[0] not in held.texts:
            raise ViolationError(f"a repair made up {value[0][:20]!r}")
        if (
            value is not None
            and held.is_clean
            and not any("old copy" in each or "again" in each for each in world.said[-3:])
        ):
            raise ViolationError(f"a repair brings back {held.id}, which was forgotten")
    delete_session(world.location(), old)
    for held in [*world.account.items.values()]:
        if held.is_clean and seen[held.id] is None:
            continue
        if (
            seen[held.id] not in held.possible()
        ):  # an older text, which is no version of the key if it was corrected
            held.key = None
        held.attempts = []
        held.erasing = ""
        held.is_clean = False
    world.account.settle(
        {held.id: seen[held.id] for held in world.account.items.values() if not held.is_clean}
    )
    world.copies.clear()
    # The summary between an item and a summary of that summary may be lost: nothing tells then what
    # was derived.
    summaries = [
        line
        for data in world.files.values()
        for line in data.split(b"\n")
        if b'"role":"summary"' in line
    ]
    for held in world.account.items.values():
        held.marks = [
            mark for mark in held.marks if not any(mark.encode() in line for line in summaries)
        ]
    return True
