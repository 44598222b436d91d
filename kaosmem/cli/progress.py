"""Progress on stderr while the command works."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Phases:
    """A progress line on the terminal, gone when the work ends; nothing if stderr is no terminal.

    per_second: how often it is drawn, which takes time from the work.
    """

    def __init__(self, *, per_second: int = 10) -> None:
        console = Console(stderr=True)
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn()
        detail = TextColumn("{task.fields[detail]}", markup=False)
        self._progress = Progress(
            *columns,
            detail,
            console=console,
            refresh_per_second=per_second,
            transient=True,
            disable=not console.file.isatty(),
        )
        self._task = self._progress.add_task("", total=None, detail="")

    def __enter__(self) -> Phases:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, phase: str) -> None:
        """Show a phase of which it is not known how long it takes."""
        self._progress.reset(self._task, description=phase, total=None, detail="")

    def reading(self, source: str, done: int, total: int) -> None:
        """Show how far the reading of files is."""
        self._show("reading", done, total, f"{done:,} of {total:,} files  {source[-40:]}")

    def opening(self, session_id: str, done: int, total: int) -> None:
        """Show how many sessions have been opened."""
        self._show("opening", done, total, f"{done:,} of {total:,} sessions  {session_id[-40:]}")

    def measuring(self, what: str, done: int, total: int) -> None:
        """Show how far a benchmark is."""
        self._show("measuring", done, total, f"{done:,} of {total:,} contexts  {what[:50]}")

    def indexing(self, done: int, total: int) -> None:
        """Show how far indexing is, embeddings included."""
        self._show("indexing", done, total, f"{done:,} of {total:,} items")

    def _show(self, phase: str, done: int, total: int, detail: str) -> None:
        self._progress.update(self._task, description=phase, completed=done, total=total, detail=detail)
