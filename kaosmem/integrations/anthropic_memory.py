"""Anthropic's memory tool over a session: files under /memories that keep their versions.

It needs the extra `anthropic`. The SDK's own file tool runs each command, on a copy of the files in
a temporary folder. So paths, results and errors are those that the provider documents. The session
then takes the files that changed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kaosmem.errors import KaosmemError, MissingExtraError
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
    from anthropic.tools import BetaLocalFilesystemMemoryTool
    from anthropic.types.beta import BetaCacheControlEphemeralParam
except ModuleNotFoundError:
    raise MissingExtraError(
        "Anthropic's memory tool needs the extra 'anthropic': pip install 'kaosmem[anthropic]'"
    ) from None

MEMORY_FILES = SectionSpec("memory_files", eviction="none")
"""The section that holds the files, one item each. Its items are retrieved as documents are."""
_PATHS = ("path", "old_path", "new_path")
_REFUSED = re.compile(r"/memories[^/].*|.*[\x00-\x1f\x7f\\].*", re.DOTALL)
"""Paths that the SDK takes, and that name another file or no single line of a list."""


class MemoryFiles:
    """The files of a session's section.

    The key of an item is its path, so that an edited file is a new version.

    Raises:
        NotFoundError: If the session has no section with the name.
    """

    def __init__(self, memory: SessionMemory | SyncSessionMemory, section: str) -> None:
        self._memory = memory
        self._name = section
        memory[section]  # raises now, not at the first command

    def run(self, command: Any) -> str:
        """Run a command of a model, and return its result. One that fails changes nothing.

        Raises:
            ToolError: If the command fails. The SDK tells it to the model.
        """
        for name in _PATHS:
            path = getattr(command, name, None) or ""
            if _REFUSED.fullmatch(path):
                raise ToolError(f"Path {path!r} is not below /memories, or has other characters.")
        items = {item.key: item for item in self._memory[self._name] if item.key}
        try:
            with TemporaryDirectory(prefix="kaosmem-") as folder:
                files = BetaLocalFilesystemMemoryTool(folder)
                _write_files(files.memory_root, items)
                old = _texts(files.memory_root)
                result = str(files.execute(command))
                self._take(items, old, _texts(files.memory_root))
        except (KaosmemError, NotImplementedError, UnicodeError) as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            # The text of the error names the temporary folder.
            raise ToolError(f"The command failed: {error.strerror}") from error
        return result

    def _take(self, items: dict[str, Item], old: dict[str, str], new: dict[str, str]) -> None:
        """Store the texts that changed. A model may change only the files of a model."""
        changed = [path for path in {**new, **old} if new.get(path) != old.get(path)]
        for path in changed:
            if path in items:
                check_remembered(items[path])
        for path in changed:
            if path in new:
                self._memory.add(
                    self._name,
                    new[path],
                    role="assistant",
                    key=path,
                    tags=(REMEMBERED,),
                    trust=Trust.MODEL,
                    metadata={"source": path},
                )
            else:
                self._memory.remove(items[path].id)


def _write_files(root: Path, items: dict[str, Item]) -> None:
    """Write the items whose keys are paths of files. A program may have items with other keys."""
    for key, item in items.items():
        names = key.removeprefix("/memories/").split("/")
        if key.startswith("/memories/") and ".." not in names:
            file = root.joinpath(*names)
            with suppress(OSError):  # such as a file and a directory of the same name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(item.text.encode())


def _texts(root: Path) -> dict[str, str]:
    """Return the texts of all files by their paths."""
    texts = {}
    for file in sorted(root.rglob("*")):
        if file.is_file():
            texts[f"/memories/{file.relative_to(root).as_posix()}"] = file.read_bytes().decode()
    return texts


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

    async def execute(self, command: Any) -> str:
        """Run a command of any kind, and save the session."""
        result = self._files.run(command)
        await self._memory.save()
        return result

    view = create = str_replace = insert = delete = rename = execute


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

    def execute(self, command: Any) -> str:
        """Run a command of any kind, and save the session."""
        result = self._files.run(command)
        self._memory.save()
        return result

    view = create = str_replace = insert = delete = rename = execute
