"""LLMFormer: a model proposes changes by one call with a strict schema."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from kaosmem.arguments import check_count, check_text, json_text
from kaosmem.clients import LLMClient
from kaosmem.compaction.model_requests import PAUSE_S, ModelRequests
from kaosmem.errors import InvalidArgumentError, SummaryError
from kaosmem.formation.changes import Action, Draft, Kind, ProposedChange
from kaosmem.tokens import get_counter
from kaosmem.types import JSONValue
from kaosmem.types.content import ToolUseBlock
from kaosmem.types.items import ChatMessage, Item

TOOL_NAME = "record_changes"
_Text = Annotated[str, AfterValidator(partial(check_text, what="a field"))]
_Name = Annotated[_Text | None, AfterValidator(lambda name: name or None)]


class _Change(BaseModel):
    """A change as the model has to write it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    action: Action
    kind: Kind
    key: _Name
    text: _Text
    quote: _Text
    sources: list[int]
    valid_from: _Name
    worked: bool | None = None


class _Answer(BaseModel):
    """The call of the model. Each of the changes is validated by itself."""

    changes: list[Any]


_CHANGE_SCHEMA = _Change.model_json_schema()
_CHANGE_SCHEMA["required"] = list(_Change.model_fields)  # a strict schema has no optional field
CHANGES_TOOL: Mapping[str, JSONValue] = {
    "name": TOOL_NAME,
    "description": "Record the changes of the memory. Give an empty list if there are none.",
    "parameters": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"changes": {"type": "array", "items": _CHANGE_SCHEMA}},
        "required": ["changes"],
    },
}
_KNOWN_SHARE = 4
"""Known facts take at most this fraction of a batch."""
_UNUSABLE = "unusable answer"


class LLMFormer:
    """Forms what a model proposes. Each proposal is checked against its sources afterwards.

    Messages go to the model in batches, as JSON, so that no text can pass for another message. The
    answer is validated item by item: an item that is not as the schema says is refused, and the
    others stay. If no answer to a batch can be read, the batch is counted as refused and passed
    over. If the model fails by an error, the formation stops, and the next one goes on from there.
    Between two batches, the session checks the budget.

    Args:
        llm: The model.
        prompt: The instructions: a text, or a file. The default is the file
            `kaosmem/formation/prompts/form.txt`.
        budget: Tokens that one session may spend for requests and answers. None: no limit.
        batch: Tokens of the messages in one request.
        attempts: The number of times that a batch is sent until its answer can be read.
        pause_s: Seconds without a request after the model failed. Each further failure doubles
            them, up to ten minutes.
        name: The name of the former's mark in the session's log.
        clock: Gives seconds, for pauses.

    Raises:
        InvalidArgumentError: If an argument is not valid.

    >>> import json
    >>> from kaosmem import SessionMemory
    >>> from kaosmem.testing import ScriptedLLM
    >>> change = {
    ...     "action": "add", "kind": "semantic", "key": "ann.home", "text": "Ann lives in Oslo.",
    ...     "quote": "I live in Oslo", "sources": [1], "valid_from": None, "worked": None,
    ... }
    >>> model = ScriptedLLM([json.dumps({"changes": [change]})])
    >>> memory = SessionMemory.test_mode()
    >>> said = memory.add("messages", "By the way, I live in Oslo now.", role="Ann")
    >>> print(*await memory.form(LLMFormer(model)))
    Ann lives in Oslo.
    """

    def __init__(
        self,
        llm: LLMClient,
        *,
        prompt: str | Path | None = None,
        budget: int | None = 200_000,
        batch: int = 4_000,
        attempts: int = 2,
        pause_s: float = PAUSE_S,
        name: str = "llm",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = check_text(name, "name")
        self.budget = None if budget is None else check_count(budget, "budget", least=1)
        self._batch = check_count(batch, "batch", least=64)
        self._counter = get_counter()
        self._prompt = _prompt_text(prompt)
        self._requests = ModelRequests(llm, attempts=attempts, pause_s=pause_s, clock=clock)

    def __repr__(self) -> str:
        return f"<LLMFormer {self.name!r}>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return the changes that the model proposes for the first batch of messages."""
        batch = self._fitting(said, self._batch) or said[:1]  # a larger message stands alone
        keyed = [item for item in reversed(known) if item.key is not None]
        newest = self._fitting(keyed, self._batch // _KNOWN_SHARE)
        told = [{"key": item.key, "text": item.text} for item in reversed(newest)]
        material = json_text({"known": told, "messages": _messages(batch)})
        spent: list[int] = []

        def request(fault: str) -> Sequence[ChatMessage]:
            note = f"\nAn earlier answer could not be taken: {fault}." if fault else ""
            messages = ChatMessage("system", self._prompt), ChatMessage("user", material + note)
            spent.extend(self._counter(message.text) for message in messages)
            return messages

        def read(reply: ChatMessage) -> list[Any]:
            spent.append(self._counter(reply.text))
            return _entries(reply)

        try:
            entries = await self._requests.ask(request, read, tools=[CHANGES_TOOL])
        except SummaryError as error:
            is_unreadable = bool(spent) and error.reason.startswith("no usable answer")
            if not is_unreadable:  # the model failed, or is left alone for a while
                return Draft(covered=0, spent=sum(spent))
            entries = [None]
        changes = [_change_of(entry, batch) for entry in entries]
        usable = [change for change in changes if change is not None]
        faults = [_UNUSABLE] * (len(changes) - len(usable))
        return Draft(usable, len(batch), faults, spent=sum(spent))

    def _fitting(self, items: Sequence[Item], tokens: int) -> Sequence[Item]:
        """Return the first items whose texts have so many tokens together."""
        sums = accumulate(self._counter(item.text) for item in items)
        return items[: sum(1 for _ in takewhile(tokens.__ge__, sums))]


def _prompt_text(prompt: str | Path | None) -> str:
    if isinstance(prompt, Path):
        return check_text(prompt.read_text(encoding="utf-8"), "prompt")
    if prompt is not None:
        return check_text(prompt, "prompt")
    file = files("kaosmem.formation").joinpath("prompts", "form.txt")
    return file.read_text(encoding="utf-8")


def _messages(batch: Sequence[Item]) -> list[JSONValue]:
    """Return messages with their numbers, from 1."""
    found: list[JSONValue] = []
    for number, item in enumerate(batch, 1):
        message: dict[str, JSONValue] = {"number": number, "speaker": item.role or "document"}
        if "timestamp" in item.metadata:
            message["time"] = item.metadata["timestamp"]
        found.append({**message, "text": item.text})
    return found


def _entries(reply: ChatMessage) -> list[Any]:
    """Return the list in the call of an answer, or in its text. Raises InvalidArgumentError."""
    calls = [block for block in reply.blocks if isinstance(block, ToolUseBlock)]
    for text in (*(call.arguments for call in calls if call.name == TOOL_NAME), reply.text):
        with suppress(ValidationError):
            return _Answer.model_validate_json(text).changes
    raise InvalidArgumentError(
        f"the answer has no call of {TOOL_NAME} with a list of changes; answer by calling it"
    )


def _change_of(entry: Any, batch: Sequence[Item]) -> ProposedChange | None:
    """Return a change as the schema describes it, None for any other value."""
    try:
        given = _Change.model_validate(entry)
    except ValidationError:
        return None
    if not all(1 <= number <= len(batch) for number in given.sources):
        return None
    sources = dict.fromkeys(batch[number - 1].id for number in given.sources)
    return ProposedChange(**{**given.model_dump(), "sources": tuple(sources)})
