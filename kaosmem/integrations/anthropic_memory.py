"""Anthropic's memory tool over a session: files under /memories that keep their versions.

It needs the extra `anthropic`. The texts of results and errors are those that the provider documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kaosmem.errors import KaosmemError, MissingExtraError
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.session.synchronous import SyncSessionMemory
from kaosmem.session.tools import REMEMBERED, check_remembered
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
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


class MemoryFiles:
    """The files of a session's section, and the six commands on them.

    The key of an item is its path, so that an edited file is a new version. A command that fails
    changes nothing.

    Raises:
        NotFoundError: If the session has no section with the name.
    """

    def __init__(self, memory: SessionMemory | SyncSessionMemory, section: str) -> None:
        self._memory = memory
        self._name = section
        self._section  # noqa: B018 - raises now, not at the first command

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the lines of a file with their numbers, or the names in a directory."""
        path = _checked(command.path)
        item = self._section.keyed(path)
        if item is None:
            return self._listing(path, command.path)
        lines = item.text.split("\n")
        if len(lines) > _MAX_LINES:
            raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
        first = 1
        last = len(lines)
        if command.view_range and len(command.view_range) == 2:
            first = max(1, command.view_range[0])
            last = len(lines) if command.view_range[1] == -1 else command.view_range[1]
        shown = "\n".join(_numbered(lines, first, last))
        return f"Here's the content of {command.path} with line numbers:\n{shown}"

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Store a new file."""
        path = _checked(command.path)
        if self._section.keyed(path) is not None or self._within(path):
            raise ToolError(f"File {command.path} already exists")
        self._check_parents(path)
        self._write(path, command.file_text)
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that a file has once."""
        path, item = self._file(command.path)
        text = item.text
        old = command.old_str
        starts = [match.start() for match in re.finditer(f"(?={re.escape(old)})", text)]
        if not old or not starts:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                f"{command.path}."
            )
        lines = [str(text.count("\n", 0, start) + 1) for start in starts]
        if text.count(old) > 1:
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{', '.join(lines)}. Please ensure it is unique"
            )
        changed = text.replace(old, command.new_str or "")
        self._write(path, changed)
        line = int(lines[0])
        shown = _numbered(changed.split("\n"), max(1, line - _AROUND), line + _AROUND)
        head = (
            "The memory file has been edited. Here is the snippet showing the change "
            "(with line numbers):"
        )
        return "\n".join([head, *shown])

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line. 0 is the beginning of the file."""
        path, item = self._file(command.path)
        lines = item.text.split("\n")
        if not lines[-1]:
            lines.pop()
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        text = "\n".join(lines)
        self._write(path, text if text.endswith("\n") else text + "\n")
        return f"The file {command.path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a file, or all files of a directory, to the archive."""
        path = _checked(command.path)
        if path == _ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        items = self._moved(path)
        if not items:
            raise ToolError(f"The path {command.path} does not exist")
        for item in items:
            check_remembered(item)
        for item in items:
            self._memory.remove(item.id)
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Give a file or a directory another path. Older versions stay under the old one."""
        old = _checked(command.old_path)
        new = _checked(command.new_path)
        if old == _ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if self._section.keyed(new) is not None or self._within(new) or new == _ROOT:
            raise ToolError(f"The destination {command.new_path} already exists")
        items = self._moved(old)
        if not items:
            raise ToolError(f"The path {command.old_path} does not exist")
        if new.startswith(f"{old}/"):
            raise ToolError(f"The directory {command.old_path} cannot move into itself")
        self._check_parents(new)
        for item in items:
            check_remembered(item)
        for item in items:
            self._write(new + item.key.removeprefix(old), item.text)  # type: ignore[union-attr]
            self._memory.remove(item.id)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    @property
    def _section(self) -> Section:
        return self._memory[self._name]

    def _file(self, path: str) -> tuple[str, Item]:
        checked = _checked(path)
        item = self._section.keyed(checked)
        if item is not None:
            return checked, item
        if checked == _ROOT or self._within(checked):
            raise ToolError(f"The path {path} is not a file.")
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")

    def _within(self, directory: str) -> list[Item]:
        """Return the files below a directory."""
        below = f"{directory}/"
        return [item for item in self._section if item.key and item.key.startswith(below)]

    def _moved(self, path: str) -> list[Item]:
        """Return the file at a path, or the files below it."""
        item = self._section.keyed(path)
        return self._within(path) if item is None else [item]

    def _check_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        while parent != _ROOT and parent:
            if self._section.keyed(parent) is not None:
                raise ToolError(f"The path {parent} is not a directory.")
            parent = parent.rpartition("/")[0]

    def _write(self, path: str, text: str) -> None:
        live = self._section.keyed(path)
        if live is not None:
            check_remembered(live)
        self._memory.add(
            self._name,
            text,
            role="assistant",
            key=path,
            tags=(REMEMBERED,),
            trust=Trust.MODEL,
            metadata={"source": path},
        )

    def _listing(self, directory: str, asked: str) -> str:
        """Return the sizes and paths of a directory, two levels deep, without hidden names."""
        files = self._within(directory)
        if not files and directory != _ROOT:
            raise ToolError(f"The path {asked} does not exist. Please provide a valid path.")
        sizes: dict[tuple[str, ...], int] = {}
        whole = 0
        for item in files:
            size = len(item.text.encode())
            whole += size
            parts = str(item.key).removeprefix(f"{directory}/").split("/")
            if any(part.startswith(".") for part in parts[:2]):
                continue
            for depth in range(1, min(2, len(parts)) + 1):
                is_directory = depth < len(parts)
                name = (*parts[:depth], "") if is_directory else tuple(parts)
                sizes[name] = sizes.get(name, 0) + size
        lines = [f"{_size_text(whole)}\t{asked}"]
        lines += [f"{_size_text(sizes[name])}\t{asked}/{'/'.join(name)}" for name in sorted(sizes)]
        head = (
            f"Here're the files and directories up to 2 levels deep in {asked}, "
            "excluding hidden items:"
        )
        return "\n".join([head, *lines])


_Command = Callable[[MemoryFiles, Any], str]


def _told(run: _Command, files: MemoryFiles, given: Any) -> str:
    """Return the result of a command. An error of the session is told to the model."""
    try:
        return run(files, given)
    except KaosmemError as error:
        raise ToolError(str(error)) from error


def _saving(run: _Command) -> Any:
    """Return the method of a tool that runs a command and saves the session."""

    def method(self: Any, command: Any) -> Any:
        return self._saved(run, command)

    return method


class SessionMemoryTool(BetaAsyncAbstractMemoryTool):
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

    def __init__(
        self,
        memory: SessionMemory,
        *,
        section: str = MEMORY_FILES.name,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory
        self._files = MemoryFiles(memory, section)

    async def _saved(self, run: _Command, given: Any) -> str:
        result = _told(run, self._files, given)
        await self._memory.save()
        return result

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return _told(MemoryFiles.view, self._files, command)

    create = _saving(MemoryFiles.create)
    str_replace = _saving(MemoryFiles.str_replace)
    insert = _saving(MemoryFiles.insert)
    delete = _saving(MemoryFiles.delete)
    rename = _saving(MemoryFiles.rename)


class SyncSessionMemoryTool(BetaAbstractMemoryTool):
    """Anthropic's memory tool over a `SyncSessionMemory`, for the synchronous client.

    The arguments and the results are those of `SessionMemoryTool`.
    """

    def __init__(
        self,
        memory: SyncSessionMemory,
        *,
        section: str = MEMORY_FILES.name,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory
        self._files = MemoryFiles(memory, section)

    def _saved(self, run: _Command, given: Any) -> str:
        result = _told(run, self._files, given)
        self._memory.save()
        return result

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return _told(MemoryFiles.view, self._files, command)

    create = _saving(MemoryFiles.create)
    str_replace = _saving(MemoryFiles.str_replace)
    insert = _saving(MemoryFiles.insert)
    delete = _saving(MemoryFiles.delete)
    rename = _saving(MemoryFiles.rename)


def _checked(path: str) -> str:
    """Return a path without empty parts. Raises ToolError for a path outside of /memories."""
    parts = [part for part in path.split("/") if part]
    if not path.startswith(_ROOT) or parts[0] != "memories":
        raise ToolError(f"Path must start with /memories, got: {path}")
    if ".." in parts or "." in parts or "\\" in path or _CONTROL.search(path):
        raise ToolError(f"Path {path} would escape /memories directory")
    return "/" + "/".join(parts)


def _numbered(lines: list[str], first: int, last: int) -> list[str]:
    shown = lines[first - 1 : last]
    return [f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(shown, first)]


def _size_text(size: int) -> str:
    """Return a size as a person reads it, such as `5.5K`."""
    units = "BKMG"
    value = float(size)
    unit = 0
    while value >= 1024 and unit < len(units) - 1:
        value /= 1024
        unit += 1
    return f"{value:.0f}{units[unit]}" if value == int(value) else f"{value:.1f}{units[unit]}"
