"""Processes that take turns at each call to a disk or network, in an order that one seed decides."""

from __future__ import annotations

import asyncio
import threading

_local = threading.local()

STICKINESS = 0.7
"""How likely the same process goes on.

Without it, hardly any operation would meet another half done.
"""


class KilledError(BaseException):
    """The process is no more, and does not clean up."""


class Process(threading.Thread):
    """One simulated process: a thread that runs while it has the turn.

    calls: to the disk or network, in the present operation. waits: until this is so. descriptors:
        open files.
    """

    def __init__(self, name, main):
        super().__init__(daemon=True)
        self.name = name
        self.main = main
        self.turn = threading.Semaphore(0)
        self.schedule: Schedule
        self.calls = 0
        self.waits = None
        self.is_killed = self.is_over = False
        self.descriptors = set()
        self.state = {}

    def run(self):
        self.turn.acquire()
        _local.process = self
        try:
            if not self.is_killed:
                with asyncio.Runner() as runner:
                    runner.get_loop().set_exception_handler(lambda *_: None)
                    runner.run(self.main(self))
        except KilledError:
            pass
        except BaseException as error:
            self.schedule.fail(error)
        finally:
            _local.process = None
            self.schedule.leave(self)


class Schedule:
    """Lets one process at a time go on.

    steps: calls so far, of all processes. each_step: called before each, in the thread of the
        process.
    """

    def __init__(self, rng, each_step):
        self.steps = 0
        self.failure = None
        self._rng = rng
        self._each_step = each_step
        self._processes = []
        self._main = threading.Semaphore(0)
        self._request = None

    def run(self, processes):
        """Run processes to their ends. Raises the first failure of any."""
        self._processes = processes
        for process in processes:
            process.schedule = self
            process.start()
        self._hand_over(None)
        while True:
            self._main.acquire()
            if self._request is None:
                break
            (process, work), self._request = self._request, None
            try:
                work()
            except BaseException as error:
                self.fail(error)
            process.turn.release()
        for process in processes:
            process.join()
        if self.failure is not None:
            raise self.failure

    def step(self, process):
        """Count a call of a process, and let any process go on, before the call takes effect."""
        self.steps += 1
        process.calls += 1
        self._each_step(process)
        self._yield(process)

    def wait(self, process, until):
        """Let others go on until something is so."""
        process.waits = until
        while not until():
            self._yield(process)
        process.waits = None

    def apart(self, process, work):
        """Do something in the main thread while all processes stand still."""
        self._request = process, work
        self._main.release()
        process.turn.acquire()
        if process.is_killed:
            raise KilledError

    def fail(self, error):
        """End all processes, and raise an error at the end."""
        self.failure = self.failure or error
        self.kill_all()

    def kill_all(self):
        """Kill all processes."""
        for process in self._processes:
            process.is_killed = True

    @property
    def living(self):
        """The processes that have neither ended nor been killed."""
        return [
            process for process in self._processes if not (process.is_over or process.is_killed)
        ]

    def leave(self, process):
        """Let others go on at the end of a process."""
        process.is_over = True
        self._hand_over(process)

    def _yield(self, process):
        if process.is_killed:
            raise KilledError
        following = self._choose(process)
        if following is not process:
            following.turn.release()
            process.turn.acquire()
        if process.is_killed:
            raise KilledError

    def _choose(self, process):
        ready = [each for each in self._processes if not each.is_over and self._is_ready(each)]
        if not ready:
            self.fail(AssertionError("all processes wait for each other"))
            return process
        if process in ready and (len(ready) == 1 or self._rng.random() < STICKINESS):
            return process
        return self._rng.choice(ready)

    @staticmethod
    def _is_ready(process):
        return process.is_killed or process.waits is None or process.waits()

    def _hand_over(self, process):
        left = [each for each in self._processes if not each.is_over]
        if not left:
            self._main.release()
            return
        ready = [each for each in left if self._is_ready(each)]
        if not ready:
            self.fail(AssertionError("all processes wait for each other"))
            ready = left
        self._rng.choice(ready).turn.release()


def current():
    """Return the process that runs in this thread, None in the main thread."""
    return getattr(_local, "process", None)
