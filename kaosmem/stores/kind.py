"""The base of the kinds of stores: a class with all methods of a kind is one, subclass or not."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any


class StoreKind(metaclass=ABCMeta):  # noqa: B024 - the kinds have the abstract methods
    """A kind of store, such as `HistoryProvider`.

    A store of another library is taken too if it has every public method of the kind.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        """Return whether a class has all public methods of a kind of store."""
        if StoreKind not in cls.__bases__:
            return NotImplemented
        names = [name for name in vars(cls) if not name.startswith("_")]
        if all(callable(getattr(other, name, None)) for name in names):
            return True
        return NotImplemented
