"""ProcedureFormer: what worked for a task becomes steps with their outcome."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kaosmem.arguments import check_count, json_text
from kaosmem.formation.changes import Draft, ProposedChange
from kaosmem.formation.grounding import MAX_TEXT_CHARS
from kaosmem.language.sentences import sentences_in
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import Item
from kaosmem.units import Link

_MAX_TASK_CHARS = 160
_MAX_VALUE_CHARS = 80
_MAX_RESULT_CHARS = 2_000
"""The end of a result in which its outcome is looked for."""
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w+|\w+://[^\s\"'<>)]+")


class ProcedureFormer:
    """Forms procedures: the tool calls that a task took, if somebody says that they worked.

    A run begins with a message of a user, the task, and ends before the next one. Its outcome is
    what the user then says, such as "thanks" or "that did not work", else what the last result of
    a tool says: an error, `exit code 0`, `12 passed`. A run without such words forms nothing, and
    so does one that goes on. The steps are the calls whose results are no errors. A run of the
    same steps for a task with a word in common counts for the procedure that is known.

    Args:
        least: The number of steps from which a run is a procedure.
        name: The name of the former's mark in the session's log.

    Raises:
        InvalidArgumentError: If an argument is not valid.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.types.content import ToolResultBlock, ToolUseBlock
    >>> memory = SessionMemory.test_mode()
    >>> for role, content in (
    ...     ("user", "Release the app."),
    ...     ("assistant", [ToolUseBlock("1", "build", {"target": "app"})]),
    ...     ("tool", [ToolResultBlock("1", "built")]),
    ...     ("assistant", [ToolUseBlock("2", "upload", {"file": "app.zip"})]),
    ...     ("tool", [ToolResultBlock("2", "uploaded")]),
    ...     ("user", "Thanks, that works!"),
    ... ):
    ...     said = memory.add("messages", content, role=role)
    >>> print(*await memory.form(ProcedureFormer()))
    Release the app.
    1. build(target="app")
    2. upload(file="app.zip")
    """

    def __init__(self, *, least: int = 2, name: str = "procedures") -> None:
        self.name = name
        self._least = check_count(least, "least", least=1)

    def __repr__(self) -> str:
        return f"<ProcedureFormer {self.name!r}>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return one change for each run that has ended with an outcome."""
        changes = []
        covered = 0
        for run in _runs(said):
            if run.answer is None and run.calls:
                break
            covered = run.end
            outcome = _outcome_of(run)
            change = None if outcome is None else self._change(run, outcome)
            if change is not None:
                changes.append(change)
        return Draft(changes, covered)

    def _change(self, run: _Run, outcome: _Outcome) -> ProposedChange | None:
        """Return a procedure, or None for a run that is none."""
        calls = run.calls
        if outcome.worked:
            calls = [call for call in calls if call.id not in run.failed]
        task = _first_sentence(run.task.text)
        text = _written(task, calls)
        if len(calls) < self._least or not task:
            return None
        if len(text) > MAX_TEXT_CHARS:  # of a long run, the names of the tools are kept
            text = _written(task, [replace(call, arguments="") for call in calls])
        if any(address not in run.task.text for address in _ADDRESS.findall(text)):
            return None  # the address may be that of a hostile text
        sources = [run.task.id, *(item.id for item in run.items), outcome.quoted.id]
        return ProposedChange(
            text,
            outcome.quote,
            tuple(dict.fromkeys(sources)),
            kind="procedural",
            details={"title": task},
            worked=outcome.worked,
        )


@dataclass
class _Run:
    """A task, and the calls that were made for it.

    Attributes:
        task: The message that asks for it.
        end: The number of messages until the run's end.
        items: The messages with its calls and results.
        failed: The ids of the calls whose results are errors.
        answer: The next message of a user, None if the run goes on.
    """

    task: Item
    end: int = 0
    items: list[Item] = field(default_factory=list)
    calls: list[ToolUseBlock] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    last_result: Item | None = None
    answer: Item | None = None

    def take(self, item: Item) -> None:
        """Take in a message with calls or results."""
        has_any = False
        for block in item.message.blocks:
            if isinstance(block, ToolUseBlock):
                self.calls.append(block)
                has_any = True
            if isinstance(block, ToolResultBlock):
                self.last_result = item
                has_any = True
                if block.is_error:
                    self.failed.add(block.tool_use_id)
        if has_any:
            self.items.append(item)


class _Outcome(NamedTuple):
    """The outcome of a run.

    Attributes:
        quote: The words that state it.
        quoted: The message that has these words.
    """

    quote: str
    quoted: Item
    worked: bool


def _runs(said: Sequence[Item]) -> Iterator[_Run]:
    """Yield the runs of messages in order, the last one without an answer."""
    run: _Run | None = None
    for place, item in enumerate(said):
        if item.role == "user" and not Link.of(item).answers:
            if run is not None:
                run.answer = item
                yield run
            run = _Run(item)
        elif run is not None:
            run.take(item)
        if run is not None:
            run.end = place + 1
    if run is not None:
        yield run


def _outcome_of(run: _Run) -> _Outcome | None:
    """Return the outcome of a run by the user's answer, else by the last result of a tool."""
    outcome = None
    if run.answer is not None:
        answer = _first_sentence(run.answer.text, most=_MAX_RESULT_CHARS)
        outcome = _stated_outcome("user", answer, run.answer)
    if outcome is None and run.last_result is not None:
        end = run.last_result.text[-_MAX_RESULT_CHARS:]
        outcome = _stated_outcome("tool", end, run.last_result)
    return outcome


def _stated_outcome(speaker: str, text: str, quoted: Item) -> _Outcome | None:
    """Return the outcome that a text states. A failure counts before a success."""
    for name in ("failed", "worked"):
        words = _outcome_words()[f"{speaker}_{name}"]
        for line in text.splitlines():
            if words.search(line):
                return _Outcome(line.strip(), quoted, name == "worked")
    return None


def _written(task: str, calls: Sequence[ToolUseBlock]) -> str:
    """Return a procedure as text: the task, and a numbered line for each step."""
    lines = [task]
    for number, line in enumerate(dict.fromkeys(map(_step_text, calls)), 1):
        lines.append(f"{number}. {line}")
    return "\n".join(lines)


def _step_text(call: ToolUseBlock) -> str:
    """Return a call in one line. Long values are left out."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.name
    if not isinstance(arguments, dict):
        return call.name
    parts = []
    for name, value in arguments.items():
        text = json_text(value)
        parts.append(f"{name}={text}" if len(text) <= _MAX_VALUE_CHARS else f"{name}=…")
    return f"{call.name}({', '.join(parts)})"


def _first_sentence(text: str, *, most: int = _MAX_TASK_CHARS) -> str:
    """Return the first sentence of a text in one line, "" if it is too long."""
    sentence = " ".join(next(sentences_in(text)).split())
    return sentence if len(sentence) <= most else ""


@cache
def _outcome_words() -> dict[str, re.Pattern[str]]:
    """Return the patterns of outcomes by name."""
    file = files("kaosmem.formation").joinpath("patterns", "outcomes.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    flags = re.IGNORECASE | re.MULTILINE
    return {name: re.compile(pattern, flags) for name, pattern in table.items()}
