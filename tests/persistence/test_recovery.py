"""What stored bytes say after crashes and damage."""

import random
from contextlib import suppress

import pytest

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.items import ItemFile, encode_items
from kaosmem.persistence.files.records import encode_commit
from kaosmem.persistence.layout import log_file, snapshot_file
from kaosmem.persistence.recovery import recover
from kaosmem.persistence.steps import List, Read, run
from tests.persistence.worlds import OPENING, add, flipped
from tests.simulation.power_loss import SECTOR

COMMITS = [[OPENING, add("a")], [add("b")], [add("c"), add("d"), add("e")], [add("f")]]


def stored(commits=COMMITS, *, txn="t"):
    """The bytes of each commit."""
    seq = crc = 0
    parts = []
    for number, changes in enumerate(commits):
        commit = encode_commit(changes, f"{txn}{number}", seq=seq, crc=crc)
        seq = seq + len(changes)
        crc = commit.crc
        parts.append(commit.data)
    return parts


def opened(*segments, snapshots=None):
    return run(recover(), files_of(*segments, snapshots=snapshots))


def files_of(*segments, snapshots=None):
    files = {log_file(first): data for first, data in segments}
    return Files(files | {snapshot_file(seq): data for seq, data in (snapshots or {}).items()})


class Files:
    """Performs steps that read, on files by path."""

    def __init__(self, files):
        self.files = files

    def perform(self, step):
        match step:
            case List(folder):
                return {
                    path.rpartition("/")[2] for path in self.files if path.startswith(f"{folder}/")
                }
            case Read(path, start) if path in self.files:
                return self.files[path][start:]
        raise FileNotFoundError(step)

    def unlock(self):
        raise AssertionError("nothing was locked")


def committed(records):
    """How many whole commits the records are; they must be the first of COMMITS."""
    sizes = [0]
    for changes in COMMITS:
        sizes.append(sizes[-1] + len(changes))
    assert [(r.seq, r.data) for r in records] == [
        (seq, change.data)
        for seq, change in enumerate((c for changes in COMMITS for c in changes), 1)
        if seq <= len(records)
    ]
    return sizes.index(len(records))


def test_every_truncation_leaves_the_commits_before_it():
    """A log cut anywhere, as a crash does it, opens with each commit whose bytes are all there."""
    parts = stored()
    whole = b"".join(parts)
    ends = [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
    for size in range(len(whole) + 1):
        found = opened((1, whole[:size]))
        expected = max(n for n, end in enumerate(ends) if end <= size)
        assert committed(found.records) == expected
        assert bool(found.torn) == bool(found.damage) == (size not in ends)


def test_every_flipped_bit_is_noticed():
    """One flipped bit is corruption. In the last commit's newline, it makes that commit an unfinished one."""
    whole = b"".join(stored())
    for bit in {*range(0, 8 * len(whole), 5), *range(8 * len(whole) - 8, 8 * len(whole))}:
        try:
            found = opened((1, flipped(whole, bit)))
        except CorruptionError as error:
            assert error.file == log_file(1)
            assert error.byte is not None and error.byte <= bit // 8 + 1
            assert error.seq is not None and "read_only" in str(error)
        else:
            assert bit // 8 == len(whole) - 1
            assert committed(found.records) == len(COMMITS) - 1
            assert found.torn


@pytest.mark.parametrize("case", ["swapped", "deleted", "duplicated", "foreign", "CRLF", "BOM"])
def test_lines_out_of_place_are_corruption(case):
    """Lines that were swapped, deleted, repeated, brought from elsewhere or re-encoded don't fit the chain."""
    lines = b"".join(stored()).splitlines(keepends=True)
    foreign = b"".join(
        stored(
            [[OPENING, add("a")], [add("x")], [add("c"), add("d"), add("e")], [add("f")]], txn="u"
        )
    )
    for at in range(len(lines) - 1):
        changed = list(lines)
        if case == "swapped":
            changed[at : at + 2] = reversed(lines[at : at + 2])
        elif case == "deleted":
            del changed[at]
        elif case == "duplicated":
            changed.insert(at + 1, lines[at])
        elif case == "foreign":
            changed[at + 1 :] = foreign.splitlines(keepends=True)[at + 1 :]
        elif case == "CRLF":
            changed[at] = lines[at].replace(b"\n", b"\r\n")
        else:
            changed[at] = b"\xef\xbb\xbf" + lines[at]
        with pytest.raises(CorruptionError):
            opened((1, b"".join(changed)))


def test_a_commit_inside_another_is_corruption():
    """A commit that begins before the one before it is complete was not written by a writer of ours."""
    whole = encode_commit([OPENING, add("a")], "t0", seq=0, crc=0)
    begun = encode_commit([add("b"), add("c")], "t1", seq=2, crc=whole.crc).lines[0]
    other = encode_commit([add("d")], "t2", seq=3, crc=int(begun[8:16], 16))
    with pytest.raises(CorruptionError, match="another commit begins"):
        opened((1, whole.data + begun + other.data))


LONG = [*COMMITS[:2], [add("c", "long " * 300), add("d"), add("e", "long " * 300)]]


def holes(whole, start):
    """Yield a log with bytes of its last commit, from `start` on, as NULs, and whether a crash may have left it so."""
    sectors = range(start - start % SECTOR + SECTOR, len(whole), SECTOR)
    for begin in {start, start + 1, *sectors, *(sector + 7 for sector in sectors)}:
        for end in {
            begin + 1,
            begin + 2,
            *sectors,
            *(sector - 1 for sector in sectors),
            len(whole) - 1,
            len(whole),
        }:
            if begin < end:
                is_crash = (begin == start or begin in sectors) and end in sectors
                torn = whole[:begin] + bytes(end - begin) + whole[end:]
                yield torn, is_crash or not torn.endswith(b"\n")


def test_a_hole_in_the_last_commit_is_torn_where_a_crash_may_have_left_it():
    """Unwritten sectors are torn, whatever comes after them; other NULs are corruption: it may be acknowledged."""
    parts = stored(LONG)
    start = len(b"".join(parts[:2]))
    for data, is_torn in holes(b"".join(parts), start):
        if is_torn:
            found = opened((1, data))
            assert (found.head.seq, found.torn) == (3, data[start:])
        else:
            with pytest.raises(CorruptionError):
                opened((1, data))


def test_a_cut_commit_is_torn_wherever_its_holes_are():
    """It has fewer lines than it counts, so that it was not acknowledged: it may be written in pieces of any size.

    The same hole in a commit that has all its lines is corruption, though another torn commit follows.
    """
    parts = stored([[OPENING], [add(str(number)) for number in range(6)], [add("last")]])
    start = len(parts[0])
    whole = parts[0] + parts[1]
    line = whole.index(b"\n", start) + 1
    holed = whole[: line + 9] + bytes(20) + whole[line + 29 :]
    for end in range(whole.index(b"\n", line) + 2, len(whole) - 1):
        if not holed[:end].endswith(b"\n") and holed[:end].count(b"\n") < holed.count(b"\n") - 1:
            found = opened((1, holed[:end]))
            assert (found.head.seq, found.torn) == (1, holed[start:end])
    with pytest.raises(CorruptionError):
        opened((1, holed + parts[2][:30]))


ONE, TWO, THREE, FOUR = stored()
"""The bytes of COMMITS, which are the records 1 and 2, 3, 4 to 6 and 7."""


def snapshot_at(seq, log):
    """Return a snapshot of what a log holds."""
    file = ItemFile(seq, crc=opened((1, log)).head.crc, header={"n": seq})
    return b"".join(encode_items(file, [("messages", {"id": "a"})]))


@pytest.mark.parametrize(
    "segments",
    [
        [(1, ONE + TWO + THREE), (3, TWO), (4, THREE), (7, FOUR)],
        [(1, ONE + TWO), (4, b""), (4, THREE + FOUR)],
    ],
    ids=["a rolled-up segment beside those it holds", "an empty segment"],
)
def test_a_log_is_whole_however_its_commits_lie_in_segments(segments):
    """What another segment holds as well is passed over, and one that was made and never written holds nothing."""
    assert committed(opened(*segments).records) == 4


@pytest.mark.parametrize(
    "segments",
    [
        [(1, ONE + TWO + THREE + FOUR)],
        [(1, ONE + TWO), (4, THREE + FOUR)],
        [(4, THREE + FOUR)],
        [(1, ONE + TWO + THREE), (3, TWO), (7, FOUR)],
    ],
    ids=["within a segment", "at its end", "without what was before", "under a roll-up"],
)
def test_a_snapshot_stands_for_the_log_before_it(segments):
    """What a snapshot holds is not read again, wherever in a segment it ends, or if that segment is gone."""
    found = opened(*segments, snapshots={3: snapshot_at(3, ONE + TWO)})
    assert (found.header, found.items) == ({"n": 3}, [("messages", {"id": "a"})])
    assert [record.seq for record in found.records] == [4, 5, 6, 7]
    assert found.head.crc == opened((1, ONE + TWO + THREE + FOUR)).head.crc


def test_a_log_that_ends_before_its_snapshot_is_corruption():
    """The commits between them would be missing, if the snapshot is damaged."""
    snap = snapshot_at(6, ONE + TWO + THREE)
    assert opened((1, ONE), snapshots={6: snap}).head.seq == 6
    with pytest.raises(CorruptionError, match="records 3 to 6 are in no sound file"):
        opened((1, ONE), snapshots={6: flipped(snap, 99)})


@pytest.mark.parametrize(
    ("segments", "said"),
    [
        ([(3, TWO), (4, THREE)], "gap"),
        ([(1, ONE), (4, THREE), (7, FOUR)], "gap"),
        ([(1, ONE), (3, TWO), (7, FOUR)], "gap"),
        ([(1, ONE + b'{"crc'), (3, TWO)], "."),
        ([(1, stored([[add("a")]])[0])], "no kaosmem session"),
    ],
    ids=["no first", "no second", "no third", "torn before another", "no version"],
)
def test_a_log_that_lacks_something_is_corruption(segments, said):
    """A segment is missing, has a tail that the next commit would have cut, or does not begin as a session does."""
    with pytest.raises(CorruptionError, match=said):
        opened(*segments)


def test_noise_in_the_middle_is_never_read():
    """Any stretch of random bytes in the middle of a log is corruption or torn, never another state."""
    rng = random.Random(5)
    whole = b"".join(stored())
    for _ in range(500):
        start = rng.randrange(len(whole))
        size = rng.randrange(1, 60)
        noisy = whole[:start] + rng.randbytes(size) + whole[start + rng.choice([0, size]) :]
        if noisy != whole:
            with suppress(CorruptionError):
                committed(opened((1, noisy)).records)
