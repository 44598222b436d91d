"""Tools by which a model asks and changes its memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaosmem.arguments import check_count, check_text
from kaosmem.display import fitted
from kaosmem.errors import InvalidArgumentError, KaosmemError, NotFoundError
from kaosmem.language.sentences import cut_at_sentence
from kaosmem.names import shown
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONValue
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from kaosmem.session.memory import SessionMemory

REMEMBERED = "remembered"
"""The tag of an item that a model stored by these tools."""
_CUT_NOTE = "\n[cut; ask for less]"
_MAX_CHARS = 600
"""Length of an item in a list. `read_memory` shows it whole."""
_QUERY = {"type": "string", "description": "What to look for, in words or as a question."}
_ID = {"type": "string", "description": "The id of an item, as search_memory shows it."}
_TEXT = {"type": "string", "description": "One statement that can be understood alone."}
_KEY = {
    "type": "string",
    "description": "A name for the fact, such as 'user.city'. A new value replaces the old one.",
}

_Run = Callable[["MemoryTools", Mapping[str, Any]], Awaitable[str]]


class MemoryTools:
    """The tools of a session for one model.

    Results are texts within a budget. A model replaces, corrects and forgets only the items that it
    remembered by these tools. They have a tag and the trust of a model.

    Args:
        memory: The session.
        section: The section that gets new items. It is not static: no text of a model stands in the
            system message.
        max_tokens: Size of a result, in tokens of the session's counter.

    Raises:
        NotFoundError: If there is no such section.
        InvalidArgumentError: If the section is static, or max_tokens is below 1.
    """

    def __init__(self, memory: SessionMemory, section: str, max_tokens: int) -> None:
        if memory[section].spec.placement == "static":
            raise InvalidArgumentError(
                f"section {shown(section)} is static, and a model may not write into the system "
                "message; name another section"
            )
        self._memory = memory
        self._section = section
        self._max_tokens = check_count(max_tokens, "max_tokens", least=1)

    async def call(self, name: str, arguments: str | Mapping[str, JSONValue]) -> str:
        """Return the result of a call as text. An error that the model can mend is a result, too.

        Args:
            arguments: A mapping, or JSON text as a model writes it.

        Raises:
            NotFoundError: If there is no tool with this name.
        """
        if name not in _TOOLS:
            raise NotFoundError(f"no tool {shown(name)}; there are {', '.join(_TOOLS)}")
        tool = _TOOLS[name]
        try:
            result = await tool.run(self, tool.checked(arguments))
        except KaosmemError as error:
            result = f"error: {error}"
        return self._cut(result)

    def _cut(self, text: str) -> str:
        counter = self._memory.admin.counter
        if counter(text) <= self._max_tokens:
            return text
        room = self._max_tokens - counter(_CUT_NOTE) - 1
        return cut_at_sentence(text, max(0, room), counter) + _CUT_NOTE

    async def search(self, given: Mapping[str, Any]) -> str:
        """Return items of the sections, the archive and the sources, best first, one a line."""
        query = given["query"]
        hits = self._memory.search(query, limit=30)
        lines = [item_line(hit.item, hit.is_archived) for hit in hits]
        names = [*self._memory.admin.sources]
        if names:
            context = await self._memory.assemble_context(
                query, budget=self._max_tokens, sections=names
            )
            known = {hit.item.id for hit in hits}
            lines += [item_line(item) for item in context.items if item.id not in known]
        counter = self._memory.admin.counter
        return leading_lines(lines, counter, self._max_tokens) or "nothing was found"

    async def read(self, given: Mapping[str, Any]) -> str:
        """Return a whole item, live, archived or of a source, with the words that it comes from."""
        item = await self._memory.fetch(given["id"])
        lines = [item_line(item, text=""), item.text]
        for place, source in enumerate(item.sources):
            if place == 0:
                lines.append("It comes from:")
            with suppress(NotFoundError):
                lines.append(item_line(await self._memory.fetch(source)))
        return "\n".join(lines)

    async def remember(self, given: Mapping[str, Any]) -> str:
        """Store a statement."""
        key = given.get("key")
        replaced = None if key is None else self._memory[self._section].keyed(key)
        if replaced is not None:
            check_remembered(replaced)
        item = self._memory.add(
            self._section,
            given["text"],
            role="assistant",
            key=key,
            tags=(REMEMBERED,),
            trust=Trust.MODEL,
        )
        return f"remembered as {item.id}"

    async def correct(self, given: Mapping[str, Any]) -> str:
        """Replace the text of an item. Its old text stays in the archive."""
        item = self._remembered(given["id"])
        self._memory.update(item.id, given["text"])
        return f"corrected {item.id}"

    async def forget(self, given: Mapping[str, Any]) -> str:
        """Erase an item and everything that was derived from it."""
        item = self._remembered(given["id"])
        receipt = await self._memory.forget(item.id)
        return f"forgot {', '.join(receipt.items)}"

    def _remembered(self, item_id: str) -> Item:
        item = self._memory.get(item_id)
        if item is None:
            raise NotFoundError(f"no live item {shown(item_id)}; search_memory shows the ids")
        check_remembered(item)
        return item


@dataclass(frozen=True)
class _Tool:
    """A tool: its description for the model, its function and its parameters, all texts."""

    description: str
    run: _Run
    required: Mapping[str, Any]
    optional: Mapping[str, Any] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, Any]:
        """The schemas of all parameters by name."""
        return {**self.required, **self.optional}

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }

    def checked(self, arguments: str | Mapping[str, JSONValue]) -> Mapping[str, Any]:
        """Return the arguments of a call. Raises InvalidArgumentError for any that do not fit."""
        try:
            given = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            raise InvalidArgumentError("the arguments are no JSON; write an object") from None
        if not isinstance(given, Mapping):
            raise InvalidArgumentError("the arguments are no object; name each of them")
        missing = [name for name in self.required if name not in given]
        unknown = [str(name) for name in given if name not in self.properties]
        if missing or unknown:
            raise InvalidArgumentError(
                f"missing arguments: {missing}, unknown arguments: {unknown}; "
                f"give {', '.join(self.properties)}"
            )
        return {name: check_text(value, name) for name, value in given.items() if value is not None}


_TOOLS = {
    "search_memory": _Tool(
        "Search everything that was said, found or stored, also long ago. Returns items with ids.",
        MemoryTools.search,
        {"query": _QUERY},
    ),
    "read_memory": _Tool(
        "Read one item whole, and the words that it comes from.", MemoryTools.read, {"id": _ID}
    ),
    "remember": _Tool(
        "Store a statement for later turns.", MemoryTools.remember, {"text": _TEXT}, {"key": _KEY}
    ),
    "correct_memory": _Tool(
        "Replace the text of an item that you remembered.",
        MemoryTools.correct,
        {"id": _ID, "text": _TEXT},
    ),
    "forget_memory": _Tool(
        "Erase an item that you remembered, for ever.", MemoryTools.forget, {"id": _ID}
    ),
}


def tool_schemas(format: str) -> list[dict[str, JSONValue]]:
    """Return the schemas of the tools in a provider's format.

    Raises:
        InvalidArgumentError: If tools cannot be written in this format.

    >>> [tool["name"] for tool in tool_schemas("anthropic")][:2]
    ['search_memory', 'read_memory']
    """
    if format not in _PARAMETERS:
        known = ", ".join(map(repr, _PARAMETERS))
        raise InvalidArgumentError(f"no tools in format {shown(format)}; use one of {known}")
    return [_schema(name, tool, format) for name, tool in _TOOLS.items()]


_PARAMETERS = {
    "anthropic": "input_schema",
    "bedrock": "inputSchema",
    "gemini": "parametersJsonSchema",
    "openai": "parameters",
    "openai-responses": "parameters",
}
"""The name of the parameters in the schema of a tool, by format."""


def _schema(name: str, tool: _Tool, format: str) -> dict[str, JSONValue]:
    parameters = {"json": tool.parameters} if format == "bedrock" else tool.parameters
    described: dict[str, JSONValue] = {"name": name, "description": tool.description}
    described[_PARAMETERS[format]] = parameters
    match format:
        case "bedrock":
            return {"toolSpec": described}
        case "gemini":
            return {"functionDeclarations": [described]}
        case "openai":
            return {"type": "function", "function": described}
        case "openai-responses":
            return {"type": "function", "strict": False, **described}
        case _:
            return described


def leading_lines(lines: Iterable[str], counter: TokenCounter, max_tokens: int) -> str:
    """Return the leading lines that fit, at least one if there is any."""
    found = ""
    for line in lines:
        longer = f"{found}\n{line}" if found else line
        if found and counter(longer) > max_tokens:
            break
        found = longer
    return found


def check_remembered(item: Item) -> None:
    """Raise InvalidArgumentError for an item that a model did not store by these tools."""
    if REMEMBERED not in item.tags:
        raise InvalidArgumentError(
            f"item {item.id} was not remembered by these tools, and a model may not change it; "
            "remember a statement beside it"
        )


def item_line(item: Item, is_archived: bool = False, text: str | None = None) -> str:
    """Return an item with its id and its origin, in one line. text: in place of its own."""
    source = item.metadata.get("source")
    time = item.metadata.get("timestamp") or item.created_at.date().isoformat()
    origin = [item.section, item.role, str(source or ""), str(time)]
    if is_archived:
        origin.append("archived")
    shown_text = fitted(" ".join(item.text.split()), _MAX_CHARS) if text is None else text
    return f"[{item.id}] ({', '.join(each for each in origin if each)}) {shown_text}".rstrip()
