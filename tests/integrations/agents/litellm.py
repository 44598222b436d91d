"""A loop of tools over LiteLLM's `acompletion`, with a provider of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import litellm

from kaosmem.integrations.litellm import KaosmemLogger
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page

SCRIPTS: dict[str, Script] = {}


class _Provider(litellm.CustomLLM):
    async def acompletion(self, model: str, messages: Any, *args: Any, **options: Any) -> Any:
        text, call = SCRIPTS[model].reply([*map(_seen, messages)])
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if call is not None:
            function = {"name": TOOL, "arguments": json.dumps(call["arguments"])}
            message["tool_calls"] = [{"id": call["id"], "type": "function", "function": function}]
        return litellm.ModelResponse(choices=[{"message": message}])


def _seen(message: Any) -> Seen:
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    answers = (message["tool_call_id"],) if message["role"] == "tool" else ()
    return Seen(message["role"], str(message["content"]), tuple(calls), answers)


class LiteLLMAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        self._model = f"{name}-{len(SCRIPTS)}"
        SCRIPTS[self._model] = self.script
        litellm.custom_provider_map = [{"provider": "scripted", "custom_handler": _Provider()}]
        litellm.callbacks = [] if budget is None else [KaosmemLogger(root, budget=budget)]
        self._name = name
        self._histories: dict[str, list[Any]] = {}

    async def ask(self, conversation: str, question: str) -> None:
        system = {"role": "system", "content": INSTRUCTIONS}
        messages = self._histories.setdefault(conversation, [system])
        messages.append({"role": "user", "content": question})
        while messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
            reply = await litellm.acompletion(
                f"scripted/{self._model}",
                messages=messages,
                litellm_session_id=f"{self._name}-{conversation}",
            )
            messages.append(reply.choices[0].message.model_dump(exclude_none=True))
            for call in messages[-1].get("tool_calls") or ():
                result = read_page(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
