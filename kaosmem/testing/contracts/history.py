"""The contract of every HistoryProvider."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

from kaosmem.stores.history import HistoryProvider
from kaosmem.testing.contracts.store import StoreContract
from kaosmem.types import OpaqueBlock
from kaosmem.types.content import (
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
)
from kaosmem.types.items import ChatMessage

BLOCKS = (
    TextBlock("text"),
    ThinkingBlock("thought", "seal", "data"),
    ToolUseBlock("call", "search", '{"q": "é"}'),
    ToolResultBlock("call", "found", True),
    ToolResultBlock(
        "call", (TextBlock("found"), ImageBlock("data:image/png;base64,AA==", "image/png", "low"))
    ),
    ImageBlock("https://example.com/a.png"),
    DocumentBlock("text", "title"),
    OpaqueBlock("openai", "file", '{"type":"file","file":{"file_id":"é"}}', "a.pdf"),
)


def said(*texts: str) -> list[ChatMessage]:
    """Return messages that say these."""
    return [ChatMessage("user", text) for text in texts]


class HistoryContract(StoreContract[HistoryProvider]):
    """Every HistoryProvider passes this: subclass it and provide `make`.

    class TestMyHistory(HistoryContract):
        async def make(self):
            return MyHistory()
    """

    async def write(
        self,
        store,
        key,
        text,
    ):
        agent, session = key
        await store.append(agent, said(text)[0], session_id=session, run_id=session)

    async def read(self, store, key):
        messages = await store.get_messages(key[0], session_id=key[1])
        assert await store.count_messages(key[0], session_id=key[1]) == len(messages) <= 1
        return messages[0].text if messages else None

    async def drop(
        self,
        store,
        key,
        way,
    ):
        agent, session = key
        if way == 0:
            await store.clear(agent, session_id=session)
        else:
            await store.clear_run(agent, session_id=session, run_id=session)

    async def listed(self, store):
        return await store.list_threads()

    async def test_limit_and_offset_count_from_the_front(self, store):
        """Messages come oldest first, appended one by one or together.

        The offset leaves out the oldest, the limit ends the rest. Both may reach beyond the end.
        """
        whole = said(*"01234")
        await store.append("a", whole[0], session_id="s")
        await store.append_many("a", whole[1:4], session_id="s", run_id="r")
        await store.append("a", whole[4], session_id="s")
        for limit, offset in product([None, 0, 1, 3, 9], [0, 1, 4, 5, 9]):
            expected = whole[offset:] if limit is None else whole[offset : offset + limit]
            assert await store.get_messages("a", "s", limit, offset) == expected

    async def test_clearing_one_run_keeps_the_thread(self, store):
        """Messages of other runs, of none, and of the same run elsewhere stay, in order."""
        for number, run in enumerate(["r", "", "r-1", "r", "R", "r:1", "r"]):
            await store.append("a", said(str(number))[0], session_id="s", run_id=run)
        elsewhere = (("a", "t"), ("b", "s"))
        for agent, session in elsewhere:
            await store.append(agent, said(f"of {agent}")[0], session_id=session, run_id="r")
        for _ in range(2):
            await store.clear_run("a", session_id="s", run_id="r")
            assert await store.get_messages("a", session_id="s") == said(*"1245")
            assert await store.get_messages("a", session_id="s", limit=1, offset=2) == said("4")
            assert await store.count_messages("a", session_id="s") == 4
        for agent, session in elsewhere:
            assert await store.get_messages(agent, session_id=session) == said(f"of {agent}")
        await store.append("a", said("7")[0], session_id="s", run_id="r")
        assert await store.get_messages("a", session_id="s") == said(*"12457")

    async def test_messages_come_back_unchanged(self, store):
        """A message keeps blocks of every kind, its role, id and sources."""
        summary = ChatMessage(
            "summary",
            "text",
            id="日本/1",
            pinned=True,
            sources=("1", "é"),
            trust=Trust.EXTERNAL,
        )
        messages = [
            ChatMessage("日本 critic", BLOCKS),
            *(ChatMessage("x", (each,)) for each in BLOCKS),
            summary,
        ]
        await store.append_many("a", messages, session_id="s")
        assert await store.get_messages("a", session_id="s") == messages

    async def test_a_message_keeps_time_run_and_metadata(self, store):
        """A message without a time has that of its append. The run is that of the append."""
        time = datetime(2024, 5, 8, 23, 30, tzinfo=timezone(timedelta(hours=2)))
        metadata: dict[str, Any] = {"channel": "mail", "place": {"page": 3}, "日本": [None, 0.5]}
        timed = ChatMessage("user", "1", metadata=metadata, created_at=time, run_id="other")
        await store.append_many("a", [timed, *said("2")], session_id="s", run_id="r")
        await store.append("a", said("3")[0], session_id="s")
        store = await self.reopened(store)
        read = await store.get_messages("a", session_id="s")
        assert [each.run_id for each in read] == ["r", "r", ""]
        assert [each.metadata for each in read] == [metadata, {}, {}]
        times = [each.created_at for each in read if each.created_at is not None]
        assert str(times[0]) == str(time)
        assert all(each.utcoffset() is not None for each in times)
        assert time < times[1] <= times[2]

    async def test_no_message_is_lost_among_many_writers(self, store):
        """Of a hundred at once each has its messages there, and beside each other."""
        batches = [said(f"{number}.0", f"{number}.1") for number in range(100)]
        await asyncio.gather(*(store.append_many("a", batch, session_id="s") for batch in batches))
        read = await store.get_messages("a", session_id="s")
        pairs = [read[at : at + 2] for at in range(0, len(read), 2)]
        assert sorted(pairs, key=lambda pair: int(pair[0].text.split(".")[0])) == batches
