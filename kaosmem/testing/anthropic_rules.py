"""The rules of Anthropic's messages API: one function each, with its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kaosmem.testing.rules import (
    MEDIA_TYPES,
    Faults,
    Messages,
    Rule,
    faults_of_roles,
    is_address,
    is_base64,
    parts_of,
    parts_of_type,
)
from kaosmem.types import JSONObject, JSONValue

_OF_USERS = "text image document tool_result search_result container_upload"
_OF_ASSISTANTS = """
text thinking redacted_thinking tool_use server_tool_use mcp_tool_use mcp_tool_result
web_search_tool_result web_fetch_tool_result code_execution_tool_result advisor_tool_result
bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result
mcp_tool_listing container_upload compaction fallback
"""
_BLOCKS = {"user": {*_OF_USERS.split()}, "assistant": {*_OF_ASSISTANTS.split()}}
_IN_RESULTS = {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
_OF_THE_MODEL = {"text", "thinking", "redacted_thinking", "tool_use"}
_THINKING = ("thinking", "redacted_thinking")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_TITLE_CHARS = 500


def fault_of_system(system: JSONValue) -> str:
    """Return the fault of a system prompt, "" for none: it is a string or a list of texts that are not blank.

    Source: API reference, "Create a Message", `system`; no system prompt is "".
    """
    if isinstance(system, list):
        if system and all(_is_text(block) for block in system):
            return ""
        return "is a list of other than texts"
    if not isinstance(system, str):
        return "is neither a string nor a list of texts"
    return "is blank" if system and not system.strip() else ""


def roles_are_known(messages: Messages) -> Faults:
    """Require a message to be the user's or the assistant's, with role and content alone; the system prompt is beside.

    Source: API reference, "Create a Message", `messages`. Newer models take system messages too,
    not all do.
    """
    return faults_of_roles(messages, dict.fromkeys(_BLOCKS, ("role", "content")))


def the_first_is_the_users(messages: Messages) -> Faults:
    """Require the first to be the user's; after it, messages of one role may follow each other, and are read as one.

    Source: API reference, "Create a Message", `messages`, and the error "first message must use the
    user role".
    """
    if messages and messages[0]["role"] != "user":
        yield 0, "is the first, and not the user's"


def content_is_given(messages: Messages) -> Faults:
    """Require content: a string that is not blank, or at least one block, each of a type that its role may send.

    Source: API reference, "Create a Message", `content`, and the error "all messages must have
    non-empty content".
    """
    for position, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, str):
            if not content.strip():
                yield position, "is blank"
        elif not isinstance(content, list) or not content:
            yield position, "has neither text nor blocks"
        else:
            for block in content:
                if block.get("type") not in _BLOCKS[message["role"]]:
                    yield (
                        position,
                        f"holds a block of type {block.get('type')!r}, which {message['role']!r} "
                        "may not",
                    )


def texts_are_not_blank(messages: Messages) -> Faults:
    """Require a text, in a result too, to have more in it than white space.

    Source: the errors "text content blocks must be non-empty" and "must contain non-whitespace
        text".
    """
    for position, block in _all_blocks(messages):
        if block.get("type") == "text" and not _is_text(block):
            yield position, "holds a text that is blank"


def images_can_be_read(messages: Messages) -> Faults:
    """Require an image to be an address on the web, an uploaded file, or base64 of one of four kinds.

    Source: "Vision", `source` of image blocks.
    """
    for position, block in _all_blocks(messages):
        if block.get("type") == "image":
            match block.get("source"):
                case {"type": "url", "url": url} if is_address(url):
                    pass
                case {"type": "file", "file_id": str()}:
                    pass
                case {"type": "base64", "media_type": kind, "data": data} if (
                    kind in MEDIA_TYPES and is_base64(data)
                ):
                    pass
                case _:
                    yield position, "holds an image that is neither an address nor readable data"


def documents_can_be_read(messages: Messages) -> Faults:
    """Require a document to be plain text that is not blank, its title 1 to 500 characters; or a PDF, file or content.

    Source: API reference, "Create a Message", document blocks.
    """
    for position, block in _all_blocks(messages):
        if block.get("type") == "document":
            match block.get("source"):
                case {"type": "text", "media_type": "text/plain", "data": str() as data} if (
                    data.strip()
                ):
                    if (
                        not 1 <= len(block.get("title") or "-") <= _MAX_TITLE_CHARS
                        or block.get("title") == ""
                    ):
                        yield position, "holds a document with a title of no or too many characters"
                case {"type": "base64", "media_type": "application/pdf", "data": data} if is_base64(
                    data
                ):
                    pass
                case {"type": "url" | "file" | "content"}:
                    pass
                case _:
                    yield (
                        position,
                        "holds a document that is neither plain text nor a PDF, a file or content",
                    )


def calls_are_whole(messages: Messages) -> Faults:
    """Require a call to have a plain name and an object as input.

    Source: API reference, "Create a Message", `tool_use` and the pattern of a tool's name.
    """
    for position, block in parts_of_type(messages, "tool_use"):
        if not _TOOL_NAME.fullmatch(str(block.get("name"))):
            yield position, f"calls a tool of the name {block.get('name')!r}"
        if not isinstance(block.get("input"), Mapping):
            yield position, "has a call whose input is no object"


def call_ids_are_distinct(messages: Messages) -> Faults:
    """Require ids of letters, digits, underscores and hyphens, no two calls of a request sharing one.

    Source: the errors "String should match pattern '^[a-zA-Z0-9_-]+$'" and "tool_use ids must be
    unique".
    """
    seen: set[str] = set()
    for position, block in parts_of_type(messages, "tool_use"):
        call_id = str(block.get("id"))
        if not _ID.fullmatch(call_id):
            yield position, f"has a call with the id {call_id!r}"
        if call_id in seen:
            yield position, f"has a call with the id {call_id!r} of an earlier one"
        seen.add(call_id)


def calls_are_answered(messages: Messages) -> Faults:
    """Require each call to be answered once, in the message right after it, and no result elsewhere.

    Source: "Tool use", "Handle tool calls", and the errors that a tool_use has no tool_result
    immediately after, that a tool_use_id is unexpected, and that each tool_use must have a single
    result.
    """
    due: list[str] = []
    for position, message in enumerate(messages):
        answered = [
            block.get("tool_use_id")
            for block in parts_of(message)
            if block.get("type") == "tool_result"
        ]
        if sorted(map(str, answered)) != sorted(due):
            yield position, f"answers {answered}, and the calls right before it are {due}"
        due = [block["id"] for block in parts_of(message) if block.get("type") == "tool_use"]
    if due:
        yield len(messages) - 1, f"is the last, and {due} are not answered"


def results_of_servers_have_calls(messages: Messages) -> Faults:
    """Require the result of a tool that the provider runs to come after its call.

    Source: "Web search tool", multi-turn conversations, and the error that a `tool_use_id` of a
        web_search_tool_result
    has no corresponding server_tool_use block before it.
    """
    called: set[str] = set()
    for position, block in _all_blocks(messages):
        kind = str(block.get("type"))
        if kind in ("server_tool_use", "mcp_tool_use"):
            called.add(str(block.get("id")))
        elif kind.endswith("_tool_result") and str(block.get("tool_use_id")) not in called:
            yield (
                position,
                f"has a result of a server's call {block.get('tool_use_id')!r}, which is not "
                "before it",
            )


def results_come_first(messages: Messages) -> Faults:
    """Require results to come before all else in their message, and an error to have content.

    Source: "Tool use", "Handle tool calls": tool_result blocks come first, text after them; and the
        error "content
    cannot be empty if is_error is true".
    """
    for position, message in enumerate(messages):
        is_result = [block.get("type") == "tool_result" for block in parts_of(message)]
        if is_result != sorted(is_result, reverse=True):
            yield position, "has something before a result"
    for position, block in parts_of_type(messages, "tool_result"):
        if block.get("is_error") and not block.get("content"):
            yield position, "has an error without content"
        for part in parts_of(block):
            if part.get("type") not in _IN_RESULTS:
                yield position, f"has a result with a block of type {part.get('type')!r}"


def thinking_is_sealed_and_first(messages: Messages) -> Faults:
    """Require reasoning to be sealed, to come first in a message that calls, and never to be the last of a message.

    Source: "Extended thinking", "Preserving thinking blocks", and the errors that a message must
    start with a thinking block and that its final block cannot be one.
    """
    for position, message in enumerate(messages):
        all_kinds = [block.get("type") for block in parts_of(message)]
        kinds = [
            kind for kind in all_kinds if kind in _OF_THE_MODEL
        ]  # a server's parts may stand before
        for block in parts_of(message):
            if block.get("type") == "thinking" and not (
                block.get("signature") and "thinking" in block
            ):
                yield position, "has reasoning without its signature"
            if block.get("type") == "redacted_thinking" and not block.get("data"):
                yield position, "has redacted reasoning without its data"
        if (
            "tool_use" in kinds
            and any(kind in _THINKING for kind in kinds)
            and kinds[0] not in _THINKING
        ):
            yield position, "calls, and has reasoning that is not first"
        if all_kinds and all_kinds[-1] in _THINKING:
            yield position, "ends in reasoning"


def the_last_call_begins_with_thinking(messages: Messages) -> Faults:
    """Require the latest message of the assistant, if it calls, to begin with thinking.

    It holds with thinking on.

    Source: "Extended thinking", "Preserving thinking blocks", and the error "a final `assistant`
        message must start
    with a thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks)".
    Earlier ones may lack it.
    """
    last = _latest_reply(messages)
    if last is None:
        return
    kinds = [
        block["type"] for block in parts_of(messages[last]) if block.get("type") in _OF_THE_MODEL
    ]
    if "tool_use" in kinds and kinds[0] not in _THINKING:
        yield last, "is the latest of the assistant, calls, and does not begin with thinking"


class TheLatestReplyIsUnchanged:
    """Requires the thinking of the latest message of the assistant to be that of the reply, block for block.

    Source: the error "`thinking` or `redacted_thinking` blocks in the latest assistant message
    cannot be modified". Thinking of earlier messages may be left out.

    Args:
        replies: Contents of the assistant's messages, as the API gave them.
    """

    __name__ = "the_latest_reply_is_unchanged"

    def __init__(self, replies: Iterable[Sequence[JSONObject]]) -> None:
        self._replies = [list(reply) for reply in replies]

    def __call__(self, messages: Messages) -> Faults:
        last = _latest_reply(messages)
        if last is None:
            return
        shown = parts_of(messages[last])
        replies = [reply for reply in self._replies if any(block in reply for block in shown)]
        if replies and not any(_thinking(reply) == _thinking(shown) for reply in replies):
            yield last, "is the latest of the assistant, and its thinking is not that of the reply"


def the_last_of_the_assistant_is_trimmed(messages: Messages) -> Faults:
    """Require no white space at the end of a final message of the assistant's, which the model goes on from.

    Source: "Prefill Claude's response", and the error "final assistant content cannot end with
    trailing whitespace".
    """
    if messages and messages[-1]["role"] == "assistant":
        content = messages[-1]["content"]
        last = content if isinstance(content, str) else content[-1].get("text", "")
        if last != last.rstrip():
            yield len(messages) - 1, "is the last, and the assistant's, and ends in white space"


def _latest_reply(messages: Messages) -> int | None:
    """Return the position of the assistant's latest message, or None."""
    places = (
        place
        for place in range(len(messages) - 1, -1, -1)
        if messages[place]["role"] == "assistant"
    )
    return next(places, None)


def _thinking(blocks: Iterable[JSONObject]) -> list[JSONObject]:
    return [block for block in blocks if block.get("type") in _THINKING]


def _all_blocks(messages: Messages) -> Iterator[tuple[int, JSONObject]]:
    """Yield all blocks, those in results too, each with the position of its message."""
    for position, message in enumerate(messages):
        for block in parts_of(message):
            yield position, block
            if block.get("type") == "tool_result":
                for inner in parts_of(block):
                    yield position, inner


def _is_text(block: object) -> bool:
    return (
        isinstance(block, Mapping)
        and isinstance(block.get("text"), str)
        and bool(block["text"].strip())
    )


RULES: tuple[Rule, ...] = (
    roles_are_known,
    the_first_is_the_users,
    content_is_given,
    texts_are_not_blank,
    images_can_be_read,
    documents_can_be_read,
    calls_are_whole,
    call_ids_are_distinct,
    calls_are_answered,
    results_of_servers_have_calls,
    results_come_first,
    thinking_is_sealed_and_first,
    the_last_of_the_assistant_is_trimmed,
)
"""In the order in which they are checked: each may rely on those before it."""
