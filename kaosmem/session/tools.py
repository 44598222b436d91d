"""Tools by which a model asks and changes its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import Parameter, getdoc, signature
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from kaosmem.arguments import check_count, check_text
from kaosmem.assembly.context import Context
from kaosmem.assembly.shortening import excerpt_of
from kaosmem.display import truncated
from kaosmem.errors import InvalidArgumentError, KaosmemError, NotFoundError
from kaosmem.formats.delimiters import escaped_in_piece, name_without, shown_role
from kaosmem.formats.fields import json_object
from kaosmem.formats.labels import source_label
from kaosmem.language.analysis import analyze
from kaosmem.language.sentences import cut_at_sentence
from kaosmem.names import name_hint, shown
from kaosmem.sections.proposal import Candidate
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from kaosmem.session.memory import SessionMemory

REMEMBERED = "remembered"
"""The tag of an item that a model stored by these tools."""
TOOLS = ("search_memory", "read_memory", "remember", "correct_memory", "forget_memory")
"""The methods of `MemoryTools` that `call` runs. All their parameters are texts."""
_CUT_NOTE = "\n[cut; ask for less]"
_ABOUT_NOTE = "\n[cut; name words in about to read the lines that have them]"
_MAX_CHARS = 600
"""Length of an item in a list. `read_memory` shows it whole."""
_MAX_NAME_CHARS = 200

_Query = Annotated[str, Field(description="What to look for, in words or as a question.")]
_Id = Annotated[str, Field(description="The id of an item, as search_memory shows it.")]
_ABOUT = "Words to look for in a long item: the lines that have them are shown, and those around."
_About = Annotated[str | None, Field(description=_ABOUT)]
_Text = Annotated[str, Field(description="One statement that can be understood alone.")]
_NAME_OF_FACT = "A name for the fact, such as 'user/home'. A new value replaces the old one."
_Key = Annotated[str | None, Field(description=_NAME_OF_FACT)]
_KnownKey = Annotated[str, Field(description="The key of a fact, such as 'user/home'.")]
_ExplainedId = Annotated[str | None, Field(description="The id of one item to explain.")]
_Budget = Annotated[int | None, Field(description="Tokens of the context, at most.", ge=1)]


class MemoryTools:
    """The tools of a session for one model. Their docstrings describe them to it.

    Results are texts within a budget. A model replaces, corrects and forgets only the items that it
    remembered by these tools. They have a tag and the trust of a model.

    Args:
        memory: The session.
        max_tokens: Size of a result, in tokens of the session's counter.
        section: The section that gets new items. It is not static: no text of a model stands in the
            system message.

    Raises:
        NotFoundError: If there is no such section.
        InvalidArgumentError: If the section is static, or max_tokens is below 1.
    """

    def __init__(
        self,
        memory: SessionMemory,
        max_tokens: int,
        *,
        section: str,
    ) -> None:
        if memory[section].spec.placement == "static":
            raise InvalidArgumentError(
                f"section {shown(section)} is static, and a model may not write into the system "
                "message; name another section"
            )
        self._memory = memory
        self._section = section
        self._max_tokens = check_count(max_tokens, "max_tokens", least=1)

    async def call(self, name: str, arguments: str | JSONObject) -> str:
        """Return the result of a call as text. An error that the model can mend is a result, too.

        Args:
            arguments: A mapping, or JSON text as a model writes it.
        """
        try:
            if name not in TOOLS:
                raise NotFoundError(f"no tool {shown(name)}; {name_hint(name, TOOLS)}")
            method = getattr(self, name)
            result: str = await method(**_checked(method, arguments))
        except KaosmemError as error:
            result = f"error: {error}"
        return self._cut(result)

    async def search_memory(self, query: _Query) -> str:
        """Search all that was said, found or stored, also long ago. Returns items with ids."""
        hits = self._memory.search(query, limit=30)
        lines = []
        for hit in hits:
            chars = max(1, len(hit.item.text))
            found = self._about(hit.item, query, hit.item.tokens * _MAX_CHARS // chars)
            lines.append(item_line(found, self._state(hit.item)))
        names = [*self._memory.admin.sources]
        if names:
            context = await self._memory.assemble_context(
                query, budget=self._max_tokens, sections=names
            )
            known = {hit.item.id for hit in hits}
            lines += [item_line(item) for item in context.items if item.id not in known]
        return self._cut("\n".join(lines) or "nothing was found")

    async def read_memory(self, id: _Id, about: _About = None) -> str:
        """Read one item whole, and the words that it comes from."""
        item = await self._memory.fetch(id)
        if about:
            item = self._about(item, about, self._max_tokens * 3 // 4)
        lines = [_origin(item, self._state(item)), escaped_in_piece(item.text)]
        if item.sources:
            lines.append("It comes from:")
        for source in item.sources:
            with suppress(NotFoundError):
                said = await self._memory.fetch(source)
                lines.append(item_line(said, self._state(said)))
        return self._cut("\n".join(lines), _ABOUT_NOTE)

    async def remember(self, text: _Text, key: _Key = None) -> str:
        """Store a statement for later turns."""
        key = key or None  # a strict schema has no optional argument
        if key is not None:
            replaced = self._memory[self._section].keyed(key)
            if replaced is not None:
                check_remembered(replaced)
        item = self._memory.add(
            self._section,
            _statement(text),
            role="assistant",
            key=key,
            tags=(REMEMBERED,),
            trust=Trust.MODEL,
        )
        return f"remembered as {item.id}"

    async def correct_memory(self, id: _Id, text: _Text) -> str:
        """Replace the text of an item that you remembered."""
        item = self._remembered(id)
        self._memory.update(item.id, _statement(text))
        return f"corrected {item.id}"

    async def forget_memory(self, id: _Id) -> str:
        """Erase an item that you remembered, for ever."""
        item = self._remembered(id)
        receipt = await self._memory.forget(item.id)
        return f"forgot {', '.join(receipt.items)}"

    # Further tools, for a server that a model of any program asks.

    async def assemble_context(self, query: _Query, budget: _Budget = None) -> str:
        """Return the most valuable content of the memory for a question, within a budget."""
        return (await self._assembled(query, budget)).text

    async def explain_context(
        self,
        query: _Query,
        id: _ExplainedId = None,
        budget: _Budget = None,
    ) -> str:
        """Say why items are in the context for a question, or why one item is or is not."""
        context = await self._assembled(query, budget)
        if not id:
            return self._cut(context.explain())
        decision = context.decision(id)
        if decision.included:
            return f"in: {decision.why}"
        return f"out: {decision.why}"

    async def list_versions(self, key: _KnownKey) -> str:
        """Return all values that a fact with a key had, newest first, each with its interval."""
        lines = []
        for version in reversed(await self._memory.versions(key)):
            until = version.valid_until
            end = "now" if until is None else until.isoformat()
            interval = f"{version.valid_from.isoformat()} to {end}"
            if version.is_taken_back:
                interval = f"from {version.valid_from.isoformat()}, taken back {end}"
            lines.append(f"{interval}: {item_line(version.item)}")
        return self._cut("\n".join(lines) or "no item has this key")

    async def _assembled(self, query: str, budget: int | None) -> Context:
        return await self._memory.assemble_context(query, budget=budget or self._max_tokens)

    def _cut(self, text: str, note: str = _CUT_NOTE) -> str:
        return cut_to_tokens(text, self._memory.admin.counter, self._max_tokens, note)

    def _about(self, item: Item, words: str, limit: int) -> Item:
        """Return an item of more than so many tokens with the lines that have some words."""
        if item.tokens <= limit:
            return item
        unit = Candidate.alone(item, 0, 1, None)
        terms = frozenset(analyze(words))
        return excerpt_of(unit, limit, terms, self._memory.admin.counter).items[0]

    def _state(self, item: Item) -> str:
        """Return whether an item was archived, and which item replaced it; "" for any other one."""
        sections = {section.spec.name: section for section in self._memory}
        section = sections.get(item.section)
        if section is None or item.id in section:
            return ""
        if item.key is None:
            return "archived"
        current = section.current_id(item.key)
        if current in (None, item.id):
            return "archived"
        return f"replaced by {current}"

    def _remembered(self, item_id: str) -> Item:
        item = self._memory.get(item_id)
        if item is None:
            raise NotFoundError(f"no live item {shown(item_id)}; search_memory shows the ids")
        check_remembered(item)
        return item


def _parameters(name: str) -> JSONDict:
    """Return the JSON schema of a tool's arguments."""
    properties = {}
    required = []
    method = getattr(MemoryTools, name)
    _, *parameters = signature(method, eval_str=True).parameters.values()
    for parameter in parameters:
        (field,) = parameter.annotation.__metadata__
        properties[parameter.name] = {"type": "string", "description": field.description}
        if parameter.default is Parameter.empty:
            required.append(parameter.name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _checked(method: Callable[..., object], arguments: str | JSONObject) -> Mapping[str, str]:
    """Return the arguments of a call. Raises InvalidArgumentError for any that do not fit."""
    given = json_object(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(given, Mapping):
        raise InvalidArgumentError("the arguments are no JSON object; name each of them")
    parameters = signature(method)
    try:
        parameters.bind(**given)
    except TypeError as error:
        names = ", ".join(parameters.parameters)
        raise InvalidArgumentError(f"{error}; give {names}") from None
    return {each: check_text(text, each) for each, text in given.items() if text is not None}


def _statement(text: str) -> str:
    """Return the text of a statement. Raises InvalidArgumentError for an empty one."""
    if not text.strip():
        raise InvalidArgumentError("text is empty; write one statement")
    return text


def tool_schemas(format: str) -> list[JSONDict]:
    """Return the schemas of the tools in a provider's format.

    Raises:
        InvalidArgumentError: If tools cannot be written in this format.

    >>> [tool["name"] for tool in tool_schemas("anthropic")][:2]
    ['search_memory', 'read_memory']
    """
    return [_schema(name, format) for name in TOOLS]


def _schema(name: str, format: str) -> JSONDict:
    parameters = _parameters(name)
    described = {"name": name, "description": getdoc(getattr(MemoryTools, name))}
    match format:
        case "anthropic":
            return {**described, "input_schema": parameters}
        case "bedrock":
            return {"toolSpec": {**described, "inputSchema": {"json": parameters}}}
        case "gemini":
            return {"functionDeclarations": [{**described, "parametersJsonSchema": parameters}]}
        case "openai":
            return {"type": "function", "function": {**described, "parameters": parameters}}
        case "openai-responses":
            return {"type": "function", "strict": False, **described, "parameters": parameters}
    raise InvalidArgumentError(
        f"no tools in format {shown(format)}; use one of 'anthropic', 'bedrock', 'gemini', "
        "'openai', 'openai-responses'"
    )


def cut_to_tokens(
    text: str,
    counter: TokenCounter,
    max_tokens: int,
    note: str = _CUT_NOTE,
) -> str:
    """Return a text within a budget, cut at a sentence and with a note where it is longer."""
    if counter(text) <= max_tokens:
        return text
    room = max_tokens - counter(note) - 1
    return cut_at_sentence(text, max(0, room), counter) + note


def check_remembered(item: Item) -> None:
    """Raise InvalidArgumentError for an item that a model did not store by these tools."""
    if REMEMBERED not in item.tags:
        raise InvalidArgumentError(
            f"item {item.id} was not remembered by these tools, and a model may not change it; "
            "remember a statement beside it"
        )


def item_line(item: Item, state: str = "") -> str:
    """Return an item with its id, its origin and its state, in one line."""
    words = truncated(" ".join(item.text.split()), _MAX_CHARS)
    return f"{_origin(item, state)} {words}".rstrip()


def _origin(item: Item, state: str = "") -> str:
    time = item.metadata.get("timestamp") or item.created_at.date()
    told = [item.section, shown_role(item.shown_role), source_label(item), str(time)]
    named = [name_without(each, ",()[]")[:_MAX_NAME_CHARS] for each in told if each]
    if state:
        named.append(state)
    return f"[{item.id}] ({', '.join(named)})"
