"""Anthropic's memory tool over a session: files under /memories that keep their versions.

It needs the extra `anthropic`. The texts of results and errors are those that the provider
documents.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from kaosmem.errors import KaosmemError, needs_extra
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.tools import REMEMBERED, check_remembered
from kaosmem.types.content import Trust

with needs_extra("anthropic"):
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
    from anthropic.types.beta import BetaCacheControlEphemeralParam

MEMORY_FILES = SectionSpec("memory_files", eviction="none")
"""The section that holds the files, one item each. Its items are retrieved as documents are."""
_ROOT = "/memories"
_NUMBER_WIDTH = 6
_AROUND = 2


class _Files(dict[str, str]):
    """The texts of files by their paths. Each command of the tool is a method."""

    def view(self, command: Any) -> str:
        """Return the lines of a file with their numbers, or the names in a directory."""
        path = _checked(command.path)
        if path not in self and (path == _ROOT or self._within(path)):
            return self._listing(path, command.path)
        lines = self[self._file(command.path)].split("\n")
        first = 1
        last = -1
        if command.view_range and len(command.view_range) == 2:
            first, last = command.view_range
        head = f"Here's the content of {command.path} with line numbers:"
        return _numbered(head, lines, first, len(lines) if last == -1 else last)

    def create(self, command: Any) -> str:
        """Store a new file."""
        path = self._new(command.path, f"File {command.path} already exists")
        self[path] = command.file_text or ""
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: Any) -> str:
        """Replace a text that a file has once."""
        path = self._file(command.path)
        text = self[path]
        old = command.old_str
        starts = [match.start() for match in re.finditer(re.escape(old), text)]
        if not old or not starts:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                f"{command.path}."
            )
        lines = [text.count("\n", 0, start) + 1 for start in starts]
        if len(lines) > 1:
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{', '.join(map(str, lines))}. Please ensure it is unique"
            )
        self[path] = text.replace(old, command.new_str or "")
        head = (
            "The memory file has been edited. Here is the snippet showing the change "
            "(with line numbers):"
        )
        changed = self[path].split("\n")
        return _numbered(head, changed, lines[0] - _AROUND, lines[0] + _AROUND)

    def insert(self, command: Any) -> str:
        """Insert a text after a line. 0 is the beginning of the file."""
        path = self._file(command.path)
        text = self[path]
        lines = text.removesuffix("\n").split("\n") if text else []
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, (command.insert_text or "").rstrip("\n"))
        text = "\n".join(lines)
        self[path] = text if text.endswith("\n") else text + "\n"
        return f"The file {command.path} has been edited."

    def delete(self, command: Any) -> str:
        """Delete a file, or all files of a directory."""
        for path in self._moved(command.path, "delete"):
            del self[path]
        return f"Successfully deleted {command.path}"

    def rename(self, command: Any) -> str:
        """Give a file or a directory another path. Older versions stay under the old one."""
        old = _checked(command.old_path)
        new = self._new(command.new_path, f"The destination {command.new_path} already exists")
        for path in self._moved(command.old_path, "rename"):
            self[new + path.removeprefix(old)] = self.pop(path)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def _listing(self, directory: str, asked: str) -> str:
        """Return the sizes and paths of a directory, two levels deep, without hidden names."""
        sizes = Counter({asked: 0})
        for path in self._within(directory):
            names = path.removeprefix(f"{directory}/").split("/")
            if any(name.startswith(".") for name in names[:2]):
                continue
            size = len(self[path].encode())
            for depth in range(min(3, len(names) + 1)):
                ending = "/" if 0 < depth < len(names) else ""
                listed = "/".join([asked, *names[:depth]])
                sizes[listed + ending] += size
        shown = sorted(sizes, key=lambda path: path.split("/"))
        lines = [f"{_size_text(sizes[path])}\t{path}" for path in shown]
        return (
            f"Here're the files and directories up to 2 levels deep in {asked}, excluding hidden "
            "items:\n" + "\n".join(lines)
        )

    def _within(self, path: str) -> list[str]:
        """Return the path of a file, or the paths of the files below a directory."""
        return [each for each in self if f"{each}/".startswith(f"{path}/")]

    def _file(self, asked: str) -> str:
        """Return the path of a file. Raises ToolError if there is none."""
        path = _checked(asked)
        if path in self:
            return path
        if path == _ROOT or self._within(path):
            raise ToolError(f"The path {asked} is not a file.")
        raise ToolError(f"The path {asked} does not exist. Please provide a valid path.")

    def _new(self, asked: str, refusal: str) -> str:
        """Return the path of a new file. Raises ToolError if there is a file or a directory."""
        path = _checked(asked)
        if path == _ROOT or self._within(path):
            raise ToolError(refusal)
        for each in self:
            if path.startswith(f"{each}/"):
                raise ToolError(f"The path {each} is not a directory.")
        return path

    def _moved(self, asked: str, verb: str) -> list[str]:
        """Return the paths of a file or of a directory. Raises ToolError if there are none."""
        path = _checked(asked)
        if path == _ROOT:
            raise ToolError(f"Cannot {verb} the /memories directory itself")
        found = self._within(path)
        if not found:
            raise ToolError(f"The path {asked} does not exist")
        return found


def _checked(path: str) -> str:
    """Return a path without empty parts. Raises ToolError for a path outside of /memories."""
    parts = [part for part in path.split("/") if part]
    if not path.startswith(_ROOT) or parts[0] != "memories":
        raise ToolError(f"Path must start with /memories, got: {path}")
    if ".." in parts or "." in parts or min(path) < " ":
        raise ToolError(f"Path {path} would escape /memories directory")
    return "/" + "/".join(parts)


def _numbered(
    head: str,
    lines: list[str],
    first: int,
    last: int,
) -> str:
    """Return the lines from a first to a last one under a head, each with its number from 1."""
    start = max(1, first)
    shown = [head]
    for number, line in enumerate(lines[start - 1 : last], start):
        shown.append(f"{number:>{_NUMBER_WIDTH}}\t{line}")
    return "\n".join(shown)


def _size_text(size: int) -> str:
    """Return a size as a person reads it, such as `5.5K`."""
    unit = min(3, (max(size, 1).bit_length() - 1) // 10)
    return f"{round(size / 1024**unit, 1):g}{'BKMG'[unit]}"


class _OverFiles:
    """The part that both tools have: the files of the section `memory_files`.

    The key of an item is its path, so that an edited file is a new version.
    """

    def __init__(
        self, memory: Any, *, cache_control: BetaCacheControlEphemeralParam | None = None
    ) -> None:
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]
        self._memory = memory
        memory[MEMORY_FILES.name]  # raises now, not at the first command

    def _run(self, command: Any) -> str:
        """Run a command of a model, and return its result. One that fails changes nothing.

        Raises:
            ToolError: If the command fails. The SDK tells it to the model.
        """
        items = {item.key: item for item in self._memory[MEMORY_FILES.name] if item.key}
        old = {path: item.text for path, item in items.items()}
        new = _Files(old)
        result: str = getattr(new, command.command)(command)
        changed = [path for path in {**new, **old} if new.get(path) != old.get(path)]
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
            MEMORY_FILES.name,
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
        memory: The session. It has the section `MEMORY_FILES`, or another one of this name.
        cache_control: A cache mark for the tool in each request.

    Raises:
        NotFoundError: If the session has no section `memory_files`.
    """

    async def view(self, command: Any) -> str:
        """Run a command of any kind, and save the session."""
        result = self._run(command)
        await self._memory.save()
        return result

    create = str_replace = insert = delete = rename = view


class SyncSessionMemoryTool(_OverFiles, BetaAbstractMemoryTool):
    """Anthropic's memory tool over a `SyncSessionMemory`, for the synchronous client.

    The arguments and the results are those of `SessionMemoryTool`.
    """

    def view(self, command: Any) -> str:
        """Run a command of any kind, and save the session."""
        result = self._run(command)
        self._memory.save()
        return result

    create = str_replace = insert = delete = rename = view
