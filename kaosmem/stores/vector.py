"""Documents by meaning: the store finds the nearest embeddings."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, TypeAlias

from kaosmem.arguments import check_collection, check_count, check_metadata
from kaosmem.clients import EmbeddingClient
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import Filter, MetadataFilter, parse_filter
from kaosmem.names import check_id, shown, shown_number
from kaosmem.types import ContentBlock, JSONObject
from kaosmem.types.content import TextBlock, check_content, content_text

if TYPE_CHECKING:
    from kaosmem.stores.unit_vectors import UnitVectors

Embedding: TypeAlias = tuple[float, ...]
"""A vector of finite numbers of single precision, not all 0."""

_MAX_SINGLE = 3.4028234663852886e38
_MIN_SINGLE = 2.0**-149


@dataclass(frozen=True, slots=True, init=False)
class VectorDocument:
    """A document of a vector store. A document inside a message is a DocumentBlock.

    Raises InvalidNameError for the id, InvalidArgumentError for the rest.

    Args:
        content: Blocks; a str becomes one TextBlock.
        id: Any text of 1 to 256 characters without control characters.
        embedding: Finite numbers of single precision, not all 0. None: the store's embedding client
            makes it.
    """

    content: tuple[ContentBlock, ...] = field(repr=False)
    id: str
    embedding: Embedding | None = field(repr=False)
    metadata: JSONObject = field(repr=False)

    def __init__(
        self,
        content: str | Iterable[ContentBlock | JSONObject],
        id: str,
        embedding: Iterable[float] | None = None,
        metadata: JSONObject | None = None,
    ) -> None:
        checked = check_content(content)
        values = {
            "content": (TextBlock(checked),) if isinstance(checked, str) else checked,
            "id": check_id(id, "document id"),
            "embedding": None if embedding is None else check_embedding(embedding),
            "metadata": check_metadata(metadata),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def text(self) -> str:
        """Return the content as one text. The embedding is made of it."""
        return content_text(self.content)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A document that a search found. score: its cosine with the query, -1 to 1."""

    id: str
    content: tuple[ContentBlock, ...] = field(repr=False)
    score: float
    metadata: JSONObject = field(default_factory=dict, repr=False)


def check_embedding(given: object) -> Embedding:
    """Return an embedding as numbers. Raises InvalidArgumentError."""
    try:
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise TypeError
        numbers = tuple(map(float, given))
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(
            f"an embedding is a {type(given).__name__}; give a sequence of numbers"
        ) from None
    largest = max(map(abs, numbers), default=0.0)
    if not all(map(math.isfinite, numbers)) or largest > _MAX_SINGLE:
        raise InvalidArgumentError(
            "an embedding holds a number that single precision can't; give finite ones"
        )
    if largest < _MIN_SINGLE:
        raise InvalidArgumentError(
            f"an embedding of {len(numbers)} zeros has no direction; give one that is not 0"
        )
    return numbers


def check_cosine(given: object) -> float:
    """Return a cosine. Raises InvalidArgumentError."""
    if isinstance(given, int | float) and -1.0 <= given <= 1.0:
        return float(given)
    raise InvalidArgumentError(f"min_score is {shown_number(given)}; give a number from -1 to 1")


async def embeddings_of(texts: Sequence[str], client: EmbeddingClient) -> list[Embedding]:
    """Return the embeddings that a client makes of texts.

    Raises InvalidArgumentError for unusable ones.
    """
    made = await client.embed(texts)
    if len(made) != len(texts):
        raise InvalidArgumentError(
            f"the embedding client made {len(made)} embeddings of {len(texts)} texts"
        )
    return [check_embedding(embedding) for embedding in made]


def check_document_ids(ids: Iterable[str]) -> list[str]:
    """Return ids as a list.

    Raises InvalidArgumentError for one str, which would be read letter by letter.
    """
    if isinstance(ids, str):
        raise InvalidArgumentError(f"ids is the str {shown(ids)}; give a list of ids")
    return [check_id(each, "document id") for each in ids]


class VectorStore(ABC):
    """Documents by id, in collections. A collection exists while it holds a document.

    Ids and names of collections are any text of 1 to 256 characters without control characters.
    Different ones never collide. All methods raise InvalidNameError for others. All embeddings of a
    collection have the same number of dimensions and are kept in single precision.

    A store is a subclass with the abstract methods, which get checked values.

    Args:
        embedding_client: Makes missing embeddings. Without a client, a document without an
            embedding is refused.
    """

    def __init__(self, embedding_client: EmbeddingClient | None = None) -> None:
        self._client = embedding_client

    async def add(
        self, documents: Iterable[VectorDocument], *, collection: str = "default"
    ) -> None:
        """Insert the documents whose ids are absent; leave the others as they are.

        If the call raises, nothing is inserted.
        A document without an embedding gets it from the store's embedding client.
        Raises InvalidArgumentError if there is no client, or the number of dimensions differs.
        """
        check_id(collection, "collection")
        given: dict[str, VectorDocument] = {}
        for each in _listed(documents):
            given.setdefault(each.id, each)
        known = await self._known(collection, given.keys())  # which need no embedding
        new = await self._embedded(each for each in given.values() if each.id not in known)
        if new:
            await self._put(collection, new, replace=False)

    async def upsert(
        self, documents: Iterable[VectorDocument], *, collection: str = "default"
    ) -> None:
        """Insert or replace documents by id.

        Of several with one id, the last counts. Raises as `add`.
        """
        check_id(collection, "collection")
        given = {each.id: each for each in _listed(documents)}
        new = await self._embedded(given.values())
        if new:
            await self._put(collection, new, replace=True)

    async def search(
        self,
        query_embedding: Sequence[float],
        *,
        collection: str = "default",
        limit: int = 5,
        filter: Filter | None = None,
    ) -> list[SearchResult]:
        """Return at most `limit` documents, the largest cosine first. Equal ones are ordered by id.

        Raises InvalidArgumentError for an embedding with other dimensions, the limit and the
        filter.

        Args:
            filter: Conditions on metadata (see `kaosmem.filters`); the limit counts the documents
                that pass.
        """
        query = check_embedding(query_embedding)
        check_id(collection, "collection")
        check_count(limit, "limit")
        wanted = None
        if filter is not None:
            wanted = parse_filter(filter)
        return await self._search(collection, query, limit, wanted)

    async def get(self, ids: Iterable[str], *, collection: str = "default") -> list[VectorDocument]:
        """Return the stored documents among these ids, in this order."""
        check_id(collection, "collection")
        return await self._get(collection, check_document_ids(ids))

    async def delete(self, ids: Iterable[str], *, collection: str = "default") -> None:
        """Delete the documents with these ids, if they exist."""
        check_id(collection, "collection")
        await self._delete(collection, check_document_ids(ids))

    @abstractmethod
    async def list_collections(self) -> list[str]:
        """Return the names of the collections, sorted."""

    async def delete_collection(self, collection: str) -> None:
        """Delete all documents of a collection."""
        await self._delete(check_id(collection, "collection"), None)

    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""
        for collection in await self.list_collections():
            await self._delete(collection, None)

    async def _embedded(self, documents: Iterable[VectorDocument]) -> list[VectorDocument]:
        """Return the documents with an embedding each. Raises InvalidArgumentError."""
        listed = list(documents)
        bare = [each for each in listed if each.embedding is None]
        if not bare:
            return listed
        if self._client is None:
            raise InvalidArgumentError(
                f"document {shown(bare[0].id)} has no embedding; give it one, or the store an "
                "embedding_client"
            )
        made = await embeddings_of([each.text for each in bare], self._client)
        of = {each.id: embedding for each, embedding in zip(bare, made, strict=True)}
        embedded = []
        for each in listed:
            if each.id in of:
                each = replaced(each, embedding=of[each.id])
            embedded.append(each)
        return embedded

    @abstractmethod
    async def _known(self, collection: str, ids: Collection[str]) -> Collection[str]:
        """Return the ids, among these, of stored documents."""

    @abstractmethod
    async def _put(
        self,
        collection: str,
        documents: list[VectorDocument],
        *,
        replace: bool,
    ) -> None:
        """Insert documents with embeddings, in one step.

        Stored documents are replaced, or else stay as they are.

        Raises InvalidArgumentError as `check_dimensions`.
        """

    @abstractmethod
    async def _search(
        self,
        collection: str,
        query: Embedding,
        limit: int,
        wanted: MetadataFilter | None,
    ) -> list[SearchResult]:
        """Return the nearest documents. Raises InvalidArgumentError as `check_dimensions`."""

    @abstractmethod
    async def _get(self, collection: str, ids: list[str]) -> list[VectorDocument]:
        """Return the stored documents among these ids, in this order."""

    @abstractmethod
    async def _delete(self, collection: str, ids: list[str] | None) -> None:
        """Delete the documents with these ids, or all documents for None."""


class InMemoryVectorStore(VectorStore):
    """A VectorStore in this process. Every search compares with every document of the collection.

    Args:
        embedding_client: Makes missing embeddings. Without a client, a document without an
            embedding is refused.

    >>> store = InMemoryVectorStore()
    >>> await store.add([VectorDocument("Notice is thirty days.", "msa-12", embedding=(1.0, 0.0))])
    >>> [result.id for result in await store.search((0.9, 0.1))]
    ['msa-12']
    """

    def __init__(self, embedding_client: EmbeddingClient | None = None) -> None:
        super().__init__(embedding_client)
        self._documents: dict[str, dict[str, VectorDocument]] = {}
        self._vectors: dict[str, UnitVectors] = {}  # of the documents, which have none themselves

    async def list_collections(self) -> list[str]:
        return sorted(self._documents)

    async def _known(self, collection: str, ids: Collection[str]) -> Collection[str]:
        return self._documents.get(collection, {})

    async def _put(
        self,
        collection: str,
        documents: list[VectorDocument],
        *,
        replace: bool,
    ) -> None:
        from kaosmem.stores.unit_vectors import UnitVectors

        known = self._documents.get(collection, {})
        new = [each for each in documents if replace or each.id not in known]
        if not new:
            return
        vectors = self._vectors.get(collection)
        if vectors is None:
            vectors = UnitVectors(check_dimensions(new, None, collection))
        else:
            check_dimensions(new, vectors.dimensions, collection)
        vectors.put([each.id for each in new], [each.embedding or () for each in new])
        # Made anew without its embedding, so that its metadata are nobody else's.
        known.update((each.id, replaced(each, embedding=None)) for each in new)
        self._documents[collection] = known
        self._vectors[collection] = vectors

    async def _search(
        self,
        collection: str,
        query: Embedding,
        limit: int,
        wanted: MetadataFilter | None,
    ) -> list[SearchResult]:
        known = self._documents.get(collection)
        if not known:
            return []
        vectors = self._vectors[collection]
        check_length(len(query), vectors.dimensions, collection)
        passes = None
        if wanted is not None:
            passes = lambda each: wanted(known[each].metadata)  # noqa: E731
        found = vectors.nearest(query, limit, passes)
        return [
            SearchResult(each, known[each].content, cosine, copy.deepcopy(known[each].metadata))
            for each, cosine in found
        ]

    async def _get(self, collection: str, ids: list[str]) -> list[VectorDocument]:
        known = self._documents.get(collection, {})
        return [
            replaced(known[each], embedding=self._vectors[collection].vector(each))
            for each in ids
            if each in known
        ]

    async def _delete(self, collection: str, ids: list[str] | None) -> None:
        known = self._documents.get(collection, {})
        for each in ids or ():
            if each in known:
                del known[each]
                self._vectors[collection].remove(each)
        if ids is None or not known:
            self._documents.pop(collection, None)
            self._vectors.pop(collection, None)


def _listed(documents: Iterable[VectorDocument]) -> list[VectorDocument]:
    """Return documents as a list. Raises InvalidArgumentError."""
    listed = list(check_collection(documents, "documents"))
    for each in listed:
        if not isinstance(each, VectorDocument):
            raise InvalidArgumentError(
                f"a vector store takes a Document, not a {type(each).__name__}; make one"
            )
    return listed


def check_dimensions(
    documents: Iterable[VectorDocument],
    held: int | None,
    collection: str,
) -> int:
    """Return the number of dimensions that all embeddings have.

    Raises InvalidArgumentError if they differ.

    Args:
        held: Number of dimensions of the collection; None for a new collection.
    """
    for each in documents:
        given = len(each.embedding or ())
        if held is None:
            held = given
        check_length(given, held, collection)
    return held or 0


def check_length(
    given: int,
    held: int,
    collection: str,
) -> None:
    """Raise InvalidArgumentError for an embedding of other dimensions than its collection."""
    if given == held:
        return
    raise InvalidArgumentError(
        f"an embedding has {given} dimensions, those of collection {shown(collection)} have "
        f"{held}; "
        "use another collection for another model"
    )
