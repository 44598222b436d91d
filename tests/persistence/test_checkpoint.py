"""What commits, prunings, roll-ups and checks of files decide."""

import pytest

from kaosmem.persistence.checkpoint import plan_pruning, segments_to_roll_up
from kaosmem.persistence.files.manifest import ListedArchive, check_archives
from kaosmem.persistence.layout import log_file, snapshot_file
from kaosmem.persistence.steps import Delete, ReadParts, run


def test_a_pruning_keeps_two_snapshots_and_the_log_since_the_older():
    """Older snapshots go first, then the segments that end before the older kept one does."""
    steps = plan_pruning([1, 4, 7, 9], [2, 3, 6, 8], newest=8, sound={3, 6, 8})
    expected = [snapshot_file(2), snapshot_file(3), log_file(1), log_file(4)]
    assert steps == [Delete(path) for path in expected]


@pytest.mark.parametrize("sound", [set(), {8}, {5, 8}, {9, 8}])
def test_a_pruning_without_an_older_sound_snapshot_deletes_nothing(sound):
    """One sound snapshot alone, or one that is not stored any more, makes nothing unneeded."""
    assert plan_pruning([1, 4, 7, 9], [6, 8], newest=8, sound=sound) == []


def test_segments_roll_up_like_digits_carry():
    """However many commits there are, few segments are left, and each commit is rewritten a few times."""
    segments = []
    rewritten = 0
    for seq in range(1, 20_001):
        segments.append((seq, 1))
        while count := segments_to_roll_up(segments):
            size = sum(commits for _, commits in segments[-count:])
            rewritten += size
            segments[-count:] = [(segments[-count][0], size)]
        assert len(segments) <= 60
    assert sum(commits for _, commits in segments) == 20_000
    assert rewritten <= 3 * 20_000


class OneFile:
    """Performs reads of parts of one file, whatever their path."""

    def __init__(self, data):
        self.data = data

    def perform(self, step):
        assert isinstance(step, ReadParts)
        return [self.data[start : start + size] for _, start, size in step.parts]

    def unlock(self):
        raise AssertionError("nothing was locked")


LAST_LINE = b'{"crc":"0000abcd","d":1}\n'


@pytest.mark.parametrize(
    ("data", "is_own"),
    [
        (b"x" * 20 + LAST_LINE, True),
        (b"x" * 20 + LAST_LINE[:-1], False),
        (b"x" * 20 + LAST_LINE + b"\n", False),
        (b"x" * 20 + LAST_LINE.replace(b"abcd", b"abce"), False),
        (b"x" * 21 + LAST_LINE, False),
    ],
    ids=["own", "cut", "longer", "another", "shifted"],
)
def test_an_archive_file_is_known_by_its_size_and_its_last_line(data, is_own):
    """A cut, longer or other file under its name is named."""
    listed = ListedArchive(seq=3, crc=0xABCD, size=20 + len(LAST_LINE), start=20)
    damage = run(check_archives([listed]), OneFile(data))
    assert [error.file for error in damage] == ([] if is_own else [listed.path])
