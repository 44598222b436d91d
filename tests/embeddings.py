"""An embedding client for tests: texts with the same words are near."""

from zlib import crc32

DIMENSIONS = 256


class Words:
    """Counts words, each in a dimension of its own, but for collisions.

    No text is without a direction.
    """

    def __init__(self, dimensions=DIMENSIONS):
        self.dimensions = dimensions

    async def embed(self, texts):
        return [self._embedding(text) for text in texts]

    def _embedding(self, text):
        words = text.lower().split()
        embedding = [0.0 if words else 1.0] + [0.0] * (self.dimensions - 1)
        for word in words:
            embedding[1 + crc32(word.encode("utf-8", "surrogatepass")) % (self.dimensions - 1)] += (
                1.0
            )
        return embedding
