"""Processes that can be stood anywhere: runs of a generator, told apart by what they were answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

Process = Callable[[], Generator[Any, Any, Any]]
"""What makes a protocol anew: it is started again wherever an earlier run cannot be continued."""


@dataclass(frozen=True, slots=True)
class World:
    """What processes share.

    files: bytes and the time of storing by path, one object for equal ones.
    holder: the process that has the lock. facts: what was acknowledged to somebody.
    late: steps given up by who asked for them, still on their way to the storage.
    """

    files: Files
    holder: str = ""
    clock: float = 0.0
    facts: frozenset[Hashable] = frozenset()
    late: tuple[Any, ...] = ()


class Files(dict[str, tuple[bytes, float]]):
    """Files that are never changed in place, hashed by identity: `Files.of` returns one object for equal contents."""

    __slots__ = ("__weakref__",)
    _all: ClassVar[WeakValueDictionary[frozenset[tuple[str, tuple[bytes, float]]], Files]] = (
        WeakValueDictionary()
    )
    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other

    @classmethod
    def of(cls, contents):
        return cls._all.setdefault(frozenset(contents.items()), cls(contents))

    def after(self, path, data, clock):
        """Return the files with one stored, or deleted."""
        contents = dict(self)
        if data is None:
            contents.pop(path, None)
        else:
            contents[path] = data, clock
        return Files.of(contents)


class Answer(NamedTuple):
    """What a step returned, or the error that it raised, which is made anew for each run that gets it."""

    value: Any = None
    error: type[Exception] | None = None

    @property
    def key(self):
        return self.error, frozenset(self.value) if isinstance(self.value, set) else self.value


class Acknowledge(NamedTuple):
    """Make a fact known, at once with the step before."""

    fact: Hashable


@dataclass(frozen=True)
class Expect:
    """Assert something of the world, at once with the step before; it must not change anything."""

    holds: Callable[[World], None] = field(compare=False)


class Began(NamedTuple):
    """Ask for the facts known when the next step is taken."""


class Rest(NamedTuple):
    """Stand between two operations, where time may pass; answered by the time when the next step is taken."""


class Point:
    """A process after certain answers: the step that it wants next, or its end."""

    __slots__ = ("_answer", "_live", "_parent", "_points", "_process", "failure", "result", "step")

    def __init__(self, process, parent=None, answer=None):
        self._process = process
        self._parent = parent
        self._answer = answer
        self._points = {}
        self._live = parent._generator() if parent else process()
        self.step, self.result, self.failure = _advance(self._live, answer)

    @property
    def is_over(self):
        return self.step is None

    @property
    def rests(self):
        return self._parent is None or isinstance(self.step, Rest)

    def after(self, answer):
        """Return where the process stands once its step is answered."""
        point = self._points.get(answer.key)
        if point is None:
            point = self._points[answer.key] = Point(self._process, self, answer)
        return point

    def discard(self):
        """Stop the runs that are still open, without letting their clean-up reach a storage."""
        stack = [self]
        while stack:
            point = stack.pop()
            stack += point._points.values()
            if point._live is not None:
                stop(point._live)
                point._live = None

    def _generator(self):
        """Return a run that stands here: the one that led here, or another with the same answers."""
        live = self._live
        if live is not None:
            self._live = None
            return live
        answers = []
        point = self
        while point._parent is not None:
            answers.append(point)
            point = point._parent
        run = self._process()
        step, _, _ = _advance(run, None)
        for point in reversed(answers):
            step, _, _ = _advance(run, point._answer)
            assert step == point.step, (
                f"not a function of its answers: {step} and then {point.step}"
            )
        return run


def _advance(run, answer):
    """Return the next step of a run, or None with what it returned or raised."""
    try:
        if answer is not None and answer.error is not None:
            step = run.throw(answer.error(*([] if answer.value is None else [answer.value])))
        else:
            value = answer.value if answer is not None else None
            step = run.send(set(value) if isinstance(value, (set, frozenset)) else value)
    except StopIteration as end:
        return None, end.value, None
    except Exception as error:
        return None, None, error
    if hasattr(step, "chunks"):  # read once, in every run
        step = replace(step, chunks=(b"".join(step.chunks),))
    return step, None, None


def stop(run):
    """End a run for good, whatever it yields on its way out."""
    with suppress(BaseException):
        while True:
            run.throw(GeneratorExit)


def shown(step):
    """Return a step in a few words: bytes as the ids of the items in them."""
    if isinstance(step, bytes):
        ids = re.findall(rb'"id":"([^"]*)"', step)
        return f"{len(step)} bytes" + (f" of {b' '.join(ids).decode()}" if ids else "")
    if isinstance(step, (tuple, list)) and not hasattr(step, "_fields"):
        return " ".join(map(shown, step))
    if isinstance(step, (set, frozenset)):
        return "{" + ", ".join(sorted(map(str, step))) + "}"
    if slots := getattr(type(step), "__slots__", None):
        return f"{type(step).__name__}({', '.join(shown(getattr(step, slot)) for slot in slots)})"
    return re.sub(r"0{10,}", "", str(step))
