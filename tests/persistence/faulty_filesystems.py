"""Filesystems that are wrong in one way each, as real ones are."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from tests.persistence.worlds import Bucket


class OverwritesCreations(Bucket):
    """Ignores that a file is only to be created."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value)


class CreatesTwice(Bucket):
    """Looks whether a file is there and then stores it, so that two who look at once both do."""

    def __init__(self) -> None:
        super().__init__()
        self.both = threading.Barrier(2)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        if mode == "create":
            if self.inner.isfile(path):
                raise FileExistsError(path)
            if "probe" not in path:
                with suppress(threading.BrokenBarrierError):
                    self.both.wait(0.01)
                self.both.reset()
        super().pipe_file(path, value)


class ListsFromMemory(Bucket):
    """Lists a folder as it was when it was first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: dict[str, Any] = {}

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if path not in self.listed:
            self.listed[path] = self.inner.ls(path, detail)
        return self.listed[path]


class ListsByPrefix(Bucket):
    """Takes a folder for whatever begins like it."""

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        prefix = f"/{path.strip('/')}"
        infos = [self.inner.info(name) for name in self.inner.store if name.startswith(prefix)]
        return infos if infos else self.inner.ls(path, detail)


class ListsWithoutSizes(Bucket):
    """Does not say how long files are."""

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        return [{**info, "size": None} for info in self.inner.ls(path, True)]


class ForgetsEmptyFiles(Bucket):
    """Takes storing nothing for nothing to store."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        if value:
            super().pipe_file(path, value, mode)


class AppendsToFiles(Bucket):
    """Adds to a file that is to be replaced."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        before = self.inner.cat_file(path) if mode != "create" and self.inner.isfile(path) else b""
        super().pipe_file(path, before + value, mode)


class ReadsOneBlock(Bucket):
    """Answers with as much of a file as fits a block."""

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        return super().cat_file(path, start, end)[: 64 * 1024]


class ReadsAsText(Bucket):
    """Gives lines the ends that it likes."""

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        return super().cat_file(path, start, end).replace(b"\r", b"\n")


class ReadsWhatIsMissing(Bucket):
    """Reads a missing file as empty."""

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        return super().cat_file(path, start, end) if self.inner.isfile(path) else b""


class ReadsTheOneBefore(Bucket):
    """Reads a file as it was before it was last replaced, the first time that it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, bytes] = {}

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        before = self.inner.cat_file(path) if self.inner.isfile(path) else None
        super().pipe_file(path, value, mode)
        if before is not None:
            self.before[path] = before

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        current = super().cat_file(path, start, end)
        return self.before.pop(path, current)


class KeepsWhatIsDeleted(Bucket):
    """Says that a file is deleted."""

    def rm_file(self, path: str) -> None:
        if not self.inner.isfile(path):
            raise FileNotFoundError(path)


class DeletesByPrefix(Bucket):
    """Takes a folder that is to be deleted for whatever begins like it."""

    def rm(self, path: str, recursive: bool = False, **options: Any) -> None:
        for name in [name for name in self.inner.store if name.startswith(f"/{path.strip('/')}")]:
            self.inner.rm_file(name)


class DatesFilesWrongly(Bucket):
    """Says that every file is from 1970."""

    def modified(self, path: str) -> Any:
        super().modified(path)
        return 0.0


FAULTY = (
    OverwritesCreations,
    CreatesTwice,
    ListsFromMemory,
    ListsByPrefix,
    ListsWithoutSizes,
    ForgetsEmptyFiles,
    AppendsToFiles,
    ReadsOneBlock,
    ReadsAsText,
    ReadsWhatIsMissing,
    ReadsTheOneBefore,
    KeepsWhatIsDeleted,
    DeletesByPrefix,
    DatesFilesWrongly,
)


class IgnoresCase(Bucket):
    """Stores names that differ in case alone as one, as Windows does: no fault, as the log has no such names."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path.lower(), value, mode)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        return super().cat_file(path.lower(), start, end)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        return super().ls(path.lower(), detail)

    def rm_file(self, path: str) -> None:
        super().rm_file(path.lower())

    def modified(self, path: str) -> Any:
        return super().modified(path.lower())
