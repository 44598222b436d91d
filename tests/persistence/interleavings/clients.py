"""Real code as a process of the model checker: run until it asks its storage something new, and then again.

Code that calls a storage cannot be stopped in the middle and copied, but what it does is a function of what it was
answered: it is run anew from its beginning with one more answer each time.
"""

from typing import TypeVar

from kaosmem.persistence.layout import LOG
from kaosmem.persistence.steps import Create, Delete, Draft, List, Read, Write
from kaosmem.persistence.storage.objects import ObjectStorage
from tests.persistence.interleavings.runs import Answer
from tests.persistence.interleavings.simulations import Age, Unlock

_Result = TypeVar("_Result")


class Calls:
    """Calls to a storage, answered as far as answers are known; the first that has none stops the caller."""

    def __init__(self):
        self._answers = []
        self._made = 0
        self._is_stopped = False

    def carry_out(self, operation):
        """Yield the calls of an operation, and return what it returns.

        It has to do the same when run again.
        """
        self._answers = []
        while True:
            self._made = 0
            self._is_stopped = False
            try:
                return operation()
            except _Unanswered as unanswered:
                call = unanswered.args[0]
            try:
                self._answers.append(Answer((yield call)))
            except Exception as error:
                self._answers.append(Answer(error.args[0], type(error)))

    def __call__(self, call):
        if self._is_stopped:  # on its way out
            return None
        if self._made == len(self._answers):
            self._is_stopped = True
            raise _Unanswered(call)
        answer = self._answers[self._made]
        self._made += 1
        if isinstance(call, Draft):
            b"".join(call.chunks)  # a storage reads them, and its caller may count on that
        if answer.error is not None:
            raise answer.error(answer.value)
        return set(answer.value) if isinstance(answer.value, (set, frozenset)) else answer.value


class _Unanswered(BaseException):
    """A call that has no answer yet."""


class DiskClient:
    """A storage whose every step is a call, as a simulated disk does them."""

    appends = True

    def __init__(self, calls):
        self.perform = calls

    def unlock(self):
        self.perform(Unlock())

    def foreign(self): ...

    def close(self): ...


def object_client(calls, storage=ObjectStorage):
    """Return an `ObjectStorage` whose every request is a call."""
    return storage(ObjectFiles(calls), "bucket/s", clock=lambda: 0.0)


class ObjectFiles:
    """A filesystem of objects as `ObjectStorage` uses it."""

    async_impl = True  # it stores in its own way: if absent where it is asked to

    def __init__(self, calls):
        self._call = calls

    def invalidate_cache(self, path=None): ...

    def pipe_file(self, path, value, mode="overwrite"):
        if not _is_probe(path):
            self._call(
                Create(_inner(path), value) if mode == "create" else Write(_inner(path), (value,))
            )

    def cat_file(self, path):
        return b"1" if _is_probe(path) else self._call(Read(_inner(path)))

    def ls(self, path, detail=True):
        if path == "bucket/s":
            return []
        return [
            {"name": f"{path}/{name}", "type": "file", "size": 1}
            for name in sorted(self._call(List(_inner(path))))
        ]

    def modified(self, path):
        return -self._call(Age(_inner(path)))

    def rm_file(self, path):
        if not _is_probe(path):
            self._call(Delete(_inner(path), True))

    def rm(self, path, recursive=False): ...


def _is_probe(path):
    """Return whether a file is stored to find out whether two can be stored under one name; here, one can."""
    return f"/{LOG}/.probe-" in path


def _inner(path):
    return path.removeprefix("bucket/s/")
