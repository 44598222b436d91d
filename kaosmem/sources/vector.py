"""Documents of a vector store as a source: those nearest to the query."""

from __future__ import annotations

from collections.abc import Collection

from kaosmem.arguments import check_instance
from kaosmem.clients import EmbeddingClient
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import Scored, StoreSource, corrected, searched, unanswered
from kaosmem.stores import VectorDocument, VectorStore
from kaosmem.stores.vector import SearchResult
from kaosmem.types import Content
from kaosmem.types.content import TextBlock, Trust
from kaosmem.types.items import Item

VECTORS = SectionSpec("vectors", None, 50, 0.2, eviction="none", header="documents found")

_DOCUMENTS_SEARCHED_FOR_FIELDS = 64
"""If a filter lets nothing through, it is compared with the metadata of so many documents."""


class VectorSource(StoreSource):
    """The documents of a collection that are nearest to the query.

    The score is the cosine of the embeddings.

    Size does not count: cosines of texts differ too little to be divided by size.
    Raises InvalidNameError for the collection, InvalidArgumentError for the rest.

    Args:
        embedding_client: Embeds the query in the same way as the documents.
    """

    def __init__(
        self,
        store: VectorStore,
        embedding_client: EmbeddingClient,
        *,
        collection: str = "default",
        spec: SectionSpec = VECTORS,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._store = check_instance(store, VectorStore, "store")
        self._client = check_instance(embedding_client, EmbeddingClient, "embedding_client")
        self._collection = check_id(collection, "collection")

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the nearest documents; none for a query without meaning."""
        if not query.text.strip() or not cap:
            return Proposal(())
        embeddings = await self._client.embed([query.text])
        if len(embeddings) != 1:
            raise InvalidArgumentError(
                f"the embedding client made {len(embeddings)} embeddings of 1 text"
            )
        embedding = [float(number) for number in embeddings[0]]
        if not any(embedding):
            return Proposal(())
        narrowing = None if wanted is None else wanted.given

        async def search(limit: int) -> tuple[list[Scored], bool]:
            found = await self._store.search(
                embedding, collection=self._collection, limit=limit, filter=narrowing
            )
            return [(self._document(each), each.score) for each in found], len(found) == limit

        proposal = await searched(search, cap=cap)
        if wanted is None:
            return corrected(proposal, self.spec)
        found = [unit.items[0] for unit in proposal.candidates]
        if not found or wanted.narrowed(lambda: [item.metadata for item in found]).passes_nothing:
            nearest = await self._store.search(
                embedding, collection=self._collection, limit=_DOCUMENTS_SEARCHED_FOR_FIELDS
            )
            found += map(self._document, nearest)
            narrowed = wanted.narrowed(lambda: [item.metadata for item in found])
            if narrowed.passes_nothing or not proposal.candidates:
                return Proposal((), unanswered=unanswered(found, wanted) if found else "")
        return corrected(proposal, self.spec)

    async def get(self, item_id: str) -> Item | None:
        """Return a document, or None."""
        document_id = self._store_id(item_id)
        if document_id is None:
            return None
        found = await self._store.get([document_id], collection=self._collection)
        if found:
            return self._document(found[0])
        return None

    async def forget(self, item_ids: Collection[str]) -> None:
        """Delete documents from the store."""
        await self._store.delete(self._store_ids(item_ids), collection=self._collection)

    def _document(self, found: VectorDocument | SearchResult) -> Item:
        content: Content = found.content
        if len(found.content) == 1:
            block = found.content[0]
            if isinstance(block, TextBlock):
                content = block.text
        return self._item(found.id, content, metadata=found.metadata)
