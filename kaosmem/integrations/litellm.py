"""LiteLLM 1.x: a callback that packs each call of `acompletion`, of a router or of the proxy."""

from __future__ import annotations

from typing import Any

from kaosmem.errors import needs_extra
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.conversations import Framework
from kaosmem.integrations.model_calls import PackedCalls

with needs_extra("litellm"):
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.types.utils import CallTypes


class KaosmemLogger(PackedCalls, CustomLogger):
    """Keeps each conversation that a call names in a session, and packs its request.

    A call names it by `litellm_session_id`, or by `session_id` in its metadata. Other calls pass
    unchanged. Add it to `litellm.callbacks`.

    Args:
        location: The place of the sessions.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    framework = Framework(read_chat_dict, write_chat_dict, id_remedy="give litellm_session_id")

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: CallTypes | None
    ) -> dict[str, Any] | None:
        """Pack a request."""
        conversation = _conversation(kwargs)
        if not conversation or call_type is not CallTypes.acompletion:
            return None
        tools = kwargs.get("tools") or ()
        packed = await self.calls.request(
            kwargs["messages"], conversation=conversation, tools=tools
        )
        return {**kwargs, "messages": packed.with_system}

    async def async_post_call_success_deployment_hook(
        self,
        request_data: dict[str, Any],
        response: Any,
        call_type: CallTypes | None,
    ) -> Any:
        """Keep a reply. A streamed one is stored with the next request."""
        conversation = _conversation(request_data)
        choices = getattr(response, "choices", ())
        if conversation and call_type is CallTypes.acompletion and choices:
            await self.calls.keep([choices[0].message.model_dump()], conversation=conversation)
        return response


def _conversation(kwargs: dict[str, Any]) -> object:
    metadata = kwargs.get("metadata") or {}
    return kwargs.get("litellm_session_id") or metadata.get("session_id")
