"""What turns texts into vectors whose angles say how alike they are in meaning."""

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
        """Return what tells it from another embedder in this process."""
        ...

    @property
    def name(self) -> str:
        """Return what tells its vectors from those of any other embedder, or version of it."""
        ...

    @property
    def dimensions(self) -> int:
        """Return the size of a vector, at most 1,024."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of what is ranked, each of length 1, or 0 for a text that says nothing.

        Of shape (len(texts), dimensions).
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, in the same shape: some models embed them in another way."""
        ...
