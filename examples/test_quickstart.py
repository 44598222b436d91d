"""Quickstart: a session packs a request for the model, and is still there after a restart."""

from __future__ import annotations

import tempfile

from kaosmem import SessionMemory


async def test_quickstart() -> None:
    folder = tempfile.mkdtemp()
    async with SessionMemory.open(folder, "deal-42") as memory:
        memory.add("role", "You are a careful contracts analyst.")
        memory.add(
            "documents", "Either party may terminate for convenience on 30 days' written notice."
        )
        memory.add("documents", "The fee is five per cent of net sales, payable quarterly.")
        memory.add("messages", "Can either side terminate for convenience?")
        context = await memory.assemble_context(budget=400, format="openai")

    assert context.used <= 400
    assert [message["role"] for message in context.messages] == ["system", "user"]
    print(context.explain())

    async with SessionMemory.open(folder, "deal-42") as memory:
        assert (
            await memory.assemble_context(budget=400, format="openai")
        ).messages == context.messages
