"""The failing disk fails as it is told to, and then no more."""

from __future__ import annotations

import errno
import os

import pytest

from tests.persistence.crashes.failing_disk import FILLING, FailingDisk, Fault
from tests.simulation import power_loss
from tests.simulation.disk import SimulatedDisk

APPEND = os.O_RDWR | os.O_APPEND


def failing(fault: Fault) -> tuple[FailingDisk, int]:
    """A disk with one file, `/f`, and its descriptor."""
    disk = FailingDisk(SimulatedDisk({"/f": b"old"}), fault)
    descriptor = disk.open("/f", APPEND)
    disk.break_down()
    return disk, descriptor


def test_one_call_fails_without_effect_and_the_next_succeeds() -> None:
    disk, descriptor = failing(Fault("", errno.EIO, frozenset({"write"}), at=1))
    assert disk.write(descriptor, b"1") == 1
    with pytest.raises(OSError, match="/output error"):
        disk.write(descriptor, b"2")
    assert disk.write(descriptor, b"3") == 1
    assert disk.read(descriptor, 0) == b"old13"
    assert (disk.seen, disk.hits) == (3, 1)


def test_a_lasting_fault_ends_when_it_is_healed() -> None:
    disk, descriptor = failing(Fault("", errno.EIO, lasting=True))
    for call in (disk.size, disk.sync):
        with pytest.raises(OSError):
            call(descriptor)
    disk.heal()
    assert disk.size(descriptor) == 3


def test_half_a_write_is_there_before_the_next_fails() -> None:
    disk, descriptor = failing(Fault("", errno.ENOSPC, frozenset({"write"}), short=True))
    assert disk.write(descriptor, b"1234") == 2
    with pytest.raises(OSError) as caught:
        disk.write(descriptor, b"34")
    assert caught.value.errno == errno.ENOSPC
    assert disk.write(descriptor, b"34") == 2
    assert disk.read(descriptor, 0) == b"old1234"


def test_a_short_write_is_no_error() -> None:
    disk, descriptor = failing(Fault("", 0, frozenset({"write"}), short=True))
    assert [disk.write(descriptor, b"1234"), disk.write(descriptor, b"34")] == [2, 2]


def test_a_failed_sync_leaves_pages_dirty_or_loses_them() -> None:
    """The next sync writes them, or succeeds without having done so."""
    for loses, stored in ((False, b"oldnew"), (True, b"old" + bytes(3))):
        disk, descriptor = failing(Fault("", errno.EIO, frozenset({"sync"}), loses_pages=loses))
        disk.write(descriptor, b"new")
        with pytest.raises(OSError):
            disk.sync(descriptor)
        disk.sync(descriptor)
        assert [image["/f"] for image in power_loss.states(disk.disk)] == [stored]


def test_a_late_error_comes_after_the_work() -> None:
    disk, _ = failing(Fault("", errno.EIO, frozenset({"replace"}), late=True))
    with pytest.raises(OSError):
        disk.replace("/f", "/g")
    assert disk.list("/") == ["g"]


def test_a_full_disk_still_opens_and_cuts_files() -> None:
    disk, descriptor = failing(Fault("", errno.ENOSPC, FILLING, lasting=True))
    disk.truncate(descriptor, 1)
    assert disk.read(disk.open("/f", APPEND), 0) == b"o"
    with pytest.raises(OSError):
        disk.open("/new", APPEND | os.O_CREAT)


def test_a_descriptor_is_gone_even_where_closing_it_fails() -> None:
    disk, descriptor = failing(Fault("", errno.EIO, frozenset({"close"})))
    with pytest.raises(OSError):
        disk.close(descriptor)
    assert not disk.disk.descriptors
