"""The session log's protocols with other steps than they ask for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from kaosmem.persistence import log
from kaosmem.persistence.layout import LOG, SNAP
from kaosmem.persistence.steps import Delete, List, Publish, Write

Patch = Callable[[pytest.MonkeyPatch], None]
Run = Generator[Any, Any, Any]


def rewriting(protocol: str, how: Callable[[Run], Run]) -> Patch:
    """Take other steps in a protocol, which the session log finds under this name."""
    original = getattr(log, protocol)

    def put(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(log, protocol, lambda *given, **named: how(original(*given, **named)))

    return put


def last(kind: type, folder: str) -> Callable[[Run], Run]:
    """Take steps of a kind in a folder after all others."""

    def how(run: Run) -> Run:
        late: list[Any] = []

        def instead(step: Any) -> Run:
            if isinstance(step, kind) and step.path.startswith(folder):
                late.append(step)
                return None
            return (yield step)

        result = yield from rewritten(run, instead)
        yield from late
        return result

    return how


def without(kind: type, folder: str) -> Callable[[Run], Run]:
    """Leave out steps of a kind in a folder."""

    def instead(step: Any) -> Run:
        return None if isinstance(step, kind) and step.path.startswith(folder) else (yield step)

    return lambda run: rewritten(run, instead)


def log_deleted_first(run: Run) -> Run:
    """Delete the log before the snapshot that makes it unneeded is stored."""

    def instead(step: Any) -> Run:
        if isinstance(step, Publish | Write) and step.path.startswith(SNAP):
            names = yield List(LOG)
            yield from (Delete(f"{LOG}/{name}") for name in names)
        return (yield step)

    return rewritten(run, instead)


def rewritten(run: Run, instead: Callable[[Any], Run]) -> Run:
    """Take for each step of a protocol what `instead` gives, which returns the answer to it."""
    take, given = run.send, None
    while True:
        try:
            step = take(given)
        except StopIteration as end:
            return end.value
        try:
            take, given = run.send, (yield from instead(step))
        except Exception as error:
            take, given = run.throw, error
