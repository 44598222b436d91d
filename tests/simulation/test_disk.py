"""The simulated disk does what a disk does, and a power loss takes from it what POSIX lets it take."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem.errors import CorruptionError
from kaosmem.persistence.storage.disk import Disk
from tests.simulation import power_loss
from tests.simulation.disk import SimulatedDisk

WRITE = os.O_RDWR | os.O_CREAT | os.O_APPEND
EXCLUSIVE = WRITE | os.O_EXCL

names = st.sampled_from(["a", "b", "c"])
paths = names | st.builds(lambda folder, name: f"{folder}/{name}", names, names)
flags = st.sampled_from([os.O_RDONLY, WRITE, EXCLUSIVE])
calls = st.one_of(
    st.tuples(st.just("open"), paths, flags),
    st.tuples(st.just("write"), st.integers(0, 3), st.binary(max_size=5)),
    st.tuples(st.just("truncate"), st.integers(0, 3), st.integers(0, 8)),
    st.tuples(st.just("read"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.sampled_from(["size", "sync", "close"]), st.integers(0, 3)),
    st.tuples(st.just("is_at"), st.integers(0, 3), paths),
    st.tuples(
        st.sampled_from(
            ["list", "is_folder", "make_folder", "remove_folder", "sync_folder", "unlink"]
        ),
        paths,
    ),
    st.builds(
        lambda folder, old, new: ("replace", folder + old, folder + new),
        st.sampled_from(["", "a/"]),
        names,
        names,
    ),
)


def written(disk, path, data, *, sync=False):
    descriptor = disk.open(path, WRITE)
    disk.write(descriptor, data)
    if sync:
        disk.sync(descriptor)
    return descriptor


def contents(disk, path):
    """What a file may hold after a power loss now; None where it is gone."""
    return {image.get(path) for image in power_loss.states(disk)}


def answer(root, opened, disk, call):
    """What a call answers or how it fails; paths are below `root`, descriptors by their order."""
    name, first, *rest = call
    if isinstance(first, int):
        if first >= len(opened):
            return "not open"
        first = opened[first]
    else:
        first = f"{root}/{first}"
    rest = [f"{root}/{value}" if isinstance(value, str) else value for value in rest]
    try:
        result = getattr(disk, name)(first, *rest)
    except CorruptionError:
        return "irregular"
    except OSError as error:
        return error.errno
    if name == "open":
        opened.append(result)
        return "opened"
    if name == "close":
        opened.remove(first)
    return sorted(result) if name == "list" else result


@settings(max_examples=2 * settings().max_examples)
@given(sequence=st.lists(calls, max_size=25))
def test_it_answers_as_the_real_disk_does(sequence):
    """Any calls give the same answers, errors included, and leave the same files."""
    real = Disk()
    simulated = SimulatedDisk({"/r": None})
    with tempfile.TemporaryDirectory() as root:
        ours = []
        theirs = []
        try:
            for call in sequence:
                assert answer("/r", ours, simulated, call) == answer(root, theirs, real, call), call
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        found = {
            f"/r/{path.relative_to(root)}": None if path.is_dir() else path.read_bytes()
            for path in Path(root).rglob("*")
        }
        assert simulated.image == {"/r": None, **found}


@settings(max_examples=2 * settings().max_examples)
@given(data=st.data())
def test_what_is_synced_survives_every_power_loss(data):
    """A synced file under a synced name is in every state, whatever is done to others; and all there is is a state."""
    disk = SimulatedDisk({"/a": None, "/a/old": b"old", "/b": None})
    disk.close(written(disk, "/a/kept", data.draw(st.binary(max_size=1500)), sync=True))
    disk.sync_folder("/a")
    kept = disk.image["/a/kept"]
    opened = []
    for call in data.draw(
        st.lists(calls.filter(lambda call: call[0] != "replace" or "a" not in call), max_size=6)
    ):
        answer("", opened, disk, call)
    found = power_loss.states(disk)
    assert all(image["/a/kept"] == kept and image["/a/old"] == b"old" for image in found)
    assert dict(disk.image) in [dict(image) for image in found]
    assert len(found) == len({frozenset(image.items()) for image in found})


LOSSES = {
    "unsynced data is lost, kept, torn or filled with NULs": (
        {"/f": b"old\n"},
        lambda disk: written(disk, "/f", b"one\ntwo\n"),
        {b"old\n" + left for left in (b"", b"one\ntwo\n", b"one\n", b"one\ntw", b"o", bytes(8))}
        | {b"old\none\n" + bytes(4), b"old\none" + bytes(5)},
    ),
    "sectors reach the disk in any order, beside durable bytes": (
        {"/f": b"o" * 500},
        lambda disk: written(disk, "/f", b"a" * 12 + b"b" * 512 + b"c" * 100),
        {
            b"o" * 500 + first + second + third
            for first, second, third in (
                (bytes(12), b"b" * 512, b"c" * 100),
                (b"a" * 12, bytes(512), b"c" * 100),
                (bytes(12), bytes(512), b"c" * 100),
                (bytes(12), b"b" * 512, b""),
                (b"a" * 12, b"", b""),
            )
        },
    ),
    "any of several writes": (
        {"/f": b""},
        lambda disk: [written(disk, "/f", data) for data in (b"11", b"22")],
        {b"", b"11", b"\0\x0022", b"1122"},
    ),
    "a synced file under a name that is not synced": (
        {"/f": None},
        lambda disk: (disk.remove_folder("/f"), written(disk, "/f", b"data", sync=True)),
        {None, b"data"},
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_a_power_loss_may_leave(case):
    """The states of a file that POSIX allows are among those that are looked at."""
    image, act, possible = LOSSES[case]
    disk = SimulatedDisk(image)
    act(disk)
    assert possible <= contents(disk, "/f")


def test_a_file_in_a_folder_that_is_not_synced_may_be_gone():
    """Syncing a file and its folder does not make the folder findable in the one above."""
    disk = SimulatedDisk()
    disk.make_folder("/d")
    written(disk, "/d/f", b"data", sync=True)
    disk.sync_folder("/d")
    assert {*map(frozenset, power_loss.states(disk))} == {frozenset(), frozenset({"/d", "/d/f"})}


def test_a_rename_is_lost_done_or_half_done():
    """Until the folder is synced, both names may be there."""
    disk = SimulatedDisk({"/new": b"old", "/tmp": b"new"})
    disk.replace("/tmp", "/new")
    left = [{"/new": b"old", "/tmp": b"new"}, {"/new": b"new", "/tmp": b"new"}, {"/new": b"new"}]
    assert [dict(image) for image in power_loss.states(disk)] == left
    disk.sync_folder("/")
    assert [dict(image) for image in power_loss.states(disk)] == left[-1:]


def test_pages_that_a_failed_sync_lost_are_never_written():
    """A sync that fails and leaves the pages clean is followed by one that succeeds and writes only what came after."""
    disk = SimulatedDisk({"/f": b"old"})
    descriptor = written(disk, "/f", b"lost")
    disk.lose_pages(descriptor)
    disk.write(descriptor, b"new")
    disk.sync(descriptor)
    assert disk.read(descriptor, 0) == b"oldlostnew"
    assert contents(disk, "/f") == {b"old" + bytes(4) + b"new"}


@pytest.mark.parametrize(
    ("act", "changes"),
    [
        (lambda disk: disk.list("/"), 0),
        (lambda disk: disk.read(disk.open("/f", os.O_RDONLY), 0), 0),
        (lambda disk: written(disk, "/new", b"x", sync=True), 3),
        (lambda disk: disk.replace("/f", "/g"), 1),
    ],
)
def test_each_call_that_changes_something_is_a_crash_point(act, changes):
    seen = []
    disk = SimulatedDisk({"/f": b""}, seen.append)
    act(disk)
    assert len(seen) == disk.calls == changes
