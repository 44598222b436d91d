"""A corpus in PostgreSQL: erasures, versions, rare filters, and a server that is gone."""

import asyncio
import random

import psycopg
import pytest
import pytest_asyncio

from kaosmem import DurabilityError, SessionMemory
from kaosmem.corpora import CorpusSource, PgCorpus, postgres
from kaosmem.errors import NotFoundError
from kaosmem.filters import parse_filter
from kaosmem.language.analysis import analyze
from tests.corpora.places import passage, pg_schema
from tests.faulty_network import network

CANARY = "xylophonequark"


@pytest_asyncio.fixture(params=["pg_textsearch", "none"])
async def corpus(request, postgres, monkeypatch):
    """Return an empty corpus with each of the two ways of ranking."""
    monkeypatch.setattr("kaosmem.corpora.postgres._EXTENSION", request.param)
    made = PgCorpus(postgres, schema=pg_schema())
    yield made
    await made.close()


async def ids(corpus, words, **asked):
    found = (await corpus.candidates(analyze(words), **asked)).found
    return [each.id for each in found]


async def test_an_erasure_drops_the_table_from_before(corpus, postgres):
    """No table of the schema has an erased passage, and the table that had it is gone."""
    await corpus.add([passage(f"p{n}", f"rent {n} garden", f"s{n}") for n in range(20)])
    await corpus.replace("gone", [passage(f"{CANARY}-1", f"rent {CANARY}", "gone")])
    await corpus.replace("gone", [passage(f"{CANARY}-2", f"garden {CANARY}", "gone")])
    before = _tables(postgres, corpus._database.schema)
    assert any(CANARY in text for text in before.values())
    await corpus.erase("gone")
    after = _tables(postgres, corpus._database.schema)
    assert not any(CANARY in text for text in after.values())
    assert {name for name in before if name.startswith("corpus_")} - after.keys()
    assert len(await ids(corpus, "rent")) == 20


def _tables(url, schema):
    """Return all rows of the tables of a schema, dead ones left out, as one text a table."""
    with psycopg.connect(url) as connection:
        connection.execute("SET kaosmem.tenant = 'default'")
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
        ).fetchall()
        found = {}
        for (name,) in names:
            query = f'SELECT t::text FROM "{schema}"."{name}" t'
            rows = connection.execute(query.encode()).fetchall()
            found[name] = "".join(row for (row,) in rows)
        return found


async def test_compaction_gives_up_old_versions_alone(corpus):
    """After compaction, versions older than `keep_s` are gone, and newer ones say what they said."""
    first, _ = await corpus.add([passage("a", "rent one"), passage("b", "rent")])
    await corpus.replace("s", [passage("c", "rent three")])
    await corpus.compact(keep_s=1e-6)
    assert await ids(corpus, "rent") == ["c"]
    assert (await corpus.statistics(["rent", "one"])).frequencies == {"rent": 1, "one": 0}
    with pytest.raises(NotFoundError):
        await corpus.at(first).get(["a"])
    await corpus.compact(keep_s=1e-6)
    assert len(await corpus.versions()) == 2, "one that was the newest, and its count"
    other = PgCorpus(corpus._url, schema=corpus._database.schema)
    assert await other.statistics(["rent"]) == await corpus.statistics(["rent"])
    await other.close()


async def test_views_share_connections(corpus, monkeypatch):
    """Versions, tenants and the questions of a session open no connections of their own."""
    version, _ = await corpus.add([passage(f"p{n}", f"rent {n} garden", "s") for n in range(9)])
    monkeypatch.setattr(postgres, "PostgresDatabase", None)
    assert await corpus.at(version).get(["p1"])
    await corpus.for_tenant("other").add([passage("a", "rent")])
    memory = SessionMemory.test_mode()
    await memory.attach(CorpusSource(corpus), timeout_s=60)
    assert (await memory.assemble_context("rent of a garden", budget=200)).items


async def test_a_rare_filter_is_answered_among_many(corpus):
    """The engine finds the few passages that pass, though thousands match better."""
    rng = random.Random(2)
    given = []
    for n in range(3_000):
        text = "rent " * rng.randint(1, 4) + f"garden number{n}"
        given.append(
            passage(f"p{n}", text, f"s{n % 9}", owner="me" if n % 500 == 3 else f"o{n % 7}")
        )
    await corpus.add(given)
    expected = {f"p{n}" for n in range(3_000) if n % 500 == 3}
    mine = parse_filter({"owner": "me"})
    assert set(await ids(corpus, "rent garden", filter=mine)) == expected
    assert set(await ids(corpus, "rent garden", filter=mine, limit=2)) < expected
    assert len(await ids(corpus, "rent garden", limit=50)) == 50


async def test_tsvector_scores_the_passages_with_the_rarest_words(corpus, monkeypatch):
    """Where common words match too much, passages that have them alone may be left out."""
    monkeypatch.setattr(postgres, "_READ_PLAIN", 10)
    await corpus.add([passage(f"p{n}", "rent") for n in range(20)] + [passage("x", "rent cellar")])
    await corpus.compact()
    found = await ids(corpus, "rent cellar")
    assert found[0] == "x"
    assert len(found) == (1 if postgres._EXTENSION == "none" else 21)


async def test_writers_of_a_new_tenant_wait_for_each_other(corpus):
    """Four writers that make the tenant at once lose nothing, and counts are exact."""
    others = [PgCorpus(corpus._url, schema=corpus._database.schema) for _ in "abcd"]
    await asyncio.gather(
        *(each.replace("s", [passage(f"p{n}", "rent", "s")]) for n, each in enumerate(others))
    )
    assert len(await ids(corpus, "rent")) == 1
    await corpus.compact()
    assert (await corpus.statistics(["rent"])).frequencies == {"rent": 1}
    for each in others:
        await each.close()


async def test_a_server_that_is_gone_is_an_error_in_time(postgres):
    """With PostgreSQL silent or gone, each call ends in time, and works again afterwards."""
    with network(postgres.rpartition("@")[2].partition("/")[0]) as between:
        port = postgres.rpartition(":")[2].partition("/")[0]
        url = postgres.replace(f":{port}/", f":{between.port}/")
        schema = pg_schema()
        corpus = PgCorpus(url, schema=schema)
        hasty = PgCorpus(url, schema=schema, timeout_s=0.7)
        await corpus.add([passage("a", "rent")])
        between.hold()
        with pytest.raises(DurabilityError):
            await hasty.candidates(["rent"])
        between.release()
        between.close()
        for call in (hasty.add([passage("b", "rent")]), hasty.compact()):
            with pytest.raises(DurabilityError):
                await call
        between.open()
        await corpus.add([passage("c", "rent")])
        assert await ids(corpus, "rent") in (["a", "c"], ["c", "a"])
        for each in (corpus, hasty):
            await each.close()
