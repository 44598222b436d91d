"""How far a log reaches since its last snapshot, and which long texts its files hold."""

from __future__ import annotations

import pytest

from kaosmem.persistence.commit import Extent
from kaosmem.persistence.files.manifest import KnownTexts
from kaosmem.persistence.files.records import Commit, Head
from kaosmem.persistence.recovery import Recovered, Recovery


def extent_of(commits: int) -> Extent:
    """Return the extent of a new log after commits of one record each, the first of 1 byte, the next of 2 and so on."""
    extent = Extent(Recovery(Recovered(), Head(), b"", (), 0, 0, 0, 0, False, {}))
    for seq in range(1, commits + 1):
        commit(extent, seq)
    return extent


def commit(extent: Extent, seq: int) -> None:
    """Note the commit of record `seq`."""
    extent.add(Head(seq, txns=(f"t{seq}",)), Commit(f"t{seq}", (b"." * seq,), 0))
    extent.segments.append((seq, 1))


def test_a_snapshot_cuts_off_what_came_before_it_alone() -> None:
    """What is committed while a snapshot is being stored is the log after it, and each end is measured from it."""
    extent = extent_of(5)
    end = extent.end(3)
    assert end is not None and (end.txn, end.log_bytes, extent.log_bytes) == ("t3", 1 + 2 + 3, 15)
    extent.cut(3, end, snapshot_bytes=100, indexed={1})
    assert (extent.snapshot_bytes, extent.log_bytes, extent.segments) == (
        100,
        4 + 5,
        [(4, 1), (5, 1)],
    )
    assert extent.commits == {1: "t1", 3: "t3", 4: "t4", 5: "t5"}
    later = extent.end(4)
    assert later is not None and later.log_bytes == 4
    assert extent.end(2) is None
    with pytest.raises(ValueError, match="record 6 is not the last of a commit"):
        extent.end(6)


def test_the_two_newest_snapshots_are_known_to_be_sound() -> None:
    """An older one is needed no more once two newer ones are there."""
    extent = extent_of(3)
    for seq in (1, 2, 3):
        end = extent.end(seq)
        assert end is not None
        extent.cut(seq, end, snapshot_bytes=1, indexed=())
    assert extent.sound == {2, 3}


def test_after_all_else_is_deleted_a_log_begins_anew() -> None:
    """Nothing is left of what came before the state that is stored."""
    extent = extent_of(3)
    extent.begin_anew(Head(3, txns=("t3",)), snapshot_bytes=7)
    assert (extent.snapshot_bytes, extent.log_bytes, extent.sound, extent.segments) == (
        7,
        0,
        {3},
        [],
    )
    assert extent.commits == {3: "t3"}
    commit(extent, 4)
    end = extent.end(4)
    assert end is not None and (end.log_bytes, extent.log_bytes) == (4, 4)


def test_a_text_that_is_not_kept_has_no_place() -> None:
    """A name is given for what is known alone, and said to be used; what is let go of is not named again."""
    known = KnownTexts({"a": "sha-a", "b": "sha-b"})
    used: set[str] = set()
    place = known.place(used)
    assert [place(sha256, b"") for sha256 in ("sha-b", "sha-c")] == ["b", None]
    kept = known.only(used)
    assert (kept.names, used) == ({"sha-b": "b"}, {"b"})
    assert kept.place()("sha-a", b"") is None
