"""Steps of reading and writing a session's files; a storage performs them one by one.

A protocol is a generator that yields steps and is sent the answer to each. It does no I/O, so that
a test can stop it between any two steps, let others go on, or lose an answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

_Result = TypeVar("_Result")


class TakenError(Exception):
    """A file was to be created under a name that is taken."""


@dataclass(frozen=True, slots=True)
class List:
    """Answered by the names of the files in a folder; by none if there is no such folder."""

    folder: str


@dataclass(frozen=True, slots=True)
class Read:
    """Answered by a file's bytes from `start` on. Raises FileNotFoundError."""

    path: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class ReadParts:
    """Answered by parts of files, as far as each goes, asked for together.

    Raises FileNotFoundError.

    Attributes:
        parts: Of each its path, its first byte and its number of bytes.
    """

    parts: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Lock:
    """Keep other writers out until the protocol ends, where commits are appended.

    Attributes:
        create: Make the session's folder if it is missing, instead of raising ConflictError.
    """

    create: bool


@dataclass(frozen=True, slots=True)
class Append:
    """Add `data` at byte `size`, the end of the file, with one write; a size of 0 makes the file.

    Attributes:
        since: As for `Sync`; the bytes from there to `size` are durable before the new ones are
            written.
        last: The number and the checksum of the last record in `data`, for `ReadNote`; None if `data`
            ends no commit.
    """

    path: str
    size: int
    data: bytes
    since: int = 0
    last: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ReadNote:
    """Answered by the number and checksum of the last record noted as durable, or by None.

    It is noted where commits are appended.

    The note may be older than the log. It is never newer than the log that is read after it.
    """


@dataclass(frozen=True, slots=True)
class Sync:
    """Make a file durable, even one of another process, where commits are appended.

    Raises FileNotFoundError.

    Attributes:
        since: The byte at which the last commit begins. If a sync of it failed, no later sync
            writes it, so its bytes are written again.
    """

    path: str
    since: int


@dataclass(frozen=True, slots=True)
class DeleteLeftovers:
    """Delete half-written files of a folder, and make earlier deletions durable.

    Only storage that appends needs it.

    A process killed while it wrote or deleted may have left both.
    """

    folder: str


@dataclass(frozen=True, slots=True)
class Create:
    """Store a file if nothing is stored under its path. Raises TakenError."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Write:
    """Store a whole file and replace the one at its path: all of it or nothing."""

    path: str
    chunks: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Draft:
    """Prepare a whole file out of view; answered by the draft, which is published or discarded."""

    path: str
    chunks: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Publish:
    """Store a draft under its path and replace the file there: all of it or nothing."""

    path: str
    draft: Any


@dataclass(frozen=True, slots=True)
class Discard:
    """Leave nothing of a draft."""

    path: str
    draft: Any


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut a file to its first `size` bytes; a file that would be empty may go."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a file if it is there: at once, or when no slow reader can still need it."""

    path: str
    at_once: bool = False


Step: TypeAlias = (
    List
    | Read
    | ReadParts
    | Lock
    | Append
    | ReadNote
    | Sync
    | DeleteLeftovers
    | Create
    | Write
    | Draft
    | Publish
    | Discard
    | Truncate
    | Delete
)
"""A step that writes is durable before its answer."""

Steps: TypeAlias = Generator[Step, Any, _Result]


class Performer(Protocol):
    """Performs steps, in the order given."""

    def perform(self, step: Step) -> Any:
        """Do a step and return its answer. Raises the errors that the step names, and OSError."""

    def unlock(self) -> None:
        """Let other writers in again."""


def run(steps: Steps[_Result], performer: Performer) -> _Result:
    """Perform a protocol's steps and return its result.

    Errors of a step are thrown into the protocol. At the end, drafts that were not published are
    discarded, and other writers are let in.
    """
    locked = False
    drafts: list[Discard] = []
    try:
        step = next(steps)
        while True:
            try:
                answer = performer.perform(step)
            except Exception as error:
                step = steps.throw(error)
                continue
            match step:
                case Lock():
                    locked = True
                case Draft(path):
                    drafts.append(Discard(path, answer))
                case Publish(_, draft):
                    drafts = [each for each in drafts if each.draft is not draft]
            step = steps.send(answer)
    except StopIteration as end:
        result: _Result = end.value
        return result
    finally:
        try:
            for each in drafts:
                performer.perform(each)
        finally:
            if locked:
                performer.unlock()
