"""An agent that survives `kill -9`. docs/tutorial.md builds it in ten steps."""

import asyncio
import time
from typing import Any

from kaosmem import Context, SessionMemory


def add_knowledge(memory: SessionMemory) -> None:
    """Add what the agent must follow and may need. A key makes this repeatable."""
    memory.add("role", "You are a careful engineer.", key="role")
    memory.add("documents", "The release is on Friday.", key="plan")


async def add_question(memory: SessionMemory, question: str) -> None:
    """Store a message of the user."""
    memory.add_message({"role": "user", "content": question}, format="openai")
    await memory.save()


async def pack(memory: SessionMemory) -> Context:
    """Choose the content of the next request."""
    return await memory.assemble_context(budget=2_000, format="openai", window="main")


def said(message: dict[str, Any]) -> str:
    """Return the text of a message. A retrieved block stands before a question."""
    content = message["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


async def think(messages: list[Any]) -> dict[str, Any]:
    """Stand in for a model. Call your provider here."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"The tool said: {said(last)}"}
    if "tests" in said(last):
        function = {"name": "run_tests", "arguments": "{}"}
        call = {"id": f"call-{len(messages)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    first = next(said(each) for each in messages if each["role"] == "user")
    return {"role": "assistant", "content": f"You began with: {first}"}


async def reply_to(memory: SessionMemory) -> dict[str, Any]:
    """Ask the model, and store its reply before the agent acts on it."""
    context = await pack(memory)
    reply = await think(context.messages)
    memory.add_message(reply, format="openai")
    await memory.save()
    return reply


def run_tests() -> str:
    """Take long, as tools do."""
    print("running the tests", flush=True)
    time.sleep(60)
    return "all tests passed"


async def call_tools(memory: SessionMemory, reply: dict[str, Any]) -> None:
    """Run the calls of a reply, and store their results."""
    for call in reply["tool_calls"]:
        result = {"role": "tool", "tool_call_id": call["id"], "content": run_tests()}
        memory.add_message(result, format="openai")
    await memory.save()


async def turn(question: str) -> str:
    """Answer one question. Every step is saved before the next one begins."""
    async with SessionMemory.open("./.kaosmem", "tutorial", trace=True) as memory:
        add_knowledge(memory)
        await add_question(memory, question)
        while True:
            reply = await reply_to(memory)
            if not reply.get("tool_calls"):
                return str(reply["content"])
            await call_tools(memory, reply)


def main() -> None:
    """Answer the questions of a terminal, one a line."""
    while True:
        try:
            question = input()
        except EOFError:
            return
        print(asyncio.run(turn(question)), flush=True)


if __name__ == "__main__":
    main()
