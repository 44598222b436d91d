"""The Embedder protocol: texts to vectors whose angles show similarity of meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@runtime_checkable
class Embedder(Protocol):
    """Embeds texts, without a network and in the same way every time; hashable.

    A text's vector depends on no other text that is given with it.
    """

    def __hash__(self) -> int:
        """Return a name that no other embedder of this process has."""
        ...

    @property
    def name(self) -> str:
        """Return a name that differs for each embedder and version."""
        ...

    @property
    def dimensions(self) -> int:
        """Return the size of a vector, at most 1,024."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts to rank: shape (len(texts), dimensions).

        Each has length 1, or 0 for a text without meaning.
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, in the same shape. Some models embed questions differently."""
        ...
