"""ProcedureFormer: what worked for a task becomes steps with their outcome."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from kaosmem.formation.changes import Draft, ProposedChange
from kaosmem.formation.grounding import MAX_TEXT_CHARS
from kaosmem.formation.quotes import patterns
from kaosmem.language.sentences import sentences_in
from kaosmem.types.content import ToolResultBlock, ToolUseBlock, block_text
from kaosmem.types.items import Item
from kaosmem.units import Link

T = TypeVar("T")

_LEAST_CALLS = 2
_MAX_TASK_CHARS = 160
_MAX_STEP_CHARS = 160
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
    1. build({"target":"app"})
    2. upload({"file":"app.zip"})
    """

    name = "procedures"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return one change for each run that has ended with an outcome."""
        begins = []
        for place, item in enumerate(said):
            if item.role == "user" and not Link.of(item).answers:
                begins.append(place)
        changes = []
        for begin, end in pairwise(begins):
            change = self._change(said[begin:end], said[end])
            if change is not None:
                changes.append(change)
        until = len(said)
        if begins:
            last = begins[-1]
            if any(_blocks(said[last:], ToolUseBlock)):  # the last run goes on
                until = last
        return Draft(changes, until)

    def _change(self, run: Sequence[Item], answer: Item) -> ProposedChange | None:
        """Return a run as a procedure, or None if it is none.

        Args:
            run: The task, and the messages until the user's answer.
        """
        outcome = _outcome_of(run, answer)
        task = _first_sentence(run[0].text)
        if outcome is None or not task:
            return None
        quote, quoted, worked = outcome
        results = _blocks(run, ToolResultBlock)
        failed = {result.tool_use_id for result in results if result.is_error and worked}
        calls = [call for call in _blocks(run, ToolUseBlock) if call.id not in failed]
        text = _written(task, map(_step_text, calls))
        if len(text) > MAX_TEXT_CHARS:  # of a long run, the names of the tools are kept
            text = _written(task, (call.name for call in calls))
        # An address that the task does not name may be that of a hostile text.
        has_foreign = any(address not in run[0].text for address in _ADDRESS.findall(text))
        if len(calls) < _LEAST_CALLS or has_foreign:
            return None
        sources = [run[0], *(item for item in run if not Link.of(item).is_plain), quoted]
        return ProposedChange(
            text,
            quote,
            tuple(source.id for source in sources),
            kind="procedural",
            details={"title": task},
            worked=worked,
        )


def _blocks(items: Sequence[Item], kind: type[T]) -> list[T]:
    """Return the blocks of a kind in some messages, in order."""
    found: list[T] = []
    for item in items:
        found += (block for block in item.message.blocks if isinstance(block, kind))
    return found


def _outcome_of(run: Sequence[Item], answer: Item) -> tuple[str, Item, bool] | None:
    """Return the outcome of a run: the quote that states it, its message, and whether it worked.

    The user's answer counts before the last result of a tool, and a failure before a success.
    """
    stated = [("user", answer, _first_sentence(answer.text, most=_MAX_RESULT_CHARS))]
    results = [item for item in run if Link.of(item).answers]
    stated += [("tool", item, item.text[-_MAX_RESULT_CHARS:]) for item in results[-1:]]
    for speaker, item, text in stated:
        for outcome in ("failed", "worked"):
            words = patterns("outcomes")[f"{speaker}_{outcome}"]
            for line in text.splitlines():
                if words.search(line):
                    return line.strip(), item, outcome == "worked"
    return None


def _written(task: str, steps: Iterable[str]) -> str:
    """Return a procedure as text: the task, and a numbered line for each step."""
    lines = [task]
    for number, step in enumerate(dict.fromkeys(steps), 1):
        lines.append(f"{number}. {step}")
    return "\n".join(lines)


def _step_text(call: ToolUseBlock) -> str:
    """Return a call as it is shown in a text, or the name of the tool if it is long."""
    text = block_text(call)
    if len(text) <= _MAX_STEP_CHARS:
        return text
    return call.name


def _first_sentence(text: str, *, most: int = _MAX_TASK_CHARS) -> str:
    """Return the first sentence of a text in one line, "" if it is too long."""
    sentence = " ".join(next(sentences_in(text)).split())
    if len(sentence) <= most:
        return sentence
    return ""
