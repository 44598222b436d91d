"""A program of a user with the SDKs of the providers. It is checked by `mypy --strict`, and never runs."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from google.genai import Client
from google.genai.types import Content, GenerateContentConfig, Part
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from kaosmem import SessionMemory


async def chat(client: AsyncOpenAI, memory: SessionMemory) -> None:
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    await memory.sync_messages(history, format="openai")
    context = await memory.assemble_context(budget=1_000, format="openai")
    reply = await client.chat.completions.create(
        model="gpt-5", messages=context.messages, tools=memory.tools()
    )
    memory.add_message(reply, format="openai")
    for call in reply.choices[0].message.tool_calls or []:
        if call.type == "function":
            result = await memory.call_tool(call.function.name, call.function.arguments)
            told = {"role": "tool", "tool_call_id": call.id, "content": result}
            memory.add_message(told, format="openai")


async def responses(client: AsyncOpenAI, memory: SessionMemory) -> None:
    context = await memory.assemble_context(budget=1_000, format="openai-responses")
    reply = await client.responses.create(model="gpt-5", input=context.messages)
    memory.add_message(reply, format="openai-responses")


async def messages(client: AsyncAnthropic, memory: SessionMemory) -> None:
    turns: list[MessageParam] = [{"role": "user", "content": "Hello"}]
    await memory.sync_messages(turns, format="anthropic")
    context = await memory.assemble_context(budget=1_000, format="anthropic")
    reply = await client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=1_000,
        system=context.system,
        messages=context.messages,
        tools=memory.tools("anthropic"),
    )
    memory.add_message(reply, format="anthropic")


async def contents(client: Client, memory: SessionMemory) -> None:
    said = [Content(role="user", parts=[Part(text="Hello")])]
    await memory.sync_messages(said, format="gemini")
    context = await memory.assemble_context(budget=1_000, format="gemini")
    config = GenerateContentConfig(system_instruction=context.system, tools=memory.tools("gemini"))
    reply = await client.aio.models.generate_content(
        model="gemini-3-pro", contents=context.messages, config=config
    )
    memory.add_message(reply, format="gemini")
