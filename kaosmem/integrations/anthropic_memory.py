"""Anthropic's memory tool over a session: files under /memories that keep their versions.

It needs the extra `anthropic`. The texts of results and errors are those that the provider
documents.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from kaosmem.errors import KaosmemError, MissingExtraError
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.tools import REMEMBERED, check_remembered
from kaosmem.types.content import Trust

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
    from anthropic.types.beta import BetaCacheControlEphemeralParam
except ModuleNotFoundError:
    raise MissingExtraError(
        "Anthropic's memory tool needs the extra 'anthropic': pip install 'kaosmem[anthropic]'"
    ) from None

MEMORY_FILES = SectionSpec("memory_files", eviction="none")
"""The section that holds the files, one item each. Its items are retrieved as documents are."""
_ROOT = "/memories"
_MAX_LINES = 999_999
_NUMBER_WIDTH = 6
_AROUND = 2
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_Files = dict[str, str]
"""The texts of files by their paths."""


def _view(files: _Files, command: Any) -> str:
    """Return the lines of a file with their numbers, or the names in a directory."""
    path = _checked(command.path)
    if path not in files:
        return _listing(files, path, command.path)
    lines = files[path].split("\n")
    if len(lines) > _MAX_LINES:
        raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
    first = 1
    last = -1
    if command.view_range and len(command.view_range) == 2:
        first, last = command.view_range
    shown = _numbered(lines, first, len(lines) if last == -1 else last)
    return "\n".join([f"Here's the content of {command.path} with line numbers:", *shown])


def _listing(
    files: _Files,
    directory: str,
    asked: str,
) -> str:
    """Return the sizes and paths of a directory, two levels deep, without hidden names."""
    below = _within(files, directory)
    if not below and directory != _ROOT:
        raise ToolError(f"The path {asked} does not exist. Please provide a valid path.")
    sizes = Counter({asked: 0})
    for path in below:
        size = len(files[path].encode())
        sizes[asked] += size
        names = path.removeprefix(f"{directory}/").split("/")
        if any(name.startswith(".") for name in names[:2]):
            continue
        for depth in range(1, min(2, len(names)) + 1):
            ending = "/" if depth < len(names) else ""
            sizes["/".join([asked, *names[:depth]]) + ending] += size
    head = (
        f"Here're the files and directories up to 2 levels deep in {asked}, excluding hidden items:"
    )
    shown = sorted(sizes, key=lambda path: path.split("/"))
    return "\n".join([head, *(f"{_size_text(sizes[path])}\t{path}" for path in shown)])


def _create(files: _Files, command: Any) -> str:
    """Store a new file."""
    path = _checked(command.path)
    if path == _ROOT or _within(files, path):
        raise ToolError(f"File {command.path} already exists")
    _check_parents(files, path)
    files[path] = command.file_text
    return f"File created successfully at: {command.path}"


def _str_replace(files: _Files, command: Any) -> str:
    """Replace a text that a file has once."""
    path = _file(files, command.path)
    text = files[path]
    old = command.old_str
    starts = [match.start() for match in re.finditer(f"(?={re.escape(old)})", text)]
    if not old or not starts:
        raise ToolError(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in "
            f"{command.path}."
        )
    lines = [text.count("\n", 0, start) + 1 for start in starts]
    if text.count(old) > 1:
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{', '.join(map(str, lines))}. Please ensure it is unique"
        )
    files[path] = text.replace(old, command.new_str or "")
    head = (
        "The memory file has been edited. Here is the snippet showing the change "
        "(with line numbers):"
    )
    changed = files[path].split("\n")
    return "\n".join([head, *_numbered(changed, lines[0] - _AROUND, lines[0] + _AROUND)])


def _insert(files: _Files, command: Any) -> str:
    """Insert a text after a line. 0 is the beginning of the file."""
    path = _file(files, command.path)
    lines = files[path].removesuffix("\n").split("\n")
    if not files[path]:
        lines = []
    if not 0 <= command.insert_line <= len(lines):
        raise ToolError(
            f"Invalid `insert_line` parameter: {command.insert_line}. "
            f"It should be within the range [0, {len(lines)}]."
        )
    lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
    text = "\n".join(lines)
    files[path] = text if text.endswith("\n") else text + "\n"
    return f"The file {command.path} has been edited."


def _delete(files: _Files, command: Any) -> str:
    """Delete a file, or all files of a directory."""
    for path in _moved(files, command.path, "delete"):
        del files[path]
    return f"Successfully deleted {command.path}"


def _rename(files: _Files, command: Any) -> str:
    """Give a file or a directory another path. Older versions stay under the old one."""
    old = _checked(command.old_path)
    new = _checked(command.new_path)
    if new == _ROOT or _within(files, new):
        raise ToolError(f"The destination {command.new_path} already exists")
    moved = _moved(files, command.old_path, "rename")
    if new.startswith(f"{old}/"):
        raise ToolError(f"The directory {command.old_path} cannot move into itself")
    _check_parents(files, new)
    for path in moved:
        files[new + path.removeprefix(old)] = files.pop(path)
    return f"Successfully renamed {command.old_path} to {command.new_path}"


_COMMANDS: dict[str, Callable[[_Files, Any], str]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}


def _checked(path: str) -> str:
    """Return a path without empty parts. Raises ToolError for a path outside of /memories."""
    parts = [part for part in path.split("/") if part]
    if not path.startswith(_ROOT) or parts[0] != "memories":
        raise ToolError(f"Path must start with /memories, got: {path}")
    if ".." in parts or "." in parts or "\\" in path or _CONTROL.search(path):
        raise ToolError(f"Path {path} would escape /memories directory")
    return "/" + "/".join(parts)


def _within(files: _Files, path: str) -> list[str]:
    """Return the path of a file, or the paths of the files below a directory."""
    return [each for each in files if f"{each}/".startswith(f"{path}/")]


def _file(files: _Files, asked: str) -> str:
    """Return the path of a file. Raises ToolError if there is none."""
    path = _checked(asked)
    if path in files:
        return path
    if path == _ROOT or _within(files, path):
        raise ToolError(f"The path {asked} is not a file.")
    raise ToolError(f"The path {asked} does not exist. Please provide a valid path.")


def _moved(
    files: _Files,
    asked: str,
    verb: str,
) -> list[str]:
    """Return the paths of a file or of a directory to move. Raises ToolError if there are none."""
    path = _checked(asked)
    if path == _ROOT:
        raise ToolError(f"Cannot {verb} the /memories directory itself")
    found = _within(files, path)
    if not found:
        raise ToolError(f"The path {asked} does not exist")
    return found


def _check_parents(files: _Files, path: str) -> None:
    for each in files:
        if path.startswith(f"{each}/"):
            raise ToolError(f"The path {each} is not a directory.")


def _numbered(
    lines: list[str],
    first: int,
    last: int,
) -> list[str]:
    """Return the lines from a first to a last one, each with its number from 1."""
    start = max(1, first)
    shown = lines[start - 1 : last]
    return [f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(shown, start)]


def _size_text(size: int) -> str:
    """Return a size as a person reads it, such as `5.5K`."""
    unit = min(3, (max(size, 1).bit_length() - 1) // 10)
    return f"{round(size / 1024**unit, 1):g}{'BKMG'[unit]}"


class _OverFiles:
    """The part that both tools have: the files of a session's section.

    The key of an item is its path, so that an edited file is a new version.
    """

    def __init__(
        self,
        memory: Any,
        *,
        section: str = MEMORY_FILES.name,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]
        self._memory = memory
        self._section = section
        memory[section]  # raises now, not at the first command

    def _run(self, command: Any) -> str:
        """Run a command of a model, and return its result. One that fails changes nothing.

        Raises:
            ToolError: If the command fails. The SDK tells it to the model.
        """
        if command.command not in _COMMANDS:
            raise ToolError(f"Unknown command: {command.command}")
        items = {item.key: item for item in self._memory[self._section] if item.key}
        old = {path: item.text for path, item in items.items()}
        new = dict(old)
        result = _COMMANDS[command.command](new, command)
        paths = dict.fromkeys([*new, *old])
        changed = [path for path in paths if new.get(path) != old.get(path)]
        try:
            for path in changed:
                if path in items:
                    check_remembered(items[path])
            for path in changed:
                if path in new:
                    self._write(path, new[path])
                else:
                    self._memory.remove(items[path].id)
        except KaosmemError as error:
            raise ToolError(str(error)) from error
        return result

    def _write(self, path: str, text: str) -> None:
        self._memory.add(
            self._section,
            text,
            role="assistant",
            key=path,
            tags=(REMEMBERED,),
            trust=Trust.MODEL,
            metadata={"source": path},
        )


class SessionMemoryTool(_OverFiles, BetaAsyncAbstractMemoryTool):
    """Anthropic's memory tool over a `SessionMemory`, for the asynchronous client.

    Each changed file is saved with the session before the model reads its result. The model
    changes only files that a model created. Others, such as a guide that your program added, are
    read.

    Args:
        memory: The session. It has the section `MEMORY_FILES`, or yours.
        section: The section that holds the files.
        cache_control: A cache mark for the tool in each request.

    Raises:
        NotFoundError: If the session has no section with the name.
    """

    async def execute(self, command: Any) -> str:
        """Run a command of any kind, and save the session."""
        result = self._run(command)
        await self._memory.save()
        return result

    view = create = str_replace = insert = delete = rename = execute


class SyncSessionMemoryTool(_OverFiles, BetaAbstractMemoryTool):
    """Anthropic's memory tool over a `SyncSessionMemory`, for the synchronous client.

    The arguments and the results are those of `SessionMemoryTool`.
    """

    def execute(self, command: Any) -> str:
        """Run a command of any kind, and save the session."""
        result = self._run(command)
        self._memory.save()
        return result

    view = create = str_replace = insert = delete = rename = execute
