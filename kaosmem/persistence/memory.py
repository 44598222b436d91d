"""A filesystem in memory that is not shared."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.memory import MemoryFileSystem


class IsolatedMemoryFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A MemoryFileSystem with files of its own: `memory://` elsewhere is one store per process."""

    cachable = False
    protocol = "memory"

    def __init__(self, **storage_options: Any) -> None:
        super().__init__(**storage_options)
        self.store: dict[str, Any] = {}
        self.pseudo_dirs: list[str] = [""]

    # fsspec compares filesystems by their arguments, which are the same for all of these.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)
