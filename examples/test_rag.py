"""Retrieval from a vector store: the nearest passages beside the conversation, within one budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kaosmem import SessionMemory
from kaosmem.backends import open_stores
from kaosmem.retrieval.embedders import MiniLMEmbedder
from kaosmem.sources import VectorSource
from kaosmem.stores import VectorDocument, VectorStore

PASSAGES = {
    "leave.md": "Employees are entitled to thirty days of paid vacation in each calendar year.",
    "sick.md": "Whoever is ill tells the office before nine and brings a doctor's note on the "
    "third day.",
    "travel.md": "Trains are booked in second class; flights need the approval of the head of "
    "department.",
    "desk.md": "Monitors and chairs are ordered from the catalogue and delivered within two weeks.",
    "expenses.md": "Receipts for meals and hotels are refunded until the end of the following "
    "month.",
    "badge.md": "A lost badge costs twenty euros and is replaced at the reception.",
}


class Embeddings:
    """An EmbeddingClient over a small model from pip (extra `dense`); a service of your own looks the same."""

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return self._embedder.embed(texts).tolist()


async def test_passages_that_mean_what_is_asked_are_shown(tmp_path: Path) -> None:
    async with open_stores(tmp_path, embedding_client=Embeddings()) as stores:
        await ask_the_handbook(stores.vectors)


async def ask_the_handbook(store: VectorStore) -> None:
    await store.add(
        VectorDocument(text, source, metadata={"source": source})
        for source, text in PASSAGES.items()
    )
    memory = SessionMemory.test_mode()
    memory.add("role", "You answer questions about the staff handbook.")
    handbook = await memory.attach(VectorSource(store, Embeddings()), name="handbook", timeout_s=2)

    # No word of the passage that says it.
    memory.add("messages", "How many holidays do workers get?")
    context = await memory.assemble_context(budget=140, format="openai")
    print(context.explain())
    assert context.used <= 140
    assert context.sources[handbook].proposed == len(PASSAGES)
    ranked = [decision for decision in context.decisions if decision.section == handbook]
    assert ranked[0].item_id == "handbook/leave.md"
    assert PASSAGES["leave.md"] in str(context.messages)
    assert context.by_section[handbook].items < len(PASSAGES)

    narrowed = await memory.assemble_context(
        budget=140, format="openai", filter={"source": "sick.md"}
    )
    assert [item.id for item in narrowed.items if item.section == handbook] == ["handbook/sick.md"]
    assert (await memory.fetch("handbook/travel.md")).text == PASSAGES["travel.md"]
