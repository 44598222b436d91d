"""What a simulated disk may hold after a power loss.

The menu, of which every combination is enumerated and each different result is returned once:

- Folders: any subset of the entries made, renamed, and removed since their folder was synced; of a
  rename also the half in which both names are there. Above `MAX_ENTRIES` combinations: every first
  so many changes, all but one, and one alone.
- A file's writes and truncates since it was synced: any subset; above `MAX_CHANGES` of them every
  first so many, all but one, and one alone.
- And one of the writes in part, where what comes before it, or all else, or nothing else was kept:
  cut at its first and last byte, at the ends and in the middle of its lines (of the first and last
  `EDGE` lines), and at sectors; cut so, or filled up to its size with NULs, since a size may reach
  the disk before the data; and any subset of its sectors, above `MAX_SECTORS` sectors all but one,
  one alone, and the last so many. A sector is written whole or not; bytes of it that were durable
  stay.
- Several such files: all combinations; above `MAX_FILES` each file in all its states beside the
  others in their first and last (nothing and everything kept). The soak tests take up to
  `MAX_FILES_OF_A_SOAK` combinations.

Locks are free after it. What is not on the menu: stale bytes instead of NULs, and damage to durable
bytes.
"""

from functools import lru_cache
from itertools import pairwise, product
from math import prod

from tests.simulation.disk import (
    File,
    Folder,
    Torn,
    Truncated,
    Written,
    set_entries,
)

SECTOR = 512
EDGE = 3
MAX_CHANGES, MAX_SECTORS = 4, 4
MAX_ENTRIES, MAX_FILES = 200, 100
MAX_FILES_OF_A_SOAK = 5_000

Change = Written | Torn | Truncated


def states(disk):
    """Return what may be on a disk after a power loss now, each different image once."""
    found = {}
    for files, folders in _trees(disk.root):
        for contents in _products(
            [_contents(file.durable, tuple(file.unsynced)) for file in files.values()]
        ):
            image = {**folders, **dict(zip(files, contents, strict=True))}
            found.setdefault(frozenset(image.items()), image)
    return list(found.values())


def _trees(root):
    """Yield, for each fate of the unsynced entries, the files by path, and the folders."""
    pending = [(folder, change) for folder in _all_folders(root) for change in folder.unsynced]
    whole = [len(change) for _, change in pending]
    if prod(steps + 1 for steps in whole) <= MAX_ENTRIES:
        fates = product(*(range(steps + 1) for steps in whole))
    else:
        fates = [
            [n * keep for n, keep in zip(whole, kept, strict=True)] for kept in _few(len(whole))
        ]
    for fate in fates:
        entries = {}
        for (folder, change), steps in zip(pending, fate, strict=True):
            set_entries(entries.setdefault(folder, dict(folder.durable)), change[:steps])
        files = {}
        folders = {}
        _collect(root, "", entries, files, folders)
        yield files, folders


def _all_folders(root):
    """Yield every folder that may be found from here after a power loss."""
    nodes = {id(node): node for node in (*root.durable.values(), *root.entries.values())}
    nodes.update(
        (id(node), node) for change in root.unsynced for _, node in change if node is not None
    )
    yield root
    for node in nodes.values():
        if isinstance(node, Folder):
            yield from _all_folders(node)


def _collect(
    folder,
    above,
    entries,
    files,
    folders,
):
    for name, node in entries.get(folder, folder.durable).items():
        if isinstance(node, File):
            files[f"{above}/{name}"] = node
        else:
            folders[f"{above}/{name}"] = None
            _collect(node, f"{above}/{name}", entries, files, folders)


def _products(menus):
    if prod(map(len, menus)) <= MAX_FILES:
        yield from product(*menus)
        return
    ends = [[menu[0], menu[-1]] for menu in menus]
    for index, menu in enumerate(menus):
        yield from product(*ends[:index], menu, *ends[index + 1 :])


@lru_cache(maxsize=1_000)
def _contents(durable, changes):
    """Return what a file may hold, nothing unsynced first, all of it last.

    Most files are the same before and after a call of the disk.
    """
    count = len(changes)
    found = {durable: None}
    for kept in product((False, True), repeat=count) if count <= MAX_CHANGES else _few(count):
        some = [change for change, keep in zip(changes, kept, strict=True) if keep]
        found[_apply(durable, some)] = None
    for index, change in enumerate(changes):
        if isinstance(change, Written):
            before = changes[:index]
            after = changes[index + 1 :]
            for part in _parts(change):
                for rest in ((before, []), (before, after), ([], [])):
                    found[_apply(durable, [*rest[0], part, *rest[1]])] = None
    everything = _apply(durable, changes)
    found.pop(everything)
    return [*found, everything]


def _apply(content, changes):
    for change in changes:
        content = change.on(content)
    return content


def _few(count):
    """Yield the first so many of `count` things, all but one, and one alone."""
    for index in range(count + 1):
        yield [other < index for other in range(count)]
    for index in range(count):
        yield [other != index for other in range(count)]
        yield [other == index for other in range(count)]


def _parts(change):
    """Yield what may be there of one write: cut, filled up with NULs, or some of its sectors."""
    start = change.start
    data = change.data
    for cut in _cuts(change):
        yield Written(start, data[:cut])
        yield Torn(start + len(data), ((start, data[:cut]),))
    edges = [0, *_sectors(change), len(data)]
    sectors = [(start + a, data[a:b]) for a, b in pairwise(edges)]
    for length in range(2, len(sectors) + 1) if len(sectors) <= MAX_SECTORS else [len(sectors)]:
        for kept in (
            product((False, True), repeat=length) if length <= MAX_SECTORS else _some(length)
        ):
            pairs = zip(sectors[:length], kept, strict=True)
            yield Torn(start + edges[length], tuple(sector for sector, keep in pairs if keep))


def _some(count):
    """Yield the sectors kept of many: all but one, one alone, and the last so many, for those near either end."""
    for index in (*range(EDGE), count // 2, *range(count - EDGE, count)):
        yield [other != index for other in range(count)]
        yield [other == index for other in range(count)]
        yield [other >= index for other in range(count)]


def _sectors(change):
    """Return where in a write the file's sectors begin."""
    first = -change.start % SECTOR or SECTOR
    return list(range(first, len(change.data), SECTOR))


def _cuts(change):
    """Return where a write is cut, ascending: 0 for its size alone."""
    data = change.data
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    starts = [0, *(end for end in ends if end < len(data))]
    cuts = {0, 1, len(data) - 1}
    for begin, end in _ends(list(zip(starts, [*ends, len(data)], strict=False))):
        cuts.update((end, end - 1, (begin + end) // 2))
    cuts.update(_ends(_sectors(change)))
    return sorted(cut for cut in cuts if 0 <= cut < len(data))


def _ends(values):
    """Return the first and last few of many."""
    return values if len(values) <= 2 * EDGE else values[:EDGE] + values[-EDGE:]


def sample(disk, rng):
    """Return one of the states that a disk may be in after a power loss now."""
    entries = {}
    keeps = rng.choice([0.0, 0.5, 0.9, 1.0])
    for folder in _all_folders(disk.root):
        for change in folder.unsynced:
            steps = rng.randint(1, len(change)) if rng.random() < keeps else 0
            set_entries(entries.setdefault(folder, dict(folder.durable)), change[:steps])
    files = {}
    folders = {}
    _collect(disk.root, "", entries, files, folders)
    return folders | {path: _sampled(file, rng) for path, file in files.items()}


def _sampled(file, rng):
    """Return what a file may hold: each sector, and the size, as it was after some of the changes.

    A sector is written whole, with all that was in it then: never a later change without an earlier
    one.
    """
    moments = [file.durable]
    for change in file.unsynced:
        moments.append(change.on(moments[-1]))
    kind = rng.randrange(4) if file.unsynced else 0
    if kind < 2:
        return moments[0 if kind == 0 else -1]
    at = rng.randrange(len(moments))
    size = len(moments[at])
    change = file.unsynced[at - 1] if at else None
    if kind == 3 and isinstance(change, Written) and change.data:
        size = max(len(moments[at - 1]), change.start + rng.choice(_cuts(change)))
    some = [rng.randrange(len(moments)) for _ in range(2)]
    starts = range(0, size, SECTOR)
    return b"".join(
        moments[rng.choice(some)][start : min(start + SECTOR, size)].ljust(
            min(SECTOR, size - start), b"\0"
        )
        for start in starts
    )
