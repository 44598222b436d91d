"""Haystack 3.x: a chat generator around the one of an agent or a pipeline."""

from __future__ import annotations

from typing import Any

from kaosmem.arguments import json_text, text_digest
from kaosmem.errors import needs_extra
from kaosmem.formats.delimiters import PROVIDERS_ROLES
from kaosmem.formats.fields import json_object
from kaosmem.integrations import part_tables as part
from kaosmem.integrations.conversations import Framework, run_and_wait
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types import items as chat
from kaosmem.types.content import ThinkingBlock

with needs_extra("haystack"):
    from haystack import component
    from haystack.dataclasses import ChatMessage
    from haystack.tools import flatten_tools_or_toolsets

_NAMED = {"tool_name": part.NAME, "extra": part.EXTRA}
_ORIGIN = {**_NAMED, "id": part.RESULT_ID}
_RESULT = {"result": part.RESULT, "error": part.FAILED, "origin": _ORIGIN}
_PARTS = part.PartTable(
    "kind",
    {"kind": "text", "text": part.TEXT},
    {"kind": "reasoning", "reasoning_text": part.THINKING},
    {"kind": "image", "base64_image": part.DATA, "mime_type": part.MEDIA_TYPE},
    {"kind": "tool_call", **_NAMED, "id": part.ID, "arguments": part.ARGUMENTS},
    {"kind": "tool_call_result", **_RESULT},
)


def read_message(message: ChatMessage) -> list[chat.ChatMessage]:
    """Return a message as a list of one."""
    given = message.to_dict()
    role = given["role"]
    name = given["name"]
    if role == "user" and name and name not in PROVIDERS_ROLES:
        role = name
    return [chat.ChatMessage(role, _PARTS.read(map(_part, given["content"])))]


def _part(given: JSONObject) -> JSONDict:
    """Return a part with its kind. A result in parts has these as blocks."""
    ((kind, value),) = given.items()
    if kind == "text":
        return {"kind": kind, "text": value}
    if kind == "tool_call":
        return {"kind": kind, **_identified(value)}
    if kind == "tool_call_result":
        result = value["result"]
        if not isinstance(result, str):
            result = _PARTS.read(map(_part, result))
        value = {**value, "result": result, "origin": _identified(value["origin"])}
    return {"kind": kind, **value}


def _identified(call: JSONDict) -> JSONDict:
    """Return a call with an id, by which its result is known. Some generators give none."""
    if call["id"]:
        return call
    said = json_text([call["tool_name"], call["arguments"]])
    return {**call, "id": text_digest(said)}


def write_message(message: chat.ChatMessage) -> ChatMessage:
    """Return a message of the framework, its texts in one. A result is alone in its message.

    The framework sends the reasoning of a reply only as its generator made it.
    """
    blocks = [block for block in message.blocks if not isinstance(block, ThinkingBlock)]
    content: list[JSONDict] = []
    for written in _PARTS.write(blocks):
        kind = written.pop("kind")
        if kind == "tool_call":
            _complete(written)
        elif kind == "tool_call_result":
            written["origin"]["arguments"] = {}
        elif kind == "text" and content and "text" in content[-1]:
            content[-1]["text"] += f"\n\n{written['text']}"
            continue
        content.append({kind: written.get("text", written)})
    return ChatMessage.from_dict({"role": message.role, "content": content})


def _complete(call: JSONDict) -> None:
    """Give a call its arguments as a dict, and the first one of its two ids in OpenAI's Responses.

    Under its own first id, the provider would ask for the reasoning that is left out here.
    """
    call["arguments"] = json_object(call["arguments"]) or {}
    call_id = call.get("extra", {}).get("call_id")
    if call_id:
        call["id"] = f"fc_{call_id}"


_FRAMEWORK = Framework(
    read_message,
    write_message,
    id_remedy="give conversation=..., or generation_kwargs={'conversation': ...}",
)


@component
class KaosmemChatGenerator:
    """Keeps a conversation in a session, and packs each request of a chat generator.

    Args:
        generator: The chat generator that calls the model.
        location: The place of the sessions.
        conversation: The id of the conversation. `generation_kwargs={"conversation": ...}` of a
            run names another one.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(
        self,
        generator: Any,
        location: Location,
        *,
        conversation: str | None = None,
        **options: Any,
    ) -> None:
        self.generator = generator
        self.calls = ModelCalls(location, _FRAMEWORK, conversation, **options)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
        streaming_callback: Any = None,
    ) -> dict[str, Any]:
        """Pack a request, and keep its reply."""
        named = dict(generation_kwargs or {})
        conversation = named.pop("conversation", None)
        schemas = [tool.tool_spec for tool in flatten_tools_or_toolsets(tools)]
        packed = run_and_wait(
            self.calls.request(messages, conversation=conversation, tools=schemas)
        )
        others = {"tools": tools, "streaming_callback": streaming_callback}
        result: dict[str, Any] = self.generator.run(
            packed.with_system, generation_kwargs=named, **others
        )
        run_and_wait(self.calls.keep(result["replies"][:1], conversation=conversation))
        return result
