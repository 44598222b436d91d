"""The errors that kaosmem raises.

    KaosmemError
    ├── InvalidArgumentError (ValueError)        an argument that cannot be accepted
    │   └── InvalidNameError                     a session id, namespace, section name or item id
    ├── NotFoundError (KeyError)                 no section, item, session, task or board of a name
    ├── MissingFileError (FileNotFoundError)     no file at a path, or no bytes under a key
    ├── DuplicateError (ValueError)              an item, board or task of that id exists
    ├── SectionFullError (OverflowError)         the section has no room for the item
    ├── WindowTooSmallError (ValueError)         the budget cannot hold the required items
    ├── ReadOnlyError (PermissionError)          the session was opened read-only, or is closed
    ├── NotOpenedError (TypeError, AttributeError)
    ├── ConcurrentUseError (RuntimeError)        a turn in a turn, another event loop, or a copy
    ├── ConflictError (RuntimeError)             another writer has committed
    ├── CorruptionError (ValueError)             stored bytes differ from the bytes written
    ├── UnsupportedVersionError (ValueError)     stored by a newer kaosmem
    ├── DurabilityError (OSError)                storage could not be written durably, or read
    ├── SourceError (RuntimeError)               a source failed, is late, or cannot forget
    ├── SummaryError (RuntimeError)              a model made no usable summary
    ├── NoCondensationError (RuntimeError)       a conversation cannot be shortened
    └── MissingExtraError (ImportError)          a feature needs an extra that is not installed

Each error is also the builtin that a caller would catch. Its message names the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class KaosmemError(Exception):
    """Base of every error that kaosmem raises on purpose."""

    # KeyError would show the repr of the message, OSError and ImportError format their own.
    def __str__(self) -> str:
        if self.args:
            return str(self.args[0])
        return ""


class InvalidArgumentError(KaosmemError, ValueError):
    """An argument cannot be accepted: a text, budget, filter, number, format or model.

    Nothing has changed.
    """


class InvalidNameError(InvalidArgumentError):
    """A session id, namespace, section name or item id cannot be stored safely on every filesystem."""


class NotFoundError(KaosmemError, KeyError):
    """No section, item, session, task or board has this name or id."""


class MissingFileError(KaosmemError, FileNotFoundError):
    """A path holds no readable file, or a key has no bytes, or its bytes have expired."""


class DuplicateError(KaosmemError, ValueError):
    """A live item, a board or a task already has this id."""


class SectionFullError(KaosmemError, OverflowError):
    """A section has no room for an item, and its policy can free no more. Nothing has changed.

    Args:
        section: Its name.
        need: Tokens of the item, or of all items that the section must show.
        budget: Its tokens.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> memory = SessionMemory.test_mode(sections=(SectionSpec("rules", budget=20),))
    >>> try:
    ...     item = memory.add("rules", "The customer may leave at the end of a quarter. " * 3)
    ... except SectionFullError as error:
    ...     print(error.section, error.need, error.budget)
    rules 34 20
    """

    def __init__(
        self,
        message: str,
        *,
        section: str = "",
        need: int = 0,
        budget: int | None = None,
    ) -> None:
        super().__init__(message)
        self.section = section
        self.need = need
        self.budget = budget


class WindowTooSmallError(KaosmemError, ValueError):
    """The required items do not fit into the window.

    Args:
        need: Tokens by section, with "(frame)" for tokens of no section. It is empty if the sums
            are not known. For a compacted history it is the size of its protected messages, in the
            unit of the limit.

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
    """The session was opened read-only, or is closed."""


class NotOpenedError(KaosmemError, TypeError, AttributeError):
    """A session was used before `async with` opened it."""


class ConcurrentUseError(KaosmemError, RuntimeError):
    """One instance was used where a call would wait for ever, or was copied, so that two would write.

    It would wait for ever in a turn inside a turn, and in two event loops.
    """


class ConflictError(KaosmemError, RuntimeError):
    """Another writer changed the same item or section since the session was read."""


class CorruptionError(KaosmemError, ValueError):
    """Stored bytes differ from the written ones, or a stored index cannot be used.

    Args:
        file: The damaged file, None if it is not known.
        byte: Where the damage begins in the file.
        seq: The damaged record.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        byte: int | None = None,
        seq: int | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.byte = byte
        self.seq = seq


class UnsupportedVersionError(KaosmemError, ValueError):
    """The session was written by a newer version of kaosmem."""


class DurabilityError(KaosmemError, OSError):
    """The storage failed: a write is not durable, so it is not acknowledged, or stored files can't be read."""


class SourceError(KaosmemError, RuntimeError):
    """A source raised an error (the cause of this one), gave no answer in time, or cannot delete a forgotten item.

    Args:
        sources: The names of these sources.
        late: Whether a source exceeded its time.
        receipt: If a source cannot delete a forgotten item, the ErasureReceipt of everything that
            was erased.
    """

    def __init__(
        self,
        message: str,
        *,
        sources: Iterable[str] = (),
        late: bool = False,
        receipt: Any = None,
    ) -> None:
        super().__init__(message)
        self.sources = tuple(sources)
        self.late = late
        self.receipt = receipt


class SummaryError(KaosmemError, RuntimeError):
    """A model failed, or none of its answers was a summary.

    Nothing has changed. The cause is the model's error.

    Args:
        reason: The type of the model's error, or a few words. It quotes nothing of a conversation.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NoCondensationError(KaosmemError, RuntimeError):
    """A conversation cannot be shortened: everything is protected, or no summary could be made or helps."""


class MissingExtraError(KaosmemError, ImportError):
    """A feature needs an extra that is not installed."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Import packages of an extra in a block, and name the extra if one is not installed.

    Raises:
        MissingExtraError: If a package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"no package {error.name!r}; it comes with the extra {extra!r}: "
            f"pip install 'kaosmem[{extra}]'"
        ) from None
