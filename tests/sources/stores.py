"""Stores filled at random, and the sources over them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from hypothesis import strategies as st

from kaosmem import Trust
from kaosmem.retrieval.embedders import WordVectorEmbedder
from kaosmem.sections import ForgettingSource
from kaosmem.sources import (
    BlobSource,
    FactSource,
    GraphSource,
    StateSource,
    TaskSource,
    VectorSource,
)
from kaosmem.stores import (
    InMemoryFileStore,
    InMemoryGraphStore,
    InMemoryLongTermMemory,
    InMemoryShortTermMemory,
    InMemoryTaskStore,
    InMemoryVectorStore,
    Task,
    TaskStatus,
    VectorDocument,
)
from tests.worlds import SOURCES, WORDS, texts

ENTITIES = [
    {"id": f"e{n}", "name": name, "type": "thing"} for n, name in enumerate(dict.fromkeys(WORDS))
]


class WordVectorClient:
    """An EmbeddingClient over the word vectors that come with kaosmem."""

    async def embed(self, texts):
        return [list(map(float, vector)) for vector in WordVectorEmbedder().embed(texts)]


@dataclass
class Stores:
    """A store of each kind; filled ones belong to agent a, session s and conversation c."""

    facts: InMemoryLongTermMemory
    state: InMemoryShortTermMemory = field(default_factory=InMemoryShortTermMemory)
    vectors: InMemoryVectorStore = field(
        default_factory=lambda: InMemoryVectorStore(WordVectorClient())
    )
    graph: InMemoryGraphStore = field(default_factory=InMemoryGraphStore)
    tasks: InMemoryTaskStore = field(default_factory=InMemoryTaskStore)
    files: InMemoryFileStore = field(default_factory=InMemoryFileStore)

    @classmethod
    def new(cls):
        ticks = count()
        clock = lambda: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=next(ticks))  # noqa: E731
        return cls(InMemoryLongTermMemory(clock=clock, rng=random.Random(0)))

    def sources(self, **options):
        """Return a source over each."""
        client = WordVectorClient()
        return [
            FactSource(self.facts, "a", **options),
            StateSource(self.state, "s", **options),
            VectorSource(self.vectors, client, **options),
            GraphSource(self.graph, ENTITIES, **options),
            TaskSource(self.tasks, "c", "a", **options),
            BlobSource(self.files, **options),
        ]


FORGETTING = {"facts", "vectors", "relations", "files"}

ids = st.one_of(
    st.sampled_from(["a", "a/b", "facts/a", "a:b", "../x", "[x]\u2028", "日本"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12),
)
_pairs = st.tuples(*[st.integers(0, len(ENTITIES) - 1)] * 2)


@st.composite
def filled_sources(draw, *, most=6):
    """Draw sources over stores that hold up to `most` texts each, hostile ones among them."""
    stores = Stores.new()
    sources = stores.sources(
        trust=draw(st.sampled_from([Trust.EXTERNAL, Trust.EXTERNAL, Trust.APPLICATION]))
    )
    facts = draw(st.lists(texts, max_size=most))
    state = draw(
        st.dictionaries(st.one_of(ids, texts), st.one_of(texts, st.integers(0, 9)), max_size=most)
    )
    documents = draw(
        st.dictionaries(ids, st.tuples(texts, st.sampled_from(SOURCES)), max_size=most)
    )
    relations = draw(st.lists(st.tuples(_pairs, texts), max_size=most))
    tasks = draw(st.dictionaries(ids, texts, max_size=most))
    files = draw(st.dictionaries(ids, texts, max_size=most))
    started = draw(st.integers(0, most))

    async def fill():
        for text in facts:
            await stores.facts.save("a", text)
        await stores.state.set_state("s", state)
        made = [
            VectorDocument(text, key, metadata={"source": source})
            for key, (text, source) in documents.items()
        ]
        embedded = await WordVectorClient().embed([each.text for each in made])
        await stores.vectors.add(
            VectorDocument(
                each.content, each.id, vector if any(vector) else [1.0] * len(vector), each.metadata
            )
            for each, vector in zip(made, embedded, strict=True)
        )
        await stores.graph.add_entities(ENTITIES)
        await stores.graph.add_relationships(
            {"source": f"e{one}", "target": f"e{other}", "type": "cites", "description": text}
            for (one, other), text in relations
        )
        await stores.tasks.create_task_list(
            "c", "a", [Task(key, title) for key, title in tasks.items()]
        )
        for key in list(tasks)[:started]:
            await stores.tasks.update_status("c", "a", key, TaskStatus.IN_PROGRESS)
        blobs = next(source for source in sources if isinstance(source, BlobSource))
        for key, text in files.items():
            await blobs.upload(key, text.encode(), content_type="text/plain")

    asyncio.run(fill())
    return sources


async def attached(memory, sources):
    for source in sources:
        await memory.attach(source)


def forgets(source):
    return isinstance(source, ForgettingSource)
