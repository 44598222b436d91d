"""An agent of Google's Agent Development Kit."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import PrivateAttr

from kaosmem.integrations.google_adk import KaosmemPlugin
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class _Model(BaseLlm):
    _script: Script = PrivateAttr()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        instructions = Seen("instructions", str(llm_request.config.system_instruction))
        text, call = self._script.reply([instructions, *map(_seen, llm_request.contents)])
        part = types.Part(text=text)
        if call is not None:
            said = types.FunctionCall(id=call["id"], name=TOOL, args=call["arguments"])
            part = types.Part(function_call=said)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def _seen(content: types.Content) -> Seen:
    parts = content.parts or []
    calls = [part.function_call.id or "" for part in parts if part.function_call]
    results = [part.function_response for part in parts if part.function_response]
    texts = [part.text or "" for part in parts] + [str(each.response) for each in results]
    answers = tuple(each.id or "" for each in results)
    return Seen(content.role or "", "".join(texts), tuple(calls), answers)


class GoogleADKAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        model = _Model(model="scripted")
        model._script = self.script
        agent = LlmAgent(name="analyst", model=model, instruction=INSTRUCTIONS, tools=[read_page])
        kept = [] if budget is None else [KaosmemPlugin(root, budget=budget, namespace=name)]
        self._runner = InMemoryRunner(agent, app_name="app", plugins=kept)

    async def ask(self, conversation: str, question: str) -> None:
        sessions: Any = self._runner.session_service
        named = {"app_name": "app", "user_id": "ann", "session_id": conversation}
        if await sessions.get_session(**named) is None:
            await sessions.create_session(**named)
        message = types.Content(role="user", parts=[types.Part(text=question)])
        events = self._runner.run_async(user_id="ann", session_id=conversation, new_message=message)
        async for _ in events:
            pass
