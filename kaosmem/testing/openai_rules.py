"""The rules of OpenAI's chat completions API: one function each, with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping

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

_FIELDS = {
    "developer": {"role", "content", "name"},
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_PARTS = {
    "developer": {"text"},
    "system": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_CALL_ID_CHARS = 40
_DETAILS = ("auto", "low", "high", "original")


def roles_are_known(messages: Messages) -> Faults:
    """Require the role of developer, system, user, assistant or tool, and only the fields of that role.

    Source: API reference, "Create chat completion", `messages`; unknown fields are refused as
    unrecognized arguments.
    """
    return faults_of_roles(messages, _FIELDS)


def content_is_given(messages: Messages) -> Faults:
    """Require a string or at least one part; only the assistant's may be null, where it calls, refuses or speaks.

    Source: API reference, "Create chat completion", `content` of each kind of message.
    """
    for position, message in enumerate(messages):
        content = message.get("content")
        if content is None:
            instead = any(message.get(field) for field in ("tool_calls", "refusal", "audio"))
            if message["role"] != "assistant" or not instead:
                yield position, "has no content"
        elif not isinstance(content, str) and not (isinstance(content, list) and content):
            yield position, "has content that is neither a string nor a list of parts"


def parts_suit_the_role(messages: Messages) -> Faults:
    """Require texts alone of system, tool and assistant, the assistant's refusals too; a user may send images as well.

    Source: API reference, "Create chat completion", content parts of each kind of message.
    """
    for position, message in enumerate(messages):
        for part in parts_of(message):
            kind = part.get("type")
            if kind not in _PARTS[message["role"]]:
                yield (
                    position,
                    f"holds a part of type {kind!r}, which its role {message['role']!r} may not",
                )
            elif kind in ("text", "refusal") and not isinstance(part.get(kind), str):
                yield position, f"holds a part of type {kind!r} without its text"


def images_can_be_read(messages: Messages) -> Faults:
    """Require an image to be an address on the web or a `data:` URL with base64 of one of four kinds.

    Source: guide "Images and vision", "Image input requirements"; API reference, `image_url`, for
    `detail`.
    """
    for position, part in parts_of_type(messages, "image_url"):
        image = part.get("image_url")
        if not isinstance(image, Mapping) or not _is_image_url(image.get("url")):
            yield position, "holds an image that is neither an address nor readable data"
        elif image.get("detail", "auto") not in _DETAILS:
            yield position, f"holds an image with the detail {image['detail']!r}"


def names_are_plain(messages: Messages) -> Faults:
    r"""Require a name to have 1 to 64 characters, none of them blank or one of `< | \ / >`.

    Source: API reference, "Create chat completion", `name`, and its error for a name that does not
        match the pattern.
    """
    for position, message in enumerate(messages):
        name = message.get("name")
        if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
            yield position, f"has the name {name!r}"


def calls_are_whole(messages: Messages) -> Faults:
    """Require a call to be of a function or a custom tool: a plain name, its arguments or input a string; one at least.

    Source: API reference, "Create chat completion", `tool_calls` and `function.name`.
    """
    for position, message in enumerate(messages):
        if "tool_calls" not in message:
            continue
        calls = message["tool_calls"]
        if not isinstance(calls, list) or not calls:
            yield position, "has tool_calls without a call"
            continue
        for call in calls:
            is_custom = call.get("type") == "custom"
            function = call.get("custom" if is_custom else "function")
            if call.get("type") not in ("function", "custom") or not isinstance(function, Mapping):
                yield position, "has a call that is not of a function"
            elif not _TOOL_NAME.fullmatch(str(function.get("name"))):
                yield position, f"calls a function of the name {function.get('name')!r}"
            elif not isinstance(function.get("input" if is_custom else "arguments"), str):
                yield position, "has a call whose arguments are not a string"


def call_ids_are_distinct(messages: Messages) -> Faults:
    """Require the ids of a message's calls to have 1 to 40 characters, and no two to be the same.

    Source: API reference, "Create chat completion", `tool_calls`, and its errors for ids too long
        and for duplicates.
    """
    for position, message in enumerate(messages):
        ids = [call.get("id") for call in message.get("tool_calls") or ()]
        if any(
            not isinstance(each, str) or not 1 <= len(each) <= _MAX_CALL_ID_CHARS for each in ids
        ):
            yield (
                position,
                f"has a call with an id that is not a string of 1 to {_MAX_CALL_ID_CHARS} "
                "characters",
            )
        elif len(set(ids)) < len(ids):
            yield position, "has two calls with the same id"


def calls_are_answered(messages: Messages) -> Faults:
    """Require each call to be answered once, by the tool messages that directly follow, and none elsewhere.

    Source: guide "Function calling": an assistant message with tool_calls must be followed by tool
    messages responding to each tool_call_id.
    """
    due: list[str] = []
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in due:
                yield position, f"answers no open call: {message.get('tool_call_id')!r}"
            else:
                due.remove(message["tool_call_id"])
            continue
        if due:
            yield position, f"stands before the answers to {due}"
        due = [call["id"] for call in message.get("tool_calls") or ()]
    if due:
        yield len(messages) - 1, f"is the last, and {due} are not answered"


def _is_image_url(url: object) -> bool:
    if is_address(url):
        return True
    head, _, data = str(url).partition(";base64,")
    return (
        head.startswith("data:") and head.removeprefix("data:") in MEDIA_TYPES and is_base64(data)
    )


RULES: tuple[Rule, ...] = (
    roles_are_known,
    content_is_given,
    parts_suit_the_role,
    images_can_be_read,
    names_are_plain,
    calls_are_whole,
    call_ids_are_distinct,
    calls_are_answered,
)
"""In the order in which they are checked: each may rely on those before it."""
