"""A disk whose calls fail: once, or from some call on until it is healed."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from functools import partial

CHANGING = frozenset(
    "open write truncate sync make_folder sync_folder remove_folder replace unlink".split()
)
CALLS = CHANGING | frozenset("close read size list is_folder is_link is_at lock age_s".split())
FILLING = frozenset("open write make_folder replace".split())


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which a disk fails.

    number: the errno. at: which call of those named in `calls` fails first, from 0 on. lasting: and
        all after it.
    short: a write that would fail writes half of its bytes instead; the next one fails, unless
        `number` is 0.
    late: the call does its work and fails then. loses_pages: a sync that fails takes the pages for
        clean, so that
    they are lost with the page cache; otherwise they stay dirty. A lasting fault leaves them dirty.
    """

    name: str
    number: int
    calls: frozenset[str] = CALLS
    at: int = 0
    lasting: bool = False
    short: bool = False
    late: bool = False
    loses_pages: bool = False


ONCE = (
    Fault("EIO", errno.EIO),
    Fault("ENOSPC after half a write", errno.ENOSPC, frozenset({"write"}), short=True),
    Fault("short write", 0, frozenset({"write"}), short=True),
    Fault("EIO after the work", errno.EIO, CHANGING - {"open"}, late=True),
    Fault("EIO, pages lost", errno.EIO, frozenset({"sync"}), loses_pages=True),
)
LASTING = (
    Fault("EIO on all calls", errno.EIO, lasting=True),
    Fault("EIO on changes", errno.EIO, CHANGING, lasting=True),
    Fault("ENOSPC", errno.ENOSPC, FILLING, lasting=True),
    Fault("ENOSPC after half a write", errno.ENOSPC, FILLING, lasting=True, short=True),
    Fault("EIO on syncs", errno.EIO, frozenset({"sync", "sync_folder"}), lasting=True),
)
"""What fails at every call of each scenario. `unlock` is left out: it can't fail on Linux."""


class FailingDisk:
    """A simulated disk that has one fault once it is broken, and until it is healed.

    hits: how many calls have failed. seen: how many calls of the fault's kind there were meanwhile.
    """

    def __init__(self, disk, fault):
        self.disk = disk
        self.fault = fault
        self.seen = self.hits = 0
        self._is_broken = False

    def break_down(self):
        """Begin to count the calls that the fault is about."""
        self._is_broken = True

    def heal(self):
        """Let all calls succeed from now on."""
        self._is_broken = False

    def __getattr__(self, name):
        return partial(self._call, name, getattr(self.disk, name))

    def _call(self, name, call, *given):
        fault = self.fault
        if not self._is_broken or name not in fault.calls or not self._is_due(name, given):
            return call(*given)
        self.hits += 1
        if fault.short and name == "write" and self.hits == 1:
            if fault.number and not fault.lasting:
                self.seen -= 1  # the next write is the one that fails
            return call(given[0], given[1][: (len(given[1]) + 1) // 2], *given[2:])
        if fault.late or name == "close":  # a descriptor is gone even where closing it fails
            call(*given)
        if fault.loses_pages:
            self.disk.lose_pages(given[0])
        raise OSError(fault.number, os.strerror(fault.number), str(given[0]))

    def _is_due(self, name, given):
        if name == "open" and self.fault.calls is FILLING and not given[1] & os.O_CREAT:
            return False
        self.seen += 1
        return self.seen > self.fault.at and (self.fault.lasting or self.seen == self.fault.at + 1)
