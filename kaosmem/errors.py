"""The errors that kaosmem raises.

    KaosmemError
    ├── InvalidNameError (ValueError)            a session id, namespace, section name or item id
    ├── InvalidContentError (ValueError)         text or metadata that could not be stored faithfully
    ├── InvalidBudgetError (ValueError)          a budget or reserve that is not a whole number of tokens
    ├── InvalidFilterError (ValueError)          a filter on metadata that means nothing
    ├── InvalidArgumentError (ValueError)        an argument of the wrong kind, or out of its range
    ├── InvalidTransitionError (ValueError)      a task can't get from its status to that one
    ├── UnknownSectionError (KeyError)
    ├── UnknownItemError (KeyError)
    ├── UnknownSessionError (KeyError)           nothing is stored under this id
    ├── UnknownEncodingError (ValueError)        no token counter of that name
    ├── UnknownFormatError (ValueError)          no format of that name
    ├── UnknownModelError (ValueError)           no model of that name whose context length is known
    ├── UnknownAssemblerError (ValueError)       nothing to compare of that name
    ├── UnknownTaskError (KeyError)              no board, or no task on it, of that id
    ├── UnknownBlobError (FileNotFoundError)     no bytes are stored under this key
    ├── UnknownScopeError (LookupError)          no agent's scope has been entered
    ├── DuplicateItemError (ValueError)
    ├── DuplicateTaskError (ValueError)
    ├── SectionFullError (OverflowError)         nothing may be evicted to make room
    ├── ItemTooLargeError (ValueError)           larger than its whole section
    ├── WindowTooSmallError (ValueError)         the budget cannot hold what must be shown
    ├── ReadOnlyError (PermissionError)
    ├── NotOpenedError (TypeError, AttributeError)
    ├── ConflictError (RuntimeError)             another writer has committed
    ├── ConcurrentUseError (RuntimeError)        a turn inside a turn, or a second event loop
    ├── CorruptionError (ValueError)             stored bytes differ from the bytes written
    ├── UnsupportedVersionError (ValueError)     stored by a newer kaosmem
    ├── UnusableDumpError (ValueError)           a stored index of another kind or version, or damaged
    ├── DurabilityError (OSError)                storage could not be written durably, or read
    ├── SummaryError (RuntimeError)              a model made no summary that could be taken
    ├── ForgetIncompleteError (RuntimeError)     a source holds a forgotten item, and can't forget it
    ├── SourceUnavailableError (RuntimeError)    a source failed or is late, and nothing else will do
    ├── NoCondensationError (RuntimeError)       a conversation has to be shortened, and can't be
    ├── NothingToIngestError (FileNotFoundError)
    ├── LocalServerError (RuntimeError)          a server of the devstack did not start, or stopped
    ├── TestIsolationError (RuntimeError)
    └── MissingExtraError (ImportError)

Each is also the builtin that a caller would catch, and its message names the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class KaosmemError(Exception):
    """Base of every error that kaosmem raises on purpose."""

    # KeyError would show the repr of the message, OSError and ImportError format their own.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidNameError(KaosmemError, ValueError):
    """A name or id can't be stored safely on every filesystem."""


class InvalidContentError(KaosmemError, ValueError):
    """Text or metadata could not be stored and read back unchanged."""


class InvalidBudgetError(KaosmemError, ValueError):
    """A budget is not a whole number of tokens from 0 up."""


class InvalidFilterError(KaosmemError, ValueError):
    """A filter on metadata has an unknown form."""


class InvalidArgumentError(KaosmemError, ValueError):
    """An argument has the wrong type, or a number is out of its range."""


class InvalidTransitionError(KaosmemError, ValueError):
    """The chart of states does not allow this change of a task."""


class UnknownSectionError(KaosmemError, KeyError):
    """No section has this name."""


class UnknownItemError(KaosmemError, KeyError):
    """No item has this id."""


class UnknownSessionError(KaosmemError, KeyError):
    """No session with this id is stored."""


class UnknownEncodingError(KaosmemError, ValueError):
    """No token counter has this name."""


class UnknownFormatError(KaosmemError, ValueError):
    """No format has this name."""


class UnknownModelError(KaosmemError, ValueError):
    """The context length of this model is not known."""


class UnknownAssemblerError(KaosmemError, ValueError):
    """No assembler has this name."""


class UnknownTaskError(KaosmemError, KeyError):
    """No board has this key, or no task of the board has this id."""


class UnknownBlobError(KaosmemError, FileNotFoundError):
    """No bytes are stored under this key, or they have expired."""


class UnknownScopeError(KaosmemError, LookupError):
    """The code runs outside `agent_scope`."""


class DuplicateItemError(KaosmemError, ValueError):
    """A live item already has this id."""


class DuplicateTaskError(KaosmemError, ValueError):
    """A board already has this key, or one of its tasks has this id."""


class SectionFullError(KaosmemError, OverflowError):
    """The section has no room, and nothing in it may be evicted for this item."""


class ItemTooLargeError(KaosmemError, ValueError):
    """The item alone is larger than its section's budget."""


class WindowTooSmallError(KaosmemError, ValueError):
    """The required items do not fit into the window.

    need: tokens by section, with "(frame)" for tokens of no section; empty if the sums are not known. For a history
        that is
        compacted: the size of its protected messages, in the unit of the limit.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("findings", "The customer wants to leave by March.", pinned=True)
    >>> try:
    ...     context = await memory.assemble_context("When?", budget=5)
    ... except WindowTooSmallError as error:
    ...     print(error.need["findings"])
    13
    """

    def __init__(self, message: str, *, need: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.need: dict[str, int] = dict(need or {})


class ReadOnlyError(KaosmemError, PermissionError):
    """The session was opened read-only."""


class NotOpenedError(KaosmemError, TypeError, AttributeError):
    """A session was used before `async with` opened it."""


class ConflictError(KaosmemError, RuntimeError):
    """Another writer changed the same item or section since the session was read.

    versions: for each item that both changed, our version and theirs; None for a removed item.
    """

    def __init__(self, message: str, *, versions: Iterable[tuple[object, object]] = ()) -> None:
        super().__init__(message)
        self.versions = tuple(versions)


class ConcurrentUseError(KaosmemError, RuntimeError):
    """One instance was used where a call would wait for ever: in a turn inside a turn, or in two event loops."""


class CorruptionError(KaosmemError, ValueError):
    """Stored bytes differ from the written ones.

    file, byte, seq: the place, as far as it is known.
    """

    def __init__(
        self, message: str, *, file: str | None = None, byte: int | None = None, seq: int | None = None
    ) -> None:
        super().__init__(message)
        self.file, self.byte, self.seq = file, byte, seq


class UnsupportedVersionError(KaosmemError, ValueError):
    """The session was written by a newer version of kaosmem."""


class UnusableDumpError(KaosmemError, ValueError):
    """A stored index belongs to another ranker, version or analysis, or is damaged. Build it again."""


class DurabilityError(KaosmemError, OSError):
    """The storage failed: a write is not durable, so it is not acknowledged, or stored files can't be read."""


class SummaryError(KaosmemError, RuntimeError):
    """A model failed, or none of its answers was a summary. Nothing has changed. The cause is the model's error.

    reason: the type of the model's error, or a few words. It quotes nothing of a conversation.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ForgetIncompleteError(KaosmemError, RuntimeError):
    """The items are erased, except from sources that cannot delete them.

    sources: the names of these sources. receipt: the ErasureReceipt of everything that was erased.
    """

    def __init__(self, message: str, *, sources: Iterable[str] = (), receipt: Any = None) -> None:
        super().__init__(message)
        self.sources = tuple(sources)
        self.receipt = receipt


class SourceUnavailableError(KaosmemError, RuntimeError):
    """A source raised an error, which is the cause of this one, or gave no answer in time.

    source: its name. late: whether it exceeded its time.
    """

    def __init__(self, message: str, *, source: str = "", late: bool = False) -> None:
        super().__init__(message)
        self.source, self.late = source, late


class NoCondensationError(KaosmemError, RuntimeError):
    """A conversation cannot be shortened: everything is protected, or no summary could be made or helps."""


class NothingToIngestError(KaosmemError, FileNotFoundError):
    """A path does not exist, or holds no readable file."""


class LocalServerError(KaosmemError, RuntimeError):
    """A server of the devstack did not start, or stopped."""


class TestIsolationError(KaosmemError, RuntimeError):
    """A test-mode memory was used from a second event loop while the first is open."""

    __test__ = False  # not a test case, whatever pytest makes of its name


class MissingExtraError(KaosmemError, ImportError):
    """A feature needs an extra that is not installed."""
