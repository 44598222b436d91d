"""What commits, prunings and roll-ups decide."""

from __future__ import annotations

import pytest

from kaosmem.persistence.checkpoint import plan_pruning, segments_to_roll_up
from kaosmem.persistence.layout import log_file, snapshot_file
from kaosmem.persistence.steps import Delete


def test_a_pruning_keeps_two_snapshots_and_the_log_since_the_older() -> None:
    """Older snapshots go first, then the segments that end before the older kept one does."""
    steps = plan_pruning([1, 4, 7, 9], [2, 3, 6, 8], newest=8, sound={3, 6, 8})
    expected = [snapshot_file(2), snapshot_file(3), log_file(1), log_file(4)]
    assert steps == [Delete(path) for path in expected]


@pytest.mark.parametrize("sound", [set(), {8}, {5, 8}, {9, 8}])
def test_a_pruning_without_an_older_sound_snapshot_deletes_nothing(sound: set[int]) -> None:
    """One sound snapshot alone, or one that is not stored any more, makes nothing unneeded."""
    assert plan_pruning([1, 4, 7, 9], [6, 8], newest=8, sound=sound) == []


def test_segments_roll_up_like_digits_carry() -> None:
    """However many commits there are, few segments are left, and each commit is rewritten a few times."""
    segments: list[tuple[int, int]] = []
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
