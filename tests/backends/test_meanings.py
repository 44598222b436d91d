"""Facts that are found by meaning, in SQLite. The contracts run on PostgreSQL, too."""

import pytest

from kaosmem import CorruptionError, InvalidArgumentError
from kaosmem.backends.base import value_of
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.stores import SqliteLongTermMemory, SqliteVectorMemory
from tests.embeddings import Words


class Colours:
    """Knows that crimson is red."""

    async def embed(self, texts):
        return [[float("red" in text or "crimson" in text), 0.1] for text in texts]


class Failing:
    async def embed(self, texts):
        raise ConnectionError("no answer")


async def test_facts_are_found_by_meaning(tmp_path):
    """Words in common are not needed. Facts that were saved without embeddings are found, too."""
    async with SqliteDatabase(tmp_path / "a.sqlite") as database:
        by_words = SqliteLongTermMemory(database)
        await by_words.save("a", "The door is crimson.")
        await by_words.save("a", "The roof is flat.")
        facts = SqliteVectorMemory(database, Colours(), min_score=0.9)
        await facts.save("a", "Roses are red.")
        found = await facts.search("a", "anything red")
        assert [fact.content for fact in found] == ["Roses are red.", "The door is crimson."]
        assert found[0].score == found[1].score
        await facts.delete("a", found[1].id)
        assert [fact.content for fact in await facts.search("a", "anything red")] == [
            "Roses are red."
        ]
        assert await database.rows("SELECT count(*) FROM meanings") == [(2,)]


async def test_a_client_that_fails_saves_nothing(tmp_path):
    """Its own error is raised."""
    async with SqliteDatabase(tmp_path / "a.sqlite") as database:
        with pytest.raises(ConnectionError):
            await SqliteVectorMemory(database, Failing()).save("a", "Roses are red.", key="k")
        assert await SqliteLongTermMemory(database).versions("a", "k") == []


async def test_another_model_needs_another_namespace(tmp_path):
    """Embeddings of another number of dimensions are refused before anything is saved."""
    async with SqliteDatabase(tmp_path / "a.sqlite") as database:
        await SqliteVectorMemory(database, Words(8)).save("a", "Roses are red.")
        other = SqliteVectorMemory(database, Words(9))
        for call in (other.save("a", "Violets are blue.", key="k"), other.search("a", "red")):
            with pytest.raises(InvalidArgumentError, match="another"):
                await call
        assert await other.versions("a", "k") == []
        await other.save("a", "Violets are blue.", "other")
        assert len(await other.search("a", "violets", "other")) == 1
        for wrong in (2, "0.5", None):
            with pytest.raises(InvalidArgumentError, match="from -1 to 1"):
                SqliteVectorMemory(database, Words(), min_score=wrong)


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"a":NaN}', '{"a":1e999}', "[" * 100_000, "{"])
def test_stored_values_are_read_strictly(text):
    """A value that no store wrote is damage: it has a key twice, or a number that JSON does not have."""
    with pytest.raises(CorruptionError, match="restore the store from a copy"):
        value_of(text)
