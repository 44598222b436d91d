"""The files of a folder, with the reason for each file that is skipped unopened."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kaosmem.errors import InvalidArgumentError, MissingExtraError, MissingFileError
from kaosmem.ingest.files import (
    CANNOT_BE_READ,
    MAX_FILE_BYTES,
    Skipped,
    SourceFile,
    UnreadableError,
    unreadable_error,
)
from kaosmem.ingest.kinds import why_not_entered, why_not_opened
from kaosmem.ingest.patterns import NO_PATTERNS, Patterns
from kaosmem.names import shown_location

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Location: TypeAlias = "str | os.PathLike[str] | AbstractFileSystem"
"""A path, a URL that fsspec understands, or a filesystem, whose root is then meant."""
_Entry: TypeAlias = dict[str, Any]
"""A file or folder, as fsspec describes it."""

_SHOWN = 5
_GITIGNORE = ".gitignore"
_MAX_GITIGNORE_BYTES = 1024 * 1024

# The names in listings for a digest of the content, then for the time of its last change.
_DIGESTS = ("ETag", "etag", "e_tag", "md5Hash", "content_md5", "sha", "hex", "CRC")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created", "date_time")

_NOT_IN_SOURCE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The files that a caller wants of a folder.

    Attributes:
        include: Patterns of the files to take. Without any, all are taken.
        exclude: Patterns of the files and folders to skip.
        gitignore: Whether to skip files that a .gitignore in the folder names.
    """

    include: Patterns = NO_PATTERNS
    exclude: Patterns = NO_PATTERNS
    gitignore: bool = True


def find_files(
    path_or_fs: Location, choice: FileSelection | None = None
) -> tuple[list[SourceFile], list[Skipped]]:
    """Return the files to ingest, and the skipped files, each in order of source. None is opened.

    Hidden files and folders, and folders of dependencies or build output, are skipped as a whole.
    Links are skipped. A file that is named itself is taken, whatever the choice.

    Args:
        path_or_fs: A local file or folder, a URL that fsspec knows, or a filesystem, which is taken
            from its root.

    Raises:
        MissingFileError: If there is no such place, or it can't be read or is an archive.
        MissingExtraError: If a URL needs a driver.
    """
    from fsspec.archive import AbstractArchiveFileSystem

    named = shown_location(path_or_fs)
    fs, root = _filesystem(path_or_fs)
    if isinstance(fs, AbstractArchiveFileSystem):
        raise MissingFileError(f"{named} is an archive; unpack it, and ingest its folder")
    fs.invalidate_cache()  # an object store's filesystem would repeat the listing of the last time
    try:
        info = fs.info(root)
    except FileNotFoundError:
        raise MissingFileError(f"{named} does not exist; check the path") from None
    except Exception as error:  # a filesystem may raise errors of its own kind
        found = _trouble(error)
        raise MissingFileError(f"{named} {found.reason}: {found.detail}") from None
    listing = _Listing(fs, root, choice or FileSelection())
    if info["type"] == "directory":
        listing.walk()
    else:
        listing.take_file(posixpath.basename(root), info)
    files = sorted(listing.files, key=lambda file: file.source)
    return files, sorted(listing.skipped)


def deleted_file(path_or_fs: Location) -> SourceFile | None:
    """Return a file that is not in its folder any more, None if that cannot be told."""
    file = named_place(path_or_fs)
    folder, name = posixpath.split(file.path)
    try:
        paths = file.fs.ls(folder, detail=False)
    except Exception:  # a filesystem may raise errors of its own kind
        return None
    if name in {posixpath.basename(path.rstrip("/")) for path in paths}:
        return None
    return file


def named_place(path_or_fs: Location) -> SourceFile:
    """Return a place as if it were a file."""
    fs, root = _filesystem(path_or_fs)
    return SourceFile(posixpath.basename(root), root, 0, "", fs)


def is_deleted(fs: AbstractFileSystem, path: str) -> bool:
    """Return whether there is no such file any more, False if that cannot be told."""
    try:
        fs.info(path)
    except FileNotFoundError:
        return True
    except Exception:  # a filesystem may raise errors of its own kind
        return False
    return False


def nothing_to_ingest(path_or_fs: Location, skipped: Sequence[Skipped]) -> MissingFileError:
    """Return the error for a place of which all files are skipped."""
    reasons = [f"{each.source!r} is skipped ({each.why})" for each in skipped[:_SHOWN]]
    shown = ", ".join(reasons)
    unnamed = len(skipped) - _SHOWN
    if unnamed > 0:
        shown += f" and {unnamed:,} more"
    return MissingFileError(
        f"nothing to ingest in {shown_location(path_or_fs)}: {shown or 'it is empty'}; "
        "give a file or folder of text, source code, tables or documents"
    )


def corpus_label(path_or_fs: Location) -> str:
    """Return 8 hexadecimal digits that tell one ingested place from another, in any process."""
    return _label(*_filesystem(path_or_fs))


def _label(fs: AbstractFileSystem, root: str) -> str:
    """Return the digits that `corpus_label` says, of a path on a filesystem."""
    archive = str(getattr(fs, "path", ""))
    place = "\0".join((str(fs.protocol), archive, root.rstrip("/")))
    digest = hashlib.sha256(place.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:8]


def places_of(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Yield the label of each place that may hold a file, the widest first, and its source there.

    These are the folders above the file, and the file itself.
    """
    names = file.path.split("/")
    for depth in range(0 if names[0] else 1, len(names)):
        above = "/".join(names[:depth])
        below = "/".join(names[depth:])
        yield _label(file.fs, above), _storable(below)
    yield _label(file.fs, file.path), _storable(names[-1])


def distinct_prefix(files: Sequence[SourceFile], taken: Container[str]) -> str:
    """Return the names of folders above a place that tell its sources from those of others.

    It is empty if none of its sources is taken, else as short as possible. It ends in `/`.
    """
    if not files:
        return ""
    above = files[0].path.removesuffix(files[0].source).strip("/").split("/")
    prefix = ""
    while any(above) and any(prefix + file.source in taken for file in files):
        prefix = f"{_storable(above.pop())}/{prefix}"
    return prefix


def _filesystem(path_or_fs: Location) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem of a place, and the path in it.

    Raises as `find_files`, and InvalidArgumentError for any other value.
    """
    from fsspec import AbstractFileSystem
    from fsspec.implementations.local import LocalFileSystem

    if isinstance(path_or_fs, AbstractFileSystem):
        return path_or_fs, path_or_fs.root_marker
    if not isinstance(path_or_fs, str | os.PathLike):
        raise InvalidArgumentError(
            f"a {type(path_or_fs).__name__} can't be ingested; give a path, one at a time"
        )
    path = os.fsdecode(path_or_fs)
    if not path:
        raise MissingFileError("the path to ingest is empty; '.' is the current folder")
    if "://" in path:
        return _filesystem_of_url(path)
    # Not through fsspec, which takes `::` in a file's name for a chain of filesystems.
    try:
        # Without `..`, so that a folder is one place from wherever it is named.
        return LocalFileSystem(), posixpath.normpath(LocalFileSystem._strip_protocol(path))
    except FileNotFoundError:
        raise MissingFileError(
            f"{shown_location(path)} is relative to a folder that was deleted; give an absolute "
            "path"
        ) from None


def _filesystem_of_url(path: str) -> tuple[AbstractFileSystem, str]:
    from fsspec.core import url_to_fs

    url = shown_location(path)
    try:
        fs, root = url_to_fs(path)
    except ImportError as error:
        raise MissingExtraError(f"{url} needs a package that is not installed: {error}") from error
    except ValueError:  # whose message may show what the URL holds
        raise MissingFileError(f"{url} is not a URL that fsspec knows; check its scheme") from None
    except Exception as error:
        found = _trouble(error)
        raise MissingFileError(f"{url} {found.reason}: {found.detail}; check it") from None
    if "@" in root.partition("/")[0]:  # s3fs takes them for a bucket's name, which it shows
        raise MissingFileError(
            f"{url} cannot hold credentials; give them in the environment, or pass a filesystem"
        )
    return fs, root


class _Listing:
    """One walk over a folder."""

    def __init__(
        self,
        fs: AbstractFileSystem,
        root: str,
        choice: FileSelection,
    ) -> None:
        self.fs = fs
        self.root = root
        self.choice = choice
        self._ignored: dict[str, Patterns] = {}
        """The patterns of the .gitignore of each folder that has one."""
        self.files: list[SourceFile] = []
        self.skipped: list[Skipped] = []

    def walk(self) -> None:
        folders = [""]
        while folders:
            folders += self._subfolders(folders.pop())

    def _subfolders(self, folder: str) -> Iterator[str]:
        """Take the files of a folder and yield its folders."""
        entries = self._entries(folder)
        names = [posixpath.basename(entry["name"].rstrip("/")) for entry in entries]
        reason = folder and why_not_entered(posixpath.basename(folder), names)
        if reason:
            self._skip(folder + "/", reason)
            return
        if self.choice.gitignore and _GITIGNORE in names:
            self._ignored[folder] = self._gitignore(entries[names.index(_GITIGNORE)])
        for name, entry in zip(names, entries, strict=True):
            relative = posixpath.join(folder, name)
            if self._is_folder_to_enter(relative, entry):
                yield relative

    def _entries(self, folder: str) -> list[_Entry]:
        """Return what is in a folder; nothing, and note why, if it cannot be listed."""
        if folder:
            path = posixpath.join(self.root, folder)
        else:
            path = self.root
        try:
            listed = self.fs.ls(path, detail=True)
        except Exception as error:
            found = _trouble(error)
            self._skip(folder + "/", found.reason, found.detail)
            return []
        # An object store may list a marker of the folder itself among its files.
        return [entry for entry in listed if entry["name"].rstrip("/") != path.rstrip("/")]

    def _is_folder_to_enter(self, relative: str, entry: _Entry) -> bool:
        """Take or skip a file, or skip a link or a folder; return True for a folder to enter."""
        is_folder: bool = entry["type"] == "directory"
        if posixpath.basename(relative).startswith("."):
            unwanted = "hidden"
        else:
            unwanted = self._why_unwanted(relative, is_folder=is_folder)
        if unwanted:
            self._skip(f"{relative}/" if is_folder else relative, unwanted)
        elif entry.get("islink") or entry["type"] == "link":
            self._skip(relative, "a link")
        elif is_folder:
            return True
        else:
            self.take_file(relative, entry)
        return False

    def _gitignore(self, entry: _Entry) -> Patterns:
        """Return the patterns of a .gitignore, none if it can't be read."""
        try:
            data = self.fs.cat_file(entry["name"], end=_MAX_GITIGNORE_BYTES)
        except Exception as error:
            found = _trouble(error)
            relative = entry["name"].removeprefix(self.root).lstrip("/")
            self._skip(relative, found.reason, found.detail)
            return NO_PATTERNS
        return Patterns(data.decode("utf-8", "replace").splitlines())

    def _why_unwanted(self, relative: str, *, is_folder: bool) -> str:
        """Return why the caller does not want a file or folder, "" if he does."""
        if self.choice.exclude.decide(relative, is_folder=is_folder):
            return "excluded"
        include = self.choice.include
        if not is_folder and include and not include.decide_within(relative):
            return "not included"
        if self._is_ignored(relative, is_folder=is_folder):
            return "ignored by .gitignore"
        return ""

    def _is_ignored(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether the nearest .gitignore that says something of a path ignores it."""
        folder, rest = posixpath.split(relative)
        while True:
            patterns = self._ignored.get(folder)
            decided = None
            if patterns:
                decided = patterns.decide(rest, is_folder=is_folder)
            if decided is not None or not folder:
                return bool(decided)
            folder, name = posixpath.split(folder)
            rest = f"{name}/{rest}"

    def take_file(self, relative: str, info: _Entry) -> None:
        """Keep the file that `info` describes, or say why it is skipped."""
        size = info.get("size")
        reason = why_not_opened(posixpath.basename(relative))
        if reason is not None:
            self._skip(relative, reason)
        elif info["type"] != "file":
            self._skip(relative, "not a regular file")
        elif size == 0:
            self._skip(relative, "empty")
        elif size is not None and size > MAX_FILE_BYTES:
            self._skip(relative, "too large", f"{size:,} bytes of {MAX_FILE_BYTES:,}; split it")
        else:
            source = _storable(relative)
            self.files.append(SourceFile(source, info["name"], size or 0, _stamp(info), self.fs))

    def _skip(
        self,
        relative: str,
        reason: str,
        detail: str = "",
    ) -> None:
        """Note that a file or folder is skipped, and why."""
        self.skipped.append(Skipped(_storable(relative), reason, detail))


def _trouble(error: Exception) -> UnreadableError:
    """Return why a place can't be read.

    An error of a filesystem's own kind may show credentials.
    """
    is_known = type(error) is ValueError or (isinstance(error, OSError) and error.strerror)
    if is_known:
        return unreadable_error(error)
    return UnreadableError(CANNOT_BE_READ, type(error).__name__)


def _stamp(info: _Entry) -> str:
    """Return a stamp of a file's size and digests, else of its times; "" if none is listed."""
    for names in (_DIGESTS, _TIMES):
        values = [(name, str(info[name])) for name in names if info.get(name)]
        if values:
            stamp = repr((info.get("size"), values))
            return hashlib.sha256(stamp.encode()).hexdigest()[:16]
    return ""


def _storable(relative: str) -> str:
    """Return a path that can be stored and shown.

    Any other path is cleaned, and ends in a digest of the original.
    """
    if not _NOT_IN_SOURCE.search(relative):
        return relative
    digest = hashlib.sha256(relative.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_NOT_IN_SOURCE.sub('�', relative)}~{digest}"
